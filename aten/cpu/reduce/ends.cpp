#include "aten/cpu/reduce/ends.h"

#include <bit>
#include <cmath>
#include <limits>

namespace facula::cpu {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kPart = 2048;  // numbers read at a time

// The elements of one result, in double: fn(numbers, how many), with two numbers for each complex one.
class Elements {
 public:
  Elements(const Tensor& self, const ReduceLayout& layout, int64_t offset, Preload preload)
      : layout_(layout),
        pairs_(self.is_complex() ? 2 : 1),
        load_(self.dtype(), self.is_complex() ? ScalarType::Complex128 : ScalarType::Float64,
              preload == Preload::NanToZero ? preload : Preload::None),
        data_(static_cast<const char*>(self.raw())),
        item_(static_cast<int64_t>(self.itemsize())),
        offset_(offset) {}

  template <typename F>
  void each(const F& fn) const {
    const int64_t along = layout_.reduced.empty() ? 1 : layout_.reduced.back().in, most = kPart / pairs_;
    StridedIterator at(layout_.reduced, 0);
    for (int64_t done = 0; done < layout_.count;) {
      alignas(64) double part[kPart];
      int64_t n = 0;
      while (n < most && done < layout_.count) {
        const int64_t m = std::min(at.left(), most - n);
        load_(part + n * pairs_, data_ + (offset_ + at.offset()) * item_, along, m);
        at.advance(m);
        n += m;
        done += m;
      }
      fn(part, n * pairs_);
    }
  }
  // The sizes of the elements.
  template <typename F>
  void each_size(const F& fn) const {
    each([&](double* x, int64_t n) {
      for (int64_t i = 0; i < n / pairs_; ++i)
        x[i] = pairs_ == 2 ? std::hypot(x[2 * i], x[2 * i + 1]) : std::fabs(x[i]);
      fn(x, n / pairs_);
    });
  }
  int64_t pairs() const { return pairs_; }
  int64_t count() const { return layout_.count; }

 private:
  const ReduceLayout& layout_;
  int64_t pairs_;
  ElementLoader load_;
  const char* data_;
  int64_t item_, offset_;
};

// A sum with the errors of its additions (Neumaier 1974).
struct Sum {
  double total = 0, error = 0;
  void add(double x) {
    const double next = total + x;
    error += std::fabs(total) >= std::fabs(x) ? (total - next) + x : (x - next) + total;
    total = next;
  }
  double value() const { return total + error; }
};

// The exponent that brings numbers up to `top` into [-1, 1].
int exponent_of(double top) { return top > 0 && std::isfinite(top) ? std::ilogb(top) + 1 : 0; }

// The largest size, of all numbers or of the finite ones; NaN if there is one.
double largest(const Elements& elements, bool finite) {
  double top = 0;
  elements.each([&](const double* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double size = std::fabs(x[i]);
      top = (size > top || size != size) && !(finite && !std::isfinite(size)) ? size : top;
    }
  });
  return top;
}

// Sums, or means, of the numbers, or of the real and the imaginary ones.
void sum_again(const Elements& elements, bool mean, double* out) {
  const int e = std::max(0, exponent_of(largest(elements, true)));
  const double by = std::ldexp(1.0, -e);
  const int64_t pairs = elements.pairs();
  Sum sums[2];
  double plain[2] = {0, 0};  // what is not finite stays so
  elements.each([&](const double* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double v = x[i] * by;
      sums[i % pairs].add(v);
      plain[i % pairs] += v;
    }
  });
  for (int64_t k = 0; k < pairs; ++k) {
    const double total = std::isfinite(plain[k]) ? sums[k].value() : plain[k];
    out[k] = std::ldexp(mean ? total / static_cast<double>(elements.count()) : total, e);
  }
}

double mean_square_again(const Elements& elements) {
  const double top = largest(elements, false);
  if (!std::isfinite(top)) return top;
  const int e = exponent_of(top);
  Sum sum;
  elements.each([&](const double* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double v = std::ldexp(x[i], -e);
      sum.add(v * v);
    }
  });
  return std::ldexp(std::ldexp(sum.value() / static_cast<double>(elements.count()), e), e);
}

// A product as mantissa and exponent.
void product_again(const Elements& elements, double* out) {
  double re = 1, im = 0;
  int64_t exponent = 0;
  const auto settle = [&] {
    const double size = std::max(std::fabs(re), std::fabs(im));
    if (!(size > 0) || !std::isfinite(size)) return;
    const int e = std::ilogb(size);
    re = std::ldexp(re, -e);
    im = std::ldexp(im, -e);
    exponent += e;
  };
  if (elements.pairs() == 2) {
    elements.each([&](const double* x, int64_t n) {
      for (int64_t i = 0; i < n; i += 2) {
        const double top = std::max(std::fabs(x[i]), std::fabs(x[i + 1]));
        const int e = exponent_of(top);
        const double a = std::ldexp(x[i], -e), b = std::ldexp(x[i + 1], -e), r = re * a - im * b;
        im = re * b + im * a;
        re = r;
        exponent += e;
        settle();
      }
    });
  } else {
    constexpr uint64_t kExponent = 0x7ff0000000000000, kOne = 0x3ff0000000000000;
    elements.each([&](const double* x, int64_t n) {
      constexpr int64_t kRun = 256;  // mantissas below 2, whose product stays in the range
      for (int64_t i = 0; i < n; i += kRun) {
        const int64_t end = std::min(n, i + kRun);
        double lanes[4] = {1, 1, 1, 1};
        int64_t total = 0;
        bool plain = true;
        for (int64_t j = i; j < end; ++j) {
          const uint64_t bits = std::bit_cast<uint64_t>(x[j]);
          const int64_t e = static_cast<int64_t>((bits & kExponent) >> 52);
          plain = plain && e != 0 && e != 0x7ff;
          lanes[j % 4] *= std::bit_cast<double>((bits & ~kExponent) | kOne);
          total += e - 1023;
        }
        if (plain) {
          re *= (lanes[0] * lanes[1]) * (lanes[2] * lanes[3]);
          exponent += total;
          settle();
          continue;
        }
        for (int64_t j = i; j < end; ++j) {
          const int e = exponent_of(std::fabs(x[j]));
          re *= std::ldexp(x[j], -e);
          exponent += e;
          settle();
        }
      }
    });
  }
  const int e = static_cast<int>(std::clamp<int64_t>(exponent, -4000, 4000));
  out[0] = std::ldexp(re, e);
  out[1] = std::ldexp(im, e);
}

double norm_again(const Elements& elements, double p, double scale) {
  double top = 0, low = kInfinity;
  elements.each_size([&](const double* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      top = x[i] > top || x[i] != x[i] ? x[i] : top;
      low = x[i] < low ? x[i] : low;
    }
  });
  if (top != top) return kNan;
  const double base = p > 0 ? top : low;
  if (base == 0 || std::isinf(base)) return base * scale;
  // Of squares a power of two, so that scaling does not round.
  const int e = std::ilogb(base);
  const double unit = p == 2 ? 1.0 : std::ldexp(base, -e);
  Sum sum;
  elements.each_size([&](const double* x, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const double v = std::ldexp(x[i], -e) / unit;
      sum.add(p == 2 ? v * v : p == 1 ? v : std::pow(v, p));
    }
  });
  const double root = p == 2 ? std::sqrt(sum.value()) : p == 1 ? sum.value() : std::pow(sum.value(), 1 / p);
  return std::ldexp(unit * root * scale, e);
}

// Mean and variance, or its root; false where there is none.
bool moments_again(const Elements& elements, bool root, double correction, double* mean, double* spread) {
  const double top = largest(elements, false), n = static_cast<double>(elements.count());
  if (!std::isfinite(top)) return false;
  const int e = exponent_of(top);
  Sum sum;
  elements.each([&](const double* x, int64_t m) {
    for (int64_t i = 0; i < m; ++i) sum.add(std::ldexp(x[i], -e));
  });
  const double center = sum.value() / n;
  Sum off, squares;
  elements.each([&](const double* x, int64_t m) {
    for (int64_t i = 0; i < m; ++i) {
      const double d = std::ldexp(x[i], -e) - center;
      off.add(d);
      squares.add(d * d);
    }
  });
  const double shift = off.value() / n,
               var = std::max(0.0, squares.value() - shift * off.value()) / std::max(0.0, n - correction);
  *mean = std::ldexp(center + shift, e);
  *spread = root ? std::ldexp(std::sqrt(var), e) : std::ldexp(std::ldexp(var, e), e);
  return true;
}

template <typename F>
void visit_acc(ScalarType acc, void* data, const F& fn) {
  if (to_real(acc) == ScalarType::Float32) {
    fn(static_cast<float*>(data));
  } else {
    fn(static_cast<double*>(data));
  }
}

}  // namespace

RangeEnds::RangeEnds(const ReduceSpec& spec, ScalarType acc, int64_t count)
    : spec_(spec), acc_(acc), count_(count), low_(0), high_(kInfinity) {
  if (spec.ends == Ends::None) return;
  const bool single = to_real(spec.compute) == ScalarType::Float32;
  high_ = to_real(acc) == ScalarType::Float32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  // Squares and powers below the normal numbers lose their digits; a sum of this size and more does not feel it.
  const double n = static_cast<double>(count), lost = single ? 0x1p-124 : 0x1p-1020;
  if (spec.ends == Ends::Variance || spec.ends == Ends::MeanSquare) low_ = lost;
  if (spec.ends == Ends::Deviation) low_ = std::sqrt(lost);
  if (spec.ends == Ends::Prod) low_ = lost;
  if (spec.ends == Ends::Norm) {
    const double p = spec.params.p, bound = p == 2 ? std::sqrt(n) * std::sqrt(lost) : std::pow(n * lost, 1 / p);
    if (p != 1 && p > 0) low_ = bound;
    if (p < 0) {  // zero where an element is, or where a power overflowed
      high_ = std::min(high_, bound);
      low_ =
          to_real(acc) == ScalarType::Float32 ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
    }
    low_ *= spec.params.scale;
    high_ *= spec.params.scale;
  }
}

bool RangeEnds::doubtful(const void* acc, int64_t w) const {
  // Partial products may leave the range though the result does not.
  if (spec_.ends == Ends::Prod && static_cast<double>(count_) > spec_.params.p) return true;
  bool all = true;
  const int64_t n = is_complex(acc_) ? 2 * w : w;
  visit_acc(acc_, const_cast<void*>(acc), [&](const auto* x) {
    using T = std::remove_cvref_t<decltype(*x)>;
    const T low = static_cast<T>(low_), high = static_cast<T>(high_);
    for (int64_t j = 0; j < n; ++j) {
      const T size = x[j] < 0 ? -x[j] : x[j];
      all &= (size >= low) & (size <= high);
    }
  });
  return !all;
}

void RangeEnds::repair(const Tensor& self, const ReduceLayout& layout, int64_t offset, int64_t w, void* acc) const {
  const int64_t step = layout.kept.empty() ? 0 : layout.kept.back().in;
  visit_acc(acc_, acc, [&](auto* x) {
    using T = std::remove_cvref_t<decltype(*x)>;
    const int64_t pairs = is_complex(acc_) ? 2 : 1;
    for (int64_t j = 0; j < w; ++j) {
      bool good = spec_.ends != Ends::Prod || static_cast<double>(count_) <= spec_.params.p;
      for (int64_t k = 0; k < pairs; ++k) good = good && fits(std::fabs(static_cast<double>(x[j * pairs + k])));
      if (good) continue;
      const Elements elements(self, layout, offset + j * step, spec_.preload);
      double found[2] = {0, 0};
      switch (spec_.ends) {
        case Ends::Sum:
        case Ends::Mean:
          sum_again(elements, spec_.ends == Ends::Mean, found);
          break;
        case Ends::MeanSquare:
          found[0] = mean_square_again(elements);
          break;
        case Ends::Prod:
          product_again(elements, found);
          break;
        case Ends::Norm:
          found[0] = norm_again(elements, spec_.params.p, spec_.params.scale);
          break;
        default:
          if (!moments_again(elements, spec_.ends == Ends::Deviation, spec_.params.correction, &found[1], &found[0])) {
            continue;
          }
          x[w + j] = static_cast<T>(found[1]);
      }
      for (int64_t k = 0; k < pairs; ++k) x[j * pairs + k] = static_cast<T>(found[k]);
    }
  });
}

}  // namespace facula::cpu
