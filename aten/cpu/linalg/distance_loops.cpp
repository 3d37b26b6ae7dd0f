// build: levels fused
#include "aten/math_simd.h"

#include <cmath>

#include "aten/cpu/common/vector.h"
#include "aten/cpu/linalg/distance_loops.h"

namespace facula {
namespace {

// Sums of so many terms are in T, their totals in double.
constexpr int64_t kTerms = 256;

template <typename T, typename F>
FACULA_INLINE void add_up(int64_t dims, const T* x, const T* y, double* totals, const F& term) {
  for (int64_t j = 0; j < kDistances; ++j) totals[j] = 0;
  for (int64_t d = 0; d < dims;) {
    const int64_t end = dims - d < kTerms ? dims : d + kTerms;
    T sums[kDistances] = {};
    for (; d < end; ++d) {
      const T* row = y + d * kDistances;
      const T v = x[d];
#pragma omp simd
      for (int64_t j = 0; j < kDistances; ++j) sums[j] += term(v - row[j]);
    }
#pragma omp simd
    for (int64_t j = 0; j < kDistances; ++j) totals[j] += static_cast<double>(sums[j]);
  }
}

FACULA_INLINE float magnitude(float x) { return __builtin_fabsf(x); }
FACULA_INLINE double magnitude(double x) { return __builtin_fabs(x); }
FACULA_INLINE float power(float x, float p) { return powf(x, p); }
FACULA_INLINE double power(double x, double p) { return pow(x, p); }

template <typename T>
void totals(Distance kind, double p, int64_t dims, const T* x, const T* y, double* out) {
  switch (kind) {
    case Distance::Count:
      return add_up(dims, x, y, out, [](T d) { return d != 0 ? T(1) : T(0); });
    case Distance::Sum:
      return add_up(dims, x, y, out, [](T d) { return magnitude(d); });
    case Distance::Square:
      return add_up(dims, x, y, out, [](T d) { return d * d; });
    case Distance::Power: {
      const T exponent = static_cast<T>(p);
      return add_up(dims, x, y, out, [exponent](T d) { return power(magnitude(d), exponent); });
    }
    case Distance::Largest: {
      T top[kDistances] = {};
      for (int64_t d = 0; d < dims; ++d) {
        const T* row = y + d * kDistances;
        const T v = x[d];
#pragma omp simd
        for (int64_t j = 0; j < kDistances; ++j) {
          const T size = magnitude(v - row[j]);
          top[j] = size > top[j] || size != size ? size : top[j];  // NaN stays: nothing is greater
        }
      }
      for (int64_t j = 0; j < kDistances; ++j) out[j] = static_cast<double>(top[j]);
    }
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(DistanceLoops<float>, distance_loops_float, {totals<float>})
FACULA_DEFINE_BY_ISA(DistanceLoops<double>, distance_loops_double, {totals<double>})

}  // namespace facula
