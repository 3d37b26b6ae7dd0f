// Warnings that reach Python's `warnings`.
#pragma once

#include <string>

#include "runtime/core/error.h"

namespace facula {

// May throw: Python's filters can make a warning an error. Without Python it does nothing.
using WarningHandler = void (*)(const std::string&);

inline WarningHandler& warning_handler() {
  static WarningHandler handler = nullptr;
  return handler;
}

template <typename... Parts>
__attribute__((cold, noinline)) void warn(const Parts&... parts) {
  if (const WarningHandler handler = warning_handler()) handler(concat(parts...));
}

}  // namespace facula
