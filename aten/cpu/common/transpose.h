// Transposition of square blocks in vector registers, for files that are compiled per instruction set.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include "aten/cpu/gemm/panel.h"

namespace facula {
namespace {

// The two halves of one step: lane l of `a` and `b` with bit S of l exchanged.
template <typename Vector, typename Index, int S>
struct SwapLanes {
#if defined(__clang__)
  template <int... L>
  static Vector low(const Vector& a, const Vector& b, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(a, b, ((L & S) ? static_cast<int>(sizeof...(L)) + L - S : L)...);
  }
  template <int... L>
  static Vector high(const Vector& a, const Vector& b, std::integer_sequence<int, L...>) {
    return __builtin_shufflevector(a, b, ((L & S) ? static_cast<int>(sizeof...(L)) + L : L + S)...);
  }
#else
  template <int... L>
  static Vector low(const Vector& a, const Vector& b, std::integer_sequence<int, L...>) {
    return __builtin_shuffle(a, b, Index{((L & S) ? static_cast<int>(sizeof...(L)) + L - S : L)...});
  }
  template <int... L>
  static Vector high(const Vector& a, const Vector& b, std::integer_sequence<int, L...>) {
    return __builtin_shuffle(a, b, Index{((L & S) ? static_cast<int>(sizeof...(L)) + L : L + S)...});
  }
#endif
};

// r[i][j] becomes r[j][i].
template <typename T, int S = 1>
inline __attribute__((always_inline)) void transpose_block(Lanes<T> (&r)[kLanes<T>]) {
  using Vector = Lanes<T>;
  using Index = Lanes<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;
  constexpr std::make_integer_sequence<int, kLanes<T>> lanes;
  if constexpr (S < kLanes<T>) {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<T>; ++i) {
      if ((i & S) == 0) {
        const Vector a = r[i], b = r[i + S];
        r[i] = SwapLanes<Vector, Index, S>::low(a, b, lanes);
        r[i + S] = SwapLanes<Vector, Index, S>::high(a, b, lanes);
      }
    }
    transpose_block<T, 2 * S>(r);
  }
}

}  // namespace
}  // namespace facula
