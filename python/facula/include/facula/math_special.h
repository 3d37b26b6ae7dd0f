// Special functions of the scalar vocabulary; included by facula/math.h.
#pragma once

namespace facula::math {

namespace detail {
// Chebyshev coefficients, highest first, of exp(-x) I0(x) and exp(-x) I1(x) / x in x / 2 - 2 over
// [0, 8], and of exp(-x) sqrt(x) I0(x) and exp(-x) sqrt(x) I1(x) in 32 / x - 2 beyond.
inline constexpr double kI0Small[] = {
    -4.41534164647933938e-18, 3.3307945188222381e-17,   -2.43127984654795469e-16, 1.71539128555513303e-15,
    -1.16853328779934517e-14, 7.67618549860493562e-14,  -4.85644678311192946e-13, 2.95505266312963983e-12,
    -1.72682629144155571e-11, 9.67580903537323691e-11,  -5.18979560163526291e-10, 2.65982372468238665e-9,
    -1.30002500998624804e-8,  6.04699502254191895e-8,   -2.67079385394061173e-7,  1.11738753912010372e-6,
    -4.41673835845875056e-6,  0.0000164484480707288971, -0.000057541950100821037, 0.000188502885095841656,
    -0.000576375574538582366, 0.0016394756169413358,    -0.00432430999505057594,  0.0105464603945949983,
    -0.0237374148058994688,   0.0493052842396707085,    -0.0949010970480476444,   0.171620901522208775,
    -0.304682672343198399,    0.676795274409476085,
};
inline constexpr double kI0Large[] = {
    1.19365089084598209e-18,  9.9214754121736986e-19,   -7.23318048787475395e-18, -4.83050448594418207e-18,
    4.46562142029676e-17,     3.46122286769746109e-17,  -2.82762398051658348e-16, -3.42548561967721913e-16,
    1.77256013305652638e-15,  3.81168066935262242e-15,  -9.55484669882830765e-15, -4.15056934728722209e-14,
    1.54008621752140983e-14,  3.8527783827421427e-13,   7.18012445138366623e-13,  -1.79417853150680612e-12,
    -1.32158118404477131e-11, -3.14991652796324136e-11, 1.18891471078464383e-11,  4.94060238822496959e-10,
    3.39623202570838635e-9,   2.26666899049817806e-8,   2.04891858946906374e-7,   2.89137052083475648e-6,
    0.0000688975834691682398, 0.00336911647825569409,   0.804490411014108832,
};
inline constexpr double kI1Small[] = {
    2.77791411276104637e-18, -2.11142121435816608e-17,  1.55363195773620047e-16,  -1.10559694773538631e-15,
    7.60068429473540693e-15, -5.04218550472791169e-14,  3.22379336594557471e-13,  -1.98397439776494372e-12,
    1.17361862988909016e-11, -6.66348972350202774e-11,  3.62559028155211704e-10,  -1.88724975172282929e-9,
    9.38153738649577178e-9,  -4.44505912879632808e-8,   2.00329475355213526e-7,   -8.56872026469545474e-7,
    3.47025130813767848e-6,  -0.0000132731636560394358, 0.0000478156510755005423, -0.000161760815825896746,
    0.000512285956168575773, -0.00151357245063125315,   0.00415642294431288816,   -0.0105640848946261982,
    0.0247264490306265168,   -0.0529459812080949914,    0.102643658689847095,     -0.176416518357834055,
    0.252587186443633655,
};
inline constexpr double kI1Large[] = {
    -1.24219327519489096e-18, -9.31417886732688338e-19, 7.51729631084210481e-18,  4.41434832307170795e-18,
    -4.65030536848935833e-17, -3.20952592199342396e-17, 2.96262899764595014e-16,  3.30820231092092828e-16,
    -1.88035477551078245e-15, -3.8144030724370078e-15,  1.04202769841288028e-14,  4.27244001671195135e-14,
    -2.10154184277266431e-14, -4.08355111109219732e-13, -7.19855177624590851e-13, 2.03562854414708951e-12,
    1.41258074366137813e-11,  3.25260358301548824e-11,  -1.89749581235054123e-11, -5.58974346219658381e-10,
    -3.83538038596423702e-9,  -2.63146884688951951e-8,  -2.51223623787020893e-7,  -3.88256480887769039e-6,
    -0.000110588938762623716, -0.00976109749136146841,  0.77857623501828012,
};
}  // namespace detail

inline namespace FACULA_ISA {

// By way of exp(-|x|), which does not overflow, so that the least results are right too.
template <Float T>
FACULA_MATH T sigmoid(T x) {
  const T part = exp(-abs(x)), whole = 1 / (1 + part);
  return x < 0 ? part * whole : whole;
}
template <Complex T>
FACULA_MATH T sigmoid(T z) {
  const bool left = z.real() < 0;
  const T part = std::exp(left ? z : -z);
  return div(left ? part : T(1), real_t<T>(1) + part);
}

// The distribution function of the standard normal distribution, erfc(t) / 2 with t = -x sqrt(1/2). Far below 0
// what t was rounded by counts 2 t^2-fold: the logarithm of erfc has the slope -(2 t + 0.2), or nearly.
namespace detail {
#ifndef FACULA_MATH_ELEMENTARY
FACULA_MATH float erfc_argument_rest(float x, float t) {
  return ::fmaf(x, -1.21016171e-8f, ::fmaf(x, -0.707106769f, -t));
}
#endif
FACULA_MATH double erfc_argument_rest(double x, double t) {
  const double head = static_cast<double>(static_cast<float>(x));
  return ((head * -0.707106769084930419921875 - t) + (x - head) * -0.707106769084930419921875) +
         x * -1.210161710447896937e-08;
}
}  // namespace detail
#ifdef FACULA_NORMAL_CDF  // a device's own, of floats
FACULA_MATH float normal_cdf(float x) { return FACULA_NORMAL_CDF(x); }
#endif
template <Float T>
FACULA_MATH T normal_cdf(T x) {
  const T t = x * T(-0.70710678118654752440);
  const T slope = T(2) * t + T(0.2);
  const T change = detail::erfc_argument_rest(x, t) * (slope > 0 ? slope : T(0));
  const T value = T(0.5) * erfc(t);
  return value - value * (std::fabs(change) < T(1e-3) ? change : T(0));  // not of infinities
}
// log(x / (1 - x)): from 1/4 on by the distance from the zero, which the quotient would round away.
template <Float T>
FACULA_MATH T logit(T x) {
  const T below = log(x / (1 - x)), above = log1p((T(2) * x - 1) / (1 - x));
  return x < T(0.25) ? below : above;
}
// log(1 + exp(x)) without overflow.
template <Float T>
FACULA_MATH T log1pexp(T x) {
  return maximum(x, T(0)) + log1p(exp(-abs(x)));
}
template <Float T>
FACULA_MATH T logaddexp(T a, T b) {
  const T top = maximum(a, b);
  const T sum = top + log1p(exp(-abs(a - b)));
  return ((a == b) & isinf(a)) ? a : sum;
}
template <Complex T>
FACULA_MATH T logaddexp(T a, T b) {
  const T top = a.real() < b.real() ? b : a, low = a.real() < b.real() ? a : b;
  const T sum = top + log1p(exp(low - top));
  return (low.real() == -infinity<real_t<T>> || (a == b && isinf(a.real()))) ? top : sum;
}
template <Float T>
FACULA_MATH T logaddexp2(T a, T b) {
  const T top = maximum(a, b);
  const T sum = top + log1p(exp2(-abs(a - b))) * T(1.44269504088896340736);
  return ((a == b) & isinf(a)) ? a : sum;
}
template <Float T>
FACULA_MATH T xlogy(T x, T y) {
  const T product = x * log(y);
  return isnan(y) ? y : (x == 0 ? T(0) : product);
}
template <Float T>
FACULA_MATH T xlog1py(T x, T y) {
  const T product = x * log1p(y);
  return isnan(y) ? y : (x == 0 ? T(0) : product);
}
// sin(pi x) and cos(pi x): the whole numbers are taken off first, which is exact.
template <Float T>
FACULA_MATH T sinpi(T x) {
  const T whole = round(x), half = whole / 2;
  const T value = sin(pi<T> * (x - whole));
  return half == floor(half) ? value : -value;
}
template <Float T>
FACULA_MATH T cospi(T x) {
  const T whole = round(x), half = whole / 2;
  const T value = sin(pi<T> * (T(0.5) - abs(x - whole)));
  return half == floor(half) ? value : -value;
}
namespace detail {
// cosh(pi y) and sinh(pi y), with what the product is rounded by.
FACULA_MATH std::complex<double> hyperbolic_pi(double y) {
  const double p = pi<double> * y;
  const double rest = product_rest(pi<double>, y, p) + 1.2246467991473532e-16 * y;
  const double c = cosh(p), s = sinh(p), more = std::fabs(y) < 300 ? rest : 0.0;
  return std::complex<double>(c + more * s, s + more * c);
}
}  // namespace detail
template <Complex T>
FACULA_MATH T sinpi(T z) {
  const T h(detail::hyperbolic_pi(z.imag()));
  return T(sinpi(z.real()) * h.real(), cospi(z.real()) * h.imag());
}
template <Complex T>
FACULA_MATH T cospi(T z) {
  const T h(detail::hyperbolic_pi(z.imag()));
  return T(cospi(z.real()) * h.real(), -sinpi(z.real()) * h.imag());
}
template <Float T>
FACULA_MATH T sinc(T x) {
  const T value = sinpi(x) / (pi<T> * x);
  return x == 0 ? T(1) : isinf(x) ? T(0) : value;
}
template <Complex T>
FACULA_MATH T sinc(T z) {
  using R = real_t<T>;
  const T y = z * pi<R>;
  const R small = sizeof(R) == 4 ? R(1e-2) : R(1e-4);  // where the series has two terms
  return abs(y) < small ? R(1) - mul(y, y) / R(6) : div(sinpi(z), y);
}

// The C function without its race on the global `signgam`.
FACULA_MATH float lgamma(float x) {
  int sign;
  return ::lgammaf_r(x, &sign);
}
FACULA_MATH double lgamma(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}

// digamma near its zero between two poles, where the terms of reflection cancel: with d = x - zero, the differences of
// these from what they are at the zero, pi sin(pi d) / (sin(pi zero) sin(pi x)) and digamma(1 - x) - digamma(1 - zero).
// The zeros (DLMF 5.4(iii)) are pairs of doubles.
FACULA_MATH_LARGE bool digamma_near_zero(double x, double& value) {
  constexpr double kZeros[][2] = {
      {-0.5040830082644554, -8.15428206243813e-18},   {-1.5734984731623904, -1.574185691077347e-17},
      {-2.6107208684441447, 9.881960746978353e-17},   {-3.635293366436901, 5.454396163173039e-17},
      {-4.653237761743142, -2.5492686201468193e-16},  {-5.6671624415568855, -3.2153051074948335e-18},
      {-6.678418213073427, 3.470798723495241e-16},    {-7.687788325031626, -1.351562494643672e-16},
      {-8.695764163816401, -3.2859903716289447e-16},  {-9.702672540001863, -3.2563178405401477e-16},
      {-10.708740838254144, -6.287211750540301e-16},  {-11.714133061228955, 8.598250154343834e-16},
      {-12.718971025749207, -4.752312432106917e-16},  {-13.723347457363827, 4.528278691518058e-16},
      {-14.727334416018529, -3.6618399963139786e-17}, {-15.730988906332882, 1.0551956373365842e-16},
      {-16.734356723955734, -1.2039501631800144e-15}, {-17.73747515997759, -5.125776230727235e-16},
      {-18.7403749447801, 7.757330874026816e-16},     {-19.74308167259022, 6.505672516695227e-16},
  };
  if (!(x > -20)) return false;
  const double* const zero = kZeros[static_cast<int>(-x)];
  const double d = (x - zero[0]) - zero[1];
  if (std::fabs(d) > 0.25) return false;
  double y = 1 - x, a = y + d, slope = 0;  // (digamma(a) - digamma(y)) / d: recurrence, then the asymptotic series
  for (; y < 10; y += 1, a += 1) slope += 1 / (y * a);
  const double u = 1 / (y * y), v = 1 / (a * a), w = (u + v) / 2;
  const double series = 1.0 / 12 - w / 60 + (4 * w * w - u * v) / 252 - w * (u * u + v * v) / 120 +
                        w * w * w * w * (5.0 / 132 - w * (691.0 / 5460 - w * 7 / 12));
  slope += log1p(d / y) / d + 0.5 / (y * a) + (y + a) * u * v * series;
  const double part = (zero[0] - round(zero[0])) + zero[1];
  const double sines = std::fabs(std::sin(pi<double> * part) * std::sin(pi<double> * (x - round(x))));
  value = pi<double> * std::sin(pi<double> * d) / sines - d * slope;
  return true;
}
// Reflection below 0, recurrence to [1, 2], where a quotient of polynomials times the distance from the zero
// serves (J. Maddock's, in Boost), and from 10 on the asymptotic series in Bernoulli numbers.
FACULA_MATH_LARGE double digamma(double x) {
  if (x == 0) return copysign(infinity<double>, -x);
  double shift = 0;
  if (x < 0) {
    const double part = x - round(x);  // exact, also beside a pole
    if (!(part != 0)) return nan<double>;
    double value;
    if (digamma_near_zero(x, value)) return value;
    shift = -pi<double> / std::tan(pi<double> * part);
    x = 1 - x;
  }
  if (x >= 10) {
    const double z = 1 / (x * x);
    const double series =
        z * (1.0 / 12 -
             z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z / 12))))));
    return shift + (std::log(x) - 0.5 / x - (x < 1e17 ? series : 0));
  }
  double steps = 0;
  for (; x > 2; steps += 1 / x) x -= 1;
  if (x < 1) {
    steps = -1 / x;
    x += 1;
  }
  const double t = x - 1;
  const double from_zero = ((x - 1569415565.0 / 1073741824) - 381566830.0 / 1073741824 / 1073741824) -
                           0.9016312093258695918615325266959189453125e-19;
  double p = -0.0020713321167745952, q = -0.55789841321675513e-6;
  for (const double c :
       {-0.045251321448739056, -0.28919126444774784, -0.65031853770896507, -0.32555031186804491, 0.25479851061131551}) {
    p = c + p * t;
  }
  for (const double c : {0.0021284987017821144, 0.054151797245674225, 0.43593529692665969, 1.4606242909763515,
                         2.0767117023730469, 1.0}) {
    q = c + q * t;
  }
  return shift + (steps + (from_zero * 0.99558162689208984 + from_zero * (p / q)));
}
inline float digamma(float x) { return static_cast<float>(digamma(static_cast<double>(x))); }

// The exponent of frexp: x is 2^e times a number of a size in [0.5, 1); 0 of what has no such form.
FACULA_MATH_LARGE double binary_exponent(double x) {
  int e = 0;
  if (x == 0 || isinf(x) || isnan(x)) return 0;
  ::frexp(x, &e);
  return e;
}
inline float binary_exponent(float x) { return static_cast<float>(binary_exponent(static_cast<double>(x))); }

// Hurwitz zeta function, the sum of (q + k)^-x over k >= 0, by Euler-Maclaurin summation; times scale^x, if that is not
// one, which brings into the range what would leave it.
FACULA_MATH_LARGE double zeta(double x, double q, double scale) {
  constexpr double kCoefficients[] = {12.0,
                                      -720.0,
                                      30240.0,
                                      -1209600.0,
                                      47900160.0,
                                      -1.8924375803183791606e9,
                                      7.47242496e10,
                                      -2.950130727918164224e12,
                                      1.1646782814350067249e14,
                                      -4.5979787224074726105e15,
                                      1.8152105401943546773e17,
                                      -7.1661652561756670113e18};
  if (x == 1) return infinity<double>;
  if (!(x > 1) || isnan(q)) return nan<double>;
  if (q <= 0) {
    if (q == std::floor(q)) return infinity<double>;
    if (x != std::floor(x) || q < -1e6) return nan<double>;
  }
  if (isinf(q)) return 0;
  double sum = 0;
  double a = q;
  for (int k = 0; k < 9 || a <= 9; ++k, a += 1) {
    const double term = scale == 1 ? std::pow(a, -x) : std::pow(scale / a, x);
    sum += term;
    if (a > 9 && std::fabs(term) < 1e-17 * std::fabs(sum)) return sum;
  }
  double power = scale == 1 ? std::pow(a, -x) : std::pow(scale / a, x);
  const double whole = power > 1e-280 || scale != 1 ? a * power : std::pow(a, 1 - x);
  sum += whole / (x - 1) + 0.5 * power;
  if (power == 0) return sum;
  double factor = 1, k = 0;
  for (const double c : kCoefficients) {
    factor *= x + k;
    power /= a;
    const double term = factor * power / c;
    sum += term;
    if (std::fabs(term) < 1e-17 * std::fabs(sum)) break;
    k += 1;
    factor *= x + k;
    power /= a;
    k += 1;
  }
  return sum;
}
FACULA_MATH_LARGE double zeta(double x, double q) { return zeta(x, q, 1); }
inline float zeta(float x, float q) { return static_cast<float>(zeta(static_cast<double>(x), static_cast<double>(q))); }
namespace detail {
// The sum of (part + k)^-(n + 1) over all whole k, for a part in [-1/2, 1/2]: (-1)^n / n! times the derivative of order
// n of pi cot(pi x). Away from the pole that is a polynomial in the cotangent, whose terms are of one sign; beside it,
// the nearest term and the rest.
FACULA_MATH_LARGE double reflected_zeta(int n, double part) {
  const double size = std::fabs(part), c = std::tan(pi<double> * (0.5 - size)), m = n + 1;
  if (n % 2 == 0 && size == 0.5) return 0;
  if (n > 64 && n % 2 == 0 && size > 0.4) {  // the two nearest terms nearly cancel; the others are below 3^-m of them
    const double u = 2 * (0.5 - size);
    const double value = std::pow(2, m) * std::pow((1 - u) * (1 + u), -0.5 * m) * 2 * ::sinh(m * ::atanh(u));
    return part < 0 ? -value : value;
  }
  if (n > 64 || c > 1.5) {
    const double rest = zeta(m, 1 + size), other = zeta(m, 1 - size);
    const double nearest = std::pow(size, -m);
    const double value = isinf(nearest) ? nearest : nearest + (n % 2 == 0 ? rest - other : rest + other);
    return n % 2 == 0 && part < 0 ? -value : value;
  }
  double p[66] = {0, 1};  // of order k, over k! and (-pi)^k: P' (1 + c^2) / k
  for (int k = 1; k <= n; ++k) {
    for (int j = k + 1; j > 0; --j) {  // only every other power occurs, so that none is read after it was written
      if ((k + 1 - j) % 2 == 0) p[j] = ((j + 1 <= k ? (j + 1) * p[j + 1] : 0) + (j - 1) * p[j - 1]) / k;
    }
    if (k % 2 != 0) p[0] = p[1] / k;
    for (int j = k; j >= 0; j -= 2) p[j] = 0;
  }
  double value = 0;
  for (int j = n + 1; j >= 0; --j) value = value * c + p[j];
  for (int k = 0; k <= n; ++k) value *= pi<double>;
  return n % 2 == 0 && part < 0 ? -value : value;
}
}  // namespace detail
FACULA_MATH_LARGE double polygamma(double n, double x) {
  if (n == 0) return digamma(x);
  const double odd = std::fmod(n, 2);
  if (x == 0 && odd == 0) return copysign(infinity<double>, -x);
  if (x < 0 || (n == 1 && x < 0.5)) {  // by reflection; the sum over all whole numbers less that from 1 - x on
    const double part = x - round(x), m = n + 1;
    if (isinf(x)) return nan<double>;
    if (part == 0) return odd != 0 ? infinity<double> : -infinity<double>;
    if (n == 1) {
      const double s = std::sin(pi<double> * part);
      return pi<double> * pi<double> / (s * s) - zeta(2, 1 - x);
    }
    const double size = std::tgamma(m), all = detail::reflected_zeta(static_cast<int>(n), part);
    if (all == 0) return polygamma(n, 1 - x);
    const double beyond = zeta(m, 1 - x);
    return odd != 0 ? size * (all - beyond) : -size * (all + beyond);
  }
  const double sign = std::fmod(n, 2) == 0 ? -1 : 1, size = std::tgamma(n + 1), sum = zeta(n + 1, x);
  if (!(x > 0) || isinf(x) || n != std::floor(n) || (!isinf(size) && abs(sum) > 1e-290)) return sign * size * sum;
  // n! / x^n, factor by factor, the partial product never far from one before it must be.
  double product = n > 1e5 ? std::exp(lgamma(n + 1) - n * std::log(x)) : 1;
  for (double low = 1, high = n > 1e5 ? 0 : n; low <= high && product > 0 && !isinf(product);) {
    product *= (product >= 1 ? low++ : high--) / x;
  }
  return sign * product * (zeta(n + 1, x, x) / x);
}
inline float polygamma(float n, float x) {
  return static_cast<float>(polygamma(static_cast<double>(n), static_cast<double>(x)));
}

// erfinv(x) / x is a smooth function of -log(1 - x^2), as in M. Giles, "Approximating the erfinv function" (2012);
// the polynomials in three ranges are interpolated at Chebyshev's points.
namespace detail {
template <typename... C>
FACULA_MATH double polynomial(double t, double first, C... rest) {
  double value = first;
  ((value = rest + value * t), ...);
  return value;
}
}  // namespace detail
FACULA_MATH double erfinv(double x) {
  const double size = abs(x);
  const double w = -log((1 - size) * (1 + size)), root = sqrt(w);
  const double near = detail::polynomial(
      w - 3.125, -2.36236969856610742e-22, -1.67873306152567719e-19, 1.10277715915000329e-18, 1.11257947593794649e-17,
      -1.29070235461307304e-16, 2.16699462628357397e-17, 6.58195530592923886e-15, -4.05541397468860051e-14,
      -8.10659445643849512e-14, 2.63357249246084841e-12, -1.29775052020149665e-11, -5.4154417754696635e-11,
      1.05122024401217841e-9, -4.11263310429761391e-9, -2.90703866601914295e-8, 4.2347877672780653e-7,
      -1.36546917965920684e-6, -0.0000138825233612768762, 0.000186734208021242716, -0.000740702534166940108,
      -0.0060336708714270113, 0.24015818242558971, 1.65365456268310271);
  const double middle = detail::polynomial(
      root - 3.25, -1.51026954233350641e-8, 6.96924197762969404e-10, 1.31043514999720141e-7, -2.71345110543945614e-7,
      -2.70042192808689465e-8, 1.49871307841861263e-6, -3.98608439521475595e-6, 2.92572919017898247e-6,
      0.0000124651671570872518, -0.0000473189841201124549, 0.0000682870865475337668, 0.0000240312570150925236,
      -0.000355037809759638111, 0.000953289363743563718, -0.00168827553573370721, 0.0024914420969817609,
      -0.0037512085082155611, 0.00537091455357167963, 1.0052589676941653, 3.08388561049222063);
  const double far = detail::polynomial(
      root - 5.03125, -1.7121599906401911e-11, 3.36119280421261601e-11, 7.52915698379727247e-11,
      -4.06366083828105628e-10, 1.14490888746848877e-9, -2.92490435424291849e-9, 6.49801162956809149e-9,
      -1.25846419037533621e-8, 2.426340879491322e-8, -5.92510400293498682e-8, 2.11250089082065094e-7,
      -9.38041200527070001e-7, 4.31492378383452689e-6, -0.0000188531169305521786, 0.000072985255316995855,
      -0.000205720185159052803, -0.000158439049548252009, 1.01029117411981295, 4.8814781489772109);
  const double value = x * (w < 6.25 ? near : root < 4 ? middle : far);
  return size == 1 ? copysign(infinity<double>, x) : value;
}
FACULA_MATH float erfinv(float x) { return static_cast<float>(erfinv(static_cast<double>(x))); }

template <size_t N>
FACULA_MATH_LARGE double chebyshev(double x, const double (&coefficients)[N]) {
  double b0 = 0, b1 = 0, b2 = 0;
  for (const double c : coefficients) {
    b2 = b1;
    b1 = b0;
    b0 = x * b1 - b2 + c;
  }
  return 0.5 * (b0 - b2);
}
FACULA_MATH_LARGE double i0e(double x) {
  const double size = std::fabs(x);
  return size <= 8 ? chebyshev(size / 2 - 2, detail::kI0Small)
                   : chebyshev(32 / size - 2, detail::kI0Large) / std::sqrt(size);
}
FACULA_MATH_LARGE double i1e(double x) {
  const double size = std::fabs(x);
  const double value = size <= 8 ? chebyshev(size / 2 - 2, detail::kI1Small) * size
                                 : chebyshev(32 / size - 2, detail::kI1Large) / std::sqrt(size);
  return copysign(value, x);
}
namespace detail {
// exp(|x|) times a scaled value: in two steps where the exponential alone overflows.
FACULA_MATH_LARGE double unscaled(double x, double scaled) {
  const double size = std::fabs(x);
  if (size < 700) return std::exp(size) * scaled;
  const double half = std::exp(size / 2);
  return isinf(half) ? copysign(half, scaled) : half * scaled * half;
}
}  // namespace detail
inline double i0(double x) { return detail::unscaled(x, i0e(x)); }
inline double i1(double x) { return detail::unscaled(x, i1e(x)); }
#define FACULA_BY_DOUBLE(name) \
  inline float name(float x) { return static_cast<float>(name(static_cast<double>(x))); }
FACULA_BY_DOUBLE(i0)
FACULA_BY_DOUBLE(i0e)
FACULA_BY_DOUBLE(i1)
FACULA_BY_DOUBLE(i1e)

}  // namespace FACULA_ISA
}  // namespace facula::math
