// Operators that come after devices did: those of extensions.
#pragma once

#include "runtime/dispatch/registry.h"

namespace facula {

inline constexpr size_t kMaxOperators = 4096;
// Told of each; `before` is null, or the one whose place it takes. Set by runtime/device.
extern void (*operator_added)(OperatorEntry& op, const OperatorEntry* before);

}  // namespace facula
