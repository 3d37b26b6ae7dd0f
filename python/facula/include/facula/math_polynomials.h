// Orthogonal polynomials; included by facula/math.h.
//
// Recurrences lose digits at the ends of the interval and beside zeros, so they run in pairs of doubles (Dekker 1971), and
// the last sum is rounded once. Those of Chebyshev go by doubling of the order (DLMF 18.5(i), as products of 2 x 2 matrices),
// the others by the recurrences of DLMF 18.9(i), up to an order of 65536; of a higher one they are NaN, as what overflows is.
#pragma once

namespace facula::math {

inline namespace FACULA_ISA {

namespace detail {

struct Pair {
  double high, low;
};
FACULA_MATH_LARGE Pair pair_of(double high, double low) {
  const double sum = high + low;
  return {sum, low - (sum - high)};
}
FACULA_MATH_LARGE Pair operator+(Pair a, Pair b) {
  const double sum = a.high + b.high, part = sum - a.high;
  const double rest = (a.high - (sum - part)) + (b.high - part);
  return pair_of(sum, rest + (a.low + b.low));
}
FACULA_MATH_LARGE Pair operator-(Pair a) { return {-a.high, -a.low}; }
FACULA_MATH_LARGE Pair operator-(Pair a, Pair b) { return a + -b; }
// The rest of a product by Veltkamp's halves, where product_rest would leave the range of floats.
FACULA_MATH_LARGE double exact_rest(double a, double b, double product) {
#ifdef __FMA__
  return __builtin_fma(a, b, -product);
#else
  if (!(std::fabs(a) < 1e290 && std::fabs(b) < 1e290)) return 0;
  const double p = 134217729.0 * a, q = 134217729.0 * b;
  const double ah = p - (p - a), bh = q - (q - b), al = a - ah, bl = b - bh;
  return ((ah * bh - product) + ah * bl + al * bh) + al * bl;
#endif
}
FACULA_MATH_LARGE Pair operator*(Pair a, Pair b) {
  const double product = a.high * b.high;
  if (isinf(product) || isnan(product)) return {product, 0};
  return pair_of(product, exact_rest(a.high, b.high, product) + (a.high * b.low + a.low * b.high));
}
FACULA_MATH_LARGE Pair operator*(double a, Pair b) { return Pair{a, 0} * b; }
FACULA_MATH_LARGE Pair over(Pair a, double b) {
  const double quotient = a.high / b, product = quotient * b;
  if (isinf(quotient) || isnan(quotient)) return {quotient, 0};
  return pair_of(quotient, ((a.high - product) - exact_rest(quotient, b, product) + a.low) / b);
}
FACULA_MATH_LARGE double rounded(Pair a) { return isinf(a.high) || isnan(a.high) ? a.high : a.high + a.low; }

// T_n and U_(n-1) at x: (T + U sqrt(x^2 - 1)) to the power n.
struct Chebyshev {
  Pair t, u;
};
FACULA_MATH_LARGE Chebyshev chebyshev_pair(Pair x, double n) {
  const Pair square = x * x - Pair{1, 0};
  Chebyshev result{{1, 0}, {0, 0}}, power{x, {1, 0}};
  for (; n >= 1; n = std::floor(n / 2)) {
    if (std::fmod(n, 2) == 1) {
      const Pair t = result.t * power.t + square * (result.u * power.u);
      result.u = result.u * power.t + result.t * power.u;
      result.t = t;
    }
    if (n < 2) break;
    const Pair u = 2 * (power.t * power.u);
    power.t = 2 * (power.t * power.t) - Pair{1, 0};
    power.u = u;
  }
  return result;
}
// Which kind: 0 for T, 1 for U, 2 for V, 3 for W.
FACULA_MATH_LARGE double chebyshev_polynomial(Pair x, double n, int kind) {
  if (isnan(x.high) || isnan(n)) return nan<double>;
  n = trunc(n);
  if (n < 0) return 0;
  if (n == 0) return 1;
  if (isinf(n) && std::fabs(x.high) <= 1) return nan<double>;
  if (isinf(n) || isinf(x.high)) return x.high > 0 || (!isinf(n) && std::fmod(n, 2) == 0) ? infinity<double> : -infinity<double>;
  const Chebyshev c = chebyshev_pair(x, n);  // U_n = T_n + x U_(n-1)
  const double value = kind == 0   ? rounded(c.t)
                       : kind == 1 ? rounded(c.t + x * c.u)
                       : kind == 2 ? rounded(c.t + (x - Pair{1, 0}) * c.u)
                                   : rounded(c.t + (x + Pair{1, 0}) * c.u);
  if (!isnan(value)) return value;  // beyond the range: the sign alone
  return x.high > 0 || std::fmod(n, 2) == 0 ? infinity<double> : -infinity<double>;
}
FACULA_MATH_LARGE double chebyshev_at(double x, double n, int kind) { return chebyshev_polynomial({x, 0}, n, kind); }
FACULA_MATH_LARGE double shifted_chebyshev_at(double x, double n, int kind) {
  return chebyshev_polynomial(2 * Pair{x, 0} - Pair{1, 0}, n, kind);
}

// p_(k+1) = ((a x + b) p_k - c p_(k-1)) / d, with a to d of k, by kind: 0 Hermite H, 1 He, 2 Laguerre, 3 Legendre.
FACULA_MATH_LARGE double recurred(double x, double n, int kind) {
  if (isnan(x) || isnan(n)) return nan<double>;
  n = trunc(n);
  if (n < 0) return 0;
  if (n > 65536) return nan<double>;
  Pair below{0, 0}, value{1, 0};
  for (double k = 0; k < n; k += 1) {
    const Pair at{x, 0};
    Pair next;
    if (kind == 0) {
      next = 2 * (at * value - k * below);
    } else if (kind == 1) {
      next = at * value - k * below;
    } else if (kind == 2) {
      next = over((Pair{2 * k + 1, 0} - at) * value - k * below, k + 1);
    } else {
      next = over((2 * k + 1) * (at * value) - k * below, k + 1);
    }
    if (isinf(next.high) || isnan(next.high)) {
      // Outside of the zeros the sign is that of the leading term; between them the values are beyond the range.
      const double lead = kind == 2 ? -x : x;
      const double reach = kind == 3 ? 1 : kind == 2 ? 4 * n + 2 : std::sqrt(4 * n + 2);
      if (kind == 2 && x < 0) return infinity<double>;
      if (!(std::fabs(x) > reach)) return nan<double>;
      return lead > 0 || std::fmod(n, 2) == 0 ? infinity<double> : -infinity<double>;
    }
    below = value;
    value = next;
  }
  return rounded(value);
}

}  // namespace detail

#define FACULA_POLYNOMIAL(name, function, kind)                                               \
  FACULA_MATH_LARGE double name(double x, double n) { return detail::function(x, n, kind); } \
  inline float name(float x, float n) { return static_cast<float>(name(static_cast<double>(x), static_cast<double>(n))); }
FACULA_POLYNOMIAL(chebyshev_t, chebyshev_at, 0)
FACULA_POLYNOMIAL(chebyshev_u, chebyshev_at, 1)
FACULA_POLYNOMIAL(chebyshev_v, chebyshev_at, 2)
FACULA_POLYNOMIAL(chebyshev_w, chebyshev_at, 3)
FACULA_POLYNOMIAL(shifted_chebyshev_t, shifted_chebyshev_at, 0)
FACULA_POLYNOMIAL(shifted_chebyshev_u, shifted_chebyshev_at, 1)
FACULA_POLYNOMIAL(shifted_chebyshev_v, shifted_chebyshev_at, 2)
FACULA_POLYNOMIAL(shifted_chebyshev_w, shifted_chebyshev_at, 3)
FACULA_POLYNOMIAL(hermite_h, recurred, 0)
FACULA_POLYNOMIAL(hermite_he, recurred, 1)
FACULA_POLYNOMIAL(laguerre_l, recurred, 2)
FACULA_POLYNOMIAL(legendre_p, recurred, 3)
#undef FACULA_POLYNOMIAL

}  // namespace FACULA_ISA
}  // namespace facula::math
