// Calls of pointwise operators that are taken down instead of run: what the driver hands to runtime/dispatch/capture.h,
// and what that needs of the driver.
#pragma once

#include "runtime/iterate/pointwise_types.h"

namespace facula {

// Set by runtime/dispatch. False: the call is to run now, and what it reads has been computed.
struct PointwiseCapture {
  bool (*functional)(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<Tensor> results,
                     const LoopArgs& args) = nullptr;
  bool (*out)(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs,
              const LoopArgs& args) = nullptr;
};
extern constinit PointwiseCapture pointwise_capture;

namespace detail {

// The shape of the results; their strides too, where they are not contiguous.
struct PointwiseShape {
  DimVector sizes, strides;
};
PointwiseShape pointwise_shape(const PointwiseOp& op, std::span<const Tensor* const> inputs);

}  // namespace detail

}  // namespace facula
