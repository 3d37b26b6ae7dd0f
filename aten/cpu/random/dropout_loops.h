// Loops of dropout, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

struct DropoutLoops {
  // keep[i] = words[i] >= threshold
  void (*mask)(int64_t n, const uint32_t* words, uint64_t threshold, bool* keep);
  // With `stream` written by streaming stores (runtime/iterate/stream.h); stream_done() has to follow.
  void (*apply_float)(int64_t n, const float* x, const bool* keep, float factor, float* out, bool stream);
  void (*apply_double)(int64_t n, const double* x, const bool* keep, double factor, double* out, bool stream);
};
FACULA_DECLARE_BY_ISA(DropoutLoops, dropout_loops)

}  // namespace facula
