// build: levels fused
#include "aten/math_simd.h"

#include <cmath>
#include <limits>

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

template <typename T>
void slopes(int64_t n, int64_t dims, const T* x, const T* y, const T* grad, const T* distance, T* part, T* out) {
  constexpr T least = 4 * std::numeric_limits<T>::min(), most = std::numeric_limits<T>::max() / 8;
  for (int64_t d = 0; d < dims; ++d) out[d] = 0;
  for (int64_t j = 0; j < n;) {
    const int64_t end = n - j < kTerms ? n : j + kTerms;
    for (int64_t d = 0; d < dims; ++d) part[d] = 0;
    for (; j < end; ++j) {
      const T r = distance[j], g = grad[j];
      if (r == 0) continue;
      // Both sides of the quotient times a power of two, so that the inverse of the distance keeps its digits.
      const T by = r < least ? T(0x1p60) : r > most ? T(0x1p-10) : T(1), inverse = 1 / (r * by);
      const T* row = y + j * dims;
#pragma omp simd
      for (int64_t d = 0; d < dims; ++d) part[d] += (x[d] - row[d]) * by * inverse * g;
    }
#pragma omp simd
    for (int64_t d = 0; d < dims; ++d) out[d] += part[d];
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(DistanceLoops<float>, distance_loops_float, {totals<float>, slopes<float>})
FACULA_DEFINE_BY_ISA(DistanceLoops<double>, distance_loops_double, {totals<double>, slopes<double>})

}  // namespace facula
