// What becomes of a call that a device's own kernel does not take: the operator's decomposition runs.
#pragma once

#include "runtime/dispatch/registry.h"

namespace facula {

// The operator whose next call on this thread takes its decomposition; null when there is none.
FACULA_API const OperatorEntry*& refused_operator();

// For generated code with a decomposition: the device has no kernel, or has just refused this call.
inline bool takes_decomposition(const OperatorEntry& op, Device device) {
  if (op.kernels[device.type] == nullptr) return true;
  if (device.type <= kMeta || refused_operator() != &op) [[likely]]
    return false;
  refused_operator() = nullptr;
  return true;
}

}  // namespace facula
