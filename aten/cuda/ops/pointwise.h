// The pointwise template: every operator with a formula.
#pragma once

#include <string>

#include "launch/kernel.h"
#include "launch/embedded.h"

namespace facula::cuda {

// What distinguishes one compiled form of a formula.
struct PointwiseForm {
  enum Kind : int { kLinear, kStrided, kTiled };
  int kind = kLinear;
  int vec = 1, unroll = 1, dims = 1, tile = 32;
  bool wide = false;
  uint32_t scalars = 0, splats = 0, turned = 0;  // bits of inputs
};

// What the template is told of its operands and its form.
std::string form_defines(const PointwiseForm& form, int ins, int outs);

// The text of a formula in a form. `dtypes`: of the outputs, then of the inputs.
KernelSource pointwise_source(const FormulaSource& formula, int32_t compute, const int32_t* dtypes,
                              const PointwiseForm& form);

int32_t pointwise(void* context, const FaculaPointwise* call);

}  // namespace facula::cuda
