// exp for loops that the compiler vectorises: no branches, NaN and infinities right, at most 1 ulp.
#pragma once

#include <cstdint>
#include <cstring>

namespace {

template <typename To, typename From>
inline __attribute__((always_inline)) To bits_of(From v) {
  To t;
  static_assert(sizeof(To) == sizeof(From));
  __builtin_memcpy(&t, &v, sizeof(To));
  return t;
}

// exp(x) = polynomial * 2^k: returns the polynomial (after Cephes) and leaves k in the low bits of `shifted`.
inline __attribute__((always_inline)) float exp_parts(float x, float& shifted) {
  shifted = x * 1.44269504f + 12582912.0f;  // rounds to a whole number in the low bits
  const float n = shifted - 12582912.0f;
  float r = x - n * 0.693359375f;
  r = r + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * (r * r) + r + 1.0f;
}

inline __attribute__((always_inline)) double exp_parts(double x, double& shifted) {
  shifted = x * 1.4426950408889634 + 6755399441055744.0;
  const double n = shifted - 6755399441055744.0;
  double r = x - n * 6.93147180369123816490e-01;
  r = r - n * 1.90821492927058770002e-10;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  return p * (r * r) + r + 1.0;
}

inline __attribute__((always_inline)) float exp_of(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  float shifted;
  const float p = exp_parts(x, shifted);
  // Two factors, so that the smallest results are denormal rather than zero.
  const int32_t k = bits_of<int32_t>(shifted) - 0x4B400000;
  const int32_t half = k >> 1;
  const float a = bits_of<float>(static_cast<int32_t>(static_cast<uint32_t>(half + 127) << 23));
  const float b = bits_of<float>(static_cast<int32_t>(static_cast<uint32_t>(k - half + 127) << 23));
  return p * a * b;
}

inline __attribute__((always_inline)) double exp_of(double x) {
  x = x < -750.0 ? -750.0 : x;
  x = x > 710.0 ? 710.0 : x;
  double shifted;
  const double p = exp_parts(x, shifted);
  const int64_t k = bits_of<int64_t>(shifted) - 0x4338000000000000;
  // k / 2 without a 64-bit arithmetic shift, which AVX2 lacks.
  const int64_t half = static_cast<int64_t>(static_cast<uint64_t>(k + 4096) >> 1) - 2048;
  const double a = bits_of<double>((half + 1023) << 52);
  const double b = bits_of<double>((k - half + 1023) << 52);
  return p * a * b;
}

// exp where the result is a normal number: |x| at most 87 for float, 700 for double.
inline __attribute__((always_inline)) float exp_within(float x) {
  float shifted;
  const float p = exp_parts(x, shifted);
  return bits_of<float>(bits_of<uint32_t>(p) + (bits_of<uint32_t>(shifted) << 23));
}
inline __attribute__((always_inline)) double exp_within(double x) {
  double shifted;
  const double p = exp_parts(x, shifted);
  return bits_of<double>(bits_of<uint64_t>(p) + (bits_of<uint64_t>(shifted) << 52));
}

// exp of what is not positive, as of differences to a maximum: zero below the normal numbers.
inline __attribute__((always_inline)) float exp_below(float x) {
  constexpr float kEnd = -87.3365448f;
  float shifted;
  const float p = exp_parts(x < kEnd ? kEnd : x, shifted);
  const float value = bits_of<float>(bits_of<uint32_t>(p) + (bits_of<uint32_t>(shifted) << 23)) + (x - x);  // NaN stays
  return x < kEnd ? 0.0f : value;
}
inline __attribute__((always_inline)) double exp_below(double x) { return exp_of(x); }

// 2^x for x <= 1 or so, as weights below a maximum are: zero below the normal numbers, within 2 ulp.
inline __attribute__((always_inline)) float pow2_of(float x) {
  constexpr float kShift = 12582912.0f + 127.0f;  // rounds to a whole number, its exponent's bits in the low ones
  x = x < -127.0f ? -127.0f : x;
  const float shifted = x + kShift;
  const float r = x - (shifted - kShift);
  float p = 1.3264727e-3f;
  p = p * r + 9.671513e-3f;
  p = p * r + 5.5507336e-2f;
  p = p * r + 2.4022242e-1f;
  p = p * r + 6.93147e-1f;
  p = p * r + 1.0f;
  return p * bits_of<float>(static_cast<int32_t>(bits_of<uint32_t>(shifted) << 23));
}
inline __attribute__((always_inline)) double pow2_of(double x) { return exp_of(x * 0.6931471805599453); }

}  // namespace
