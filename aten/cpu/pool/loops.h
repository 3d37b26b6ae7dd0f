// Rows of pooling, compiled for each instruction set.
#pragma once

#include <cstdint>
#include <type_traits>

#include "runtime/iterate/isa.h"

namespace facula {

// Places in a plane, as wide as the elements so that both are selected alike.
template <typename T>
using PoolIndex = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

template <typename T>
struct PoolLoops {
  // acc = max(acc, x), NaN wins; acc += x
  void (*max_row)(int64_t n, const T* x, T* acc);
  void (*add_row)(int64_t n, const T* x, T* acc);
  // out[i] = max or sum of row[i * stride + k * dilation], k < kernel
  void (*max_windows)(int64_t n, int64_t kernel, int64_t stride, int64_t dilation, const T* row, T* out);
  // One tap: where row[i * stride] beats best[i] (or is NaN), it and the place first + i * stride are taken.
  void (*max_places)(int64_t n, int64_t stride, const T* row, PoolIndex<T> first, T* best, PoolIndex<T>* place);
  void (*sum_windows)(int64_t n, int64_t kernel, int64_t stride, const T* row, T* out);
  // Of pixels at x + at[k], k < count, channel by channel: the largest, or `factor` times the sum.
  void (*max_nhwc)(int64_t n, int64_t count, const int64_t* at, const T* x, T* out);
  void (*mean_nhwc)(int64_t n, int64_t count, const int64_t* at, const T* x, T factor, T* out);
  // Adds the gradient to the pixel of the largest, or `factor` times it to all.
  void (*max_nhwc_grad)(int64_t n, int64_t count, const int64_t* at, const T* x, const T* grad, T* out);
  void (*mean_nhwc_grad)(int64_t n, int64_t count, const int64_t* at, const T* grad, T factor, T* out);
};
FACULA_DECLARE_BY_ISA(PoolLoops<float>, pool_loops_float)
FACULA_DECLARE_BY_ISA(PoolLoops<double>, pool_loops_double)

template <typename T>
const PoolLoops<T>& pool_loops() {
  if constexpr (std::is_same_v<T, float>) {
    return FACULA_BY_ISA(pool_loops_float);
  } else {
    return FACULA_BY_ISA(pool_loops_double);
  }
}

}  // namespace facula
