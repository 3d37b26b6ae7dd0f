// Functions of the normal distribution and its error function; included by facula/math.h.
#pragma once

namespace facula::math {

namespace detail {
// clang-format off
// (1 + 2 x) exp(x^2) erfc(x) in 2 (x - 3.75) / (x + 3.75), as in M. Shepherd & J. Laframboise, "Chebyshev approximation of
// (1 + 2x) exp(x^2) erfc x in 0 <= x < inf" (1981); -ndtri(p) / u, where p = exp(-u^2 / 2).
inline constexpr double kErfcx[] = {
    5.068148904796111e-17, 7.418235256624044e-17, -1.2507950530688648e-15, -1.864562880419313e-15, 3.3478119482868056e-14, 3.25254814814874e-14, -9.65469674843344e-13, 1.9455868545777347e-13, 2.86879501093067e-11, -6.318088340886684e-11, -7.754400208831351e-10, 4.521959811218287e-09, 1.076499946567091e-08, -2.1886401049234397e-07, 7.74038306619849e-07, 4.13902798607301e-06, -6.916973302501207e-05, 0.0004907758365258086, -0.002413163540417608, 0.009074997670705265, -0.026658668435305753, 0.05920993999819189, -0.08424913336651792, -0.004590054580646478, 2.3551578691348034};
// Rows: where the row ends, its middle and 1 / (half its width), the polynomial.
inline constexpr double kQuantile[5][28] = {
    {3.2, 2.6, 1.6666666666666667, 0.0, 0.0, 0.0, 0.0, 0.0, 1.1808291814448799e-12, -4.993867390852441e-12, 1.5493655637710663e-11, -6.661847869152408e-11, 2.9725490942960617e-10, -1.2683454875053714e-09, 5.3919177394645685e-09, -2.2944418651770298e-08, 9.743603404224076e-08, -4.1264773383516873e-07, 1.7418671175612528e-06, -7.3219267741586375e-06, 3.06074816099296e-05, -0.00012698430630318723, 0.0005212315325404553, -0.0021058430369092335, 0.008297861745831603, -0.03132016175240511, 0.10851183022763394, 0.7016839382004918},
    {5.2, 4.2, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.2145602802450222e-12, -4.96416057975066e-12, 1.4500324566132033e-11, -6.033102491633195e-11, 2.6212165294986465e-10, -1.0806590413563927e-09, 4.434790650098812e-09, -1.822178374387468e-08, 7.4677977767016e-08, -3.0500177138952166e-07, 1.2405691157141997e-06, -5.019440723151919e-06, 2.017002986266323e-05, -8.030881493156553e-05, 0.0003157176721565978, -0.0012186539384663742, 0.004574203519479314, -0.01638655392098252, 0.053629297750174734, 0.8617181356586114},
    {9.0, 7.1, 0.5263157894736842, 0.0, 0.0, 0.0, 0.0, -1.7327401401013687e-12, 6.264840561233704e-12, -1.3961983777463725e-11, 5.1851321523044073e-11, -2.1052282117885835e-10, 7.695052286997284e-10, -2.7858693279620455e-09, 1.0155473332508773e-08, -3.693004399746515e-08, 1.337670339414917e-07, -4.825263990861312e-07, 1.7317989256939221e-06, -6.176170787389597e-06, 2.1848962899015898e-05, -7.648182364501486e-05, 0.00026393905775169333, -0.0008927775681476243, 0.002930562708152041, -0.009157586831639631, 0.026048941361144873, 0.941968697607144},
    {17.0, 13.0, 0.25, 0.0, 0.0, 0.0, 4.667356155623059e-12, -1.453997769077086e-11, 2.0732893251728818e-11, -6.783262956573667e-11, 2.761173056559682e-10, -8.713505750210955e-10, 2.6757959983475315e-09, -8.449832682644334e-09, 2.665707598702817e-08, -8.359739827640638e-08, 2.6109916713078387e-07, -8.117417225606886e-07, 2.5092266021040654e-06, -7.701856110630104e-06, 2.3431579190209228e-05, -7.047631001259048e-05, 0.00020876693404284232, -0.000605397515722221, 0.0017010060373385842, -0.004540067012539397, 0.010995353048078822, 0.9792582263792672},
    {39.0, 28.0, 0.09090909090909091, -2.850336442573957e-11, 6.826340808017047e-11, 7.723144155761826e-12, -2.3760549429986074e-12, -4.815898394623506e-10, 1.1503419881665527e-09, -2.074986015274009e-09, 5.193393246121778e-09, -1.3588440953059053e-08, 3.3358458096158886e-08, -8.128725868237307e-08, 1.9877127888462554e-07, -4.843969532385603e-07, 1.1747247065267584e-06, -2.834172130939312e-06, 6.795713035407884e-06, -1.617141770802262e-05, 3.811890230270858e-05, -8.876543922089997e-05, 0.00020338880468090889, -0.00045568943322572776, 0.0009877336168525861, -0.0020295268099086174, 0.003772123157008026, 0.9945681790811638},
};
// clang-format on
}  // namespace detail

inline namespace FACULA_ISA {

// exp(x^2) erfc(x).
FACULA_MATH_LARGE double erfcx(double x) {
  const double size = std::fabs(x);
  if (size < 0.5) return std::exp(x * x) * erfc(x);
  const double value = size > 1e17 ? 0.56418958354775628695 / size
                                   : chebyshev(2 * (size - 3.75) / (size + 3.75), detail::kErfcx) / (1 + 2 * size);
  if (!(x < 0)) return value;
  if (x < -27) return infinity<double>;
  const double square = x * x, power = std::exp(square);
  const double whole = power + power * detail::product_rest(x, x, square);
  return isinf(power) ? power : whole + (whole - value);
}
// exp(x^2) times the n-fold integral of erfc from x on (DLMF 7.18): of n at least 1, by its recurrence where no terms
// cancel, else by the continued fraction of quotients of neighbours (DLMF 7.18.13).
FACULA_MATH_LARGE double erfcx_integral(double n, double x) {
  if (isnan(x) || !(n >= 0 && n < 1000)) return nan<double>;
  double below = 1.1283791670955125739, value = erfcx(x);  // of n = -1 and 0
  if (n == 0 || isinf(value)) return value;
  if (x < 0.5) {
    for (double k = 1; k <= n; k += 1) {
      const double next = (below - 2 * x * value) / (2 * k);
      below = value;
      value = next;
    }
    return value;
  }
  const double far = 20 + 200 / (x * x);
  for (double k = 1; k <= n; k += 1) {
    double step = x;
    for (double j = std::floor(k + far); j > k; j -= 1) step = x + 0.5 * j / step;
    value *= 0.5 / step;
  }
  return value;
}

// The quantile of the standard normal distribution.
FACULA_MATH_LARGE double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return nan<double>;
  if (p == 0 || p == 1) return p == 0 ? -infinity<double> : infinity<double>;
  if (p > 0.1353 && p < 0.8647) return 1.4142135623730950488 * erfinv((p - 0.5) + (p - 0.5));
  const double u = std::sqrt(-2 * (p < 0.5 ? std::log(p) : log1p(-p)));
  size_t k = 0;
  while (k < 4 && u > detail::kQuantile[k][0]) ++k;
  const double* const row = detail::kQuantile[k];
  const double t = (u - row[1]) * row[2];
  double value = 0;
  for (size_t i = 3; i < sizeof(detail::kQuantile[0]) / sizeof(double); ++i) value = row[i] + value * t;
  return p < 0.5 ? -u * value : u * value;
}
// The derivative of ndtri, sqrt(2 pi) exp(z^2 / 2) with z = ndtri(p), relative to the distance from the nearer end.
FACULA_MATH_LARGE double ndtri_slope(double p) {
  if (p == 0 || p == 1) return infinity<double>;
  return 1.2533141373155002512 * erfcx(0.70710678118654752440 * std::fabs(ndtri(p))) / (p < 0.5 ? p : 1 - p);
}
// The logarithm of normal_cdf.
FACULA_MATH_LARGE double log_ndtr(double x) {
  if (x < -5) return isinf(x) ? x : std::log(erfcx(x * -0.70710678118654752440) / 2) - x * x / 2;
  return x < 0 ? std::log(normal_cdf(x)) : log1p(-normal_cdf(-x));
}
FACULA_BY_DOUBLE(erfcx)
FACULA_BY_DOUBLE(ndtri)
FACULA_BY_DOUBLE(ndtri_slope)
FACULA_BY_DOUBLE(log_ndtr)
inline float erfcx_integral(float n, float x) {
  return static_cast<float>(erfcx_integral(static_cast<double>(n), static_cast<double>(x)));
}

}  // namespace FACULA_ISA
}  // namespace facula::math
