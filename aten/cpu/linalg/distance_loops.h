// Loops of cdist, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

inline constexpr int64_t kDistances = 64;  // rows that are met at once

enum class Distance : uint8_t { Count, Sum, Square, Largest, Power };

template <typename T>
struct DistanceLoops {
  // Of a row x and the kDistances rows whose elements d lie in y[d * kDistances ...]: the number of differences, the
  // sum of their magnitudes, squares or powers, or the largest magnitude.
  void (*totals)(Distance kind, double p, int64_t dims, const T* x, const T* y, double* totals);
  // The sum of grad[j] (x - y[j]) / distance[j] over n rows of y, in `out`, with `part` for partial sums.
  void (*slopes)(int64_t n, int64_t dims, const T* x, const T* y, const T* grad, const T* distance, T* part, T* out);
};
FACULA_DECLARE_BY_ISA(DistanceLoops<float>, distance_loops_float)
FACULA_DECLARE_BY_ISA(DistanceLoops<double>, distance_loops_double)

}  // namespace facula
