// Integer division by zero must not trap inside a vector loop: the loop gives 0 and sets a flag of its
// thread, which the driver turns into an error after the loop.
#pragma once

#include "runtime/core/error.h"

namespace facula {

constinit inline thread_local bool tls_int_division_by_zero = false;

// Throws in the thread that ran the loop; parallel_for carries the error to the caller.
inline void check_int_division() {
  if (tls_int_division_by_zero) [[unlikely]] {
    tls_int_division_by_zero = false;
    raise(ErrorKind::ZeroDivision, "integer division or remainder by zero; use a floating dtype to get inf and nan");
  }
}

}  // namespace facula
