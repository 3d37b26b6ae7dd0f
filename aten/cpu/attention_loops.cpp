#include "aten/cpu/attention_loops.h"

#include <cmath>

#include "aten/cpu/vector_exp.h"

namespace facula {
namespace {

template <typename T>
T accumulate(int64_t n, T scale, T* __restrict s, T* max, T* sum) {
  T m = -HUGE_VAL;
#pragma omp simd reduction(max : m)
  for (int64_t i = 0; i < n; ++i) m = s[i] > m ? s[i] : m;
  m *= scale;
  if (scale < 0) {
    m = -HUGE_VAL;
    for (int64_t i = 0; i < n; ++i) m = s[i] * scale > m ? s[i] * scale : m;
  }
  const T old = *max;
  m = m > old ? m : old;
  const T shift = m == -HUGE_VAL ? T(0) : m;  // a row without any key so far
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < n; ++i) {
    const T e = exp_of(s[i] * scale - shift);
    s[i] = e;
    total += e;
  }
  const T factor = old == m ? T(1) : std::exp(old - shift);
  *max = m;
  *sum = *sum * factor + total;
  return factor;
}

template <typename T>
void scale_row(int64_t n, T factor, T* __restrict out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] *= factor;
}

template <typename T>
void gradient(int64_t n, T scale, T lse, T delta, T* __restrict s, T* __restrict dp) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T p = exp_of(s[i] * scale - lse);
    s[i] = p;
    dp[i] = p * (dp[i] - delta) * scale;
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(AttentionLoops<float>, attention_loops_float,
                     {accumulate<float>, scale_row<float>, gradient<float>})
FACULA_DEFINE_BY_ISA(AttentionLoops<double>, attention_loops_double,
                     {accumulate<double>, scale_row<double>, gradient<double>})

}  // namespace facula
