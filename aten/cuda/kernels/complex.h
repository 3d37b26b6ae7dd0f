// std::complex for NVRTC, with the functions that formulas use. The inverse functions are Kahan's, in
// double for float: "Branch cuts for complex elementary functions" (1987).
#pragma once

#include "facula/cuda/std.h"

namespace std {

template <typename R>
struct alignas(2 * sizeof(R)) complex {
  using value_type = R;
  R re, im;
  complex() = default;  // trivial, for shared memory
  __device__ constexpr complex(R real, R imag = R(0)) : re(real), im(imag) {}
  template <typename S>
  __device__ constexpr explicit complex(const complex<S>& z) : re(static_cast<R>(z.re)), im(static_cast<R>(z.im)) {}
  __device__ constexpr R real() const { return re; }
  __device__ constexpr R imag() const { return im; }
};

template <typename T>
struct same_type {
  using type = T;
};
template <typename T>
using no_deduction = typename same_type<T>::type;

#define FACULA_COMPLEX_2(op, value)                                     \
  template <typename R>                                                 \
  FACULA_MATH complex<R> operator op(complex<R> a, complex<R> b) {      \
    return value;                                                       \
  }                                                                     \
  template <typename R>                                                 \
  FACULA_MATH complex<R> operator op(complex<R> a, no_deduction<R> b) { \
    return a op complex<R>(b);                                          \
  }                                                                     \
  template <typename R>                                                 \
  FACULA_MATH complex<R> operator op(no_deduction<R> a, complex<R> b) { \
    return complex<R>(a) op b;                                          \
  }
FACULA_COMPLEX_2(+, complex<R>(a.re + b.re, a.im + b.im))
FACULA_COMPLEX_2(-, complex<R>(a.re - b.re, a.im - b.im))
#undef FACULA_COMPLEX_2
template <typename R>
FACULA_MATH complex<R> operator*(complex<R> a, complex<R> b) {
  return complex<R>(a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re);
}
template <typename R>
FACULA_MATH complex<R> operator*(complex<R> a, no_deduction<R> b) {
  return complex<R>(a.re * b, a.im * b);
}
template <typename R>
FACULA_MATH complex<R> operator*(no_deduction<R> a, complex<R> b) {
  return complex<R>(a * b.re, a * b.im);
}
template <typename R>
FACULA_MATH complex<R> operator/(complex<R> a, no_deduction<R> b) {
  return complex<R>(a.re / b, a.im / b);
}
template <typename R>
FACULA_MATH complex<R> operator-(complex<R> a) {
  return complex<R>(-a.re, -a.im);
}
template <typename R>
FACULA_MATH bool operator==(complex<R> a, complex<R> b) {
  return (a.re == b.re) & (a.im == b.im);
}
template <typename R>
FACULA_MATH bool operator!=(complex<R> a, complex<R> b) {
  return !(a == b);
}

template <typename R>
FACULA_MATH complex<R> times_i(complex<R> z) {
  return complex<R>(-z.im, z.re);
}
template <typename R>
FACULA_MATH complex<R> over_i(complex<R> z) {
  return complex<R>(z.im, -z.re);
}

template <typename R>
FACULA_MATH bool is_finite(R x) {
  return std::fabs(x) <= numeric_limits<R>::max();
}

template <typename R>
FACULA_MATH complex<R> exp(complex<R> z) {
  R y = z.im;
  if (y == 0) return complex<R>(std::exp(z.re), y);
  if (std::fabs(z.re) == numeric_limits<R>::infinity() && !is_finite(y)) {
    if (z.re > 0) return complex<R>(z.re, numeric_limits<R>::quiet_NaN());
    y = 1;
  }
  const R size = std::exp(z.re);
  return complex<R>(size * std::cos(y), size * std::sin(y));
}
template <typename R>
FACULA_MATH complex<R> log(complex<R> z) {
  const double x = z.re, y = z.im;
  // near the unit circle |z|^2 - 1 without cancellation
  const double size = ::hypot(x, y);
  const double real = size > 0.5 && size < 2 ? ::log1p((::fabs(x) - 1) * (::fabs(x) + 1) + y * y) / 2 : ::log(size);
  return complex<R>(static_cast<R>(real), static_cast<R>(::atan2(y, x)));
}
template <typename R>
FACULA_MATH complex<R> log10(complex<R> z) {
  return log(z) * R(0.43429448190325182765);
}

FACULA_MATH complex<double> root(double x, double y) {
  if (::fabs(y) == numeric_limits<double>::infinity()) return complex<double>(::fabs(y), y);
  if (x == 0 && y == 0) return complex<double>(0, y);
  const double t = ::sqrt(0.5 * ::fabs(x) + 0.5 * ::hypot(x, y));
  if (t == numeric_limits<double>::infinity()) {
    return x > 0 ? complex<double>(t, ::copysign(y != y ? y : 0.0, y))
                 : complex<double>(y != y ? y : 0.0, ::copysign(t, y));
  }
  return x >= 0 ? complex<double>(t, y / (2 * t)) : complex<double>(::fabs(y) / (2 * t), ::copysign(t, y));
}
template <typename R>
FACULA_MATH complex<R> sqrt(complex<R> z) {
  return complex<R>(root(z.re, z.im));
}

template <typename R>
FACULA_MATH complex<R> sinh(complex<R> z) {
  const double x = z.re, y = z.im;
  const double im = y == 0 ? y : ::cosh(x) * ::sin(y);
  return complex<R>(static_cast<R>(x == 0 ? x : ::sinh(x) * ::cos(y)), static_cast<R>(im));
}
template <typename R>
FACULA_MATH complex<R> cosh(complex<R> z) {
  const double x = z.re, y = z.im;
  return complex<R>(static_cast<R>(::cosh(x) * ::cos(y)),
                    static_cast<R>(x == 0 || y == 0 ? x * y : ::sinh(x) * ::sin(y)));
}
template <typename R>
FACULA_MATH complex<R> tanh(complex<R> z) {
  const double x = z.re, y = z.im;
  if (::fabs(x) > 20) {
    return complex<R>(static_cast<R>(::copysign(1.0, x)),
                      static_cast<R>(4 * ::sin(y) * ::cos(y) * ::exp(-2 * ::fabs(x))));
  }
  const double t = ::tanh(x), s = 1 / ::cosh(x), u = ::tan(y), d = 1 + t * t * u * u;
  return complex<R>(static_cast<R>(t * (1 + u * u) / d), static_cast<R>(u / d * s * s));
}
template <typename R>
FACULA_MATH complex<R> asinh(complex<R> z) {
  const complex<double> a = root(1 + double(z.im), -double(z.re)), b = root(1 - double(z.im), z.re);
  return complex<R>(static_cast<R>(::asinh(a.re * b.im - b.re * a.im)),
                    static_cast<R>(::atan2(double(z.im), a.re * b.re - a.im * b.im)));
}
template <typename R>
FACULA_MATH complex<R> acos(complex<R> z) {
  const complex<double> a = root(1 - double(z.re), -double(z.im)), b = root(1 + double(z.re), z.im);
  return complex<R>(static_cast<R>(2 * ::atan2(a.re, b.re)), static_cast<R>(::asinh(b.re * a.im - b.im * a.re)));
}
template <typename R>
FACULA_MATH complex<R> acosh(complex<R> z) {
  const complex<double> a = root(double(z.re) - 1, z.im), b = root(double(z.re) + 1, z.im);
  return complex<R>(static_cast<R>(::asinh(a.re * b.re + a.im * b.im)), static_cast<R>(2 * ::atan2(a.im, b.re)));
}
template <typename R>
FACULA_MATH complex<R> atanh(complex<R> z) {
  const bool flip = signbit(z.re);
  const double x = flip ? -double(z.re) : double(z.re), y = flip ? -double(z.im) : double(z.im);
  const double re = ::log1p(4 * x / ((1 - x) * (1 - x) + y * y)) / 4;
  const double im = -::atan2(-2 * y, (1 - x) * (1 + x) - y * y) / 2;
  return complex<R>(static_cast<R>(flip ? -re : re), static_cast<R>(flip ? -im : im));
}
template <typename R>
FACULA_MATH complex<R> sin(complex<R> z) {
  return over_i(sinh(times_i(z)));
}
template <typename R>
FACULA_MATH complex<R> cos(complex<R> z) {
  return cosh(times_i(z));
}
template <typename R>
FACULA_MATH complex<R> tan(complex<R> z) {
  return over_i(tanh(times_i(z)));
}
template <typename R>
FACULA_MATH complex<R> asin(complex<R> z) {
  return over_i(asinh(times_i(z)));
}
template <typename R>
FACULA_MATH complex<R> atan(complex<R> z) {
  return over_i(atanh(times_i(z)));
}
template <typename R>
FACULA_MATH complex<R> pow(complex<R> z, complex<R> w) {
  const complex<double> p = complex<double>(w) * log(complex<double>(z));
  return complex<R>(exp(p));
}

}  // namespace std
