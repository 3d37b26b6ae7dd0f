// The arithmetic of one step of connectionist temporal classification, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

// Rows have a multiple of as many places, so that none is left over for another arithmetic.
constexpr int64_t kCtcLanes = 16;

template <typename T>
struct CtcLoops {
  // to[s] = score[s] + log(exp(a[s]) + exp(b[s]) + exp(c[s] + skip[s])), for logarithms of probabilities.
  void (*step)(int64_t n, const T* a, const T* b, const T* c, const T* skip, const T* score, T* to);
  // to[s] = exp(alpha[s] + beta[s] + loss)
  void (*occupancy)(int64_t n, const T* alpha, const T* beta, T loss, T* to);
};
FACULA_DECLARE_BY_ISA(CtcLoops<float>, ctc_loops_float)
FACULA_DECLARE_BY_ISA(CtcLoops<double>, ctc_loops_double)

template <typename T>
const CtcLoops<T>& ctc_loops() {
  if constexpr (sizeof(T) == sizeof(float)) {
    return FACULA_BY_ISA(ctc_loops_float);
  } else {
    return FACULA_BY_ISA(ctc_loops_double);
  }
}

}  // namespace facula
