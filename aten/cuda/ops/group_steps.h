// The steps of a group as text: the formulas of its operators, and the calls of them.
#pragma once

#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "ops/group_parts.h"

namespace facula::cuda {

class StepText {
 public:
  // What a step reads is called `read(value)`.
  StepText(const FaculaGroup& group, const GroupParts& parts, std::function<std::string(int32_t)> read);
  // A namespace for each formula.
  const std::string& formulas() const { return formulas_; }
  // Members of a structure with the group's numbers; empty where there are none.
  const std::string& members() const { return members_; }
  // Makes the values of step `s`, `width` elements at a time: t0[k] as computed, v0[k] rounded to the value's dtype.
  std::string step(int s, const std::string& width) const;
  // The type of t0; without a formula that of v0.
  std::string made_type(int32_t value) const;
  bool is_made(int32_t value) const { return made_.count(value) != 0; }

 private:
  const FaculaGroup& g_;
  const GroupParts& parts_;
  std::function<std::string(int32_t)> read_;
  std::string formulas_, members_;
  std::vector<std::string> space_;       // by step: the namespace of its formula
  std::map<int32_t, std::string> made_;  // by value: the type that its formula gives
};

}  // namespace facula::cuda
