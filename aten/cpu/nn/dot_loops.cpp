// build: levels fused
#include "aten/cpu/nn/loops.h"

namespace facula {
namespace {

// Blocks bound the rounding error of long sums.
template <typename T>
T dot(int64_t n, const T* a, const T* b) {
  constexpr int64_t kBlock = 4096;
  double total = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < m; ++j) sum += a[i + j] * b[i + j];
    total += sum;
  }
  return static_cast<T>(total);
}

}  // namespace

FACULA_DEFINE_BY_ISA(DotLoops<float>, dot_loops_float, {dot<float>})
FACULA_DEFINE_BY_ISA(DotLoops<double>, dot_loops_double, {dot<double>})

}  // namespace facula
