#include <cmath>

#include "aten/cpu/nn_loops.h"
#include "aten/cpu/vector_exp.h"

namespace facula {
namespace {

// Columns of a strided softmax that are handled together.
constexpr int64_t kTile = 128;

template <typename T>
T row_max(int64_t n, const T* x) {
  T m = -HUGE_VAL;
#pragma omp simd reduction(max : m)
  for (int64_t i = 0; i < n; ++i) m = x[i] > m ? x[i] : m;
  return m;
}

template <typename T>
void softmax_row(int64_t n, const T* __restrict x, T* __restrict out) {
  const T m = row_max(n, x);
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    const T e = exp_of(x[i] - m);
    out[i] = e;
    sum += e;
  }
  const T factor = T(1) / sum;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] *= factor;
}

template <typename T>
T log_sum_exp(int64_t n, const T* x, T m) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += exp_of(x[i] - m);
  return std::log(sum);
}

template <typename T>
void log_softmax_row(int64_t n, const T* __restrict x, T* __restrict out) {
  const T m = row_max(n, x), l = log_sum_exp(n, x, m);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - m) - l;
}

// `width` neighbouring columns of stride `inner`.
template <typename T>
void softmax_columns(int64_t size, int64_t inner, int64_t width, const T* __restrict x, T* __restrict out, bool log) {
  T m[kTile], sum[kTile];
  for (int64_t j = 0; j < width; ++j) m[j] = x[j], sum[j] = 0;
  for (int64_t i = 1; i < size; ++i) {
    const T* row = x + i * inner;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) m[j] = row[j] > m[j] ? row[j] : m[j];
  }
  for (int64_t i = 0; i < size; ++i) {
    const T* row = x + i * inner;
    T* o = out + i * inner;
    if (log) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) sum[j] += exp_of(row[j] - m[j]);
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) {
        const T e = exp_of(row[j] - m[j]);
        o[j] = e;
        sum[j] += e;
      }
    }
  }
  for (int64_t j = 0; j < width; ++j) sum[j] = log ? std::log(sum[j]) : T(1) / sum[j];
  for (int64_t i = 0; i < size; ++i) {
    const T* row = x + i * inner;
    T* o = out + i * inner;
    if (log) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) o[j] = (row[j] - m[j]) - sum[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) o[j] *= sum[j];
    }
  }
}

template <typename T>
void softmax(int64_t outer, int64_t size, int64_t inner, const T* x, T* out, bool log) {
  for (int64_t o = 0; o < outer; ++o, x += size * inner, out += size * inner) {
    if (inner == 1) {
      if (log) {
        log_softmax_row(size, x, out);
      } else {
        softmax_row(size, x, out);
      }
      continue;
    }
    for (int64_t j = 0; j < inner; j += kTile) {
      softmax_columns(size, inner, inner - j < kTile ? inner - j : kTile, x + j, out + j, log);
    }
  }
}

template <typename T>
void backward_row(int64_t n, const T* __restrict g, const T* __restrict y, T* __restrict gi, bool log) {
  T sum = 0;
  if (log) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += g[i];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gi[i] = g[i] - exp_of(y[i]) * sum;
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += g[i] * y[i];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gi[i] = y[i] * (g[i] - sum);
  }
}

template <typename T>
void backward_columns(int64_t size, int64_t inner, int64_t width, const T* __restrict g, const T* __restrict y,
                      T* __restrict gi, bool log) {
  T sum[kTile] = {};
  for (int64_t i = 0; i < size; ++i) {
    const int64_t at = i * inner;
    if (log) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) sum[j] += g[at + j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) sum[j] += g[at + j] * y[at + j];
    }
  }
  for (int64_t i = 0; i < size; ++i) {
    const int64_t at = i * inner;
    if (log) {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) gi[at + j] = g[at + j] - exp_of(y[at + j]) * sum[j];
    } else {
#pragma omp simd
      for (int64_t j = 0; j < width; ++j) gi[at + j] = y[at + j] * (g[at + j] - sum[j]);
    }
  }
}

template <typename T>
void backward(int64_t outer, int64_t size, int64_t inner, const T* g, const T* y, T* gi, bool log) {
  for (int64_t o = 0; o < outer; ++o, g += size * inner, y += size * inner, gi += size * inner) {
    if (inner == 1) {
      backward_row(size, g, y, gi, log);
      continue;
    }
    for (int64_t j = 0; j < inner; j += kTile) {
      backward_columns(size, inner, inner - j < kTile ? inner - j : kTile, g + j, y + j, gi + j, log);
    }
  }
}

template <typename T>
T row_log_sum_exp(int64_t n, const T* x) {
  const T m = row_max(n, x);
  return m + log_sum_exp(n, x, m);
}

template <typename T>
void scaled_exp(int64_t n, const T* __restrict x, T shift, T scale, T* __restrict out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = scale * exp_of(x[i] - shift);
}

}  // namespace

FACULA_DEFINE_BY_ISA(SoftmaxLoops<float>, softmax_loops_float,
                     {softmax<float>, backward<float>, row_log_sum_exp<float>, scaled_exp<float>})
FACULA_DEFINE_BY_ISA(SoftmaxLoops<double>, softmax_loops_double,
                     {softmax<double>, backward<double>, row_log_sum_exp<double>, scaled_exp<double>})

}  // namespace facula
