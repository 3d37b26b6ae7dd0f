// Loops of the neural network kernels on contiguous rows, compiled for each instruction set (sources that
// ask for `levels`) and reached as loops<T>(softmax_loops)... through the functions below.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

template <typename T>
struct DotLoops {
  T (*dot)(int64_t n, const T* a, const T* b);
};

// Columns that a strided softmax takes at once: what they hold stays in the cache.
inline constexpr int64_t kSoftmaxColumns = 128;
template <typename T>
__attribute__((always_inline)) inline int64_t softmax_width(int64_t size) {
  constexpr int64_t kBytes = 1 << 19, kLine = 64 / sizeof(T);
  const int64_t fit = kBytes / static_cast<int64_t>(sizeof(T)) / (size > 0 ? size : 1) / kLine * kLine;
  return fit < kLine ? kLine : fit > kSoftmaxColumns ? kSoftmaxColumns : fit;
}

template <typename T>
struct SoftmaxLoops {
  // x and out are (outer, size, inner), of which `columns` inner ones from `first` on are taken; the softmax,
  // or its logarithm, is over `size`. The buffer serves inner > 1 and holds softmax_width<T>(size) * size numbers,
  // for backward softmax_width<T>(2 * size) * 2 * size; forward with inner 1 and `stream`, 2 * size.
  void (*forward)(int64_t outer, int64_t size, int64_t inner, int64_t first, int64_t columns, const T* x, T* out,
                  T* buffer, bool log, bool stream);
  void (*backward)(int64_t outer, int64_t size, int64_t inner, int64_t first, int64_t columns, const T* grad,
                   const T* out, T* grad_input, T* buffer, bool log, bool stream);
  // The largest element, and the logarithm of the sum of exp(x - largest).
  void (*log_sum_exp)(int64_t n, const T* x, T* tops);
  void (*scaled_exp)(int64_t n, const T* x, const T* tops, T scale, T* out);  // scale exp(x - logsumexp)
};

struct Moments {
  double mean;
  double squares;  // sum of those about the mean
};

struct GradSums {
  double grad;    // of dy
  double scaled;  // of dy (x - center)
};

// A center is a mean rounded to T; what is lost by that matters where the mean is large beside the spread, and comes
// back in `shift`.

// With `stream` results are written by streaming stores (runtime/iterate/stream.h); stream_done() has to follow.
template <typename T>
struct NormLoops {
  // `ahead` is what will be read next, fetched meanwhile; null where another fetches it.
  Moments (*moments)(int64_t n, const T* x, const T* ahead);
  double (*sum)(int64_t n, const T* x);
  double (*sum_squares)(int64_t n, const T* x);
  // (x - center) scale + shift
  void (*affine)(int64_t n, const T* x, T center, T scale, T shift, T* out, bool stream);
  // ((x - center) rstd + shift) weight + bias; either of weight and bias may be null.
  void (*normalize)(int64_t n, const T* x, T center, T rstd, T shift, const T* weight, const T* bias, T* out,
                    const T* ahead, bool stream);
  // Sums of dy w and dy w (x - center) over a row; w may be null.
  GradSums (*grad_sums)(int64_t n, const T* dy, const T* x, T center, const T* weight);
  // dy w a + (x - center) b + c; w may be null. What will be read next lies `ahead` elements on.
  void (*backward)(int64_t n, const T* dy, const T* x, const T* weight, T a, T center, T b, T c, T* grad_input,
                   int64_t ahead, bool stream);
  // grad_weight += dy ((x - center) rstd + shift), grad_bias += dy, over rows, which have these numbers.
  void (*weight_grads)(int64_t rows, int64_t n, const T* dy, const T* x, const T* center, const T* rstd, const T* shift,
                       T* grad_weight, T* grad_bias);
  // Per column of (rows, n): mean and sum of squares about it.
  void (*column_moments)(int64_t rows, int64_t n, const T* x, double* mean, double* squares);
  // Per column, added to the sums: of dy and of dy (x - center), the center rounded to T.
  void (*column_grads)(int64_t rows, int64_t n, int64_t stride, const T* dy, const T* x, const double* center,
                       double* grad, double* scaled);
  void (*column_affine)(int64_t rows, int64_t n, const T* x, const T* center, const T* scale, const T* shift, T* out,
                        bool stream);
  void (*column_backward)(int64_t rows, int64_t n, const T* dy, const T* x, const T* a, const T* center, const T* b,
                          const T* c, T* grad_input, bool stream);
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
