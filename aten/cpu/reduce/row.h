// The reduction of one row, which all loops of reductions are made of. For files that are compiled per
// instruction set.
#pragma once

#include <cstring>
#include <limits>
#include <type_traits>

#include "aten/cpu/common/vector.h"

namespace facula {

namespace FACULA_ISA {

namespace {

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

// Integers are summed and multiplied as unsigned ones, which wrap.
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
    a = ((x > a) | (x != x)) ? x : a;
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
    a = ((x < a) | (x != x)) ? x : a;
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

// Combines a step's worth of lanes to G numbers, always position i with position i + half.
template <typename Op, int G, typename C>
FACULA_INLINE void combine_lanes(Vec<C>* v, C* out) {
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
  combine_lanes<Op, 1>(a, &best);
  combine_lanes<MaxOp, 1>(m, &most);
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
    combine_lanes<Op, G>(a, total);
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

}  // namespace

}  // namespace FACULA_ISA

}  // namespace facula
