// Row loops of attention, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

template <typename T>
struct AttentionLoops {
  // One block of a row of scores (n): s becomes exp(scale s - max), where max is the largest so far;
  // `max` and `sum` are updated, and the factor by which earlier parts shrink is returned.
  T (*accumulate)(int64_t n, T scale, T* s, T* max, T* sum);
  // out[i] *= factor
  void (*scale)(int64_t n, T factor, T* out);
  // p = exp(scale s - lse), ds = p (dp - delta) scale; s and dp are overwritten with p and ds.
  void (*gradient)(int64_t n, T scale, T lse, T delta, T* s, T* dp);
};
FACULA_DECLARE_BY_ISA(AttentionLoops<float>, attention_loops_float)
FACULA_DECLARE_BY_ISA(AttentionLoops<double>, attention_loops_double)

template <typename T>
const AttentionLoops<T>& attention_loops() {
  if constexpr (std::is_same_v<T, float>) {
    return FACULA_BY_ISA(attention_loops_float);
  } else {
    return FACULA_BY_ISA(attention_loops_double);
  }
}

}  // namespace facula
