// Calls of vendors' kernels.
#pragma once

#include "runtime/device/interface.h"
#include "runtime/iterate/pointwise.h"

namespace facula {

// The PointwiseKernel of every device of a package.
void device_pointwise(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs,
                      ScalarType compute, LoopArgs args);
// The template with a formula that is no operator: out = in. False when the device has no template for it, or one that
// did not take them, which `refusal` says.
bool device_convert(DeviceInterface& interface, const Tensor& out, const Tensor& in, std::string& refusal);

}  // namespace facula
