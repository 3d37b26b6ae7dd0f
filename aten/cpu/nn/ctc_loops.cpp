// build: levels fused
#include "aten/math_simd.h"

#include <cmath>

#include "aten/cpu/common/vector_exp.h"
#include "aten/cpu/nn/ctc_loops.h"

namespace facula {
namespace {

inline float log1p_of(float x) { return ::log1pf(x); }
inline double log1p_of(double x) { return ::log1p(x); }

template <typename T>
void step(int64_t n, const T* __restrict a, const T* __restrict b, const T* __restrict c, const T* __restrict skip,
          const T* __restrict score, T* __restrict to) {
  for (int64_t i = 0; i < n; i += kCtcLanes) {
#pragma omp simd
    for (int64_t k = 0; k < kCtcLanes; ++k) {
      const T x = a[i + k], y = b[i + k], z = c[i + k] + skip[i + k];
      const T high = x > y ? x : y, other = x > y ? y : x;  // a NaN stays in one of them
      const T top = high > z ? high : z, third = high > z ? z : high;
      const T base = top == -T(HUGE_VAL) ? T(0) : top;
      to[i + k] = top + log1p_of(exp_below(other - base) + exp_below(third - base)) + score[i + k];
    }
  }
}

template <typename T>
void occupancy(int64_t n, const T* __restrict alpha, const T* __restrict beta, T loss, T* __restrict to) {
  for (int64_t i = 0; i < n; i += kCtcLanes) {
#pragma omp simd
    for (int64_t k = 0; k < kCtcLanes; ++k) to[i + k] = exp_of(alpha[i + k] + beta[i + k] + loss);
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(CtcLoops<float>, ctc_loops_float, {step<float>, occupancy<float>})
FACULA_DEFINE_BY_ISA(CtcLoops<double>, ctc_loops_double, {step<double>, occupancy<double>})

}  // namespace facula
