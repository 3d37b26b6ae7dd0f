// Statistics of the rows that are normalised, good to the ends of the range: a row whose squares leave it, or
// vanish, is taken as a copy scaled by a power of two.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "aten/cpu/nn/loops.h"

namespace facula::cpu {

// Of `x`, the row times 2^-exponent.
template <typename T>
struct RowStatistics {
  const T* x;
  double mean, rstd;
  int exponent = 0;
  double lost = 0;  // of the mean, where double is too coarse for it

  T center() const { return static_cast<T>(mean); }
  // What the center misses of the mean, in x and in normalised numbers.
  double missed() const { return static_cast<double>(center()) - mean + lost; }
  T shift() const { return static_cast<T>(missed() * rstd); }
  // Of the row itself.
  double row_mean() const { return std::ldexp(mean, exponent); }
  double row_rstd() const { return std::ldexp(rstd, -exponent); }
};

// Whether a variance, or mean of squares, was computed without loss.
template <typename T>
bool is_ordinary(double variance) {
  constexpr double kFar = std::is_same_v<T, float> ? 0x1p100 : 0x1p1000;
  return variance > 1 / kFar && variance < kFar;
}

// Whether a factor is the same in T: neither too large nor without digits.
template <typename T>
bool is_factor(double factor) {
  return factor == 0 || std::isnormal(static_cast<T>(factor));
}

// The exponent of the largest finite number; false where there is something else, or nothing but zeros.
template <typename T>
bool exponent_of(int64_t n, const T* x, int& exponent) {
  T top = 0;
  bool finite = true;
  for (int64_t i = 0; i < n; ++i) {
    const T size = std::fabs(x[i]);
    finite = finite && size <= std::numeric_limits<T>::max();
    top = size > top ? size : top;
  }
  exponent = finite && top > 0 ? std::ilogb(top) + 1 : 0;
  return finite && top > 0;
}

// What a mean in double misses where it lies this far beyond the spread: the distances from it say. `each` calls its
// argument with every number.
template <typename Each>
double lost_of_mean(double mean, double rstd, int64_t n, const Each& each) {
  if (!(std::fabs(mean) * rstd > 4)) return 0;
  double off = 0;
  each([&](double x) { off += x - mean; });
  return std::isfinite(off) ? -off / static_cast<double>(n) : 0;
}

template <typename T>
class NormRows {
 public:
  NormRows(int64_t n, bool rms, double eps) : loops_(norm_loops<T>()), n_(n), rms_(rms), eps_(eps) {}

  // `ahead` is what will be read next, or null. The copy of a scaled row lasts until the next call.
  RowStatistics<T> of(const T* row, const T* ahead) {
    const RowStatistics<T> found = plain(row, ahead, eps_);
    const double variance = 1 / (found.rstd * found.rstd);
    int e = 0;
    if (is_ordinary<T>(variance) || !exponent_of(n_, row, e)) return found;
    copy_.resize(static_cast<size_t>(n_));
    for (int64_t i = 0; i < n_; ++i) copy_[static_cast<size_t>(i)] = std::ldexp(row[i], -e);
    RowStatistics<T> again = plain(copy_.data(), nullptr, std::ldexp(eps_, -2 * e));
    again.exponent = e;
    return again;
  }

  // The same from statistics that were kept in T.
  RowStatistics<T> known(const T* row, T mean, T rstd) {
    const double m = static_cast<double>(mean), r = static_cast<double>(rstd);
    if (!is_ordinary<T>(1 / (r * r))) return of(row, nullptr);
    // In T a mean far beyond the spread has lost too much.
    const double center = std::fabs(m) * r > 4 ? loops_.moments(n_, row, nullptr).mean : m;
    return {row, center, r, 0, lost(row, center, r)};
  }

 private:
  RowStatistics<T> plain(const T* x, const T* ahead, double eps) const {
    const Moments of = rms_ ? Moments{0, loops_.sum_squares(n_, x)} : loops_.moments(n_, x, ahead);
    const double rstd = 1.0 / std::sqrt(std::max(of.squares / static_cast<double>(n_), 0.0) + eps);
    return {x, of.mean, rstd, 0, lost(x, of.mean, rstd)};
  }
  double lost(const T* x, double mean, double rstd) const {
    if constexpr (std::is_same_v<T, float>) return 0;
    return lost_of_mean(mean, rstd, n_, [&](const auto& fn) {
      for (int64_t i = 0; i < n_; ++i) fn(static_cast<double>(x[i]));
    });
  }

  const NormLoops<T>& loops_;
  int64_t n_;
  bool rms_;
  double eps_;
  std::vector<T> copy_;
};

}  // namespace facula::cpu
