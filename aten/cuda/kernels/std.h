// What facula/math.h takes of the C++ library, for NVRTC, which brings none of it.
#pragma once

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
using size_t = unsigned long;

#define FACULA_ISA cuda
#define FACULA_MATH __device__ __forceinline__
#define FACULA_MATH_LARGE __device__ __noinline__ inline
#define FACULA_NOTE_ZERO_DIVISION() ::facula::report(::facula::kZeroDivision, 0, 0)
#define FACULA_NOTE_NEGATIVE_POWER() ::facula::report(::facula::kNegativePower, 0, 0)
#define FACULA_NOTE_OUTSIDE(low, high) ::facula::report(::facula::kOutside, low, high < 1e9 ? high : -1)

namespace facula {
// Errors of the data that only a kernel can see; the host reads them when it next waits.
enum ErrorCode : int {
  kNoError,
  kZeroDivision,
  kIndexOutOfRange,
  kBadProbability,
  kBadRate,
  kNegativePower,
  kOutside,
  kBadConcentration,
  kBadCount
};
struct ErrorReport {
  volatile int code;
  volatile int64_t value, limit;
};
extern "C" __device__ ErrorReport* facula_errors = nullptr;
__device__ __noinline__ inline void report(int code, int64_t value, int64_t limit) {
  if (facula_errors == nullptr || facula_errors->code != kNoError) return;
  facula_errors->value = value;
  facula_errors->limit = limit;
  __threadfence_system();
  facula_errors->code = code;
}
}  // namespace facula

#if FACULA_SHORT
// Results of 16 bits: what they do not show need not be computed. erfc is t exp(P(t) - x^2), t = 1 / (1 + |x| / 2),
// as in Press and others, "Numerical Recipes" (1992), 6.2, with a P of our own in powers of two, fitted for the
// least largest error (relative 1.1e-5); __expf loses a bit for each doubling of |x| past 1.
__device__ __forceinline__ float facula_short_erfc(float x) {
  const float z = ::fabsf(x);
  float t, power;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(::fmaf(0.5f, z, 1.0f)));
  float p = 0.320160358f;
  p = ::fmaf(p, t, -0.994783576f);
  p = ::fmaf(p, t, 0.653980786f);
  p = ::fmaf(p, t, 0.382418542f);
  p = ::fmaf(p, t, 1.46515208f);
  p = ::fmaf(p, t, -1.82693946f);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(::fmaf(z * -1.44269504f, z, p)));
  const float tail = t * power;
  return x >= 0 ? tail : 2.0f - tail;
}
#define erfcf facula_short_erfc
#define expf __expf
#endif

// The normal distribution function: of -|x| it is t Q(t) exp(-x^2 / 2), t = 1 / (1 + c |x|), with a polynomial Q fitted
// for the least largest relative error (1.6e-8; 3.4e-5 in the short form, which has Q's logarithm in the exponent).
__device__ __forceinline__ float facula_normal_cdf(float x) {
  constexpr float kHalfLog2E = 0.72134752f, kRest = 9.62981495e-9f;  // log2(e) / 2 in two parts
  float t, power;
#if FACULA_SHORT
  const float z = ::fabsf(x);
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(::fmaf(0.26f, z, 1.0f)));
  float p = -0.55230486f;
  p = ::fmaf(p, t, 1.06295466f);
  p = ::fmaf(p, t, 0.234913185f);
  p = ::fmaf(p, t, 1.53101242f);
  p = ::fmaf(p, t, -3.27661586f);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(::fmaf(-kHalfLog2E * x, x, p)));
  const float tail = t * power;
#else
  const float z = ::fabsf(x) > 16.0f ? 16.0f : ::fabsf(x);  // NaN stays
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(t) : "f"(::fmaf(0.21f, z, 1.0f)));
  float q = -0.0716562793f;
  q = ::fmaf(q, t, 0.283588409f);
  q = ::fmaf(q, t, -0.330253094f);
  q = ::fmaf(q, t, 0.349400699f);
  q = ::fmaf(q, t, -0.093924992f);
  q = ::fmaf(q, t, 0.12487264f);
  q = ::fmaf(q, t, 0.0691921934f);
  q = ::fmaf(q, t, 0.0850688517f);
  q = ::fmaf(q, t, 0.0837115794f);
  // x^2 log2(e) / 2 in two parts: what the first lost counts as often as the exponent is large.
  const float square = z * z, head = square * kHalfLog2E;
  const float rest = ::fmaf(square, kHalfLog2E, -head) + ::fmaf(::fmaf(z, z, -square), kHalfLog2E, square * kRest);
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(-head));
  const float first = t * q * power, tail = ::fmaf(first * rest, -0.693147181f, first);
#endif
  return x < 0 ? tail : 1.0f - tail;
}
#define FACULA_NORMAL_CDF facula_normal_cdf

namespace std {

template <bool B, typename T, typename F>
struct conditional {
  using type = T;
};
template <typename T, typename F>
struct conditional<false, T, F> {
  using type = F;
};
template <bool B, typename T, typename F>
using conditional_t = typename conditional<B, T, F>::type;

template <typename T, typename U>
inline constexpr bool is_same_v = false;
template <typename T>
inline constexpr bool is_same_v<T, T> = true;

template <typename T>
struct unsigned_of {};
#define FACULA_STD_INTEGER(type, unsigned_type) \
  template <>                                   \
  struct unsigned_of<type> {                    \
    using type_ = unsigned_type;                \
  };                                            \
  template <>                                   \
  struct unsigned_of<unsigned_type> {           \
    using type_ = unsigned_type;                \
  };
FACULA_STD_INTEGER(signed char, unsigned char)
FACULA_STD_INTEGER(short, unsigned short)
FACULA_STD_INTEGER(int, unsigned int)
FACULA_STD_INTEGER(long, unsigned long)
FACULA_STD_INTEGER(long long, unsigned long long)
#undef FACULA_STD_INTEGER
template <typename T>
using make_unsigned_t = typename unsigned_of<T>::type_;

template <typename T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <typename T>
inline constexpr bool is_integral_v = is_same_v<T, bool> || requires { typename unsigned_of<T>::type_; };
template <typename T>
inline constexpr bool is_arithmetic_v = is_integral_v<T> || is_floating_point_v<T>;
template <typename T>
inline constexpr bool is_signed_v = is_arithmetic_v<T> && T(-1) < T(0);
template <>
inline constexpr bool is_signed_v<bool> = false;

template <typename T>
struct numeric_limits {
  static constexpr T max() {
    if constexpr (is_same_v<T, bool>) {
      return true;
    } else if constexpr (is_signed_v<T>) {
      return static_cast<T>(static_cast<make_unsigned_t<T>>(~make_unsigned_t<T>(0)) >> 1);
    } else {
      return static_cast<T>(~T(0));
    }
  }
  static constexpr T min() {
    if constexpr (is_signed_v<T>) {
      return static_cast<T>(-max() - 1);
    } else {
      return T(0);
    }
  }
};
template <>
struct numeric_limits<float> {
  static constexpr float max() { return 3.40282346638528859812e+38f; }
  static constexpr float infinity() { return __builtin_bit_cast(float, 0x7f800000); }
  static constexpr float quiet_NaN() { return __builtin_bit_cast(float, 0x7fc00000); }
};
template <>
struct numeric_limits<double> {
  static constexpr double max() { return 1.79769313486231570815e+308; }
  static constexpr double infinity() { return __builtin_bit_cast(double, 0x7ff0000000000000); }
  static constexpr double quiet_NaN() { return __builtin_bit_cast(double, 0x7ff8000000000000); }
};

template <typename T>
FACULA_MATH T gcd(T a, T b) {
  while (b != 0) {
    const T r = a % b;
    a = b;
    b = r;
  }
  return a;
}

#define FACULA_STD_1(name)                                 \
  FACULA_MATH float name(float x) { return ::name##f(x); } \
  FACULA_MATH double name(double x) { return ::name(x); }
FACULA_STD_1(fabs)
FACULA_STD_1(exp)
FACULA_STD_1(log)
FACULA_STD_1(sqrt)
FACULA_STD_1(sin)
FACULA_STD_1(cos)
FACULA_STD_1(tan)
FACULA_STD_1(floor)
FACULA_STD_1(erf)
FACULA_STD_1(erfc)
FACULA_STD_1(tgamma)
#undef FACULA_STD_1
FACULA_MATH float fmod(float x, float y) { return ::fmodf(x, y); }
FACULA_MATH double fmod(double x, double y) { return ::fmod(x, y); }
FACULA_MATH float pow(float x, float y) { return ::powf(x, y); }
FACULA_MATH double pow(double x, double y) { return ::pow(x, y); }
FACULA_MATH bool signbit(float x) { return __float_as_int(x) < 0; }
FACULA_MATH bool signbit(double x) { return __double_as_longlong(x) < 0; }

}  // namespace std

__device__ __forceinline__ float lgammaf_r(float x, int*) { return ::lgammaf(x); }
__device__ __forceinline__ double lgamma_r(double x, int*) { return ::lgamma(x); }
#define __builtin_floorf ::floorf
#define __builtin_floor ::floor
#define __builtin_ceilf ::ceilf
#define __builtin_ceil ::ceil
#define __builtin_truncf ::truncf
#define __builtin_trunc ::trunc
#define __builtin_rintf ::rintf
#define __builtin_rint ::rint
