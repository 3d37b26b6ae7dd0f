// sigmoid and tanh for loops that the compiler vectorises: no branches, NaN and infinities right, to 2 ulp.
#pragma once

#include "aten/cpu/common/vector_exp.h"

namespace {

template <typename T>
inline __attribute__((always_inline)) T sigmoid_of(T x) {
  constexpr T kFarthest = sizeof(T) == sizeof(float) ? T(87) : T(700);
  x = x < -kFarthest ? -kFarthest : x;
  x = x > kFarthest ? kFarthest : x;
  return T(1) / (T(1) + exp_within(-x));
}

// tanh after Cephes: a polynomial near zero, 1 - 2 / (exp(2 |x|) + 1) elsewhere.
inline __attribute__((always_inline)) float tanh_of(float x) {
  const float a = __builtin_fabsf(x), z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near = p * z * x + x;
  const float e = exp_within((a > 40.0f ? 40.0f : a) * 2.0f);
  return a < 0.625f ? near : __builtin_copysignf(1.0f - 2.0f / (e + 1.0f), x);
}

inline __attribute__((always_inline)) double tanh_of(double x) {
  const double a = __builtin_fabs(x), z = x * x;
  double p = -9.64399179425052238628e-1;
  p = p * z - 9.92877231001918586564e1;
  p = p * z - 1.61468768441708447952e3;
  double q = z + 1.12811678491632931402e2;
  q = q * z + 2.23548839060100448583e3;
  q = q * z + 4.84406305325125486048e3;
  const double near = x + x * z * (p / q);
  const double e = exp_within((a > 40.0 ? 40.0 : a) * 2.0);
  return a < 0.625 ? near : __builtin_copysign(1.0 - 2.0 / (e + 1.0), x);
}

}  // namespace
