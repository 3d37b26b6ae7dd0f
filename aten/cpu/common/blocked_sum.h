// Sums of long rows, for files that are compiled per instruction set: in T within blocks, whose totals add up in
// double.
#pragma once

#include <cstdint>

#include "aten/cpu/common/vector.h"
#include "runtime/iterate/stream.h"

namespace facula {
namespace {

constexpr int64_t kSumBlock = 2048;

inline int64_t length(int64_t n, int64_t i, int64_t block) { return n - i < block ? n - i : block; }

// Side by side, as each of a row of additions waits for the one before.
template <int64_t kCount, typename T>
FACULA_INLINE double total(const T* a) {
  constexpr int64_t kLanes = 8;
  double sums[kLanes] = {};
  for (int64_t i = 0; i < kCount; i += kLanes) {
#pragma omp simd
    for (int64_t k = 0; k < kLanes; ++k) sums[k] += static_cast<double>(a[i + k]);
  }
  return ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
}

// Partial sums of one or two kinds of terms, term(i, first, second): how many they are does not depend on
// the vectors that the compiler finds, and so neither does the error. They are enough for several vectors,
// as one sum waits for the last. `ahead` (or null) is fetched: passes over a row in the cache leave the memory idle,
// and its own foresight ends at pages.
template <typename T, bool kTwo, typename F>
FACULA_INLINE void add_in_blocks(int64_t n, double& first, double& second, const T* ahead, const F& term) {
  constexpr int64_t kSums = (kTwo ? 128 : 256) / sizeof(T);
  for (int64_t i = 0; i < n; i += kSumBlock) {
    const int64_t end = i + length(n, i, kSumBlock);
    T a[kSums] = {}, b[kSums] = {};
    int64_t j = i;
    for (; j + kSums <= end; j += kSums) {
      if (ahead != nullptr) fetch(ahead + j, ahead + j + kSums);
#pragma omp simd
      for (int64_t k = 0; k < kSums; ++k) term(j + k, a[k], b[k]);
    }
    for (int64_t k = 0; j < end; ++j, ++k) term(j, a[k], b[k]);
    first += total<kSums>(a);
    if (kTwo) second += total<kSums>(b);
  }
}

}  // namespace
}  // namespace facula
