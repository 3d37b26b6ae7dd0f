// build: levels
#include "aten/cpu/reduce/loops.h"

#include <complex>
#include <cstring>
#include <limits>

#include "aten/cpu/reduce/row.h"

namespace facula {

namespace FACULA_ISA {

namespace {

using cpu::ReduceLoops;
using cpu::ReduceOp;

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

template <typename C>
constexpr ScalarType accumulator(bool is_complex) {
  if constexpr (std::is_same_v<C, float>) return is_complex ? ScalarType::Complex64 : ScalarType::Float32;
  if constexpr (std::is_same_v<C, double>) return is_complex ? ScalarType::Complex128 : ScalarType::Float64;
  return sizeof(C) == 4 ? ScalarType::Int32 : ScalarType::Int64;  // sums of int64 are made as uint64
}
template <typename Op, typename Pre, typename C, int G = 1>
constexpr ReduceLoops kPlain = {accumulator<C>(G == 2),
                                1,
                                int64_t{65536} / G,
                                128,
                                int64_t{8192 / sizeof(C)} / G,
                                rows_loop<Op, Pre, G, C>,
                                columns_loop<Op, Pre, G, C>,
                                merge_loop<Op, G, C>};

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
constexpr ReduceLoops kComplexProd = {
    accumulator<C>(true), 1, 65536, 128, 512, complex_prod_rows<C>, complex_prod_columns<C>, complex_prod_merge<C>};

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
    combine_lanes<SumOp, 1>(a, &f1);
    combine_lanes<SumOp, 1>(b, &f2);
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
constexpr ReduceLoops kMoments = {ScalarType::Float64,        2,
                                  int64_t{32768 / sizeof(C)}, 32,
                                  int64_t{4096 / sizeof(C)},  moments_rows<C>,
                                  moments_columns<C>,         moments_merge};

template <typename Op, typename Pre>
const ReduceLoops* floating(ScalarType compute) {
  return compute == ScalarType::Float32   ? &kPlain<Op, Pre, float>
         : compute == ScalarType::Float64 ? &kPlain<Op, Pre, double>
                                          : nullptr;
}
template <typename Op>
const ReduceLoops* extremes(ScalarType compute) {
  return compute == ScalarType::Int32    ? &kPlain<Op, Plain, int32_t>
         : compute == ScalarType::Int64  ? &kPlain<Op, Plain, int64_t>
         : compute == ScalarType::UInt64 ? &kPlain<Op, Plain, uint64_t>
                                         : floating<Op, Plain>(compute);
}

const ReduceLoops* find(ReduceOp op, ScalarType compute) {
  using S = ScalarType;
  switch (op) {
    case ReduceOp::Sum:
      return compute == S::Int64        ? &kPlain<SumOp, Plain, uint64_t>
             : compute == S::Complex64  ? &kPlain<SumOp, Plain, float, 2>
             : compute == S::Complex128 ? &kPlain<SumOp, Plain, double, 2>
                                        : floating<SumOp, Plain>(compute);
    case ReduceOp::Prod:
      return compute == S::Int64        ? &kPlain<ProdOp, Plain, uint64_t>
             : compute == S::Complex64  ? &kComplexProd<float>
             : compute == S::Complex128 ? &kComplexProd<double>
                                        : floating<ProdOp, Plain>(compute);
    case ReduceOp::Min:
      return extremes<MinOp>(compute);
    case ReduceOp::Max:
      return extremes<MaxOp>(compute);
    case ReduceOp::SumSquares:
      return floating<SumOp, Square>(compute);
    case ReduceOp::Moments:
      return compute == S::Float32 ? &kMoments<float> : compute == S::Float64 ? &kMoments<double> : nullptr;
  }
  return nullptr;
}

}  // namespace

}  // namespace FACULA_ISA

FACULA_DEFINE_BY_ISA(cpu::FindReduceLoops, find_reduce_loops, FACULA_ISA::find)

}  // namespace facula
