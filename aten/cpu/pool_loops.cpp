#include "aten/cpu/pool_loops.h"

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

}  // namespace

FACULA_DEFINE_BY_ISA(PoolLoops<float>, pool_loops_float,
                     {max_row<float>, add_row<float>, max_windows<float>, max_places<float>, sum_windows<float>})
FACULA_DEFINE_BY_ISA(PoolLoops<double>, pool_loops_double,
                     {max_row<double>, add_row<double>, max_windows<double>, max_places<double>, sum_windows<double>})

}  // namespace facula
