// What elements cannot be must not trap inside a vector loop: the loop goes on and sets a flag of its thread,
// which the driver turns into an error after the loop.
#pragma once

#include "runtime/core/error.h"

namespace facula {

struct LoopFault {
  enum Kind : unsigned char { kNone, kZeroDivision, kNegativePower, kOutside };
  Kind kind = kNone;
  float low = 0, high = 0;  // of kOutside
};

extern FACULA_API constinit thread_local LoopFault tls_loop_fault __attribute__((tls_model("initial-exec")));

[[noreturn]] __attribute__((cold, noinline)) inline void raise_loop_fault() {
  const LoopFault fault = tls_loop_fault;
  tls_loop_fault.kind = LoopFault::kNone;
  switch (fault.kind) {
    case LoopFault::kZeroDivision:
      raise(ErrorKind::ZeroDivision, "integer division or remainder by zero; use a floating dtype to get inf and nan");
    case LoopFault::kNegativePower:
      raise(ErrorKind::Dtype,
            "integers have no negative integer powers; make the base a floating-point tensor, or the exponent floats");
    default:
      raise(ErrorKind::Shape, "all elements must be in [", fault.low, ", ", fault.high, "], but one is not");
  }
}

// Throws in the thread that ran the loop; parallel_for carries the error to the caller.
inline void check_loop_faults() {
  if (tls_loop_fault.kind != LoopFault::kNone) [[unlikely]]
    raise_loop_fault();
}

}  // namespace facula
