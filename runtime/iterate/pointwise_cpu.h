// The CPU's part of the pointwise driver: boxes of any layout and dtype around contiguous loops.
#pragma once

#include "runtime/iterate/pointwise.h"

namespace facula::detail {

// The loop for a compute type on this machine, null when the operator does not compute in it.
inline PointwiseLoop find_loop(const PointwiseOp& op, ScalarType compute) {
  for (int isa = static_cast<int>(active_isa()); isa >= 0; --isa) {
    if (const PointwiseLoops* loops = op.loops[static_cast<size_t>(isa)]; loops != nullptr) {
      return loops->by_type[static_cast<size_t>(compute)];
    }
  }
  return nullptr;
}

// What the loop for `compute` writes.
inline ScalarType produced_type(const PointwiseOp& op, ScalarType compute) {
  return op.promotion == Promotion::Bool   ? ScalarType::Bool
         : op.promotion == Promotion::Real ? to_real(compute)
                                           : compute;
}

// Outputs have one shape, to which the inputs broadcast; nothing overlaps unless exactly.
void pointwise_cpu(const PointwiseOp& op, PointwiseLoop loop, ScalarType compute, std::span<const Tensor* const> inputs,
                   std::span<const Tensor* const> outs, const LoopArgs& args);

}  // namespace facula::detail
