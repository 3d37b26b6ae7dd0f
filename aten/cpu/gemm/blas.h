// OpenBLAS for complex numbers (real ones have loops of our own), with plain loops where it is absent. Matrices are
// row major here.
#pragma once

#include <cstdint>

#include "runtime/core/dtype.h"

namespace facula::blas {

// On the calling thread alone: C (m, n) = alpha op(A) op(B) + beta C with op the transpose where
// the flag is set. C is not read when beta is 0. Returns false when the library cannot take the
// call (absent, or sizes beyond 32 bits).
template <typename T>
bool gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b,
          int64_t ldb, T beta, T* c, int64_t ldc);
// y (m) = alpha op(A) x + beta y for A of (m, n), or (n, m) with `trans`.
template <typename T>
bool gemv(bool trans, int64_t rows, int64_t cols, T alpha, const T* a, int64_t lda, const T* x, int64_t incx, T beta,
          T* y, int64_t incy);

}  // namespace facula::blas
