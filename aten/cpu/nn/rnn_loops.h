// What recurrent cells do to one row of hidden units, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

// x: the row's share of the gates from the input, r: from the state before; n hidden units, the gates
// of n values each behind one another.
template <typename T>
struct RnnLoops {
  // Gates i, f, g, o. Writes them to `act`, the cell's new state over `c` and to `cell`, h to both.
  void (*lstm)(int64_t n, const T* x, const T* r, T* act, T* c, T* cell, T* h, T* out);
  // dh: gradient of h; dc: of the cell's state, then of the one before. Writes that of the gates.
  void (*lstm_backward)(int64_t n, const T* act, const T* before, const T* cell, const T* dh, const T* dout, T* dc,
                        T* dgates);
  // Gates r, z, n; bias (may be null) is added to `r`. act: r, z, n and the n gate's share of the state.
  void (*gru)(int64_t n, const T* x, const T* r, const T* bias, T* act, T* h, T* out);
  // dh: gradient of h, then what of it goes to the state before directly.
  void (*gru_backward)(int64_t n, const T* act, const T* before, T* dh, const T* dout, T* dx, T* dr);
  void (*tanh)(int64_t n, const T* x, const T* r, T* h, T* out);
  void (*relu)(int64_t n, const T* x, const T* r, T* h, T* out);
  void (*tanh_backward)(int64_t n, const T* out, const T* dh, const T* dout, T* dx);
  void (*relu_backward)(int64_t n, const T* out, const T* dh, const T* dout, T* dx);
  void (*add)(int64_t n, const T* x, T* sum);
};
FACULA_DECLARE_BY_ISA(RnnLoops<float>, rnn_loops_float)
FACULA_DECLARE_BY_ISA(RnnLoops<double>, rnn_loops_double)

template <typename T>
const RnnLoops<T>& rnn_loops() {
  if constexpr (sizeof(T) == sizeof(float)) {
    return FACULA_BY_ISA(rnn_loops_float);
  } else {
    return FACULA_BY_ISA(rnn_loops_double);
  }
}

}  // namespace facula
