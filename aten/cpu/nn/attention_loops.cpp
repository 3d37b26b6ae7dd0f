// build: levels fused
#include "aten/cpu/nn/attention_loops.h"

#include <cmath>

#include "aten/cpu/gemm/panel.h"
#include "aten/cpu/common/vector_exp.h"

namespace facula {
namespace {

constexpr double kLog2E = 1.4426950408889634;

// Scores are taken less the largest before the scale, and the logarithm of 2, are applied: large ones would lose the
// digits in which they differ, and the least number leave the range.
template <typename T>
void accumulate(int64_t keys, T scale, T* __restrict s, T* __restrict max, T* __restrict sum, T* __restrict shrink) {
  constexpr int kN = kColumns<T>;
  const T factor = scale * static_cast<T>(kLog2E);
  T m[kN], base[kN], total[kN] = {};
#pragma omp simd
  for (int i = 0; i < kN; ++i) m[i] = max[i];
  for (int64_t k = 0; k < keys; ++k) {
    const T* row = s + k * kN;
#pragma omp simd
    for (int i = 0; i < kN; ++i) m[i] = row[i] > m[i] ? row[i] : m[i];
  }
#pragma omp simd
  for (int i = 0; i < kN; ++i) {
    // A query that has seen no key yet has the maximum -inf.
    base[i] = m[i] == static_cast<T>(-HUGE_VAL) ? T(0) : m[i];
  }
  for (int64_t k = 0; k < keys; ++k) {
    T* row = s + k * kN;
#pragma omp simd
    for (int i = 0; i < kN; ++i) {
      const T e = pow2_of((row[i] - base[i]) * factor);
      row[i] = e;
      total[i] += e;
    }
  }
#pragma omp simd
  for (int i = 0; i < kN; ++i) {
    shrink[i] = pow2_of((max[i] - base[i]) * factor);
    sum[i] = sum[i] * shrink[i] + total[i];
    max[i] = m[i];
  }
}

template <typename T>
void scale_rows(int64_t rows, const T* __restrict factor, T* __restrict out) {
  constexpr int kN = kColumns<T>;
  for (int64_t r = 0; r < rows; ++r) {
    T* row = out + r * kN;
#pragma omp simd
    for (int i = 0; i < kN; ++i) row[i] *= factor[i];
  }
}

template <typename T>
void gradient(int64_t keys, int64_t pitch, T scale, const T* __restrict base, const T* __restrict shift,
              const T* __restrict delta, T* __restrict s, T* __restrict dp) {
  constexpr int kN = kColumns<T>;
  const T factor = scale * static_cast<T>(kLog2E);
  T log2_shift[kN];
  for (int i = 0; i < kN; ++i) log2_shift[i] = shift[i] * static_cast<T>(kLog2E);
  for (int64_t k = 0; k < keys; ++k) {
    T* row = s + k * pitch;
    T* slope = dp + k * pitch;
#pragma omp simd
    for (int i = 0; i < kN; ++i) {
      const T p = pow2_of((row[i] - base[i]) * factor - log2_shift[i]);
      row[i] = p;
      slope[i] = p * (slope[i] - delta[i]) * scale;
    }
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(AttentionLoops<float>, attention_loops_float,
                     {accumulate<float>, scale_rows<float>, gradient<float>})
FACULA_DEFINE_BY_ISA(AttentionLoops<double>, attention_loops_double,
                     {accumulate<double>, scale_rows<double>, gradient<double>})

}  // namespace facula
