// Products of bfloat16 matrices in the tile registers of x86-64 (AMX), where the machine and the
// system have them.
#pragma once

#include <cstdint>

#include "aten/cpu/gemm/gemm.h"

namespace facula::cpu::amx {

bool available();

// C (m, n) = alpha A B + beta C, summed in float and rounded once. C is not read when beta is 0. With `bias` (n) C is
// row major, and each row gets that instead.
void gemm(int64_t m, int64_t n, int64_t k, float alpha, Matrix<const BFloat16> a, Matrix<const BFloat16> b, float beta,
          Matrix<BFloat16> c, const BFloat16* bias = nullptr);

// `count` such products one after the other on the calling thread, operands a stride apart.
void batch(int64_t count, int64_t m, int64_t n, int64_t k, float alpha, Matrix<const BFloat16> a, int64_t stride_a,
           Matrix<const BFloat16> b, int64_t stride_b, float beta, Matrix<BFloat16> c, int64_t stride_c);

}  // namespace facula::cpu::amx
