// The scalar vocabulary of formulas: the functions that `math:` records of ops.yaml name, for facula's
// own loops and for the kernels of devices in C++ and its kin.
//
// Each is a branch-free inline function where it can be, so that loops over it vectorise. The
// functions live in a namespace of the instruction set they are compiled for: a linker must never
// merge code for a new processor into what an old one runs. A device may define FACULA_MATH, which
// stands before each function, FACULA_MATH_LARGE, before those with loops, and
// FACULA_NOTE_ZERO_DIVISION, for integer divisions by zero, FACULA_NOTE_NEGATIVE_POWER, for integers to
// negative integer powers, and FACULA_NOTE_OUTSIDE, for what is not within the limits that a formula states.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <limits>
#include <numeric>
#include <type_traits>

#ifndef FACULA_ISA
#define FACULA_ISA baseline
#endif
#ifndef FACULA_MATH
#define FACULA_MATH [[gnu::always_inline]] inline
#endif
#ifndef FACULA_MATH_LARGE
#define FACULA_MATH_LARGE inline
#endif
#ifndef FACULA_NOTE_ZERO_DIVISION
#define FACULA_NOTE_ZERO_DIVISION() (void)0
#endif
#ifndef FACULA_NOTE_NEGATIVE_POWER
#define FACULA_NOTE_NEGATIVE_POWER() (void)0
#endif
#ifndef FACULA_NOTE_OUTSIDE
#define FACULA_NOTE_OUTSIDE(low, high) (void)0
#endif

namespace facula::math {

inline namespace FACULA_ISA {

template <typename T>
inline constexpr bool is_complex_number = false;
template <typename T>
inline constexpr bool is_complex_number<std::complex<T>> = true;

template <typename T>
struct real_of {
  using type = T;
};
template <typename T>
struct real_of<std::complex<T>> {
  using type = T;
};
template <typename T>
using real_t = typename real_of<T>::type;

template <typename T>
concept Int = std::is_integral_v<T>;  // bool included
template <typename T>
concept Float = std::is_floating_point_v<T>;
template <typename T>
concept Real = std::is_arithmetic_v<T>;
template <typename T>
concept Complex = is_complex_number<T>;

template <typename R>
inline constexpr R infinity = std::numeric_limits<R>::infinity();
template <typename R>
inline constexpr R nan = std::numeric_limits<R>::quiet_NaN();
template <typename R>
inline constexpr R pi = R(3.14159265358979323846);

// ---- choice and truth ----

template <typename T>
FACULA_MATH T where(bool condition, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return (condition & a) | (!condition & b);  // no branch
  } else {
    return condition ? a : b;
  }
}
template <typename T>
FACULA_MATH bool truth(T x) {
  return x != T(0);
}
// A product that is zero whenever `x` is, also for an infinite or undefined `y`.
template <typename T>
FACULA_MATH T mul0(T x, T y);

// ---- classification ----

template <Float T>
FACULA_MATH bool isnan(T x) {
  return x != x;
}
template <Float T>
FACULA_MATH bool isinf(T x) {
  return std::fabs(x) == infinity<T>;
}
template <Float T>
FACULA_MATH bool isfinite(T x) {
  return std::fabs(x) < infinity<T>;
}
template <Float T>
FACULA_MATH bool isposinf(T x) {
  return x == infinity<T>;
}
template <Float T>
FACULA_MATH bool isneginf(T x) {
  return x == -infinity<T>;
}
template <Float T>
FACULA_MATH bool signbit(T x) {
  return std::signbit(x);
}
template <Int T>
FACULA_MATH bool isnan(T) {
  return false;
}
template <Int T>
FACULA_MATH bool isinf(T) {
  return false;
}
template <Int T>
FACULA_MATH bool isfinite(T) {
  return true;
}
template <Int T>
FACULA_MATH bool isposinf(T) {
  return false;
}
template <Int T>
FACULA_MATH bool isneginf(T) {
  return false;
}
template <Int T>
FACULA_MATH bool signbit(T x) {
  return x < T(0);
}
template <Complex T>
FACULA_MATH bool isnan(T z) {
  return isnan(z.real()) | isnan(z.imag());
}
template <Complex T>
FACULA_MATH bool isinf(T z) {
  return isinf(z.real()) | isinf(z.imag());
}
template <Complex T>
FACULA_MATH bool isfinite(T z) {
  return isfinite(z.real()) & isfinite(z.imag());
}

// ---- limits: `x` itself; what is not within them, NaN too, is noted ----

template <Float T>
FACULA_MATH T within(T x, T low, T high, T& outside) {
  outside = ((x >= low) & (x <= high)) ? outside : T(1);
  return x;
}
template <Float T>
FACULA_MATH T within(T x, T low, T high) {
  if (!((x >= low) & (x <= high))) [[unlikely]]
    FACULA_NOTE_OUTSIDE(low, high);
  return x;
}

// ---- functions of the C library ----

#define FACULA_MATH_1(name) \
  FACULA_MATH double name(double x) { return ::name(x); }
#define FACULA_MATH_ELEMENTARY_FUNCTIONS(X) X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(tanh)
FACULA_MATH_ELEMENTARY_FUNCTIONS(FACULA_MATH_1)
#undef FACULA_MATH_1
#ifndef FACULA_MATH_ELEMENTARY  // a header with these in single precision, where there are better ones
#define FACULA_MATH_1(name) \
  FACULA_MATH float name(float x) { return ::name##f(x); }
FACULA_MATH_ELEMENTARY_FUNCTIONS(FACULA_MATH_1)
#undef FACULA_MATH_1
#endif
#undef FACULA_MATH_ELEMENTARY_FUNCTIONS

#define FACULA_MATH_1(name)                                \
  FACULA_MATH float name(float x) { return ::name##f(x); } \
  FACULA_MATH double name(double x) { return ::name(x); }
#define FACULA_MATH_2(name)                                            \
  FACULA_MATH float name(float x, float y) { return ::name##f(x, y); } \
  FACULA_MATH double name(double x, double y) { return ::name(x, y); }
FACULA_MATH_1(sqrt)
FACULA_MATH_1(sin)
FACULA_MATH_1(cos)
FACULA_MATH_1(tan)
FACULA_MATH_1(asin)
FACULA_MATH_1(acos)
FACULA_MATH_1(atan)
FACULA_MATH_1(sinh)
FACULA_MATH_1(cosh)
FACULA_MATH_1(asinh)
FACULA_MATH_1(acosh)
FACULA_MATH_1(atanh)
FACULA_MATH_1(erf)
FACULA_MATH_1(erfc)
FACULA_MATH_2(pow)
FACULA_MATH_2(atan2)
FACULA_MATH_2(hypot)
FACULA_MATH_2(fmod)
FACULA_MATH_2(copysign)
FACULA_MATH_2(nextafter)
#undef FACULA_MATH_1
#undef FACULA_MATH_2

}  // namespace FACULA_ISA
}  // namespace facula::math

#ifdef FACULA_MATH_ELEMENTARY
#include FACULA_MATH_ELEMENTARY
#endif

namespace facula::math {
inline namespace FACULA_ISA {

// ---- rounding: half to even, as IEEE 754 and Python do ----

#define FACULA_ROUNDING(name, function)                                  \
  FACULA_MATH float name(float x) { return __builtin_##function##f(x); } \
  FACULA_MATH double name(double x) { return __builtin_##function(x); }  \
  template <Int T>                                                       \
  FACULA_MATH T name(T x) {                                              \
    return x;                                                            \
  }
FACULA_ROUNDING(floor, floor)
FACULA_ROUNDING(ceil, ceil)
FACULA_ROUNDING(trunc, trunc)
FACULA_ROUNDING(round, rint)
#undef FACULA_ROUNDING

template <Float T>
FACULA_MATH T frac(T x) {
  return x - trunc(x);
}

// ---- sign and size ----

template <Float T>
FACULA_MATH T abs(T x) {
  return std::fabs(x);
}
template <Int T>
FACULA_MATH T abs(T x) {
  return x < T(0) ? T(-x) : x;
}
template <Complex T>
FACULA_MATH real_t<T> abs(T z) {
  return hypot(z.real(), z.imag());
}
// Zero for NaN, as torch has it.
template <Real T>
FACULA_MATH T sign(T x) {
  return T(T(x > T(0)) - T(x < T(0)));
}
template <Real T>
FACULA_MATH T sgn(T x) {
  return sign(x);
}
template <Complex T>
FACULA_MATH T sgn(T z) {
  const auto size = abs(z);
  return size == 0 ? T(0) : T(z.real() / size, z.imag() / size);
}
template <Real T>
FACULA_MATH T angle(T x) {
  return isnan(x) ? x : (x < T(0) ? pi<T> : T(0));
}
template <Complex T>
FACULA_MATH real_t<T> angle(T z) {
  return atan2(z.imag(), z.real());
}
template <Real T>
FACULA_MATH T conj(T x) {
  return x;
}
template <Complex T>
FACULA_MATH T conj(T z) {
  return T(z.real(), -z.imag());
}
template <Real T>
FACULA_MATH T real(T x) {
  return x;
}
template <Complex T>
FACULA_MATH real_t<T> real(T z) {
  return z.real();
}
template <Real T>
FACULA_MATH T imag(T) {
  return T(0);
}
template <Complex T>
FACULA_MATH real_t<T> imag(T z) {
  return z.imag();
}

// ---- extrema: maximum and minimum give NaN for NaN, fmax and fmin the other number ----

template <Real T>
FACULA_MATH T maximum(T a, T b) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
  }
#endif
  return (isnan(a) | (a > b)) ? a : b;
}
template <Real T>
FACULA_MATH T minimum(T a, T b) {
#if __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, float>) {
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
  }
#endif
  return (isnan(a) | (a < b)) ? a : b;
}
template <Real T>
FACULA_MATH T fmax(T a, T b) {
  return (isnan(b) | (a > b)) ? a : b;
}
template <Real T>
FACULA_MATH T fmin(T a, T b) {
  return (isnan(b) | (a < b)) ? a : b;
}

// ---- division ----

template <Float T>
FACULA_MATH T remainder(T a, T b) {
  const T r = fmod(a, b);
  const T moved = ((b < 0) != (r < 0)) ? r + b : r;
  return r == 0 ? copysign(r, b) : moved;  // a zero has the sign of b too
}
// The floor of the exact quotient, as Python's `//`: a / b may round up to an integer.
template <Float T>
FACULA_MATH T floor_divide(T a, T b) {
  const T r = fmod(a, b);
  T quotient = (a - r) / b;
  quotient = ((r != 0) & ((b < 0) != (r < 0))) ? quotient - 1 : quotient;
  T whole = floor(quotient);
  whole = quotient - whole > T(0.5) ? whole + 1 : whole;
  whole = quotient != 0 ? whole : copysign(T(0), a / b);
  return b == 0 ? a / b : whole;
}
template <Float T>
FACULA_MATH T trunc_divide(T a, T b) {
  return trunc(a / b);
}
template <Int T>
FACULA_MATH T negate(T a) {
  return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
}
// Integers: without a branch, so that loops vectorise. Division by zero gives that by 1 and is added to
// `zeros`. The smallest number by -1 is itself.
namespace detail {
#ifndef FACULA_MATH_ELEMENTARY
template <Int T>
FACULA_MATH T quotient(T a, T b) {
  return static_cast<T>(a / b);
}
#endif
}  // namespace detail
template <Int T>
FACULA_MATH T trunc_divide(T a, T b, T& zeros) {
  zeros = static_cast<T>(zeros | T(b == T(0)));
  if constexpr (std::is_same_v<T, bool>) {
    return a;
  } else if constexpr (std::is_signed_v<T>) {
    const T quotient = detail::quotient(a, ((b == T(0)) | (b == T(-1))) ? T(1) : b);
    return b == T(-1) ? negate(a) : quotient;
  } else {
    return detail::quotient(a, b == T(0) ? T(1) : b);
  }
}
template <Int T>
FACULA_MATH T fmod(T a, T b, T& zeros) {
  if constexpr (std::is_same_v<T, bool>) {
    zeros = zeros | !b;
    return false;
  } else {
    using U = std::make_unsigned_t<T>;
    const T quotient = trunc_divide(a, b, zeros), by = b == T(0) ? T(1) : b;
    return static_cast<T>(static_cast<U>(a) - static_cast<U>(1u * static_cast<U>(quotient) * static_cast<U>(by)));
  }
}
template <Int T>
FACULA_MATH T remainder(T a, T b, T& zeros) {
  const T r = fmod(a, b, zeros);
  return ((r != T(0)) & ((r < T(0)) != (b < T(0)))) ? static_cast<T>(r + b) : r;
}
template <Int T>
FACULA_MATH T floor_divide(T a, T b, T& zeros) {
  const T quotient = trunc_divide(a, b, zeros), r = fmod(a, b, zeros);
  return ((r != T(0)) & ((r < T(0)) != (b < T(0)))) ? static_cast<T>(quotient - 1) : quotient;
}
#define FACULA_NOTING_DIVISION(name)   \
  template <Int T>                     \
  FACULA_MATH T name(T a, T b) {       \
    T zeros = T(0);                    \
    const T value = name(a, b, zeros); \
    if (zeros != T(0)) [[unlikely]]    \
      FACULA_NOTE_ZERO_DIVISION();     \
    return value;                      \
  }
FACULA_NOTING_DIVISION(trunc_divide)
FACULA_NOTING_DIVISION(fmod)
FACULA_NOTING_DIVISION(remainder)
FACULA_NOTING_DIVISION(floor_divide)
#undef FACULA_NOTING_DIVISION
template <Int T>
FACULA_MATH uint64_t magnitude(T x) {
  return x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
}
template <Int T>
FACULA_MATH T gcd(T a, T b) {
  return static_cast<T>(std::gcd(magnitude(a), magnitude(b)));
}
template <Int T>
FACULA_MATH T lcm(T a, T b) {
  const uint64_t x = magnitude(a), y = magnitude(b), divisor = std::gcd(x, y);
  return divisor == 0 ? T(0) : static_cast<T>(x / divisor * y);
}

// ---- integer powers and bits ----

// Integers have no negative powers, 1 and -1 too: a rule for dtypes, not for values.
template <Int T>
FACULA_MATH T pow(T base, T exponent) {
  if constexpr (std::is_same_v<T, bool>) {
    return base || !exponent;
  } else {
    if (exponent < T(0)) [[unlikely]] {
      FACULA_NOTE_NEGATIVE_POWER();
      return T(0);
    }
    std::make_unsigned_t<T> result = 1, factor = static_cast<std::make_unsigned_t<T>>(base);
    for (auto left = exponent; left != 0; left = static_cast<T>(left >> 1)) {
      if (left & 1) result = static_cast<std::make_unsigned_t<T>>(1u * result * factor);
      factor = static_cast<std::make_unsigned_t<T>>(1u * factor * factor);
    }
    return static_cast<T>(result);
  }
}
template <Int T>
FACULA_MATH T invert(T x) {
  if constexpr (std::is_same_v<T, bool>) {
    return !x;
  } else {
    return static_cast<T>(~x);
  }
}
// Shifts by a negative amount or past the width shift everything out.
template <Int T>
FACULA_MATH T shift_left(T x, T by) {
  constexpr int width = 8 * sizeof(T);
  const bool inside = (by >= T(0)) & (by < T(width));
  return inside ? static_cast<T>(static_cast<std::make_unsigned_t<T>>(x) << (inside ? by : T(0))) : T(0);
}
template <Int T>
FACULA_MATH T shift_right(T x, T by) {
  constexpr int width = 8 * sizeof(T);
  const bool inside = (by >= T(0)) & (by < T(width));
  if constexpr (std::is_signed_v<T>) {
    return static_cast<T>(x >> (inside ? by : T(width - 1)));
  } else {
    return inside ? static_cast<T>(x >> (inside ? by : T(0))) : T(0);
  }
}

namespace detail {
// x * y - p without rounding, for the product p as rounded, of numbers below 1e38.
FACULA_MATH double product_rest(double x, double y, double p) {
#ifdef __FMA__
  return __builtin_fma(x, y, -p);
#else
  const double a = static_cast<float>(x), b = static_cast<float>(y);
  return ((a * b - p) + a * (y - b) + (x - a) * b) + (x - a) * (y - b);
#endif
}
FACULA_MATH float product_rest(float x, float y, float p) {
#ifdef __FMA__
  return __builtin_fmaf(x, y, -p);
#else
  return static_cast<float>(static_cast<double>(x) * static_cast<double>(y) - static_cast<double>(p));
#endif
}
}  // namespace detail

// ---- complex arithmetic: the textbook product, and Smith's quotient against overflow ----

// A product that is rounded before anything is added to it: GCC's vectors of differences and sums in turn
// are fused with products in spite of -ffp-contract=off, and a single element is not.
template <typename R>
FACULA_MATH R product(R a, R b) {
#ifdef FACULA_ROUNDED
  return FACULA_ROUNDED(a * b);
#else
  return a * b;
#endif
}
template <typename R>
FACULA_MATH std::complex<R> mul(std::complex<R> a, std::complex<R> b) {
  return {product(a.real(), b.real()) - product(a.imag(), b.imag()),
          product(a.real(), b.imag()) + product(a.imag(), b.real())};
}
// A number times an element: a real number makes no NaN of the zero beside an infinity.
template <typename R>
FACULA_MATH std::complex<R> scale(std::complex<R> number, std::complex<R> z) {
  const std::complex<R> scaled(number.real() * z.real(), number.real() * z.imag());
  return number.imag() == 0 ? scaled : mul(number, z);
}
namespace detail {
template <typename R>
FACULA_MATH std::complex<R> quotient(R re, R im, R c, R d) {
  const bool wide = std::fabs(c) >= std::fabs(d);
  const R ratio = wide ? d / c : c / d;
  const R scale = 1 / (wide ? c + d * ratio : d + c * ratio);
  const R x = product(re, ratio), y = product(im, ratio);
  return wide ? std::complex<R>((re + y) * scale, (im - x) * scale)
              : std::complex<R>((x + im) * scale, (y - re) * scale);
}
}  // namespace detail
// Sides at the ends of the range are brought nearer to 1 first, by powers of two (Baudin & Smith 2012).
template <typename R>
FACULA_MATH std::complex<R> div(std::complex<R> a, std::complex<R> b) {
  const R c = b.real(), d = b.imag();
  constexpr bool single = sizeof(R) == 4;
  constexpr R high = std::numeric_limits<R>::max() / 16, low = R(single ? 0x1p-99 : 0x1p-966);
  const R top = fmax(std::fabs(a.real()), std::fabs(a.imag())), base = fmax(std::fabs(c), std::fabs(d));
  if ((top >= low) & (top <= high) & (base >= low) & (base <= high)) {
    return detail::quotient(a.real(), a.imag(), c, d);
  }
  if (base == 0) return {a.real() / std::fabs(c), a.imag() / std::fabs(c)};
  constexpr R up = R(single ? 0x1p46 : 0x1p104), down = 1 / up, less = R(0.0625);
  const R at = top > high ? less : (top < low ? up : R(1)), by = base > high ? less : (base < low ? up : R(1));
  const R back = (top > high ? R(16) : (top < low ? down : R(1))) * by;
  const std::complex<R> q = detail::quotient(a.real() * at, a.imag() * at, c * by, d * by);
  return {q.real() * back, q.imag() * back};
}
template <typename R>
FACULA_MATH std::complex<R> div(R a, std::complex<R> b) {
  return div(std::complex<R>(a), b);
}
template <typename T>
FACULA_MATH T mul0(T x, T y) {
  if constexpr (is_complex_number<T>) {
    return x == T(0) ? T(0) : mul(x, y);
  } else {
    return x == T(0) ? T(0) : T(x * y);
  }
}

#define FACULA_COMPLEX_1(name) \
  template <Complex T>         \
  FACULA_MATH T name(T z) {    \
    return std::name(z);       \
  }
FACULA_COMPLEX_1(exp)
FACULA_COMPLEX_1(log)
FACULA_COMPLEX_1(sqrt)
FACULA_COMPLEX_1(sin)
FACULA_COMPLEX_1(cos)
FACULA_COMPLEX_1(tan)
FACULA_COMPLEX_1(asin)
FACULA_COMPLEX_1(acos)
FACULA_COMPLEX_1(atan)
FACULA_COMPLEX_1(sinh)
FACULA_COMPLEX_1(cosh)
FACULA_COMPLEX_1(asinh)
FACULA_COMPLEX_1(acosh)
FACULA_COMPLEX_1(atanh)
FACULA_COMPLEX_1(log10)
#undef FACULA_COMPLEX_1

// At the ends the imaginary part is a zero of its own sign, as the Array API has it.
template <Complex T>
FACULA_MATH T tanh(T z) {
  using R = real_t<T>;
  if (isinf(z.real()) && isfinite(z.imag())) return T(copysign(R(1), z.real()), copysign(R(0), z.imag()));
  return std::tanh(z);
}
template <Complex T>
FACULA_MATH T log2(T z) {
  return std::log(z) * real_t<T>(1.44269504088896340736);
}
template <Complex T>
FACULA_MATH T exp2(T z) {
  using R = real_t<T>;
  const double y = z.imag(), angle = y * 0.69314718055994530942;
  // What the angle was rounded by, for it may be many turns.
  const double rest = detail::product_rest(y, 0.69314718055994530942, angle) + y * 2.3190468138462996e-17;
  const double turn = std::fabs(y) < 1e15 ? rest : 0.0, turned = 1 - turn * turn / 2;
  const double s = std::sin(angle), c = std::cos(angle);
  const R size = exp2(z.real());
  return y == 0 ? T(size, z.imag())
                : T(size * static_cast<R>(c * turned - s * turn), size * static_cast<R>(s * turned + c * turn));
}
// x * 2^y: no step leaves the range of numbers that the result keeps to, and whole powers are exact.
template <Float T>
FACULA_MATH T ldexp(T x, T y) {
  const T most = T(1 << 13);  // any number is 0 or infinite after as many doublings
  const T whole = minimum(maximum(isnan(y) ? T(0) : trunc(y), -most), most);
  const T rest = isinf(y) ? T(0) : y - trunc(y);
  const T factor = rest == 0 ? T(1) : exp2(rest);
  const int n = static_cast<int>(whole);
  if constexpr (sizeof(T) == 4) {
    return n > 0 ? ::ldexpf(x, n) * factor : ::ldexpf(x * factor, n);
  } else {
    return n > 0 ? ::ldexp(x, n) * factor : ::ldexp(x * factor, n);
  }
}
template <Complex T>
FACULA_MATH T ldexp(T z, T w) {
  return mul(z, pow(T(2), w));
}
// Accurate near 0: exp(x + iy) - 1 = expm1(x) cos y - 2 sin^2(y / 2) + i exp(x) sin y.
template <Complex T>
FACULA_MATH T expm1(T z) {
  using R = real_t<T>;
  const R x = z.real(), y = z.imag();
  if (y == 0) return T(expm1(x) + R(0), y);
  if (x == -infinity<R>) return T(R(-1), isfinite(y) ? copysign(R(0), sin(y)) : R(0));
  if (x == infinity<R> && !isfinite(y)) return T(x, nan<R>);
  const R s = sin(y / 2);
  return T(expm1(x) * cos(y) - 2 * s * s, exp(x) * sin(y));
}
// Accurate near 0: |1 + z|^2 - 1 = x (2 + x) + y^2.
template <Complex T>
FACULA_MATH T log1p(T z) {
  using R = real_t<T>;
  const R x = z.real(), y = z.imag();
  const R size = hypot(1 + x, y);
  const R log_size = size > R(0.5) && size < R(2) ? log1p(x * (2 + x) + y * y) / 2 : log(size);
  return T(log_size, atan2(y, 1 + x));
}
template <Complex T>
FACULA_MATH T pow(T z, T w) {
  if (w == T(0)) return T(1);
  if (z == T(0))
    return w.real() > 0 ? T(0) : (w.imag() == 0 ? T(infinity<real_t<T>>) : T(nan<real_t<T>>, nan<real_t<T>>));
  return std::pow(z, w);
}
template <Float T>
FACULA_MATH T reciprocal(T x) {
  return 1 / x;
}
template <Complex T>
FACULA_MATH T reciprocal(T z) {
  return div(T(1), z);
}
template <Float T>
FACULA_MATH T rsqrt(T x) {
  return 1 / sqrt(x);
}
template <Complex T>
FACULA_MATH T rsqrt(T z) {
  return div(T(1), std::sqrt(z));
}

}  // namespace FACULA_ISA
}  // namespace facula::math

#include "facula/math_special.h"
#include "facula/math_gamma.h"
#include "facula/math_slopes.h"
#include "facula/math_normal.h"
#include "facula/math_bessel.h"
#include "facula/math_polynomials.h"
#undef FACULA_BY_DOUBLE
