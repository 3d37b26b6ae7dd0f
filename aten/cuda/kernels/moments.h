// Folds that operators have kernels for: FACULA_FOLD_KIND
//   0 mean, 1 variance and mean, 2 norms, 3 sums without NaN, 4 numbers of elements that are not zero.
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

#if FACULA_FOLD_KIND == 1
// Welford's means and squared distances, joined as Chan, Golub and LeVeque do.
struct Fold {
  struct Acc {
    T mean;
    R squares, count;
  };
  static FD Acc init() { return {T(0), R(0), R(0)}; }
  static FD void add(Acc& acc, T x, int64_t) {
    acc.count += 1;
    const T before = x - acc.mean;
    acc.mean = acc.mean + before / acc.count;
    acc.squares += inner(before, x - acc.mean);
  }
  static FD Acc combine(Acc a, Acc b) {
    const R count = a.count + b.count;
    if (b.count == 0) return a;
    if (a.count == 0) return b;
    const T delta = b.mean - a.mean;
    const R share = b.count / count;
    return {a.mean + delta * share, a.squares + b.squares + inner(delta, delta) * a.count * share, count};
  }
  // numbers: the correction, and 1 for the root of the variance
  static FD void finish(Acc acc, const ReduceParams& p, char* const (&out)[FACULA_OUTS]) {
    const R below = R(p.length) - R(p.numbers[0]);
    R var = acc.squares / (below > 0 ? below : R(0));
    if (p.length == 0) var = math::nan<R>;
    if (p.numbers[1] != 0) var = math::sqrt(var);
    *reinterpret_cast<O0*>(out[0]) = element<O0>(var);
#if FACULA_OUTS > 1
    *reinterpret_cast<O1*>(out[1]) = element<O1>(p.length == 0 ? T(math::nan<R>) : acc.mean);
#endif
  }
};

#elif FACULA_FOLD_KIND == 2
// numbers[0]: the order. Sums of squares in double take any float; others are scaled by their largest.
struct Fold {
  struct Acc {
    double value;
  };
  static FD Acc init() { return {FACULA_NORM == 4 ? double(math::infinity<double>) : 0.0}; }
  static FD void add(Acc& acc, T x, int64_t) {
    const double size = size_of(x);
    acc = combine(acc, {FACULA_NORM == 0   ? double(x != T(0))
                        : FACULA_NORM == 2 ? size * size
                        : FACULA_NORM == 5 ? ::pow(size, FACULA_ORDER)
                                           : size});
  }
  static FD Acc combine(Acc a, Acc b) {
    if (FACULA_NORM == 3) return {math::maximum(a.value, b.value)};
    if (FACULA_NORM == 4) return {math::minimum(a.value, b.value)};
    return {a.value + b.value};
  }
  static FD void finish(Acc acc, const ReduceParams&, char* const (&out)[FACULA_OUTS]) {
    const double v = FACULA_NORM == 2   ? ::sqrt(acc.value)
                     : FACULA_NORM == 5 ? ::pow(acc.value, 1 / FACULA_ORDER)
                                        : acc.value;
    *reinterpret_cast<O0*>(out[0]) = element<O0>(v);
  }
};

#elif FACULA_FOLD_KIND == 4
struct Fold {
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
struct Fold {
  struct Acc {
    T value;
  };
  static FD Acc init() { return {T(0)}; }
  static FD void add(Acc& acc, T x, int64_t) {
#if FACULA_FOLD_KIND == 3
    if (math::isnan(x)) x = T(0);
#endif
    acc.value = acc.value + x;
  }
  static FD Acc combine(Acc a, Acc b) { return {a.value + b.value}; }
  static FD void finish(Acc acc, const ReduceParams& p, char* const (&out)[FACULA_OUTS]) {
#if FACULA_FOLD_KIND == 0
    acc.value = acc.value / R(p.length);
#endif
    *reinterpret_cast<O0*>(out[0]) = element<O0>(acc.value);
  }
};
#endif

}  // namespace facula
