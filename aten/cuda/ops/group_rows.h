// Groups with steps along rows: the operators that are such steps, how a row is shared among threads, and the text.
#pragma once

#include <cstdint>
#include <vector>

#include "launch/layout.h"
#include "ops/group_parts.h"

namespace facula::cuda {

// An operator over last dims.
struct RowOperator {
  enum Kind : int { kSchema, kMoment, kSoftmax };
  const char* op;
  Kind kind;
  int number;    // of kMoment: FACULA_REDUCTION_KIND; of kSoftmax: 0, or 1 for its logarithm
  bool ordered;  // bits depend on the order in which elements are taken
};
const RowOperator* find_row_operator(const char* op);
const char* const* row_operators();  // their names, then null

// How threads share rows; see kernels/group_rows.h.
struct RowsForm {
  int lanes = 32, vec = 1, items = 0, tails = 0, dims = 1;
  bool held = true, guarded = false;
  uint32_t loose = 0;   // bits of tensors that are not read in vectors, inputs from bit 0 on
  uint32_t whole = 0;   // of inputs with an element for each place
  uint32_t splats = 0;  // of outputs with one element a row
  int threads() const { return lanes > 128 ? lanes : 128; }
};

struct RowsPlan {
  RowsForm form;
  Layout kept;
  int64_t rows = 1, length = 1;
  int64_t steps[kMaxOperands] = {};  // elements from place to place, outputs first
};
// `processors`: of the device; rows that a kernel of their own would take in parts are left to it.
int32_t plan_rows(const FaculaGroup& g, const GroupParts& parts, int processors, RowsPlan& plan);

KernelSource rows_source(const FaculaGroup& g, const RowsForm& form, const GroupParts& parts);

}  // namespace facula::cuda
