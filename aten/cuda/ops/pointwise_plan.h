// How the pointwise template goes through the elements of a call, or of a group of calls.
#pragma once

#include "launch/embedded.h"
#include "launch/layout.h"
#include "launch/params.h"
#include "ops/pointwise.h"

namespace facula::cuda {

inline constexpr int kPointwiseThreads = 256;

struct PointwiseOperands {
  int nouts = 0, nins = 0;
  char* data[kMaxOperands] = {};
  int32_t dtypes[kMaxOperands] = {};
  int sizes[kMaxOperands] = {};  // of an element
  uint32_t scalars = 0;          // bits of inputs

  int count() const { return nouts + nins; }
  bool is_scalar(int operand) const { return operand >= nouts && (scalars >> (operand - nouts) & 1u) != 0; }
};

struct PointwisePlan {
  PointwiseForm form;
  Layout layout;
  int64_t count = 0;  // vectors, elements (linear) or tiles
  int64_t blocks = 0;
};

// `strides` of the operands over the sizes of `lead`, null for one without any; `tiles`: operands that lie the other
// way may go through shared memory.
int32_t plan_pointwise(const PointwiseOperands& o, const FaculaTensor& lead, const int64_t* const* strides,
                       bool contiguous, bool tiles, PointwisePlan& plan);

// The arguments of a kernel: numbers in the order that the formula uses them; strides and sizes as the form has them.
void put_numbers(Params& params, const FormulaSource& f, const FaculaValue* values, int32_t nvalues, int32_t compute);
void put_dims(Params& params, const PointwisePlan& plan, const PointwiseOperands& o);

}  // namespace facula::cuda
