// exp, log and their kin in single precision. Vector libraries call a scalar function for an element
// that is infinite, NaN, huge, negative or denormal; here such elements are moved into the ordinary range
// before the call and their results put in after, so that a few of them slow nothing down. Included by
// facula/math.h.
#pragma once

namespace facula::math {

inline namespace FACULA_ISA {

namespace detail {

FACULA_MATH int32_t to_bits(float x) { return __builtin_bit_cast(int32_t, x); }
FACULA_MATH float from_bits(int32_t x) { return __builtin_bit_cast(float, x); }
// Conditions are masks of integers: seeing a plain choice, the compiler would call f for the number that was
// to be kept from it.
FACULA_MATH int32_t mask(bool condition) { return -static_cast<int32_t>(condition); }
// Below 2^-63, where f(x) - f(0) is linear: a product with a denormal number takes the processor a
// hundred times longer.
FACULA_MATH int32_t tiny(float x) { return mask((to_bits(x) & 0x7fffffff) < 0x20000000); }
FACULA_MATH float choose(int32_t mask, float a, float b) {
  return from_bits((to_bits(a) & mask) | (to_bits(b) & ~mask));
}
FACULA_MATH float clamp(float x, float low, float high) {
  return choose(mask(x < low), low, choose(mask(x > high), high, x));
}

FACULA_MATH float multiply_add(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

inline constexpr float kExpEnd = 88.7228394f;  // above it exp overflows

// -x sqrt(1/2) - t where t is the product as rounded.
FACULA_MATH float erfc_argument_rest(float x, float t) {
#ifdef __FMA__
  return __builtin_fmaf(x, -1.21016171e-8f, __builtin_fmaf(x, -0.707106769f, -t));
#else
  const float head = from_bits(to_bits(x) & ~0xfff);
  return ((head * -0.70703125f - t) + (x - head) * -0.70703125f) + x * -7.55311868e-05f;
#endif
}

// Integers by way of floating point, which has vectors of quotients. They are exact: a quotient that is no
// integer is further from one than it is rounded by.
template <Int T>
FACULA_MATH T quotient(T a, T b) {
  if constexpr (sizeof(T) <= 2) {
    return static_cast<T>(static_cast<int32_t>(static_cast<float>(a) / static_cast<float>(b)));
  } else if constexpr (sizeof(T) == 4) {
    return static_cast<T>(static_cast<double>(a) / static_cast<double>(b));
  } else {
    return static_cast<T>(a / b);
  }
}

// x, or 1 where its logarithm is no ordinary number.
FACULA_MATH float positive(float x) { return choose(mask(x > 0.0f) & mask(x < infinity<float>), x, 1.0f); }
// The logarithm of x, given that of a positive finite x.
FACULA_MATH float log_or(float x, float value) {
  value = x < infinity<float> ? value : x;  // infinity, NaN
  value = x < 0.0f ? nan<float> : value;
  return x == 0.0f ? -infinity<float> : value;
}

}  // namespace detail

// A polynomial after Cephes, times 2^k; not a call, around which all registers are saved. At most 1.2 ulp.
FACULA_MATH float exp(float x) {
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = detail::multiply_add(x, 1.44269504f, 12582912.0f);  // k in the low bits
  const float whole = shifted - 12582912.0f;
  const float r = detail::multiply_add(whole, 2.12194440e-4f, detail::multiply_add(whole, -0.693359375f, x));
  float p = 1.9875691500e-4f;
  p = detail::multiply_add(p, r, 1.3981999507e-3f);
  p = detail::multiply_add(p, r, 8.3334519073e-3f);
  p = detail::multiply_add(p, r, 4.1665795894e-2f);
  p = detail::multiply_add(p, r, 1.6666665459e-1f);
  p = detail::multiply_add(p, r, 5.0000001201e-1f);
  p = detail::multiply_add(p, r * r, r) + 1.0f;
  // Two factors, so that the smallest results are denormal rather than zero.
  const int32_t k = detail::to_bits(shifted) - 0x4B400000, half = k >> 1;
  return p * detail::from_bits((half + 127) << 23) * detail::from_bits((k - half + 127) << 23);
}
FACULA_MATH float exp2(float x) {
  const int32_t inside = detail::mask(x >= -150.0f) & detail::mask(x < 128.0f);
  const float value = ::exp2f(detail::choose(inside & ~detail::tiny(x), x, 0.0f));
  const float outside = x > 0.0f ? infinity<float> : x < 0.0f ? 0.0f : x;
  return detail::choose(inside, value, outside);
}
FACULA_MATH float expm1(float x) {
  const int32_t same = detail::tiny(x) | detail::mask(x != x);
  const float value = ::expm1f(detail::choose(same, 0.0f, detail::clamp(x, -20.0f, detail::kExpEnd)));
  return detail::choose(same, x, x > detail::kExpEnd ? infinity<float> : value);
}
FACULA_MATH float tanh(float x) {
  const int32_t same = detail::tiny(x) | detail::mask(x != x);
  const float value = ::tanhf(detail::choose(same, 0.0f, detail::clamp(x, -20.0f, 20.0f)));
  return detail::choose(same, x, value);
}
FACULA_MATH float log(float x) { return detail::log_or(x, ::logf(detail::positive(x))); }
FACULA_MATH float log2(float x) { return detail::log_or(x, ::log2f(detail::positive(x))); }
FACULA_MATH float log10(float x) { return detail::log_or(x, ::log10f(detail::positive(x))); }
FACULA_MATH float log1p(float x) {
  const int32_t same = detail::tiny(x) | detail::mask(x == infinity<float>);
  const float value = ::log1pf(detail::choose(same | detail::mask(x <= -1.0f) | detail::mask(x != x), 0.0f, x));
  const float whole = detail::choose(detail::mask(x == -1.0f), -infinity<float>, x < -1.0f ? nan<float> : value);
  return detail::choose(same | detail::mask(x != x), x, whole);
}

}  // namespace FACULA_ISA
}  // namespace facula::math
