// Loops of the neural network kernels on contiguous rows, compiled for each instruction set (files
// *_loops.cpp) and reached as loops<T>(softmax_loops)... through the functions below.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

template <typename T>
struct DotLoops {
  T (*dot)(int64_t n, const T* a, const T* b);
};

template <typename T>
struct SoftmaxLoops {
  // x and out are (outer, size, inner); the softmax, or its logarithm, is over `size`.
  void (*forward)(int64_t outer, int64_t size, int64_t inner, const T* x, T* out, bool log);
  void (*backward)(int64_t outer, int64_t size, int64_t inner, const T* grad, const T* out, T* grad_input, bool log);
  T (*log_sum_exp)(int64_t n, const T* x);
  void (*scaled_exp)(int64_t n, const T* x, T shift, T scale, T* out);  // scale exp(x - shift)
};

struct GradSums {
  double grad;    // of dy
  double scaled;  // of dy (x - center)
};

template <typename T>
struct NormLoops {
  double (*mean)(int64_t n, const T* x);
  double (*mean_square)(int64_t n, const T* x, double center);  // of x - center
  void (*affine)(int64_t n, const T* x, T scale, T shift, T* out);
  // (x - mean) rstd weight + bias; either of weight and bias may be null.
  void (*normalize)(int64_t n, const T* x, T mean, T rstd, const T* weight, const T* bias, T* out);
  // Sums of dy w and dy w (x - mean) over a row; w may be null.
  GradSums (*grad_sums)(int64_t n, const T* dy, const T* x, double mean, const T* weight);
  // dy w a + x b + c; w may be null.
  void (*backward)(int64_t n, const T* dy, const T* x, const T* weight, T a, T b, T c, T* grad_input);
  // grad_weight += dy (x - mean) rstd, grad_bias += dy; either may be null.
  void (*weight_grads)(int64_t n, const T* dy, const T* x, T mean, T rstd, T* grad_weight, T* grad_bias);
  // Per column of (rows, n): mean and sum of squares about it.
  void (*column_moments)(int64_t rows, int64_t n, const T* x, double* mean, double* squares);
  // Per column, added to the sums: of dy and of dy (x - center).
  void (*column_grads)(int64_t rows, int64_t n, int64_t stride, const T* dy, const T* x, const double* center,
                       double* grad, double* scaled);
  void (*column_affine)(int64_t rows, int64_t n, const T* x, const T* scale, const T* shift, T* out);
  void (*column_backward)(int64_t rows, int64_t n, const T* dy, const T* x, const T* a, const T* b, const T* c,
                          T* grad_input);
};

// Tables of a family for float and double, and a function that picks by type and machine.
#define FACULA_FLOAT_LOOPS(Type, name)               \
  FACULA_DECLARE_BY_ISA(Type<float>, name##_float)   \
  FACULA_DECLARE_BY_ISA(Type<double>, name##_double) \
  template <typename T>                              \
  const Type<T>& name() {                            \
    if constexpr (std::is_same_v<T, float>) {        \
      return FACULA_BY_ISA(name##_float);            \
    } else {                                         \
      return FACULA_BY_ISA(name##_double);           \
    }                                                \
  }
FACULA_FLOAT_LOOPS(DotLoops, dot_loops)
FACULA_FLOAT_LOOPS(SoftmaxLoops, softmax_loops)
FACULA_FLOAT_LOOPS(NormLoops, norm_loops)

}  // namespace facula
