// Loops that are compiled once per instruction set (baseline, x86-64-v3, x86-64-v4): the files of
// this folder, on plain pointers. They must not use inline functions of other headers that are
// emitted out of line, since the linker keeps one copy of those, whatever it was compiled for.
#pragma once

#include <cstdint>

#include "runtime/iterate/pointwise.h"

#if defined(__x86_64__)
#define FACULA_ISA_CALL(name, ...)                                               \
  (::facula::active_isa() == ::facula::Isa::V4   ? ::facula::cpu::v4::name       \
   : ::facula::active_isa() == ::facula::Isa::V3 ? ::facula::cpu::v3::name       \
                                                 : ::facula::cpu::baseline::name)(__VA_ARGS__)
#define FACULA_FORALL_ISA(X) X(baseline) X(v3) X(v4)
#else
#define FACULA_ISA_CALL(name, ...) ::facula::cpu::baseline::name(__VA_ARGS__)
#define FACULA_FORALL_ISA(X) X(baseline)
#endif

namespace facula::cpu {

// Sums of one channel, for the gradients of a normalisation.
struct GradSums {
  double grad;    // of dy
  double scaled;  // of dy (x - center)
};

#define FACULA_DECLARE_LOOPS_FOR(T, s)                                                                              \
  T dot_##s(int64_t n, const T* a, const T* b);                                                                     \
  /* x and out are (outer, size, inner) */                                                                          \
  void softmax_##s(int64_t outer, int64_t size, int64_t inner, const T* x, T* out, bool log);                       \
  void softmax_backward_##s(int64_t outer, int64_t size, int64_t inner, const T* g, const T* y, T* gi, bool log);   \
  /* the mean, and the mean of the squares of x - center */                                                         \
  double mean_##s(int64_t n, const T* x);                                                                           \
  double mean_square_##s(int64_t n, const T* x, double center);                                                     \
  /* out = x scale + shift */                                                                                       \
  void affine_##s(int64_t n, const T* x, T scale, T shift, T* out);                                                 \
  /* out = (x - mean) rstd weight + bias; null weight and bias are ones and zeros */                                \
  void normalize_##s(int64_t n, const T* x, T mean, T rstd, const T* weight, const T* bias, T* out);                \
  /* sums of dy w and dy w (x - mean) over a row; w may be null */                                                  \
  GradSums grad_sums_##s(int64_t n, const T* dy, const T* x, double mean, const T* weight);                         \
  /* gi = dy w a + x b + c; w may be null */                                                                        \
  void norm_backward_##s(int64_t n, const T* dy, const T* x, const T* weight, T a, T b, T c, T* gi);                \
  /* gw += dy (x - mean) rstd, gb += dy; either may be null */                                                      \
  void weight_grads_##s(int64_t n, const T* dy, const T* x, T mean, T rstd, T* gw, T* gb);                          \
  /* per column of (rows, n): sums of dy and of dy (x - center), of x, of (x - center)^2 */                         \
  void column_sums_##s(int64_t rows, int64_t n, int64_t stride, const T* x, double* sum);                           \
  void column_squares_##s(int64_t rows, int64_t n, int64_t stride, const T* x, const double* center, double* sum);  \
  void column_grads_##s(int64_t rows, int64_t n, int64_t stride, const T* dy, const T* x, const double* center,     \
                        double* grad, double* scaled);                                                              \
  void column_affine_##s(int64_t n, const T* x, const T* scale, const T* shift, T* out);                            \
  void column_backward_##s(int64_t n, const T* dy, const T* x, const T* a, const T* b, const T* c, T* gi);

#define FACULA_DECLARE_LOOPS(ns)                                            \
  namespace ns {                                                            \
  FACULA_DECLARE_LOOPS_FOR(float, f32)                                      \
  FACULA_DECLARE_LOOPS_FOR(double, f64)                                     \
  void half_to_float(int64_t n, const uint16_t* from, float* to);           \
  void float_to_half(int64_t n, const float* from, uint16_t* to);           \
  void bfloat16_to_float(int64_t n, const uint16_t* from, float* to);       \
  void float_to_bfloat16(int64_t n, const float* from, uint16_t* to);       \
  }
FACULA_FORALL_ISA(FACULA_DECLARE_LOOPS)
#undef FACULA_DECLARE_LOOPS
#undef FACULA_DECLARE_LOOPS_FOR

// FACULA_ISA_CALL by element type: calls name_f32 or name_f64.
#define FACULA_ISA_CALL_FOR(T, name, ...)                                 \
  [&] {                                                                   \
    if constexpr (std::is_same_v<T, float>) {                             \
      return FACULA_ISA_CALL(name##_f32, __VA_ARGS__);                    \
    } else {                                                              \
      return FACULA_ISA_CALL(name##_f64, __VA_ARGS__);                    \
    }                                                                     \
  }()

}  // namespace facula::cpu
