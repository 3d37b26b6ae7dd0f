// Compiled once per instruction set; see runtime/iterate/isa.h.
#include "aten/cpu/reduce_loops.h"

#include <complex>
#include <cstring>
#include <limits>
#include <type_traits>

#include "aten/cpu/vector.h"

namespace facula {

namespace FACULA_ISA {

namespace {

using cpu::ArgLoops;
using cpu::ReduceLoops;
using cpu::ReduceOp;

constexpr int kBytes = FACULA_VECTOR_BYTES;
template <typename C>
using Vec = cpu::Vector<C, kBytes>;
template <typename C>
constexpr int kLanes = kBytes / static_cast<int>(sizeof(C));
// One step takes 256 bytes, however many vectors that is, so that every instruction set adds in the
// same order.
constexpr int kUnroll = 256 / kBytes;
template <typename C>
constexpr int64_t kStep = 256 / static_cast<int64_t>(sizeof(C));

struct SumOp {
  template <typename C>
  static constexpr C identity() {
    return C(0);
  }
  template <typename V>
  static FACULA_INLINE void take(V& a, const V& x) {
    a += x;
  }
};
struct ProdOp {
  template <typename C>
  static constexpr C identity() {
    return C(1);
  }
  template <typename V>
  static FACULA_INLINE void take(V& a, const V& x) {
    a *= x;
  }
};
struct MaxOp {
  template <typename C>
  static constexpr C identity() {
    if constexpr (std::is_floating_point_v<C>)
      return -std::numeric_limits<C>::infinity();
    else
      return std::numeric_limits<C>::lowest();
  }
  template <typename V>
  static FACULA_INLINE void take(V& a, const V& x) {
    a = (x > a) | (x != x) ? x : a;
  }
};
struct MinOp {
  template <typename C>
  static constexpr C identity() {
    if constexpr (std::is_floating_point_v<C>)
      return std::numeric_limits<C>::infinity();
    else
      return std::numeric_limits<C>::max();
  }
  template <typename V>
  static FACULA_INLINE void take(V& a, const V& x) {
    a = (x < a) | (x != x) ? x : a;
  }
};

struct Plain {
  template <typename V>
  static FACULA_INLINE void apply(V&) {}
};
struct Square {
  template <typename V>
  static FACULA_INLINE void apply(V& v) {
    v = v * v;
  }
};

template <typename C>
FACULA_INLINE void fill(Vec<C>* v, C value) {
#pragma GCC unroll 16
  for (int k = 0; k < kUnroll; ++k) v[k] = Vec<C>{} + value;
}
template <typename Op, typename C>
FACULA_INLINE void take_all(Vec<C>* a, const Vec<C>* x) {
#pragma GCC unroll 16
  for (int k = 0; k < kUnroll; ++k) Op::take(a[k], x[k]);
}

// `steps` (at most 16) steps from x into v.
template <typename Op, typename Pre, typename C>
FACULA_INLINE void run_steps(const C* x, int64_t steps, Vec<C>* v) {
  fill<C>(v, Op::template identity<C>());
  for (int64_t s = 0; s < steps; ++s, x += kStep<C>) {
#pragma GCC unroll 16
    for (int k = 0; k < kUnroll; ++k) {
      Vec<C> t;
      cpu::load<kBytes>(x + k * kLanes<C>, t);
      Pre::apply(t);
      Op::take(v[k], t);
    }
  }
}

// Folds a step's worth of lanes to G numbers, always position i with position i + half.
template <typename Op, int G, typename C>
FACULA_INLINE void fold(Vec<C>* v, C* out) {
  C t[kStep<C>];
  int64_t half = kUnroll / 2;
#pragma GCC unroll 4
  for (; half >= 1; half /= 2) {
#pragma GCC unroll 8
    for (int64_t k = 0; k < half; ++k) Op::take(v[k], v[k + half]);
  }
  cpu::store<kBytes>(t, v[0]);
#pragma GCC unroll 4
  for (half = kLanes<C> / 2; half >= G; half /= 2) {
#pragma GCC unroll 8
    for (int64_t k = 0; k < half; ++k) Op::take(t[k], t[k + half]);
  }
#pragma GCC unroll 2
  for (int g = 0; g < G; ++g) out[g] = t[g];
}

// Extremes of floating-point rows: one instruction finds the extreme of the numbers, two more whether there
// was a NaN, namely bits above those of infinity.
template <typename Op>
constexpr bool kExtreme = std::is_same_v<Op, MinOp> || std::is_same_v<Op, MaxOp>;

template <typename Op, typename C>
FACULA_INLINE C extreme_of_steps(const C* x, int64_t steps) {
  using I = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
  constexpr I kBits = static_cast<I>(~(I(1) << (sizeof(I) * 8 - 1)));
  constexpr bool largest = std::is_same_v<Op, MaxOp>;
  Vec<C> a[kUnroll];
  Vec<I> m[kUnroll];
  fill<C>(a, Op::template identity<C>());
  fill<I>(m, I(0));
  for (int64_t s = 0; s < steps; ++s, x += kStep<C>) {
#pragma GCC unroll 16
    for (int k = 0; k < kUnroll; ++k) {
      Vec<C> t;
      cpu::load<kBytes>(x + k * kLanes<C>, t);
      if constexpr (largest)
        a[k] = t > a[k] ? t : a[k];
      else
        a[k] = t < a[k] ? t : a[k];
      const Vec<I> bits = reinterpret_cast<Vec<I>>(t) & kBits;
      m[k] = bits > m[k] ? bits : m[k];
    }
  }
  C best;
  I most;
  fold<Op, 1>(a, &best);
  fold<MaxOp, 1>(m, &most);
  C infinity = std::numeric_limits<C>::infinity();
  I limit;
  std::memcpy(&limit, &infinity, sizeof(I));
  return most > limit ? std::numeric_limits<C>::quiet_NaN() : best;
}

// Reduces x[0, n) to G interleaved numbers.
template <typename Op, typename Pre, int G, typename C>
FACULA_INLINE void reduce_row(const C* x, int64_t n, C* out) {
  constexpr int64_t step = kStep<C>;
  int64_t steps = n / step;
  C total[G];
  for (int g = 0; g < G; ++g) total[g] = Op::template identity<C>();
  if constexpr (kExtreme<Op> && std::is_floating_point_v<C>) {
    if (steps > 0) total[0] = extreme_of_steps<Op>(x, steps);
    x += steps * step;
    n %= step;
  } else if (steps > 0) {
    Vec<C> a[kUnroll], b[kUnroll], c[kUnroll];
    if (steps <= 16) {
      run_steps<Op, Pre>(x, steps, a);
      x += steps * step;
    } else {
      fill<C>(a, Op::template identity<C>());
      while (steps > 0) {
        fill<C>(b, Op::template identity<C>());
        for (int j = 0; j < 16 && steps > 0; ++j) {
          const int64_t now = steps < 16 ? steps : 16;
          run_steps<Op, Pre>(x, now, c);
          take_all<Op, C>(b, c);
          x += now * step;
          steps -= now;
        }
        take_all<Op, C>(a, b);
      }
    }
    fold<Op, G>(a, total);
    n %= step;
  }
  C rest[2 * G];
  for (int g = 0; g < 2 * G; ++g) rest[g] = Op::template identity<C>();
  int64_t i = 0;
  for (; i + 2 * G <= n; i += 2 * G) {
    for (int g = 0; g < 2 * G; ++g) {
      C t = x[i + g];
      Pre::apply(t);
      Op::take(rest[g], t);
    }
  }
  for (; i < n; ++i) {
    C t = x[i];
    Pre::apply(t);
    Op::take(rest[i % G], t);
  }
  for (int g = 0; g < G; ++g) {
    Op::take(rest[g], rest[g + G]);
    Op::take(total[g], rest[g]);
    out[g] = total[g];
  }
}

template <typename Op, typename Pre, int G, typename C>
void rows_loop(const void* xp, int64_t n, int64_t row_stride, int64_t rows, void* accp, int64_t) {
  const C* x = static_cast<const C*>(xp);
  C* acc = static_cast<C*>(accp);
  for (int64_t r = 0; r < rows; ++r) reduce_row<Op, Pre, G>(x + r * row_stride * G, n * G, acc + r * G);
}

// Eight rows at a time, added as a tree.
template <typename Op, typename Pre, typename C>
FACULA_INLINE void reduce_columns(const C* const* rows, int64_t m, int64_t w, C* acc) {
  constexpr int L = kLanes<C>;
  int64_t i = 0;
  bool fresh = true;
  for (; i + 8 <= m; i += 8, fresh = false) {
    const C* const* r = rows + i;
    int64_t j = 0;
    for (; j + L <= w; j += L) {
      Vec<C> t[8];
#pragma GCC unroll 8
      for (int k = 0; k < 8; ++k) {
        cpu::load<kBytes>(r[k] + j, t[k]);
        Pre::apply(t[k]);
      }
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) Op::take(t[k], t[k + 4]);
      Op::take(t[0], t[2]);
      Op::take(t[1], t[3]);
      Op::take(t[0], t[1]);
      if (!fresh) {
        cpu::load<kBytes>(acc + j, t[1]);
        Op::take(t[0], t[1]);
      }
      cpu::store<kBytes>(acc + j, t[0]);
    }
    for (; j < w; ++j) {
      C t[8];
      for (int k = 0; k < 8; ++k) {
        t[k] = r[k][j];
        Pre::apply(t[k]);
      }
      for (int k = 0; k < 4; ++k) Op::take(t[k], t[k + 4]);
      Op::take(t[0], t[2]);
      Op::take(t[1], t[3]);
      Op::take(t[0], t[1]);
      if (!fresh) Op::take(t[0], acc[j]);
      acc[j] = t[0];
    }
  }
  for (; i < m; ++i, fresh = false) {
    const C* r = rows[i];
    int64_t j = 0;
    for (; j + L <= w; j += L) {
      Vec<C> t, a;
      cpu::load<kBytes>(r + j, t);
      Pre::apply(t);
      if (!fresh) {
        cpu::load<kBytes>(acc + j, a);
        Op::take(t, a);
      }
      cpu::store<kBytes>(acc + j, t);
    }
    for (; j < w; ++j) {
      C t = r[j];
      Pre::apply(t);
      if (!fresh) Op::take(t, acc[j]);
      acc[j] = t;
    }
  }
}

template <typename Op, typename Pre, int G, typename C>
void columns_loop(const void* const* rows, int64_t m, int64_t w, void* acc, int64_t) {
  reduce_columns<Op, Pre>(reinterpret_cast<const C* const*>(rows), m, w * G, static_cast<C*>(acc));
}

template <typename Op, int G, typename C>
void merge_loop(void* accp, const void* otherp, int64_t w, int64_t, double, double) {
  C* acc = static_cast<C*>(accp);
  const C* other = static_cast<const C*>(otherp);
  for (int64_t j = 0; j < w * G; ++j) Op::take(acc[j], other[j]);
}

template <typename Op, typename Pre, typename C, int G = 1>
constexpr ReduceLoops plain_loops(ScalarType acc) {
  return {acc,
          1,
          int64_t{65536} / G,
          128,
          int64_t{8192 / sizeof(C)} / G,
          rows_loop<Op, Pre, G, C>,
          columns_loop<Op, Pre, G, C>,
          merge_loop<Op, G, C>};
}

// ---- complex products: no lanes worth the trouble ----
template <typename C>
FACULA_INLINE std::complex<C> times(std::complex<C> a, std::complex<C> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <typename C>
void complex_prod_rows(const void* xp, int64_t n, int64_t row_stride, int64_t rows, void* accp, int64_t) {
  const auto* x = static_cast<const std::complex<C>*>(xp);
  auto* acc = static_cast<std::complex<C>*>(accp);
  for (int64_t r = 0; r < rows; ++r) {
    std::complex<C> a = x[r * row_stride];
    for (int64_t i = 1; i < n; ++i) a = times(a, x[r * row_stride + i]);
    acc[r] = a;
  }
}
template <typename C>
void complex_prod_merge(void* accp, const void* otherp, int64_t w, int64_t, double, double) {
  auto* acc = static_cast<std::complex<C>*>(accp);
  const auto* other = static_cast<const std::complex<C>*>(otherp);
  for (int64_t j = 0; j < w; ++j) acc[j] = times(acc[j], other[j]);
}
template <typename C>
void complex_prod_columns(const void* const* rows, int64_t m, int64_t w, void* accp, int64_t) {
  std::memcpy(accp, rows[0], static_cast<size_t>(w) * sizeof(std::complex<C>));
  for (int64_t i = 1; i < m; ++i) complex_prod_merge<C>(accp, rows[i], w, 0, 0, 0);
}
template <typename C>
constexpr ReduceLoops complex_prod_loops(ScalarType acc) {
  return {acc, 1, 65536, 128, 512, complex_prod_rows<C>, complex_prod_columns<C>, complex_prod_merge<C>};
}

// ---- mean and squared deviations ----
// Two passes over a run that fits the cache. Deviations from the rounded mean are exact enough that
// their own mean repairs it, hence the float64 planes.
template <typename C>
FACULA_INLINE void moments_of_row(const C* x, int64_t n, double* mean_out, double* m2_out) {
  C sum;
  reduce_row<SumOp, Plain, 1>(x, n, &sum);
  const C mean = sum / static_cast<C>(n);
  double s1 = 0, s2 = 0;
  int64_t i = 0;
  constexpr int64_t step = kStep<C>;
  while (i + step <= n) {
    Vec<C> a[kUnroll], b[kUnroll];
    fill<C>(a, C(0));
    fill<C>(b, C(0));
    for (int s = 0; s < 16 && i + step <= n; ++s, i += step) {
#pragma GCC unroll 16
      for (int k = 0; k < kUnroll; ++k) {
        Vec<C> t;
        cpu::load<kBytes>(x + i + k * kLanes<C>, t);
        t -= mean;
        a[k] += t;
        b[k] += t * t;
      }
    }
    C f1, f2;
    fold<SumOp, 1>(a, &f1);
    fold<SumOp, 1>(b, &f2);
    s1 += f1;
    s2 += f2;
  }
  for (; i < n; ++i) {
    const double t = x[i] - mean;
    s1 += t;
    s2 += t * t;
  }
  *mean_out = mean - mean == 0 ? mean + s1 / static_cast<double>(n) : static_cast<double>(mean);
  *m2_out = s1 - s1 == 0 ? s2 - s1 * s1 / static_cast<double>(n) : std::numeric_limits<double>::quiet_NaN();
  if (*m2_out < 0) *m2_out = 0;
}

template <typename C>
void moments_rows(const void* xp, int64_t n, int64_t row_stride, int64_t rows, void* accp, int64_t stride) {
  const C* x = static_cast<const C*>(xp);
  double* acc = static_cast<double*>(accp);
  for (int64_t r = 0; r < rows; ++r) moments_of_row(x + r * row_stride, n, acc + r, acc + stride + r);
}

template <typename C>
void moments_columns(const void* const* rowsp, int64_t m, int64_t w, void* accp, int64_t stride) {
  constexpr int64_t kWidth = 4096 / sizeof(C);
  constexpr int L = kLanes<C>;
  const C* const* rows = reinterpret_cast<const C* const*>(rowsp);
  double* mean_out = static_cast<double*>(accp);
  double* m2_out = mean_out + stride;
  C mean[kWidth], s1[kWidth], s2[kWidth];
  reduce_columns<SumOp, Plain>(rows, m, w, mean);
  for (int64_t j = 0; j < w; ++j) mean[j] /= static_cast<C>(m);
  for (int64_t j = 0; j < w; ++j) s1[j] = s2[j] = 0;
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) {
    const C* const* r = rows + i;
    int64_t j = 0;
    for (; j + L <= w; j += L) {
      Vec<C> mu, a, b;
      cpu::load<kBytes>(mean + j, mu);
      cpu::load<kBytes>(s1 + j, a);
      cpu::load<kBytes>(s2 + j, b);
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) {
        Vec<C> t;
        cpu::load<kBytes>(r[k] + j, t);
        t -= mu;
        a += t;
        b += t * t;
      }
      cpu::store<kBytes>(s1 + j, a);
      cpu::store<kBytes>(s2 + j, b);
    }
    for (; j < w; ++j) {
      for (int k = 0; k < 4; ++k) {
        const C t = r[k][j] - mean[j];
        s1[j] += t;
        s2[j] += t * t;
      }
    }
  }
  for (; i < m; ++i) {
    for (int64_t j = 0; j < w; ++j) {
      const C t = rows[i][j] - mean[j];
      s1[j] += t;
      s2[j] += t * t;
    }
  }
  const double n = static_cast<double>(m);
  for (int64_t j = 0; j < w; ++j) {
    const double a = s1[j];
    const double m2 = s2[j] - a * a / n;
    mean_out[j] = mean[j] - mean[j] == 0 ? mean[j] + a / n : static_cast<double>(mean[j]);
    m2_out[j] = !(a - a == 0) ? std::numeric_limits<double>::quiet_NaN() : (m2 < 0 ? 0 : m2);
  }
}

void moments_merge(void* accp, const void* otherp, int64_t w, int64_t stride, double na, double nb) {
  double* acc = static_cast<double*>(accp);
  const double* other = static_cast<const double*>(otherp);
  const double share = nb / (na + nb);
  for (int64_t j = 0; j < w; ++j) {
    const double delta = other[j] - acc[j];
    acc[j] = delta - delta == 0 ? acc[j] + delta * share : acc[j] + other[j];
    acc[stride + j] += other[stride + j] + delta * delta * share * na;
  }
}
template <typename C>
constexpr ReduceLoops moments_loops() {
  return {ScalarType::Float64,        2,
          int64_t{32768 / sizeof(C)}, 32,
          int64_t{4096 / sizeof(C)},  moments_rows<C>,
          moments_columns<C>,         moments_merge};
}

const ReduceLoops* find_reduce_loops(ReduceOp op, ScalarType compute) {
  using S = ScalarType;
  switch (op) {
    case ReduceOp::Sum: {
      static constexpr ReduceLoops f32 = plain_loops<SumOp, Plain, float>(S::Float32);
      static constexpr ReduceLoops f64 = plain_loops<SumOp, Plain, double>(S::Float64);
      static constexpr ReduceLoops i64 = plain_loops<SumOp, Plain, int64_t>(S::Int64);
      static constexpr ReduceLoops c64 = plain_loops<SumOp, Plain, float, 2>(S::Complex64);
      static constexpr ReduceLoops c128 = plain_loops<SumOp, Plain, double, 2>(S::Complex128);
      switch (compute) {
        case S::Float32:
          return &f32;
        case S::Float64:
          return &f64;
        case S::Int64:
          return &i64;
        case S::Complex64:
          return &c64;
        case S::Complex128:
          return &c128;
        default:
          return nullptr;
      }
    }
    case ReduceOp::Prod: {
      static constexpr ReduceLoops f32 = plain_loops<ProdOp, Plain, float>(S::Float32);
      static constexpr ReduceLoops f64 = plain_loops<ProdOp, Plain, double>(S::Float64);
      static constexpr ReduceLoops i64 = plain_loops<ProdOp, Plain, int64_t>(S::Int64);
      static constexpr ReduceLoops c64 = complex_prod_loops<float>(S::Complex64);
      static constexpr ReduceLoops c128 = complex_prod_loops<double>(S::Complex128);
      switch (compute) {
        case S::Float32:
          return &f32;
        case S::Float64:
          return &f64;
        case S::Int64:
          return &i64;
        case S::Complex64:
          return &c64;
        case S::Complex128:
          return &c128;
        default:
          return nullptr;
      }
    }
    case ReduceOp::Min: {
      static constexpr ReduceLoops f32 = plain_loops<MinOp, Plain, float>(S::Float32);
      static constexpr ReduceLoops f64 = plain_loops<MinOp, Plain, double>(S::Float64);
      static constexpr ReduceLoops i32 = plain_loops<MinOp, Plain, int32_t>(S::Int32);
      static constexpr ReduceLoops i64 = plain_loops<MinOp, Plain, int64_t>(S::Int64);
      switch (compute) {
        case S::Float32:
          return &f32;
        case S::Float64:
          return &f64;
        case S::Int32:
          return &i32;
        case S::Int64:
          return &i64;
        default:
          return nullptr;
      }
    }
    case ReduceOp::Max: {
      static constexpr ReduceLoops f32 = plain_loops<MaxOp, Plain, float>(S::Float32);
      static constexpr ReduceLoops f64 = plain_loops<MaxOp, Plain, double>(S::Float64);
      static constexpr ReduceLoops i32 = plain_loops<MaxOp, Plain, int32_t>(S::Int32);
      static constexpr ReduceLoops i64 = plain_loops<MaxOp, Plain, int64_t>(S::Int64);
      switch (compute) {
        case S::Float32:
          return &f32;
        case S::Float64:
          return &f64;
        case S::Int32:
          return &i32;
        case S::Int64:
          return &i64;
        default:
          return nullptr;
      }
    }
    case ReduceOp::SumSquares: {
      static constexpr ReduceLoops f32 = plain_loops<SumOp, Square, float>(S::Float32);
      static constexpr ReduceLoops f64 = plain_loops<SumOp, Square, double>(S::Float64);
      return compute == S::Float32 ? &f32 : compute == S::Float64 ? &f64 : nullptr;
    }
    case ReduceOp::Moments: {
      static constexpr ReduceLoops f32 = moments_loops<float>();
      static constexpr ReduceLoops f64 = moments_loops<double>();
      return compute == S::Float32 ? &f32 : compute == S::Float64 ? &f64 : nullptr;
    }
  }
  return nullptr;
}

// ---- first extreme ----
// beats(x, a): x replaces a. NaN beats every number and no NaN.
template <bool Largest, typename V>
FACULA_INLINE auto beats(const V& x, const V& a) {
  if constexpr (Largest)
    return (x > a) | ((x != x) & (a == a));
  else
    return (x < a) | ((x != x) & (a == a));
}

template <bool Largest, typename C>
void arg_row(const void* xp, int64_t n, void* bestp, int64_t* index) {
  using Op = std::conditional_t<Largest, MaxOp, MinOp>;
  constexpr int64_t kChunk = 8192 / sizeof(C);
  const C* x = static_cast<const C*>(xp);
  C best = x[0];
  int64_t where = 0;
  for (int64_t begin = 0; begin < n && best == best; begin += kChunk) {
    const int64_t size = n - begin < kChunk ? n - begin : kChunk;
    C extreme;
    reduce_row<Op, Plain, 1>(x + begin, size, &extreme);
    if (!beats<Largest>(extreme, best)) continue;
    best = extreme;
    // Only now that a better one is known to be here, look for its place.
    int64_t i = 0;
    if (extreme == extreme) {
      while (x[begin + i] != extreme) ++i;
    } else {
      while (x[begin + i] == x[begin + i]) ++i;
    }
    where = begin + i;
  }
  *static_cast<C*>(bestp) = best;
  *index = where;
}

template <bool Largest, typename C>
void arg_columns(const void* const* rowsp, int64_t m, int64_t w, int64_t first, void* bestp, void* indexp) {
  using I = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
  constexpr int L = kLanes<C>;
  const C* const* rows = reinterpret_cast<const C* const*>(rowsp);
  C* best = static_cast<C*>(bestp);
  I* index = static_cast<I*>(indexp);
  int64_t begin = 0;
  if (first == 0) {
    std::memcpy(best, rows[0], static_cast<size_t>(w) * sizeof(C));
    std::memset(index, 0, static_cast<size_t>(w) * sizeof(I));
    begin = 1;
  }
  for (int64_t i = begin; i < m; i += 4) {
    const int64_t now = m - i < 4 ? m - i : 4;
    const C* const* r = rows + i;
    const I number = static_cast<I>(first + i);
    int64_t j = 0;
    if (now == 4) {
      for (; j + L <= w; j += L) {
        Vec<C> a;
        Vec<I> at;
        cpu::load<kBytes>(best + j, a);
        cpu::load<kBytes>(index + j, at);
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
          Vec<C> t;
          cpu::load<kBytes>(r[k] + j, t);
          const auto better = beats<Largest>(t, a);
          a = better ? t : a;
          at = better ? Vec<I>{} + static_cast<I>(number + k) : at;
        }
        cpu::store<kBytes>(best + j, a);
        cpu::store<kBytes>(index + j, at);
      }
    }
    for (; j < w; ++j) {
      for (int64_t k = 0; k < now; ++k) {
        if (beats<Largest>(r[k][j], best[j])) {
          best[j] = r[k][j];
          index[j] = static_cast<I>(number + k);
        }
      }
    }
  }
}

template <bool Largest>
const ArgLoops* find_arg_loops_of(ScalarType compute) {
  static constexpr ArgLoops f32 = {arg_row<Largest, float>, arg_columns<Largest, float>};
  static constexpr ArgLoops f64 = {arg_row<Largest, double>, arg_columns<Largest, double>};
  static constexpr ArgLoops i32 = {arg_row<Largest, int32_t>, arg_columns<Largest, int32_t>};
  static constexpr ArgLoops i64 = {arg_row<Largest, int64_t>, arg_columns<Largest, int64_t>};
  switch (compute) {
    case ScalarType::Float32:
      return &f32;
    case ScalarType::Float64:
      return &f64;
    case ScalarType::Int32:
      return &i32;
    case ScalarType::Int64:
      return &i64;
    default:
      return nullptr;
  }
}
const ArgLoops* find_arg_loops(bool largest, ScalarType compute) {
  return largest ? find_arg_loops_of<true>(compute) : find_arg_loops_of<false>(compute);
}

}  // namespace

}  // namespace FACULA_ISA

FACULA_DEFINE_BY_ISA(cpu::ReduceTable, reduce_table, {find_reduce_loops, find_arg_loops})

}  // namespace facula
