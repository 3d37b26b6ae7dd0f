// The device of tensors that Python makes without saying where; by thread.
#pragma once

#include <optional>

#include "runtime/core/device.h"

namespace facula::python {

// Of the innermost `with device:`, else that of set_default_device(); empty for the CPU.
extern FACULA_API constinit thread_local std::optional<Device> tls_default_device
    __attribute__((tls_model("initial-exec")));

// For a call with `out` the place is known already.
inline std::optional<Device> default_device(bool has_out = false) {
  return has_out ? std::nullopt : tls_default_device;
}

void push_default_device(Device device);  // `with device:`
void pop_default_device();

}  // namespace facula::python
