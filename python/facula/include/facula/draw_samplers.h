// Numbers of one element by rejection: functions of a stream `uniform()` of numbers in (0, 1), on every device.
#pragma once

#include "facula/math.h"

namespace facula::draws {

inline namespace FACULA_ISA {

// log(k!) less its approximation by Stirling, (k + 1/2) log(k + 1) - (k + 1) + log(2 pi) / 2.
FACULA_MATH_LARGE double stirling_rest(double k) {
  const double n = k + 1;
  if (k < 10) return math::lgamma(n) - ((k + 0.5) * std::log(n) - n + 0.91893853320467274178);
  const double z = 1 / (n * n);
  return (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z / 1680))) / n;
}
// m - log(1 + m) without cancellation. Probabilities of counts k are written with it (Loader 2000): k log(rate) and
// log(k!), of which they are the difference, have no correct digit below the point from 1e13 on.
FACULA_MATH_LARGE double over_log(double m) {
  return std::fabs(m) < 0.4 ? math::detail::log1p_rest(m) : m - math::log1p(m);
}

// Transformed rejection from 10 on (Hoermann 1993, PTRS), products of uniform numbers below.
template <typename U>
FACULA_MATH_LARGE double poisson_number(double rate, U& uniform) {
  if (!(rate > 0 && rate < math::infinity<double>)) return rate == 0 ? 0 : math::nan<double>;
  if (rate < 10) {
    const double limit = std::exp(-rate);
    double product = 1;
    for (int64_t k = 0;; ++k) {
      product *= uniform();
      if (product <= limit) return static_cast<double>(k);
    }
  }
  const double root = std::sqrt(rate);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    const double u = uniform() - 0.5, v = uniform();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    const double n = k + 1, m = (rate - n) / n;
    const double chance =
        -n * over_log(m) - math::log1p(m) - 0.5 * std::log(n) - 0.91893853320467274178 - stirling_rest(k);
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <= chance) return k;
  }
}

// A gamma number of rate 1 for a concentration >= 1: d v with v = (1 + c normal)^3 (Marsaglia & Tsang 2000).
template <typename U>
FACULA_MATH_LARGE double gamma_from_one(double concentration, U& uniform) {
  const double d = concentration - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  while (true) {
    double normal, root;
    do {
      // Box and Muller's transform
      const double u = uniform();
      normal = std::sqrt(-2 * std::log(u)) * std::cos(2 * math::pi<double> * uniform());
      root = 1 + c * normal;
    } while (root <= 0);
    const double v = root * root * root, u = uniform(), square = normal * normal;
    if (u < 1 - 0.0331 * square * square) return d * v;
    if (std::log(u) < 0.5 * square + d * (1 - v + std::log(v))) return d * v;
  }
}
// Below 1 it is one of the concentration more by 1, times a uniform number^(1 / concentration); its logarithm is
// right where the number itself is too small for its dtype.
template <typename U>
FACULA_MATH_LARGE double log_gamma_number(double concentration, U& uniform) {
  if (concentration == 0) return -math::infinity<double>;
  if (concentration >= 1) return std::log(gamma_from_one(concentration, uniform));
  const double power = std::log(uniform()) / concentration;
  return std::log(gamma_from_one(concentration + 1, uniform)) + power;
}
template <typename U>
FACULA_MATH_LARGE double gamma_number(double concentration, U& uniform) {
  if (concentration >= 1) return gamma_from_one(concentration, uniform);
  return std::exp(log_gamma_number(concentration, uniform));
}

// What the logarithm of the probability of k successes lacks to a constant.
FACULA_MATH_LARGE double binomial_unlikeliness(double count, double p, double k) {
  const double hits = k + 1, misses = count - k + 1, d = (count + 2) * p - hits;
  const double by_hits = d / hits, by_misses = -d / misses;
  return hits * over_log(by_hits) + misses * over_log(by_misses) +
         0.5 * (math::log1p(by_hits) + math::log1p(by_misses)) + stirling_rest(k) + stirling_rest(count - k);
}
// Successes among `count` trials of chance p <= 1/2: transformed rejection where ten or more are expected
// (Hoermann 1993, BTRD's simpler form BTRS), else the least k whose cumulative probability passes a uniform number.
template <typename U>
FACULA_MATH_LARGE double binomial_below_half(double count, double p, U& uniform) {
  const double q = 1 - p, odds = p / q;
  if (count * p < 10) {
    const double none = std::exp(count * math::log1p(-p));
    while (true) {
      double left = uniform(), chance = none;
      for (double k = 0; k <= count && k < 200; ++k) {  // what rounding leaves beyond is drawn again
        if (left <= chance) return k;
        left -= chance;
        chance *= (count - k) / (k + 1) * odds;
      }
    }
  }
  const double spread = std::sqrt(count * p * q), most_likely = std::floor((count + 1) * p);
  const double b = 1.15 + 2.53 * spread, a = -0.0873 + 0.0248 * b + 0.01 * p, c = count * p + 0.5;
  const double vr = 0.92 - 4.2 / b, alpha = (2.83 + 5.1 / b) * spread;
  const double least = binomial_unlikeliness(count, p, most_likely);
  while (true) {
    const double u = uniform() - 0.5, v = uniform();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + c);
    if (k < 0 || k > count) continue;
    if (us >= 0.07 && v <= vr) return k;
    const double bound = least - binomial_unlikeliness(count, p, k);
    if (std::log(v * alpha / (a / (us * us) + b)) <= bound) return k;
  }
}
template <typename U>
FACULA_MATH_LARGE double binomial_number(double count, double p, U& uniform) {
  if (count == 0 || p == 0) return 0;
  if (p == 1) return count;
  return p <= 0.5 ? binomial_below_half(count, p, uniform) : count - binomial_below_half(count, 1 - p, uniform);
}

}  // namespace FACULA_ISA
}  // namespace facula::draws
