// Sorting along rows: items are unique numbers (key, then place), so that any way of sorting is stable.
// Before it stand: S (elements), T (their value), FACULA_WIDE_KEYS (keys of 64 bits), FACULA_TILE.
#include "facula/cuda/strided_iterator.h"

namespace facula {

#if FACULA_WIDE_KEYS
struct Item {
  uint64_t key;
  uint64_t place;
};
FD bool before(const Item& a, const Item& b) { return a.key < b.key || (a.key == b.key && a.place < b.place); }
FD Item item_of(uint64_t key, uint64_t place) { return {key, place}; }
FD Item last_item() { return {~uint64_t(0), ~uint64_t(0)}; }
FD int64_t place_of(const Item& i) { return static_cast<int64_t>(i.place); }
#else
using Item = uint64_t;
FD bool before(Item a, Item b) { return a < b; }
FD Item item_of(uint64_t key, uint64_t place) { return key << 32 | place; }
FD Item last_item() { return ~uint64_t(0); }
FD int64_t place_of(Item i) { return static_cast<int64_t>(i & 0xffffffffu); }
#endif

struct SortParams {
  const char* in;
  char* values;
  char* indices;
  Item* items;
  Item* other;
  int64_t rows, length, width;  // width: of runs that are sorted already
  int64_t descending;
  int64_t in_step, values_step, indices_step;  // bytes along the sorted dim
  StridedIterator<3> iterator;                                // rows of the three
};

// Keys in the order of values: NaN is the largest, -0 equals 0.
FD uint64_t key_of(T x, bool descending) {
  uint64_t key;
  constexpr int kBits = FACULA_WIDE_KEYS ? 64 : 32;
  if constexpr (std::is_same_v<T, float>) {
    const uint32_t bits = x != x ? 0x7fffffffu : __float_as_uint(x + 0.0f);
    key = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  } else if constexpr (std::is_same_v<T, double>) {
    const uint64_t bits = x != x ? 0x7fffffffffffffffu : static_cast<uint64_t>(__double_as_longlong(x + 0.0));
    key = (bits >> 63) != 0 ? ~bits : bits | 0x8000000000000000u;
  } else if constexpr (std::is_same_v<T, bool>) {
    key = x;
  } else {
    key = static_cast<uint64_t>(static_cast<int64_t>(x)) + (std::is_signed_v<T> ? uint64_t(1) << (kBits - 1) : 0);
  }
  if (descending) key = ~key;
  return kBits == 32 ? key & 0xffffffffu : key;
}

constexpr int kThreads = 256;

}  // namespace facula

using namespace facula;

// Tiles of FACULA_TILE items, each sorted by a bitonic network in shared memory.
extern "C" __global__ void __launch_bounds__(kThreads) facula_sort_tiles(const __grid_constant__ SortParams p) {
  __shared__ Item tile[FACULA_TILE];
  const int64_t tiles = ceil_div(p.length, FACULA_TILE);
  for (int64_t job = blockIdx.x; job < p.rows * tiles; job += gridDim.x) {
    const int64_t row = job / tiles, first = job % tiles * FACULA_TILE;
    int64_t at[3];
    p.iterator.places(row, at);
    for (int i = threadIdx.x; i < FACULA_TILE; i += kThreads) {
      const int64_t place = first + i;
      Item item = last_item();
      if (place < p.length) {
        const T x = load<T>(*reinterpret_cast<const S*>(p.in + at[0] + place * p.in_step));
        item = item_of(key_of(x, p.descending != 0), static_cast<uint64_t>(place));
      }
      tile[i] = item;
    }
    __syncthreads();
    for (int size = 2; size <= FACULA_TILE; size *= 2) {
      for (int step = size / 2; step > 0; step /= 2) {
        for (int i = threadIdx.x; i < FACULA_TILE / 2; i += kThreads) {
          const int a = 2 * step * (i / step) + i % step, b = a + step;
          const bool up = (a & size) == 0;
          const Item x = tile[a], y = tile[b];
          if (before(y, x) == up) {
            tile[a] = y;
            tile[b] = x;
          }
        }
        __syncthreads();
      }
    }
    for (int i = threadIdx.x; i < FACULA_TILE; i += kThreads) {
      if (first + i < p.length) p.items[row * p.length + first + i] = tile[i];
    }
    __syncthreads();
  }
}

// Pairs of sorted runs become one: an item goes as far as there are smaller ones in both.
extern "C" __global__ void __launch_bounds__(kThreads) facula_sort_merge(const __grid_constant__ SortParams p) {
  for (int64_t i = thread_index(); i < p.rows * p.length; i += thread_count()) {
    const int64_t row = i / p.length, at = i % p.length, run = at / p.width;
    const Item* const items = p.items + row * p.length;
    const Item mine = items[at];
    const int64_t begin = (run ^ 1) * p.width;
    int64_t low = begin < p.length ? begin : p.length, high = begin + p.width < p.length ? begin + p.width : p.length;
    const int64_t start = low;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (before(items[middle], mine)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    p.other[row * p.length + (run & ~int64_t(1)) * p.width + at % p.width + (low - start)] = mine;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) facula_sort_finish(const __grid_constant__ SortParams p) {
  for (int64_t i = thread_index(); i < p.rows * p.length; i += thread_count()) {
    const int64_t row = i / p.length, to = i % p.length;
    int64_t at[3];
    p.iterator.places(row, at);
    const int64_t from = place_of(p.items[i]);
    if (p.values != nullptr) {
      *reinterpret_cast<S*>(p.values + at[1] + to * p.values_step) =
          *reinterpret_cast<const S*>(p.in + at[0] + from * p.in_step);
    }
    *reinterpret_cast<int64_t*>(p.indices + at[2] + to * p.indices_step) = from;
  }
}
