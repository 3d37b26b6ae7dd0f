// Sorting of long rows, eight bits of the key at a time from the lowest; each pass keeps the order of equal digits, reads
// what there is once and writes it once (Adinets and Merrill, "Onesweep: A Faster Least Significant Digit Radix Sort for
// GPUs", 2022). Before it stand: what keys.h wants, FACULA_ITEMS (of a thread).
#include "facula/cuda/keys.h"

namespace facula {

constexpr int kTile = kThreads * FACULA_ITEMS, kPasses = static_cast<int>(sizeof(U));
static_assert(kThreads == kDigits);
// What a tile says of a digit: how many it has, then how many there are up to its end; 0 is nothing yet.
constexpr uint32_t kOwn = 1u << 30, kAll = 1u << 31, kNumber = kOwn - 1;
// How a pass goes; 0: not at all, as all keys have one digit there.
constexpr uint32_t kRuns = 1, kFirst = 2, kLast = 4, kTurn = 8;  // kTurn: from the second blocks to the first

struct RadixParams {
  const char* in;
  char* values;   // or null
  char* indices;  // int64
  U* keys[2];
  uint32_t* places[2];
  uint32_t* starts;   // (row, pass, digit): how many, then where the first goes
  uint32_t* steps;    // (row, pass)
  uint32_t* tickets;  // (row, pass): tiles that have begun
  uint32_t* tiles;    // (row, tile, digit), of one pass
  int64_t length, blocks, pass, descending;
  int64_t in_step, values_step, indices_step;  // bytes along the sorted dim
  StridedIterator<3> iterator;                                // rows of the three
};

FD S element_of(const RadixParams& p, const int64_t (&at)[3], int64_t i) {
  return *reinterpret_cast<const S*>(p.in + at[0] + i * p.in_step);
}

// The lanes of the warp with the same digit; votes are faster here than __match_any_sync.
FD uint32_t peers_of(uint32_t digit) {
  uint32_t peers = 0xffffffffu;
#pragma unroll
  for (int bit = 0; bit < 8; ++bit) {
    const bool set = (digit >> bit & 1u) != 0;
    const uint32_t alike = __ballot_sync(0xffffffffu, set);
    peers &= set ? alike : ~alike;
  }
  return peers;
}

// How many of a digit the tiles before `tile` have, from what they said of it.
FD uint32_t count_before(const volatile uint32_t* said, int64_t tile) {
  uint32_t before = 0;
  for (int64_t t = tile - 1; t >= 0; --t) {
    uint32_t s = 0;
    while (s == 0) s = said[t * kDigits];
    before += s & kNumber;
    if ((s & kAll) != 0) break;
  }
  return before;
}

}  // namespace facula

using namespace facula;

// The digits of all passes in one reading.
extern "C" __global__ void __launch_bounds__(kThreads) facula_radix_count(const __grid_constant__ RadixParams p) {
  __shared__ uint32_t counts[kPasses][kDigits];
  const int64_t row = blockIdx.y;
  int64_t at[3];
  p.iterator.places(row, at);
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) counts[pass][threadIdx.x] = 0;
  __syncthreads();
  for (int64_t tile = blockIdx.x; tile < p.blocks; tile += gridDim.x) {
#pragma unroll
    for (int i = 0; i < FACULA_ITEMS; ++i) {
      const int64_t place = tile * kTile + i * kThreads + threadIdx.x;
      if (place >= p.length) continue;
      const U key = key_of(element_of(p, at, place), p.descending != 0);
#pragma unroll
      for (int pass = 0; pass < kPasses; ++pass) atomicAdd(&counts[pass][digit_of(key, 8 * pass)], 1u);
    }
  }
  __syncthreads();
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    const uint32_t n = counts[pass][threadIdx.x];
    if (n != 0) atomicAdd(&p.starts[(row * kPasses + pass) * kDigits + threadIdx.x], n);
  }
}

// Where each digit begins, and which passes there are.
extern "C" __global__ void __launch_bounds__(kThreads) facula_radix_plan(const __grid_constant__ RadixParams p) {
  const int64_t row = blockIdx.x;
  uint32_t alike = 0;
  for (int pass = 0; pass < kPasses; ++pass) {
    uint32_t& mine = p.starts[(row * kPasses + pass) * kDigits + threadIdx.x];
    const uint32_t n = mine;
    if (__syncthreads_or(n == static_cast<uint32_t>(p.length)) != 0) alike |= 1u << pass;
    mine = sum_before(n);
  }
  if (threadIdx.x != 0) return;
  int last = 0;
  for (int pass = 0; pass < kPasses; ++pass) last = (alike >> pass & 1u) == 0 ? pass : last;
  uint32_t next = kFirst;
  for (int pass = 0; pass < kPasses; ++pass) {
    const bool runs = pass == last || (alike >> pass & 1u) == 0;
    p.steps[row * kPasses + pass] = runs ? kRuns | next | (pass == last ? kLast : 0) : 0;
    if (runs) next = next == kFirst ? kTurn : next ^ kTurn;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads, 4) facula_radix_sweep(const __grid_constant__ RadixParams p) {
  __shared__ uint32_t ranks[kWarps][kDigits];
  __shared__ uint32_t starts[kDigits];  // of a digit within the tile, then from there to its place in the row
  __shared__ uint32_t ticket;
  extern __shared__ char shared[];
  U* const keys = reinterpret_cast<U*>(shared);
  uint32_t* const places = reinterpret_cast<uint32_t*>(shared + kTile * sizeof(U));
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int64_t row = blockIdx.y, job = row * kPasses + p.pass;
  const uint32_t step = p.steps[job];
  if (step == 0) return;
  const bool first = (step & kFirst) != 0, turn = (step & kTurn) != 0;
  // Tiles go in the order in which blocks begin, so that those before one are under way.
  if (threadIdx.x == 0) ticket = atomicAdd(&p.tickets[job], 1u);
  for (int i = lane; i < kDigits; i += 32) ranks[warp][i] = 0;
  __syncthreads();
  const int64_t tile = ticket, begin = tile * kTile;
  const int count = static_cast<int>(p.length - begin < kTile ? p.length - begin : kTile);
  int64_t at[3];
  p.iterator.places(row, at);
  U key[FACULA_ITEMS];
  uint32_t place[FACULA_ITEMS];
  uint16_t rank[FACULA_ITEMS];
  const int mine = warp * 32 * FACULA_ITEMS + lane;
#pragma unroll
  for (int i = 0; i < FACULA_ITEMS; ++i) {
    const int j = mine + i * 32;
    key[i] = static_cast<U>(~U(0));  // beyond the end: behind all others
    place[i] = 0;
    if (j >= count) continue;
    if (first) {
      key[i] = key_of(element_of(p, at, begin + j), p.descending != 0);
      place[i] = static_cast<uint32_t>(begin + j);
    } else {
      key[i] = p.keys[turn][row * p.length + begin + j];
      place[i] = p.places[turn][row * p.length + begin + j];
    }
  }
  const int64_t shift = 8 * p.pass;
#pragma unroll
  for (int i = 0; i < FACULA_ITEMS; ++i) {
    const uint32_t digit = digit_of(key[i], shift);
    const uint32_t peers = peers_of(digit);
    const int leader = 31 - __clz(static_cast<int>(peers));
    uint32_t known = 0;
    if (lane == leader) {
      known = ranks[warp][digit];
      ranks[warp][digit] = known + __popc(peers);
    }
    known = __shfl_sync(0xffffffffu, known, leader);
    rank[i] = static_cast<uint16_t>(known + __popc(peers & ((1u << lane) - 1)));
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
  if (threadIdx.x == kDigits - 1) total -= static_cast<uint32_t>(kTile - count);
  volatile uint32_t* const said = p.tiles + row * p.blocks * kDigits + threadIdx.x;
  said[tile * kDigits] = (tile == 0 ? kAll : kOwn) | total;
  const uint32_t start = sum_before(total);
  starts[threadIdx.x] = start;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < FACULA_ITEMS; ++i) {
    const uint32_t digit = digit_of(key[i], shift), local = starts[digit] + ranks[warp][digit] + rank[i];
    keys[local] = key[i];
    places[local] = place[i];
  }
  const uint32_t before = count_before(said, tile);
  if (tile > 0) said[tile * kDigits] = kAll | (before + total);
  __syncthreads();
  starts[threadIdx.x] = p.starts[job * kDigits + threadIdx.x] + before - start;
  __syncthreads();
  const bool last = (step & kLast) != 0;
  for (int j = threadIdx.x; j < count; j += kThreads) {
    const U k = keys[j];
    const int64_t target = static_cast<uint32_t>(starts[digit_of(k, shift)] + static_cast<uint32_t>(j));
    const uint32_t from = places[j];
    if (!last) {
      p.keys[!turn][row * p.length + target] = k;
      p.places[!turn][row * p.length + target] = from;
      continue;
    }
    if (p.values != nullptr) {
      S element;
      if (!element_of_key(k, p.descending != 0, element)) element = element_of(p, at, from);
      *reinterpret_cast<S*>(p.values + at[1] + target * p.values_step) = element;
    }
    *reinterpret_cast<int64_t*>(p.indices + at[2] + target * p.indices_step) = from;
  }
}
