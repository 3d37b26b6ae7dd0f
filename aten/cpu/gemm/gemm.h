// Matrix products on raw memory, for any strides and element type.
#pragma once

#include <cstdint>

#include "runtime/core/dtype.h"

namespace facula::cpu {

// Element (i, j) lies at data[i * row + j * col].
template <typename T>
struct Matrix {
  T* data;
  int64_t row, col;
  Matrix t() const { return {data, col, row}; }
  operator Matrix<const T>() const  // NOLINT: like T* to const T*
    requires(!std::is_const_v<T>)
  {
    return {data, row, col};
  }
};

// C (m, n) = alpha A (m, k) B (k, n) + beta C. C is not read when beta is 0. Splits large products
// over threads unless inside a parallel region. C must not overlap A or B.
// T: an unsigned integer (two's complement serves the signed ones), Half, BFloat16, float, double
// or a complex type; alpha and beta are in the type that products are accumulated in.
template <typename T>
void gemm(int64_t m, int64_t n, int64_t k, opmath_t<T> alpha, Matrix<const T> a, Matrix<const T> b, opmath_t<T> beta,
          Matrix<T> c);

// C (m, n) = A (m, k) B (k, n) + `bias` (n, contiguous) in each row, for the same types.
template <typename T>
void gemm_bias(int64_t m, int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b, const T* bias, Matrix<T> c);

// One product after the other, or side by side on threads: matrix i starts at data + i * stride.
template <typename T>
void batched_gemm(int64_t batch, int64_t m, int64_t n, int64_t k, opmath_t<T> alpha, Matrix<const T> a,
                  int64_t stride_a, Matrix<const T> b, int64_t stride_b, opmath_t<T> beta, Matrix<T> c,
                  int64_t stride_c);

}  // namespace facula::cpu
