// The k first keys of each row, a block a row: the digits of the k-th are found one by one from the highest, then
// what lies before it is collected and sorted. Before it stand: what keys.h wants, FACULA_ROOM (at least k).
#include "facula/cuda/keys.h"

namespace facula {

struct TopParams {
  const char* in;
  char* values;
  char* indices;
  int64_t rows, length, k, descending;
  int64_t in_step, values_step, indices_step;  // bytes along the dim
  StridedIterator<3> iterator;                                // rows of the three
};

FD bool before(U a, uint32_t at_a, U b, uint32_t at_b) { return a < b || (a == b && at_a < at_b); }

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(kThreads) facula_topk(const __grid_constant__ TopParams p) {
  __shared__ uint32_t counts[kWarps / 2][kDigits];
  __shared__ U keys[FACULA_ROOM];
  __shared__ uint32_t places[FACULA_ROOM];
  __shared__ uint32_t found, digit_found, wanted_left, total_equal;
  const int warp = threadIdx.x / 32 / 2;
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    int64_t at[3];
    p.iterator.places(row, at);
    const char* const in = p.in + at[0];
    const auto key_at = [&](int64_t i) {
      return key_of(*reinterpret_cast<const S*>(in + i * p.in_step), p.descending != 0);
    };
    U prefix = 0, mask = 0;  // the digits of the k-th key that are known
    uint32_t wanted = static_cast<uint32_t>(p.k), equal = 0;
    for (int shift = 8 * static_cast<int>(sizeof(U)) - 8; shift >= 0; shift -= 8) {
      for (int i = threadIdx.x; i < kWarps / 2 * kDigits; i += kThreads) counts[0][i] = 0;
      __syncthreads();
#pragma unroll 4
      for (int64_t i = threadIdx.x; i < p.length; i += kThreads) {
        const U key = key_at(i);
        if (static_cast<U>(key & mask) == prefix) atomicAdd(&counts[warp][digit_of(key, shift)], 1u);
      }
      __syncthreads();
      uint32_t mine = 0;
      if (threadIdx.x < kDigits) {
        for (int w = 0; w < kWarps / 2; ++w) mine += counts[w][threadIdx.x];
      }
      const uint32_t less = sum_before(mine);
      if (threadIdx.x < kDigits && less < wanted && wanted <= less + mine) {
        digit_found = threadIdx.x;
        wanted_left = wanted - less;
        total_equal = mine;
      }
      __syncthreads();
      prefix = static_cast<U>(prefix | static_cast<U>(static_cast<U>(digit_found) << shift));
      mask = static_cast<U>(mask | static_cast<U>(static_cast<U>(255) << shift));
      wanted = wanted_left;
      equal = total_equal;
    }
    // smaller keys, and the first `wanted` of the equal ones
    if (threadIdx.x == 0) found = 0;
    __syncthreads();
    const bool all_equal = equal == wanted;
    for (int64_t i = threadIdx.x; i < p.length; i += kThreads) {
      const U key = key_at(i);
      if (key < prefix || (all_equal && key == prefix)) {
        const uint32_t to = atomicAdd(&found, 1u);
        keys[to] = key;
        places[to] = static_cast<uint32_t>(i);
      }
    }
    __syncthreads();
    if (!all_equal) {
      uint32_t have = found;
      for (int64_t first = 0; have < static_cast<uint32_t>(p.k); first += kThreads) {
        const int64_t i = first + threadIdx.x;
        const uint32_t is = i < p.length && key_at(i) == prefix ? 1u : 0u, to = have + sum_before(is);
        if (is != 0 && to < static_cast<uint32_t>(p.k)) {
          keys[to] = prefix;
          places[to] = static_cast<uint32_t>(i);
        }
        if (threadIdx.x == kThreads - 1) total_equal = to + is;
        __syncthreads();
        have = total_equal;
        __syncthreads();
      }
    }
    for (int i = static_cast<int>(p.k) + threadIdx.x; i < FACULA_ROOM; i += kThreads) {
      keys[i] = static_cast<U>(~U(0));
      places[i] = ~0u;
    }
    __syncthreads();
    for (int size = 2; size <= FACULA_ROOM; size *= 2) {
      for (int step = size / 2; step > 0; step /= 2) {
        for (int i = threadIdx.x; i < FACULA_ROOM / 2; i += kThreads) {
          const int a = 2 * step * (i / step) + i % step, b = a + step;
          const U x = keys[a], y = keys[b];
          const uint32_t at_x = places[a], at_y = places[b];
          if (before(y, at_y, x, at_x) == ((a & size) == 0)) {
            keys[a] = y;
            keys[b] = x;
            places[a] = at_y;
            places[b] = at_x;
          }
        }
        __syncthreads();
      }
    }
    for (int i = threadIdx.x; i < p.k; i += kThreads) {
      const int64_t from = places[i];
      *reinterpret_cast<S*>(p.values + at[1] + i * p.values_step) = *reinterpret_cast<const S*>(in + from * p.in_step);
      *reinterpret_cast<int64_t*>(p.indices + at[2] + i * p.indices_step) = from;
    }
    __syncthreads();
  }
}
