// Matrix products of floats in blocks that fit the caches (Goto & van de Geijn, Anatomy of
// high-performance matrix multiplication, 2008; Van Zee & van de Geijn, BLIS, 2015), over GemmLoops.
#pragma once

#include "aten/cpu/gemm/gemm.h"

namespace facula::cpu {

// As gemm(), for c.col == 1, k > 0 and T float or double.
template <typename T>
void blocked_gemm(int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a, Matrix<const T> b, T beta, Matrix<T> c,
                  const T* bias = nullptr);
// C = A B, of which at most `deepest` terms are summed in registers before they are added to C.
template <typename T>
void shallow_gemm(int64_t m, int64_t n, int64_t k, int64_t deepest, Matrix<const T> a, Matrix<const T> b, Matrix<T> c);

// Whether `rows` runs of `bytes`, `stride` bytes apart, stay in a first-level cache of 64 sets: at multiples of
// 4096 bytes they all meet in the same sets.
bool stays_cached(int64_t rows, int64_t bytes, int64_t stride);

// Small enough to be multiplied where it lies, without any preparation.
template <typename T>
bool fits_tiles(int64_t m, int64_t n, int64_t k, T alpha, Matrix<const T> a, Matrix<const T> b, Matrix<T> c);
// Such a product, on the calling thread; beta is 0 or 1.
template <typename T>
void tiles_gemm(int64_t m, int64_t n, int64_t k, Matrix<const T> a, Matrix<const T> b, bool accumulate, Matrix<T> c);

}  // namespace facula::cpu
