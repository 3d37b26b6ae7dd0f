// build: levels
#include "aten/cpu/reduce/loops.h"
#include "aten/cpu/reduce/row.h"

namespace facula {

namespace FACULA_ISA {

namespace {

using cpu::ArgLoops;

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
    // Only now that a better one is known to be here, look for its place; another thread may have written over it.
    int64_t i = 0;
    if (extreme == extreme) {
      while (i < size - 1 && x[begin + i] != extreme) ++i;
    } else {
      while (i < size - 1 && x[begin + i] == x[begin + i]) ++i;
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
const ArgLoops* loops_of(ScalarType compute) {
  static constexpr ArgLoops f32 = {arg_row<Largest, float>, arg_columns<Largest, float>};
  static constexpr ArgLoops f64 = {arg_row<Largest, double>, arg_columns<Largest, double>};
  static constexpr ArgLoops i32 = {arg_row<Largest, int32_t>, arg_columns<Largest, int32_t>};
  static constexpr ArgLoops i64 = {arg_row<Largest, int64_t>, arg_columns<Largest, int64_t>};
  static constexpr ArgLoops u64 = {arg_row<Largest, uint64_t>, arg_columns<Largest, uint64_t>};
  switch (compute) {
    case ScalarType::Float32:
      return &f32;
    case ScalarType::Float64:
      return &f64;
    case ScalarType::Int32:
      return &i32;
    case ScalarType::Int64:
      return &i64;
    case ScalarType::UInt64:
      return &u64;
    default:
      return nullptr;
  }
}
const ArgLoops* find(bool largest, ScalarType compute) {
  return largest ? loops_of<true>(compute) : loops_of<false>(compute);
}

}  // namespace

}  // namespace FACULA_ISA

FACULA_DEFINE_BY_ISA(cpu::FindArgLoops, find_arg_loops, FACULA_ISA::find)

}  // namespace facula
