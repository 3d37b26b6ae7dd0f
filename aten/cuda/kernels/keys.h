// Keys of elements in the order of their values, and what work on their digits shares. Before it stand: S
// (elements), U (unsigned numbers of their size), FACULA_CLASS (0 unsigned, 1 signed, 2 floating),
// FACULA_LARGEST (of floating bits: infinity), FACULA_THREADS (of a block).
#pragma once

#include "facula/cuda/strided_iterator.h"

namespace facula {

constexpr int kThreads = FACULA_THREADS, kWarps = kThreads / 32, kDigits = 256;

// Keys in the order of values: NaN is the largest, -0 equals 0.
FD U key_of(S element, bool descending) {
  union {
    S element;
    U bits;
  } x;
  x.element = element;
  constexpr U kSign = static_cast<U>(U(1) << (8 * sizeof(U) - 1));
  U key = x.bits;
#if FACULA_CLASS == 2
  if (static_cast<U>(key & static_cast<U>(~kSign)) > static_cast<U>(FACULA_LARGEST)) key = static_cast<U>(~kSign);
  if (key == kSign) key = 0;
  key = (key & kSign) != 0 ? static_cast<U>(~key) : static_cast<U>(key | kSign);
#elif FACULA_CLASS == 1
  key = static_cast<U>(key ^ kSign);
#endif
  return descending ? static_cast<U>(~key) : key;
}
// The element of a key; false where several have it.
FD bool element_of_key(U key, bool descending, S& element) {
  union {
    S element;
    U bits;
  } x;
  constexpr U kSign = static_cast<U>(U(1) << (8 * sizeof(U) - 1));
  if (descending) key = static_cast<U>(~key);
#if FACULA_CLASS == 2
  if (key == kSign || key == static_cast<U>(~U(0))) return false;  // zeros, NaNs
  x.bits = (key & kSign) != 0 ? static_cast<U>(key ^ kSign) : static_cast<U>(~key);
#elif FACULA_CLASS == 1
  x.bits = static_cast<U>(key ^ kSign);
#else
  x.bits = key;
#endif
  element = x.element;
  return true;
}
FD uint32_t digit_of(U key, int64_t shift) { return static_cast<uint32_t>(key >> shift) & 255u; }

// The sum of what the threads before this one have; a block of kThreads.
FD uint32_t sum_before(uint32_t mine) {
  __shared__ uint32_t warps[kWarps];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t sum = mine;
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const uint32_t left = __shfl_up_sync(0xffffffffu, sum, step);
    if (lane >= step) sum += left;
  }
  __syncthreads();
  if (lane == 31) warps[warp] = sum;
  __syncthreads();
  uint32_t before = sum - mine;
#pragma unroll
  for (int i = 0; i < kWarps; ++i) {
    if (i < warp) before += warps[i];
  }
  return before;
}

}  // namespace facula
