// Splits index ranges over a small pool of threads that sleep when idle.
#pragma once

#include <cstdint>

#include "runtime/core/error.h"

namespace facula {

FACULA_API int get_num_threads();
FACULA_API void set_num_threads(int n);  // >= 1
FACULA_API bool in_parallel_region();

namespace detail {
using RangeFn = void (*)(void* context, int64_t begin, int64_t end);
FACULA_API void parallel_run(int64_t begin, int64_t end, int64_t grain, RangeFn fn, void* context);
}  // namespace detail

// Calls fn(begin, end) over disjoint pieces of at least `grain` items, on this thread alone when
// there is less than two grains of work, inside another parallel region, or with one thread.
// The first exception thrown by a piece is rethrown here. Safe after fork. Which pieces there are may
// depend on the clock: long ones are split, and between them the main thread looks for signals.
template <typename F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& fn) {
  if (begin >= end) return;
  if (end - begin < 2 * grain) {
    fn(begin, end);
    return;
  }
  detail::parallel_run(
      begin, end, grain, [](void* c, int64_t b, int64_t e) { (*static_cast<const F*>(c))(b, e); }, const_cast<F*>(&fn));
}

}  // namespace facula
