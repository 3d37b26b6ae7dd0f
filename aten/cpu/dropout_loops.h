// Dropout in vectors of random blocks, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

// Elements come in groups of 64: element 64 g + 16 w + l is kept or dropped by word w of block
// 16 g + l of the stream (Philox 4x32-10, as in runtime/core/generator.h).
inline constexpr int64_t kDropoutGroup = 64;

struct DropoutLoops {
  // keep[i] = word of element 64 * group + i >= threshold, for i < n
  void (*mask)(int64_t n, uint64_t group, uint64_t seed, uint64_t offset, uint64_t threshold, bool* keep);
  // With `stream` written past the cache (runtime/iterate/stream.h); stream_done() has to follow.
  void (*apply_float)(int64_t n, const float* x, const bool* keep, float factor, float* out, bool stream);
  void (*apply_double)(int64_t n, const double* x, const bool* keep, double factor, double* out, bool stream);
};
FACULA_DECLARE_BY_ISA(DropoutLoops, dropout_loops)

}  // namespace facula
