// Sorting of long rows, eight bits of the key at a time from the lowest; each pass keeps the order of equal digits.
// Before it stand: what keys.h wants, FACULA_ITEMS (of a thread).
#include "facula/cuda/keys.h"

namespace facula {

constexpr int kTile = kThreads * FACULA_ITEMS;

struct RadixParams {
  const char* in;
  char* values;   // or null
  char* indices;  // int64
  const U* keys_in;
  U* keys_out;
  const uint32_t* places_in;
  uint32_t* places_out;
  uint32_t* counts;  // (row, digit, block)
  uint32_t* totals;  // (row, digit)
  int64_t length, blocks, shift, descending, first, last;
  int64_t in_step, values_step, indices_step;  // bytes along the sorted dim
  Walk<3> walk;                                // rows of the three
};

FD U read_key(const RadixParams& p, const int64_t (&at)[3], int64_t row, int64_t i) {
  if (p.first == 0) return p.keys_in[row * p.length + i];
  return key_of(*reinterpret_cast<const S*>(p.in + at[0] + i * p.in_step), p.descending != 0);
}

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(kThreads) facula_radix_count(const __grid_constant__ RadixParams p) {
  __shared__ uint32_t counts[kDigits];
  const int64_t row = blockIdx.y, begin = static_cast<int64_t>(blockIdx.x) * kTile;
  int64_t at[3];
  p.walk.places(row, at);
  counts[threadIdx.x] = 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < FACULA_ITEMS; ++i) {
    const int64_t place = begin + i * kThreads + threadIdx.x;
    if (place < p.length) atomicAdd(&counts[digit_of(read_key(p, at, row, place), p.shift)], 1u);
  }
  __syncthreads();
  p.counts[(row * kDigits + threadIdx.x) * p.blocks + blockIdx.x] = counts[threadIdx.x];
}

// Counts of a digit become the sums of those of earlier blocks: a block a digit and row.
extern "C" __global__ void __launch_bounds__(kThreads) facula_radix_sums(const __grid_constant__ RadixParams p) {
  __shared__ uint32_t whole;
  const int64_t job = static_cast<int64_t>(blockIdx.y) * kDigits + blockIdx.x;
  uint32_t* const counts = p.counts + job * p.blocks;
  uint32_t carry = 0;
  for (int64_t first = 0; first < p.blocks; first += kThreads) {
    const int64_t i = first + threadIdx.x;
    const uint32_t mine = i < p.blocks ? counts[i] : 0, before = sum_before(mine);
    if (i < p.blocks) counts[i] = carry + before;
    if (threadIdx.x == kThreads - 1) whole = before + mine;
    __syncthreads();
    carry += whole;
    __syncthreads();
  }
  if (threadIdx.x == 0) p.totals[job] = carry;
}

extern "C" __global__ void __launch_bounds__(kThreads) facula_radix_scatter(const __grid_constant__ RadixParams p) {
  __shared__ uint32_t ranks[kWarps][kDigits];
  __shared__ uint32_t starts[kDigits];  // of a digit within the tile, then from there to its place in the row
  __shared__ U keys[kTile];
  __shared__ uint32_t places[kTile];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t row = blockIdx.y, begin = static_cast<int64_t>(blockIdx.x) * kTile;
  const int count = static_cast<int>(p.length - begin < kTile ? p.length - begin : kTile);
  int64_t at[3];
  p.walk.places(row, at);
  for (int i = lane; i < kDigits; i += 32) ranks[warp][i] = 0;
  __syncwarp();
  U key[FACULA_ITEMS];
  uint32_t place[FACULA_ITEMS];
  uint16_t rank[FACULA_ITEMS];
  const int mine = warp * 32 * FACULA_ITEMS + lane;
#pragma unroll
  for (int i = 0; i < FACULA_ITEMS; ++i) {
    const int j = mine + i * 32;
    if (j < count) {
      key[i] = read_key(p, at, row, begin + j);
      place[i] = p.first != 0 ? static_cast<uint32_t>(begin + j) : p.places_in[row * p.length + begin + j];
    }
  }
#pragma unroll
  for (int i = 0; i < FACULA_ITEMS; ++i) {
    const bool real = mine + i * 32 < count;
    const uint32_t active = __ballot_sync(0xffffffffu, real);
    if (real) {
      const uint32_t digit = digit_of(key[i], p.shift);
      const uint32_t peers = __match_any_sync(active, digit);
      const uint32_t before = __popc(peers & ((1u << lane) - 1)), known = ranks[warp][digit];
      __syncwarp(active);
      if (before == 0) ranks[warp][digit] = known + __popc(peers);
      __syncwarp(active);
      rank[i] = static_cast<uint16_t>(known + before);
    }
    __syncwarp();
  }
  __syncthreads();
  uint32_t total = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    const uint32_t n = ranks[w][threadIdx.x];
    ranks[w][threadIdx.x] = total;
    total += n;
  }
  const uint32_t start = sum_before(total);
  starts[threadIdx.x] = start;
  const uint32_t whole = sum_before(p.totals[row * kDigits + threadIdx.x]);
  const uint32_t to = whole + p.counts[(row * kDigits + threadIdx.x) * p.blocks + blockIdx.x] - start;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < FACULA_ITEMS; ++i) {
    if (mine + i * 32 < count) {
      const uint32_t digit = digit_of(key[i], p.shift), local = starts[digit] + ranks[warp][digit] + rank[i];
      keys[local] = key[i];
      places[local] = place[i];
    }
  }
  __syncthreads();
  starts[threadIdx.x] = to;
  __syncthreads();
  for (int j = threadIdx.x; j < count; j += kThreads) {
    const U k = keys[j];
    const int64_t target = static_cast<uint32_t>(starts[digit_of(k, p.shift)] + static_cast<uint32_t>(j));
    if (p.last == 0) {
      p.keys_out[row * p.length + target] = k;
      p.places_out[row * p.length + target] = places[j];
      continue;
    }
    const int64_t from = places[j];
    if (p.values != nullptr) {
      *reinterpret_cast<S*>(p.values + at[1] + target * p.values_step) =
          *reinterpret_cast<const S*>(p.in + at[0] + from * p.in_step);
    }
    *reinterpret_cast<int64_t*>(p.indices + at[2] + target * p.indices_step) = from;
  }
}
