// What a group's kernel is made of.
#pragma once

#include <string>
#include <vector>

#include "launch/embedded.h"
#include "launch/host.h"
#include "ops/pointwise.h"

namespace facula::cuda {

inline constexpr int kMaxGroupOperands = 24;

struct GroupParts {
  struct Fill {
    int32_t input, want;  // a number of the host, and the dtype that steps read it in
  };
  std::vector<const FormulaSource*> formulas;  // by step; null: it goes along rows
  std::vector<int32_t> operands;               // inputs that lie in memory
  std::vector<Fill> fills;
  bool short_form = false;
  // The number that step `s` reads as its input `i`; -1: none, but a value.
  int fill_of(const FaculaGroup& group, int s, int i) const;
};

// `why` is empty where the group can be one kernel.
GroupParts parts_of(const FaculaGroup& group, std::string& why);

// Of its source, after its first operators.
std::string group_name(const FaculaGroup& group);

// The text of a group in a form.
KernelSource group_source(const FaculaGroup& group, const PointwiseForm& form, const GroupParts& parts);

}  // namespace facula::cuda
