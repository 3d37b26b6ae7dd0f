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

// What a conversion computes in.
ScalarType copy_type(ScalarType from, ScalarType to);
// A number as vendors see it.
FaculaValue plain_number(const Scalar& s);
// Notes that what the device has for `op` did not take its arguments, and says so with the reason that was given.
std::string note_refusal(DeviceInterface& interface, const char* op, const char* what);

// Marks a call for the vendor's profiler.
class ProfilerRange {
 public:
  ProfilerRange(const DeviceInterface& interface, const char* name)
      : interface_(interface), on_(interface.profiling.load(std::memory_order_relaxed)) {
    if (on_ && interface.api.range_push != nullptr) interface.api.range_push(interface.api.context, name);
  }
  ~ProfilerRange() {
    if (on_ && interface_.api.range_pop != nullptr) interface_.api.range_pop(interface_.api.context);
  }
  ProfilerRange(const ProfilerRange&) = delete;
  ProfilerRange& operator=(const ProfilerRange&) = delete;

 private:
  const DeviceInterface& interface_;
  bool on_;
};

}  // namespace facula
