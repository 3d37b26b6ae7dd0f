// Softmax over the keys of a block of queries, compiled for each instruction set. Scores lie by key,
// one panel of queries (GemmLoops::nr) after the other, so that all is done in whole vectors.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

template <typename T>
struct AttentionLoops {
  // Scores s (keys, queries) become exp(scale (s - max)) for the largest so far (scale >= 0); `max` and `sum` go on,
  // and `shrink` is the factor by which earlier parts lose.
  void (*accumulate)(int64_t keys, T scale, T* s, T* max, T* sum, T* shrink);
  // out (rows, queries) *= factor (queries)
  void (*scale)(int64_t rows, const T* factor, T* out);
  // p = exp(scale (s - base) - shift), ds = p (dp - delta) scale; s and dp are overwritten with p and ds.
  void (*gradient)(int64_t keys, int64_t pitch, T scale, const T* base, const T* shift, const T* delta, T* s, T* dp);
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
