// What a pointwise call computes in, what it gives, and whether its tensors go together.
#pragma once

#include "runtime/iterate/pointwise.h"

namespace facula::detail {

struct PointwiseTypes {
  ScalarType compute;  // the type of the loop
  ScalarType result;   // dtype of the results
  PointwiseLoop loop;
  int beyond = -1;      // the input whose number stands for anything above all integers
  bool number = false;  // all inputs are numbers, and so is the result
};

PointwiseTypes pointwise_types(const PointwiseOp& op, std::span<const Tensor* const> inputs, const LoopArgs& args);
// 0-d CPU tensors go with any device; all others must share one.
Device common_device(const PointwiseOp& op, std::span<const Tensor* const> inputs);
DimVector common_shape(const PointwiseOp& op, std::span<const Tensor* const> inputs);
// Castability, device, shape (an empty `out` may be resized) and writability.
void check_out(const PointwiseOp& op, const Tensor& out, const DimVector& sizes, ScalarType result, Device device,
               bool resize);
// `input`, or a copy of it when writing to `outs` might change elements that are still to be read.
// Raises when the two surely overlap in part.
const Tensor* separate_from(const PointwiseOp& op, size_t index, const Tensor& input,
                            std::span<const Tensor* const> outs, Tensor& copy);

}  // namespace facula::detail
