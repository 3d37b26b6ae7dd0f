// build: levels
#include "aten/cpu/pool/loops.h"

#include "aten/cpu/gemm/panel.h"

namespace facula {
namespace {

template <typename T>
inline __attribute__((always_inline)) T greater(T m, T x) {
  return (x > m) | (x != x) ? x : m;
}

template <typename T>
void max_row(int64_t n, const T* __restrict x, T* __restrict acc) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) acc[i] = greater(acc[i], x[i]);
}

template <typename T>
void add_row(int64_t n, const T* __restrict x, T* __restrict acc) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) acc[i] += x[i];
}

template <typename T>
void max_windows(int64_t n, int64_t kernel, int64_t stride, int64_t dilation, const T* __restrict row,
                 T* __restrict out) {
  if (stride == 2 && kernel == 2 && dilation == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = greater(row[2 * i], row[2 * i + 1]);
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = row[i * stride];
  for (int64_t k = 1; k < kernel; ++k) {
    const T* from = row + k * dilation;
    if (stride == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = greater(out[i], from[i]);
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] = greater(out[i], from[i * stride]);
    }
  }
}

template <typename T, int Stride>
void places_of(int64_t n, int64_t stride, const T* __restrict row, PoolIndex<T> first, T* __restrict best,
               PoolIndex<T>* __restrict place) {
  const PoolIndex<T> step = static_cast<PoolIndex<T>>(Stride > 0 ? Stride : stride);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const T x = row[i * (Stride > 0 ? Stride : stride)];
    const bool take = (x > best[i]) | (x != x);
    best[i] = take ? x : best[i];
    place[i] = take ? static_cast<PoolIndex<T>>(first + static_cast<PoolIndex<T>>(i) * step) : place[i];
  }
}

template <typename T>
void max_places(int64_t n, int64_t stride, const T* row, PoolIndex<T> first, T* best, PoolIndex<T>* place) {
  if (stride == 1) {
    places_of<T, 1>(n, stride, row, first, best, place);
  } else if (stride == 2) {
    places_of<T, 2>(n, stride, row, first, best, place);
  } else {
    places_of<T, 0>(n, stride, row, first, best, place);
  }
}

template <typename T>
void sum_windows(int64_t n, int64_t kernel, int64_t stride, const T* __restrict row, T* __restrict out) {
  if (stride == 2 && kernel == 2) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = row[2 * i] + row[2 * i + 1];
    return;
  }
  for (int64_t i = 0; i < n; ++i) out[i] = row[i * stride];
  for (int64_t k = 1; k < kernel; ++k) {
    const T* from = row + k;
    if (stride == 1) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] += from[i];
    } else {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] += from[i * stride];
    }
  }
}

// Channels that are kept in registers; a constant where a block is whole.
constexpr int64_t kBlock = 64;

// The maxima of V vectors of channels, and which of the pixels they are.
template <typename T, int V>
inline __attribute__((always_inline)) void largest(int64_t count, const int64_t* __restrict at, const T* __restrict x,
                                                   Lanes<T> (&best)[V], Lanes<PoolIndex<T>> (&place)[V]) {
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    __builtin_memcpy(&best[v], x + at[0] + v * kLanes<T>, kBytes);
    place[v] = Lanes<PoolIndex<T>>{};
  }
  for (int64_t k = 1; k < count; ++k) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      Lanes<T> a;
      __builtin_memcpy(&a, x + at[k] + v * kLanes<T>, kBytes);
      const auto take = (a > best[v]) | (a != a);
      best[v] = take ? a : best[v];
      place[v] = take ? Lanes<PoolIndex<T>>{} + static_cast<PoolIndex<T>>(k) : place[v];
    }
  }
}

template <typename T, int V>
inline __attribute__((always_inline)) void max_block(int64_t count, const int64_t* __restrict at, const T* __restrict x,
                                                     T* __restrict out) {
  Lanes<T> best[V];
  Lanes<PoolIndex<T>> place[V];
  largest<T, V>(count, at, x, best, place);
  __builtin_memcpy(out, best, sizeof(best));
}

template <typename T>
void max_nhwc(int64_t n, int64_t count, const int64_t* at, const T* x, T* out) {
  int64_t i = 0;
  for (; i + 4 * kLanes<T> <= n; i += 4 * kLanes<T>) max_block<T, 4>(count, at, x + i, out + i);
  for (; i + kLanes<T> <= n; i += kLanes<T>) max_block<T, 1>(count, at, x + i, out + i);
  for (; i < n; ++i) {
    T best = x[at[0] + i];
    for (int64_t k = 1; k < count; ++k) best = greater(best, x[at[k] + i]);
    out[i] = best;
  }
}

// So many pixels are summed in T; runs of them add up in double, as long sums in T lose digits.
constexpr int64_t kTerms = 128;

template <typename T>
inline __attribute__((always_inline)) void sum_pixels(int64_t m, int64_t count, const int64_t* __restrict at,
                                                      const T* __restrict x, T (&sum)[kBlock]) {
  for (int64_t k = 0; k < count; ++k) {
    const T* from = x + at[k];
#pragma omp simd
    for (int64_t i = 0; i < m; ++i) sum[i] += from[i];
  }
}

template <typename T>
void mean_nhwc(int64_t n, int64_t count, const int64_t* __restrict at, const T* __restrict x, T factor,
               T* __restrict out) {
  for (int64_t i0 = 0; i0 < n; i0 += kBlock) {
    const int64_t m = n - i0 < kBlock ? n - i0 : kBlock;
    T sum[kBlock] = {};
    if (count <= kTerms) {
      sum_pixels(m, count, at, x + i0, sum);
    } else {
      double totals[kBlock] = {};
      for (int64_t k = 0; k < count; k += kTerms) {
        sum_pixels(m, count - k < kTerms ? count - k : kTerms, at + k, x + i0, sum);
        for (int64_t i = 0; i < m; ++i) totals[i] += static_cast<double>(sum[i]), sum[i] = 0;
      }
      for (int64_t i = 0; i < m; ++i) sum[i] = static_cast<T>(totals[i]);
    }
#pragma omp simd
    for (int64_t i = 0; i < m; ++i) out[i0 + i] = sum[i] * factor;
  }
}

template <typename T, int V>
inline __attribute__((always_inline)) void max_grad_block(int64_t count, const int64_t* __restrict at,
                                                          const T* __restrict x, const T* __restrict grad,
                                                          T* __restrict out) {
  Lanes<T> best[V], g[V];
  Lanes<PoolIndex<T>> place[V];
  largest<T, V>(count, at, x, best, place);
  __builtin_memcpy(g, grad, sizeof(g));
  for (int64_t k = 0; k < count; ++k) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      T* to = out + at[k] + v * kLanes<T>;
      Lanes<T> sum;
      __builtin_memcpy(&sum, to, kBytes);
      sum = place[v] == static_cast<PoolIndex<T>>(k) ? sum + g[v] : sum;
      __builtin_memcpy(to, &sum, kBytes);
    }
  }
}

template <typename T>
void max_nhwc_grad(int64_t n, int64_t count, const int64_t* at, const T* x, const T* grad, T* out) {
  int64_t i = 0;
  for (; i + 4 * kLanes<T> <= n; i += 4 * kLanes<T>) max_grad_block<T, 4>(count, at, x + i, grad + i, out + i);
  for (; i + kLanes<T> <= n; i += kLanes<T>) max_grad_block<T, 1>(count, at, x + i, grad + i, out + i);
  for (; i < n; ++i) {
    T best = x[at[0] + i];
    int64_t place = 0;
    for (int64_t k = 1; k < count; ++k) {
      const T v = x[at[k] + i];
      if (v > best || v != v) {
        best = v;
        place = k;
      }
    }
    out[at[place] + i] += grad[i];
  }
}

template <typename T>
void mean_nhwc_grad(int64_t n, int64_t count, const int64_t* __restrict at, const T* __restrict grad, T factor,
                    T* __restrict out) {
  for (int64_t k = 0; k < count; ++k) {
    T* to = out + at[k];
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) to[i] += grad[i] * factor;
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(PoolLoops<float>, pool_loops_float,
                     {max_row<float>, add_row<float>, max_windows<float>, max_places<float>, sum_windows<float>,
                      max_nhwc<float>, mean_nhwc<float>, max_nhwc_grad<float>, mean_nhwc_grad<float>})
FACULA_DEFINE_BY_ISA(PoolLoops<double>, pool_loops_double,
                     {max_row<double>, add_row<double>, max_windows<double>, max_places<double>, sum_windows<double>,
                      max_nhwc<double>, mean_nhwc<double>, max_nhwc_grad<double>, mean_nhwc_grad<double>})

}  // namespace facula
