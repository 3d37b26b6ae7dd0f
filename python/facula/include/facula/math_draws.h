// Numbers drawn from words of random bits: the same bits on every device, for kernels that round products
// and sums one by one (no multiply-add).
#pragma once

#include "facula/math.h"

namespace facula::draws {

inline namespace FACULA_ISA {

// Numbers in [0, 1): the upper bits of a word.
FACULA_MATH float unit(uint32_t w, int bits) {
  return static_cast<float>(static_cast<int32_t>(w >> (32 - bits))) * (1.0f / static_cast<float>(1 << bits));
}
// The upper 53 bits, exactly, with 32-bit conversions that every instruction set has in vectors.
FACULA_MATH double unit(uint64_t v, int) {
  const double high = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(v >> 32) ^ 0x80000000u)) + 0x1p31;
  const double low = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(v) >> 11));
  return high * 0x1p-32 + low * 0x1p-53;
}
// In (0, 1): (w + 1/2) / 2^32, rounded.
FACULA_MATH float open_unit(uint32_t w) {
  const float high = static_cast<float>(static_cast<int32_t>(w >> 16)) * 65536.0f;
  const float low = static_cast<float>(static_cast<int32_t>(w & 0xffffu)) + 0.5f;
  return (high + low) * 0x1p-32f;
}
FACULA_MATH double open_unit(uint64_t v) { return unit(v, 53) + 0x1p-54; }

// Logarithm, sine and cosine from additions and products alone. Coefficients: Cephes Mathematical
// Library (Moshier). x = 2^e m with m in [sqrt(1/2), sqrt(2)).
FACULA_MATH float log_of(float x) {
  const uint32_t shifted = __builtin_bit_cast(uint32_t, x) - 0x3f3504f3u;
  const int32_t e = static_cast<int32_t>(shifted) >> 23;
  const float m = __builtin_bit_cast(float, (shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float z = m * m, f = static_cast<float>(e);
  float y = m * z * p;
  y = y - 2.12194440e-4f * f;
  y = y - 0.5f * z;
  return (m + y) + 0.693359375f * f;
}
FACULA_MATH double log_of(double x) {
  const uint64_t bits = __builtin_bit_cast(uint64_t, x);
  const uint32_t top = static_cast<uint32_t>(bits >> 32) - 0x3fe6a09eu;
  const int32_t e = static_cast<int32_t>(top) >> 20;
  const uint64_t m_bits = (static_cast<uint64_t>((top & 0x000fffffu) + 0x3fe6a09eu) << 32) | (bits & 0xffffffffu);
  const double m = __builtin_bit_cast(double, m_bits) - 1.0;
  double p = 1.01875663804580931796e-4;
  p = p * m + 4.97494994976747001425e-1;
  p = p * m + 4.70579119878881725854e0;
  p = p * m + 1.44989225341610930846e1;
  p = p * m + 1.79368678507819816313e1;
  p = p * m + 7.70838733755885391666e0;
  double q = m + 1.12873587189167450590e1;
  q = q * m + 4.52279145837532221105e1;
  q = q * m + 8.29875266912776603211e1;
  q = q * m + 7.11544750618563894466e1;
  q = q * m + 2.31251620126765340583e1;
  const double z = m * m, f = static_cast<double>(e);
  double y = m * (z * p / q);
  y = y - f * 2.121944400546905827679e-4;
  y = y - 0.5 * z;
  return (m + y) + f * 0.693359375;
}

// Sine and cosine of an angle that is given in quarters of a turn and a rest in [-1/8, 1/8), whose sine and
// cosine are s and c; times r.
template <typename F>
FACULA_MATH void rotate(F s, F c, uint32_t quarter, F r, F& a, F& b) {
  const F sine = (quarter & 1) != 0 ? c : s, cosine = (quarter & 1) != 0 ? s : c;
  a = cosine * (((quarter + 1) & 2) != 0 ? -r : r);
  b = sine * ((quarter & 2) != 0 ? -r : r);
}
// Two standard normal numbers, by Box and Muller.
FACULA_MATH void normal_pair(uint32_t w, uint32_t turn, float& a, float& b) {
  const float r = std::sqrt(-2.0f * log_of(open_unit(w)));
  const uint32_t quarter = (turn + 0x20000000u) >> 30;
  const float t = static_cast<float>(static_cast<int32_t>(turn - (quarter << 30))) * 1.4629180792671596e-9f;
  const float z = t * t;
  float s = -1.9515295891e-4f;
  s = s * z + 8.3321608736e-3f;
  s = s * z - 1.6666654611e-1f;
  s = s * z * t + t;
  float c = 2.443315711809948e-5f;
  c = c * z - 1.388731625493765e-3f;
  c = c * z + 4.166664568298827e-2f;
  c = c * z * z - 0.5f * z + 1.0f;
  rotate(s, c, quarter, r, a, b);
}
FACULA_MATH void normal_pair(uint64_t w, uint64_t turn, double& a, double& b) {
  const double r = std::sqrt(-2.0 * log_of(open_unit(w)));
  const uint32_t quarter = (static_cast<uint32_t>(turn >> 32) + 0x20000000u) >> 30;
  const uint32_t top = static_cast<uint32_t>(turn >> 32) - (quarter << 30);
  const double rest = static_cast<double>(static_cast<int32_t>(top)) * 0x1p-32 +
                      static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(turn) >> 11)) * 0x1p-53;
  const double t = rest * 6.283185307179586477;
  const double z = t * t;
  double s = 1.58962301576546568060e-10;
  s = s * z - 2.50507477628578072866e-8;
  s = s * z + 2.75573136213857245213e-6;
  s = s * z - 1.98412698295895385996e-4;
  s = s * z + 8.33333333332211858878e-3;
  s = s * z - 1.66666666666666307295e-1;
  s = s * z * t + t;
  double c = -1.13585365213876817300e-11;
  c = c * z + 2.08757008419747316778e-9;
  c = c * z - 2.75573141792967388112e-7;
  c = c * z + 2.48015872888517045348e-5;
  c = c * z - 1.38888888888730564116e-3;
  c = c * z + 4.16666666666665929218e-2;
  c = c * z * z - 0.5 * z + 1.0;
  rotate(s, c, quarter, r, a, b);
}
FACULA_MATH float exponential(uint32_t w) {
  const float y = -log_of(open_unit(w));
  return y > 0x1p-126f ? y : 0x1p-33f;  // u rounds to 1 at times
}
FACULA_MATH double exponential(uint64_t v) {
  const double y = -log_of(open_unit(v));
  return y > 0x1p-1022 ? y : 0x1p-54;
}

// Of an infinite deviation 0 draws the mean.
template <typename F>
FACULA_MATH F scaled_normal(F x, F std, F mean) {
  return x == 0 ? mean : x * std + mean;
}
// Rounding may leave what is drawn from.
template <typename F>
FACULA_MATH F limited(F x, F least, F most) {
  x = x < least ? least : x;
  return x > most ? most : x;
}

}  // namespace FACULA_ISA

}  // namespace facula::draws
