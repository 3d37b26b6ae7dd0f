// Products of a matrix and a vector, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

// Elements of T, sums in S; uint16_t stands for the bits of a bfloat16.
template <typename T, typename S>
struct GemvLoops {
  // y[i] = sum over j of a[i * lda + j] x[j], for (rows, cols). A row's rounding does not depend on its place among
  // the others.
  void (*dots)(int64_t rows, int64_t cols, const T* a, int64_t lda, const S* x, S* y);
  // y[j] = sum over i of x[i] a[i * lda + j].
  void (*sums)(int64_t rows, int64_t cols, const T* a, int64_t lda, const S* x, S* y);
};
using GemvFloat = GemvLoops<float, float>;
using GemvDouble = GemvLoops<double, double>;
using GemvBFloat16 = GemvLoops<uint16_t, float>;
FACULA_DECLARE_BY_ISA(GemvFloat, gemv_float)
FACULA_DECLARE_BY_ISA(GemvDouble, gemv_double)
FACULA_DECLARE_BY_ISA(GemvBFloat16, gemv_bfloat16)

}  // namespace facula
