// The incomplete gamma functions and the slope of quantiles of the gamma distribution; included by facula/math.h.
//
// With E = x^a exp(-x): P(a, x) = E / Gamma(a + 1) S and Q(a, x) = E / Gamma(a) F, S the series of DLMF 8.11.4, F the
// continued fraction of DLMF 8.9.2; for large a, near x = a, Temme's uniform expansion (DLMF 8.12).
#pragma once

namespace facula::math {

namespace detail {
// Powers of eta in c_k(eta), k from 0, of DLMF 8.12.10, from the series of DLMF 8.12.11.
inline constexpr double kTemme[7][16] = {
    {-0.3333333333333333, 0.08333333333333333, -0.014814814814814815, 0.0011574074074074073, 0.0003527336860670194,
     -0.0001787551440329218, 3.919263178522438e-05, -2.185448510679992e-06, -1.85406221071516e-06,
     8.296711340953087e-07, -1.7665952736826078e-07, 6.707853543401498e-09, 1.0261809784240309e-08,
     -4.382036018453353e-09, 9.14769958223679e-10, -2.5514193994946248e-11},
    {-0.001851851851851852, -0.003472222222222222, 0.0026455026455026454, -0.0009902263374485596,
     0.00020576131687242798, -4.018775720164609e-07, -1.8098550334489977e-05, 7.64916091608111e-06,
     -1.6120900894563446e-06, 4.647127802807434e-09, 1.378633446915721e-07, -5.752545603517705e-08,
     1.1951628599778148e-08, -1.7543241719747647e-11, -1.0091543710600413e-09, 4.162792991842583e-10},
    {0.004133597883597883, -0.0026813271604938273, 0.0007716049382716049, 2.0093878600823047e-06,
     -0.0001073665322636516, 5.2923448829120125e-05, -1.2760635188618728e-05, 3.423578734096138e-08,
     1.3721957309062934e-06, -6.298992138380055e-07, 1.4280614206064242e-07, -2.0477098421990866e-10,
     -1.409252991086752e-08, 6.228974084922022e-09, -1.3670488396617114e-09, 9.428356159014678e-13},
    {0.0006494341563786008, 0.00022947209362139917, -0.0004691894943952557, 0.00026772063206283885,
     -7.561801671883977e-05, -2.396505113867297e-07, 1.1082654115347302e-05, -5.6749528269915965e-06,
     1.4230900732435883e-06, -2.7861080291528143e-11, -1.6958404091930278e-07, 8.099464905388083e-08,
     -1.9111168485973655e-08, 2.3928620439808118e-12, 2.0620131815488797e-09, -9.460496661855133e-10},
    {-0.0008618882909167117, 0.0007840392217200666, -0.0002990724803031902, -1.4638452578843418e-06,
     6.641498215465122e-05, -3.968365047179435e-05, 1.1375726970678419e-05, 2.507497226237533e-10,
     -1.6954149536558305e-06, 8.907507532205309e-07, -2.292934834000805e-07, 2.956794137544049e-11,
     2.8865829742708783e-08, -1.4189739437803219e-08, 3.4463580499464896e-09, -2.3024517174528067e-13},
    {-0.00033679855336635813, -6.972813758365857e-05, 0.0002772753244959392, -0.00019932570516188847,
     6.797780477937208e-05, 1.419062920643967e-07, -1.3594048189768693e-05, 8.018470256334202e-06,
     -2.291481176508095e-06, -3.252473551298454e-10, 3.4652846491085265e-07, -1.8447187191171344e-07,
     4.8240967037894184e-08, -1.7989466721743514e-14, -6.306194500013523e-09, 3.162417628774568e-09},
    {0.0005313079364639922, -0.0005921664373536939, 0.0002708782096718045, 7.902353232660328e-07,
     -8.153969367561969e-05, 5.61168275310625e-05, -1.8329116582843375e-05, -3.0796134506033047e-09,
     3.465155368803609e-06, -2.0291327396058603e-06, 5.788792863149004e-07, 2.338630673826657e-13,
     -8.828600746330484e-08, 4.7435958880408125e-08, -1.2545415020710383e-08, 8.649648858010293e-14},
};
}  // namespace detail

inline namespace FACULA_ISA {

namespace detail {

// log(Gamma(1 + a)) for a in [-0.5, 100), with few units in the last place near a = 0 (DLMF 5.7.3).
FACULA_MATH_LARGE double lgamma1p(double a) {
  if (std::fabs(a) >= 0.25) return lgamma(1 + a);
  constexpr double kZetaMinusOne[] = {
      0.64493406684822643647, 0.20205690315959428540, 0.082323233711138191516, 0.036927755143369926331,
      0.017343061984449139714, 0.0083492773819228268398, 0.0040773561979443393786, 0.0020083928260822144179,
      9.9457512781808533715e-4, 4.9418860411946455870e-4, 2.4608655330804829863e-4, 1.2271334757848914675e-4,
      6.1248135058704829259e-5, 3.0588236307020493552e-5, 1.5282259408651871733e-5};
  // log(1 + a) = -(sum of (-a)^k / k) is added and taken away, so that the series is that of zeta(k) - 1.
  double sum = 0;
  for (int k = 16; k >= 2; --k) sum = kZetaMinusOne[k - 2] / k - a * sum;
  constexpr double kOneMinusEuler = 0.42278433509846713939;
  return a * (kOneMinusEuler + a * sum) - log1p(a);
}

// m - log(1 + m), for |m| < 1/2, without cancellation.
FACULA_MATH_LARGE double log1p_rest(double m) {
  const double r = m / (2 + m), s = r * r;  // log(1 + m) = 2 atanh(r)
  double sum = 0;
  for (int k = 31; k >= 3; k -= 2) sum = 1.0 / k + s * sum;
  return 2 * s * (1 / (1 - r) - r * sum);
}

// Gamma(a) over sqrt(2 pi / a) (a / e)^a, for a >= 10 (DLMF 5.11.1).
FACULA_MATH_LARGE double gamma_star(double a) {
  const double z = 1 / (a * a);
  const double series =
      1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z * (1.0 / 1188 - z * (691.0 / 360360 - z / 156)))));
  return std::exp(series / a);
}

// x^a exp(-x) / Gamma(a + 1).
FACULA_MATH_LARGE double gamma_factor(double a, double x) {
  if (a >= 10) {
    const double m = (x - a) / a;
    const double rest = std::fabs(m) < 0.4 ? -log1p_rest(m) : std::log(x / a) - m;
    return std::exp(a * rest) / (std::sqrt(2 * pi<double> * a) * gamma_star(a));
  }
  const double power = std::pow(x, a);
  if (power > 1e-290 && power < 1e290 && x < 600) return power * std::exp(-x) / std::exp(lgamma1p(a));
  return std::exp(a * std::log(x) - x - lgamma1p(a));
}

// S - 1 and its derivative by a: the sum of x^n / ((a + 1) ... (a + n)), n from 1.
FACULA_MATH_LARGE double gamma_series(double a, double x, double& slope) {
  double term = 1, term_slope = 0, sum = 0;
  slope = 0;
  for (int n = 1; n < 10000; ++n) {
    const double ratio = x / (a + n);
    term_slope = (term_slope - term / (a + n)) * ratio;
    term *= ratio;
    sum += term;
    slope += term_slope;
    if (std::fabs(term_slope) <= 1e-17 * std::fabs(slope) && term <= 1e-17 * sum) break;
  }
  return sum;
}

// F by the differences of its convergents (Steed's algorithm), which rounds the first ones alone.
FACULA_MATH_LARGE double gamma_fraction(double a, double x) {
  double step = x + 1 - a, d = 1 / step, change = d, sum = d;
  for (int n = 1; n < 10000; ++n) {
    step += 2;
    d = 1 / (step + n * (a - n) * d);
    change *= step * d - 1;
    sum += change;
    if (std::fabs(change) <= 1e-17 * std::fabs(sum)) break;
  }
  return sum;
}
// F and its derivative by a, by the recurrence of convergents.
FACULA_MATH_LARGE double gamma_fraction(double a, double x, double& slope) {
  // A and B of the last two convergents and their derivatives, scaled together.
  double a0 = 0, a1 = 1, b0 = 1, b1 = x + 1 - a;
  double da0 = 0, da1 = 0, db0 = 0, db1 = -1;
  double value = a1 / b1, value_slope = (da1 - value * db1) / b1;
  for (int n = 1; n < 10000; ++n) {
    const double top = n * (a - n), step = x + 2 * n + 1 - a;
    const double a2 = step * a1 + top * a0, b2 = step * b1 + top * b0;
    const double da2 = step * da1 - a1 + top * da0 + n * a0, db2 = step * db1 - b1 + top * db0 + n * b0;
    const double scale = 1 / b2;
    a0 = a1 * scale, b0 = b1 * scale, da0 = da1 * scale, db0 = db1 * scale;
    a1 = a2 * scale, b1 = 1, da1 = da2 * scale, db1 = db2 * scale;
    const double last = value, last_slope = value_slope;
    value = a1;
    value_slope = da1 - a1 * db1;
    if (std::fabs(value - last) <= 1e-16 * std::fabs(value) &&
        std::fabs(value_slope - last_slope) <= 1e-15 * std::fabs(value_slope)) {
      break;
    }
  }
  slope = value_slope;
  return value;
}

// The sum of c_k(eta) a^-k, and its derivatives by eta and by a.
FACULA_MATH_LARGE double temme(double a, double eta, double& by_eta, double& by_a) {
  double sum = 0;
  by_eta = by_a = 0;
  for (int k = 6; k >= 0; --k) {
    double c = 0, dc = 0;
    for (int j = 15; j >= 0; --j) {
      dc = c + eta * dc;
      c = kTemme[k][j] + eta * c;
    }
    sum = c + sum / a;
    by_eta = dc + by_eta / a;
    by_a = (by_a - (k > 0 ? k * c : 0)) / a;
  }
  return sum;
}
FACULA_MATH_LARGE double temme_eta(double m) { return copysign(std::sqrt(2 * log1p_rest(m)), m); }

FACULA_MATH bool near_the_mean(double a, double x) { return a >= 100 && std::fabs(x - a) < 0.3 * a; }

// P, or Q for `upper`.
FACULA_MATH_LARGE double incomplete_gamma(double a, double x, bool upper) {
  if (!(a >= 0 && x >= 0) || (a == 0 && x == 0) || (isinf(a) && isinf(x))) return nan<double>;
  if (x == 0 || isinf(a)) return upper;
  if (a == 0 || isinf(x)) return !upper;
  double slope = 0;
  if (near_the_mean(a, x)) {
    const double eta = temme_eta((x - a) / a);
    double by_eta, by_a;
    const double rest = std::exp(-0.5 * a * eta * eta) / std::sqrt(2 * pi<double> * a) * temme(a, eta, by_eta, by_a);
    const double t = eta * std::sqrt(a / 2);
    return upper ? 0.5 * erfc(t) + rest : 0.5 * erfc(-t) - rest;
  }
  const double factor = gamma_factor(a, x);
  if (x > a + 1 || (upper && a < 1 && x > 1.1)) {
    const double q = factor * a * gamma_fraction(a, x);
    return upper ? q : 1 - q;
  }
  if (upper && a < 1) {  // where P is next to 1
    const double power = a * std::log(x) - lgamma1p(a);
    double term = 1, sum = 0;  // DLMF 8.7.1
    for (int n = 1; n < 30; ++n) {
      term *= -x / n;
      sum += term / (a + n);
    }
    return -expm1(power) - std::exp(power) * a * sum;
  }
  const double p = factor * (1 + gamma_series(a, x, slope));
  return upper ? 1 - p : p;
}

}  // namespace detail

FACULA_MATH_LARGE double gammainc(double a, double x) { return detail::incomplete_gamma(a, x, false); }
FACULA_MATH_LARGE double gammaincc(double a, double x) { return detail::incomplete_gamma(a, x, true); }
inline float gammainc(float a, float x) {
  return static_cast<float>(gammainc(static_cast<double>(a), static_cast<double>(x)));
}
inline float gammaincc(float a, float x) {
  return static_cast<float>(gammaincc(static_cast<double>(a), static_cast<double>(x)));
}

// The density x^(a - 1) exp(-x) / Gamma(a), also where its factors leave the range.
FACULA_MATH_LARGE double gamma_density(double a, double x) {
  if (!(a >= 0 && x >= 0) || (isinf(a) && isinf(x)) || (a == 0 && x == 0)) return nan<double>;
  if (isinf(a) || isinf(x) || a == 0) return 0;
  if (x == 0) return a < 1 ? infinity<double> : a == 1 ? 1 : 0;
  return a < 1 ? detail::gamma_factor(a, x) * (a / x) : detail::gamma_factor(a - 1, x);
}
inline float gamma_density(float a, float x) {
  return static_cast<float>(gamma_density(static_cast<double>(a), static_cast<double>(x)));
}

// How the logarithm y of a quantile changes with a: dy/da where P(a, exp(y)) stays as it is,
// -(dP/da) / (x dP/dx) (implicit reparametrization: Figurnov, Mohamed & Mnih 2018). Factors that over- or
// underflow cancel, so that any y of a number drawn serves.
FACULA_MATH_LARGE double gamma_log_slope(double a, double y) {
  if (!(a > 0) || isnan(y) || isinf(a)) return nan<double>;
  const double x = std::exp(y);
  if (detail::near_the_mean(a, x)) {
    const double m = (x - a) / a, eta = detail::temme_eta(m);
    double by_eta, by_a;
    const double c = detail::temme(a, eta, by_eta, by_a), ratio = eta == 0 ? 1 : m / eta;
    const double change = ratio - 0.5 * eta + c * (m - 0.5 * eta * eta - 0.5 / a) - by_eta * ratio / a + by_a;
    return detail::gamma_star(a) / a * change;
  }
  double slope = 0;
  if (x > a + 1 && x > 1.5) {
    const double fraction = detail::gamma_fraction(a, x, slope);
    return (y - digamma(a)) * fraction + slope;
  }
  const double series = detail::gamma_series(a, x, slope);
  return -((y - digamma(a + 1)) * (1 + series) + slope) / a;
}
inline float gamma_log_slope(float a, float y) {
  return static_cast<float>(gamma_log_slope(static_cast<double>(a), static_cast<double>(y)));
}

}  // namespace FACULA_ISA
}  // namespace facula::math
