// What derivatives are made of, each computed without the cancellation of its textbook form; included by
// facula/math.h.
#pragma once

namespace facula::math {

inline namespace FACULA_ISA {

// exp(-scale * x^2), for a scale that is a power of two: what the square was rounded by counts x^2-fold.
template <Float T>
FACULA_MATH T gauss(T x, T scale) {
  const T square = x * x, rest = detail::product_rest(x, x, square);
  const T value = exp(-scale * square);
  return value - value * (square < T(1e30) ? scale * rest : T(0));
}

// c x^y, the derivatives of powers. Of small bases x^y may overflow where the product does not: a factor x of the
// power is left for a quotient. A power that vanishes does so beside an infinite factor: that is an exponent.
template <typename T>
FACULA_MATH T power_term(T c, T x, T y) {
  using R = real_t<T>;
  const R size = abs(x);
  if constexpr (is_complex_number<T>) {
    const bool tiny = size < R(sizeof(R) == 4 ? 1e-12 : 1e-100) && size > 0 && y.real() < R(-0.5);
    const T power = math::pow(x, tiny ? y + R(1) : y), term = mul(c, power);
    return c == T(0) ? T(0) : (tiny ? div(term, x) : term);
  } else {
    const bool tiny = size < R(sizeof(R) == 4 ? 1e-12 : 1e-100) && size > 0 && y < R(-0.5);
    const T power = math::pow(x, tiny ? y + T(1) : y), term = c * power / (tiny ? x : T(1));
    return c == T(0) || (power == T(0) && isinf(c)) ? T(0) : term;
  }
}

// The derivative of sigmoid, whose exponential and quotient it shares.
template <Float T>
FACULA_MATH T sigmoid_slope(T x) {
  const T part = exp(-abs(x)), whole = 1 / (1 + part);
  return part * whole * whole;
}
template <Complex T>
FACULA_MATH T sigmoid_slope(T z) {
  const T part = std::exp(z.real() < 0 ? z : -z), whole = real_t<T>(1) + part;
  return div(div(part, whole), whole);
}

// 1 / cosh(x)
template <Float T>
FACULA_MATH T sech(T x) {
  const T part = exp(-abs(x));
  return 2 * part / (1 + part * part);
}
template <Complex T>
FACULA_MATH T sech(T z) {
  const T part = std::exp(z.real() < 0 ? z : -z);
  return div(part + part, real_t<T>(1) + mul(part, part));
}

template <Float T>
FACULA_MATH T sec(T x) {
  return 1 / cos(x);
}
template <Complex T>
FACULA_MATH T sec(T z) {
  return sech(T(-z.imag(), z.real()));
}

// 1 - x^2 and its root: zero at 1 and -1.
template <Float T>
FACULA_MATH T one_minus_square(T x) {
  return (1 - x) * (1 + x);
}
template <Complex T>
FACULA_MATH T one_minus_square(T z) {
  return mul(real_t<T>(1) - z, real_t<T>(1) + z);
}
template <Float T>
FACULA_MATH T sqrt_one_minus_square(T x) {
  return sqrt((1 - x) * (1 + x));
}
template <Complex T>
FACULA_MATH T sqrt_one_minus_square(T z) {
  return mul(std::sqrt(real_t<T>(1) - z), std::sqrt(real_t<T>(1) + z));
}
// The derivatives of atan, asinh and acosh.
template <Float T>
FACULA_MATH T atan_slope(T x) {
  return 1 / (1 + x * x);
}
template <Complex T>
FACULA_MATH T atan_slope(T z) {
  return div(T(1), mul(T(1 - z.imag(), z.real()), T(1 + z.imag(), -z.real())));
}
template <Float T>
FACULA_MATH T asinh_slope(T x) {
  const T size = abs(x);
  return 1 / (size > T(sizeof(T) == 4 ? 1e5 : 1e9) ? size : sqrt(1 + x * x));  // where 1 is below x^2's last place
}
template <Complex T>
FACULA_MATH T asinh_slope(T z) {
  return div(T(1), mul(std::sqrt(T(1 - z.imag(), z.real())), std::sqrt(T(1 + z.imag(), -z.real()))));
}
template <Float T>
FACULA_MATH T acosh_slope(T x) {
  return 1 / (sqrt(x - 1) * sqrt(x + 1));
}
template <Complex T>
FACULA_MATH T acosh_slope(T z) {
  return div(T(1), mul(std::sqrt(z - real_t<T>(1)), std::sqrt(z + real_t<T>(1))));
}

// The derivative of hypot(x, y) by x; scaled where the hypotenuse leaves the range or is subnormal.
template <Float T>
FACULA_MATH T hypot_slope(T x, T y) {
  constexpr T most = std::numeric_limits<T>::max() / 4;
  constexpr T least = T(sizeof(T) == 4 ? 0x1p-103 : 0x1p-970);  // the smallest normal number by epsilon
  const T larger = fmax(abs(x), abs(y));
  const T by = larger > most ? T(0.25) : larger < least ? 1 / least : T(1);
  x *= by;
  y *= by;
  const T size = hypot(x, y), value = x / size;
  return size == 0 ? T(0) : (isinf(x) & isfinite(y)) ? copysign(T(1), x) : value;
}
// The derivative of atan2(y, x) by y, x / (x^2 + y^2).
template <Float T>
FACULA_MATH T atan2_slope(T y, T x) {
  const T less = T(0.25), size = hypot(x, y);
  const T value = isinf(size) ? hypot_slope(x, y) / hypot(less * x, less * y) * less : hypot_slope(x, y) / size;
  const bool far = (isinf(x) & !isnan(y)) | (isinf(y) & !isnan(x));
  return far ? T(0) : size == 0 ? T(0) : value;
}

// x - tanh(x): x^3 times a polynomial in x^2, interpolated at Chebyshev's points of [0, 1.6875].
FACULA_MATH double tanhshrink(double x) {
  const double square = x * x;
  const double p = detail::polynomial(
      square - 0.84375, 1.46732182692429692e-10, -4.8585242816740055e-10, 1.11254245676619263e-9,
      -3.68379617982108275e-9, 1.29040926953723706e-8, -4.27274007263049381e-8, 1.40926769642438041e-7,
      -4.66629828362813491e-7, 1.54533642999324503e-6, -5.11684242228456895e-6, 0.0000169425672628941833,
      -0.0000560994012018851251, 0.000185753628026816136, -0.000615058844541099742, 0.00203656465408608508,
      -0.00674364858931190626, 0.0223356730032879348, -0.0741112559808424877, 0.249464989065821132);
  return square < 1.6875 ? x * (square * p) : x - tanh(x);
}
FACULA_MATH float tanhshrink(float x) {
  const float square = x * x, t = square - 0.84375f;
  float p = 0.0000196803674109100438f;
  p = -0.000065164671177237191f + p * t;
  p = 0.000184245951842058529f + p * t;
  p = -0.000610066700881523197f + p * t;
  p = 0.00203686677376374588f + p * t;
  p = -0.00674464895321531572f + p * t;
  p = 0.0223356567931006099f + p * t;
  p = -0.0741112023064628748f + p * t;
  p = 0.249464989065821132f + p * t;
  return square < 1.6875f ? x * (square * p) : x - tanh(x);
}

template <Complex T>
FACULA_MATH T tanhshrink(T z) {
  return z - tanh(z);
}

// The slope of erfinv, sqrt(pi) / 2 exp(y^2) with y = erfinv(x); y is rounded, which erfc(y) beside 1 - |x| tells.
FACULA_MATH double erfinv_slope(double x) {
  const double size = abs(x), y = erfinv(size), square = y * y;
  const double power = exp(square), slope = power + power * detail::product_rest(y, y, square);
  const double value = 0.88622692545275801365 * slope * (size < 0.5 ? 1.0 : erfc(y) / (1 - size));
  return size == 1 ? infinity<double> : value;
}
FACULA_MATH float erfinv_slope(float x) { return static_cast<float>(erfinv_slope(static_cast<double>(x))); }

// The derivative of order n of sinc. Of sin(y) / y it is the power series for small y, and else, from order to
// order, (sin(y + n pi / 2) - n times the one before) / y.
namespace detail {
template <typename Z>
FACULA_MATH_LARGE Z sinc_slope(int n, Z x) {
  const Z y = x * pi<double>;
  double power = 1;
  for (int k = 0; k < n; ++k) power *= pi<double>;
  if (!(abs(y) >= n + 1)) {
    const int odd = n % 2;
    Z term = odd != 0 ? y : Z(1), sum = Z(0);
    if ((n + odd) / 2 % 2 != 0) term = -term;
    for (int m = odd; m < 200; m += 2) {
      const Z step = term / double(m + n + 1);
      sum = sum + step;
      if (abs(step) <= 1e-17 * abs(sum)) break;
      if constexpr (is_complex_number<Z>) {
        term = mul(mul(term, y), y) / (-(m + 1.0) * (m + 2.0));
      } else {
        term = term * y * y / (-(m + 1.0) * (m + 2.0));
      }
    }
    return power * sum;
  }
  const Z s = sinpi(x), c = cospi(x);
  const Z turned[] = {s, c, -s, -c};
  Z value = Z(0);
  for (int k = 0; k <= n; ++k) {
    const Z top = turned[k % 4] - double(k) * value;
    if constexpr (is_complex_number<Z>) {
      value = div(top, y);
    } else {
      value = top / y;
    }
  }
  return power * value;
}
}  // namespace detail
template <Float T>
FACULA_MATH_LARGE T sinc_slope(T n, T x) {
  return isinf(x) ? T(0) : static_cast<T>(detail::sinc_slope(static_cast<int>(n), static_cast<double>(x)));
}
template <Complex T>
FACULA_MATH_LARGE T sinc_slope(T n, T z) {
  return T(detail::sinc_slope(static_cast<int>(n.real()), std::complex<double>(z)));
}

// The modified Bessel function of the first kind of whole order n: by its power series, or for large x by recurrence
// from orders 0 and 1.
namespace detail {
FACULA_MATH_LARGE double bessel_i(double n, double x) {
  n = std::fabs(n);
  if (n == 0) return i0(x);
  if (n == 1) return i1(x);
  const double size = std::fabs(x);
  double value;
  if (size <= (n * n > 30 ? n * n : 30) && size < 600) {
    double term = 1;
    for (double k = 1; k <= n; ++k) term *= size / 2 / k;
    value = term;
    for (double k = 1; term > 1e-17 * value; ++k) {
      term *= size / 2 / k * (size / 2 / (k + n));
      value += term;
    }
  } else {
    double before = i0e(size);
    value = i1e(size);
    for (double k = 1; k < n; ++k) {
      const double next = before - 2 * k / size * value;
      before = value;
      value = next;
    }
    value = unscaled(size, value);
  }
  return x < 0 && std::fmod(n, 2) != 0 ? -value : value;
}

// The derivative of some order of exp(-x) I_n(x) at |x|: the mean of (c - 1)^order cos(n t) exp(x (c - 1)), c = cos(t),
// over the circle, by equal steps, which suffice for a function without ends; or its asymptotic series.
FACULA_MATH_LARGE double bessel_ie(int n, int order, double x) {
  const double size = std::fabs(x);
  if (order == 0 && n == 0) return i0e(size);
  if (order == 0 && n == 1) return i1e(size);
  double sum = 0;
  if (size < 30) {
    const int steps = 12 + n + order + static_cast<int>(size * 0.7);
    for (int j = 0; j <= steps; ++j) {
      const double t = pi<double> * j / steps, s = std::sin(t / 2), down = -2 * s * s;
      double term = std::exp(size * down) * (n == 0 ? 1.0 : n == 1 ? 1 + down : std::cos(n * t));
      for (int k = 0; k < order; ++k) term *= down;
      sum += j == 0 || j == steps ? term / 2 : term;
    }
    return sum / steps;
  }
  double coefficient = 1;
  for (int j = 0; j < 60; ++j) {
    double term = coefficient;
    for (int k = 0; k < order; ++k) term *= -(j + 0.5 + k) / size;
    sum += term;
    if (std::fabs(term) <= 1e-17 * std::fabs(sum)) break;
    coefficient *= ((2 * j + 1.0) * (2 * j + 1.0) - 4.0 * n * n) / (8 * (j + 1.0) * size);
  }
  return isinf(size) ? 0.0 : sum * 0.39894228040143267794 / std::sqrt(size);
}
}  // namespace detail
template <Float T>
FACULA_MATH_LARGE T bessel_i(T n, T x) {
  return static_cast<T>(detail::bessel_i(static_cast<double>(n), static_cast<double>(x)));
}
template <Float T>
FACULA_MATH_LARGE T bessel_ie(T n, T order, T x) {
  return static_cast<T>(detail::bessel_ie(static_cast<int>(n), static_cast<int>(order), static_cast<double>(x)));
}

}  // namespace FACULA_ISA
}  // namespace facula::math
