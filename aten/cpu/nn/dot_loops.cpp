// build: levels fused
#include "aten/cpu/common/blocked_sum.h"
#include "aten/cpu/nn/loops.h"

namespace facula {
namespace {

template <typename T>
T dot(int64_t n, const T* a, const T* b) {
  double sum = 0, none = 0;
  add_in_blocks<T, false>(n, sum, none, nullptr, [&](int64_t i, T& part, T&) { part += a[i] * b[i]; });
  return static_cast<T>(sum);
}

}  // namespace

FACULA_DEFINE_BY_ISA(DotLoops<float>, dot_loops_float, {dot<float>})
FACULA_DEFINE_BY_ISA(DotLoops<double>, dot_loops_double, {dot<double>})

}  // namespace facula
