// Reductions that operators have kernels for: FACULA_REDUCTION_KIND
//   0 mean, 1 variance and mean, 2 norms and (FACULA_NORM 6) the mean square, 3 sums without NaN, 4 numbers of elements
//   that are not zero.
namespace facula {

// The real part of a conj(b), and |x| in double.
template <typename C>
FD math::real_t<C> inner(C a, C b) {
  if constexpr (math::is_complex_number<C>) {
    return a.real() * b.real() + a.imag() * b.imag();
  } else {
    return a * b;
  }
}
template <typename C>
FD double size_of(C x) {
  if constexpr (math::is_complex_number<C>) {
    return ::hypot(double(x.real()), double(x.imag()));
  } else {
    return ::fabs(double(x));
  }
}

// What sums are kept in: double where that is wider, so that they stay in the range.
template <typename C>
struct Wide {
  using type = C;
  static FD C of(C x) { return x; }
};
template <>
struct Wide<float> {
  using type = double;
  static FD double of(float x) { return double(x); }
};
template <>
struct Wide<std::complex<float>> {
  using type = std::complex<double>;
  static FD type of(std::complex<float> x) { return type(double(x.real()), double(x.imag())); }
};
using D = Wide<T>::type;

#if FACULA_REDUCTION_KIND == 1
// Sums of the distances from an element and of their squares, in double, which takes the squares of any float.
struct Reduction {
  struct Acc {
    D center, sum;
    double squares, count;
  };
  static FD Acc init() { return {D(0), D(0), 0, 0}; }
  static FD void add(Acc& acc, T x, int64_t) {
    const D v = Wide<T>::of(x);
    if (acc.count == 0) acc.center = v;
    const D off = v - acc.center;
    acc.sum = acc.sum + off;
    acc.squares += inner(off, off);
    acc.count += 1;
  }
  static FD D mean_of(const Acc& a) { return a.center + a.sum / a.count; }
  // b about the center of a, which is an element too: not farther from the mean than sqrt(n) deviations.
  static FD Acc combine(Acc a, Acc b) {
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const D off = b.center - a.center, sum = b.sum + off * b.count;
    a.squares += b.squares + inner(off, b.sum + sum);
    a.sum = a.sum + sum;
    a.count += b.count;
    return a;
  }
  // numbers: the correction, and 1 for the root of the variance
  static FD void finish(Acc acc, const ReduceParams& p, char* const (&out)[FACULA_OUTS]) {
    const double below = double(p.length) - p.numbers[0];
    const double squares = acc.squares - inner(acc.sum, acc.sum) / acc.count;
    double var = (squares < 0 ? 0 : squares) / (below > 0 ? below : 0.0);
    if (p.length == 0) var = math::nan<double>;
    if (p.numbers[1] != 0) var = ::sqrt(var);
    *reinterpret_cast<O0*>(out[0]) = element<O0>(var);
#if FACULA_OUTS > 1
    *reinterpret_cast<O1*>(out[1]) = element<O1>(p.length == 0 ? D(math::nan<double>) : mean_of(acc));
#endif
  }
};

#elif FACULA_REDUCTION_KIND == 2
// numbers[0]: what the norm is multiplied by. Sums of squares in double take any float; those of doubles are taken in
// three ranges, two of them scaled (Blue 1978).
struct Reduction {
#if FACULA_NORM == 2 || FACULA_NORM == 6
  static constexpr double kFar = 0x1p500, kScale = 0x1p-700;
  struct Acc {
    double value, big, small;
  };
  static FD Acc init() { return {0, 0, 0}; }
  static FD void add(Acc& acc, T x, int64_t) {
    const double size = size_of(x);
    if (sizeof(R) == 4) {
      acc.value += size * size;
    } else if (size > kFar) {
      acc.big += (size * kScale) * (size * kScale);
    } else if (size < 1 / kFar) {
      acc.small += (size / kScale) * (size / kScale);
    } else {
      acc.value += size * size;  // NaN as well
    }
  }
  static FD Acc combine(Acc a, Acc b) { return {a.value + b.value, a.big + b.big, a.small + b.small}; }
  static FD void finish(Acc acc, const ReduceParams& p, char* const (&out)[FACULA_OUTS]) {
    // the sum of squares as v / unit / unit
    double v = acc.value, unit = 1;
    if (acc.big > 0) {
      v = acc.big + acc.value * kScale * kScale;
      unit = kScale;
    } else if (acc.value == 0) {
      v = acc.small;
      unit = 1 / kScale;
    } else {
      v += acc.small * kScale * kScale;
    }
#if FACULA_NORM == 6
    v = v / double(p.length) / unit / unit;
#else
    v = ::sqrt(v) * p.numbers[0] / unit;
#endif
    *reinterpret_cast<O0*>(out[0]) = element<O0>(v);
  }
#else
  struct Acc {
    double value;
  };
  static FD Acc init() { return {FACULA_NORM == 4 ? double(math::infinity<double>) : 0.0}; }
  static FD void add(Acc& acc, T x, int64_t) {
    const double size = size_of(x);
    acc = combine(acc, {FACULA_NORM == 0 ? double(x != T(0)) : FACULA_NORM == 5 ? ::pow(size, FACULA_ORDER) : size});
  }
  static FD Acc combine(Acc a, Acc b) {
    if (FACULA_NORM == 3) return {math::maximum(a.value, b.value)};
    if (FACULA_NORM == 4) return {math::minimum(a.value, b.value)};
    return {a.value + b.value};
  }
  static FD void finish(Acc acc, const ReduceParams& p, char* const (&out)[FACULA_OUTS]) {
    const double v = FACULA_NORM == 5 ? ::pow(acc.value, 1 / FACULA_ORDER) : acc.value;
    *reinterpret_cast<O0*>(out[0]) = element<O0>(v * p.numbers[0]);
  }
#endif
};

#elif FACULA_REDUCTION_KIND == 4
struct Reduction {
  struct Acc {
    int64_t count;
  };
  static FD Acc init() { return {0}; }
  static FD void add(Acc& acc, T x, int64_t) { acc.count += math::truth(x) ? 1 : 0; }
  static FD Acc combine(Acc a, Acc b) { return {a.count + b.count}; }
  static FD void finish(Acc acc, const ReduceParams&, char* const (&out)[FACULA_OUTS]) {
    *reinterpret_cast<O0*>(out[0]) = element<O0>(acc.count);
  }
};

#else
struct Reduction {
  struct Acc {
    D value;
  };
  static FD Acc init() { return {D(0)}; }
  static FD void add(Acc& acc, T x, int64_t) {
#if FACULA_REDUCTION_KIND == 3
    if (math::isnan(x)) x = T(0);
#endif
    acc.value = acc.value + Wide<T>::of(x);
  }
  static FD Acc combine(Acc a, Acc b) { return {a.value + b.value}; }
  static FD void finish(Acc acc, const ReduceParams& p, char* const (&out)[FACULA_OUTS]) {
#if FACULA_REDUCTION_KIND == 0
    acc.value = acc.value / math::real_t<D>(p.length);
#endif
    *reinterpret_cast<O0*>(out[0]) = element<O0>(acc.value);
  }
};
#endif

}  // namespace facula
