// Keys of elements and the vector loops of sorting and searching.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "runtime/iterate/isa.h"

namespace facula::cpu {

template <typename C>
using KeyOf = std::conditional_t<sizeof(C) == 8, uint64_t, uint32_t>;

template <typename C>
inline KeyOf<C> to_key(C v) {
  using K = KeyOf<C>;
  constexpr K top = K(1) << (sizeof(C) * 8 - 1);
  if constexpr (std::is_integral_v<C>) {
    return std::is_signed_v<C> ? static_cast<K>(v) ^ top : static_cast<K>(v);
  } else {
    const K bits = v == 0 ? K(0) : std::bit_cast<K>(v);
    const K key = (bits & top) != 0 ? static_cast<K>(~bits) : bits | top;
    return v != v ? static_cast<K>(~K(0)) : key;
  }
}

template <typename C>
inline C from_key(KeyOf<C> key) {
  using K = KeyOf<C>;
  constexpr K top = K(1) << (sizeof(C) * 8 - 1);
  if constexpr (std::is_integral_v<C>) {
    return static_cast<C>(std::is_signed_v<C> ? key ^ top : key);
  } else {
    return std::bit_cast<C>(static_cast<K>((key & top) != 0 ? key ^ top : ~key));
  }
}

template <typename C>
struct OrderLoops {
  // keys[i] = to_key(x[i]) ^ flip; false when some element (a NaN or -0.0) is not given back by its key.
  bool (*keys)(const C* x, int64_t n, KeyOf<C> flip, KeyOf<C>* keys);
  // First index i, a multiple of 16, such that a key of x[i ... i + 15] is below `limit`; or where that
  // is not known, n - n % 64. Keys are flipped as above.
  int64_t (*skip)(const C* x, int64_t n, KeyOf<C> flip, KeyOf<C> limit);
  // A key that at least k (at most 64) of n (at least 128) elements do not exceed; often few others do not.
  KeyOf<C> (*bound)(const C* x, int64_t n, KeyOf<C> flip, int64_t k);
  // Insertion points of `count` (at most 32) values in a sorted line.
  void (*search)(const C* line, int64_t n, const C* values, int64_t count, bool right, int64_t* out);
  // One step down a tree of groups of 16: at[j], a group of `level` (n elements), becomes 16 at[j] plus
  // the number of its elements before values[j].
  void (*descend)(const C* level, int64_t n, const C* values, int64_t count, bool right, int64_t* at);
};

struct OrderTable {
  OrderLoops<float> f32;
  OrderLoops<double> f64;
  OrderLoops<int32_t> i32;
  OrderLoops<int64_t> i64;
  OrderLoops<uint64_t> u64;
  // out[i] = (keys[i] - base) >> shift in the upper half, first + i in the lower.
  void (*pack32)(const uint32_t* keys, int64_t n, int64_t first, uint64_t* out);
  void (*pack64)(const uint64_t* keys, int64_t n, int64_t first, uint64_t base, int shift, uint64_t* out);
  void (*range64)(const uint64_t* keys, int64_t n, uint64_t* low, uint64_t* high);
  // Moves each number v of `from` to `to` at count[b]++, b = v >> shift & (2^bits - 1), by whole cache lines
  // that `lines` (64 bytes a b) collects; `count` has room for as many again. `around`: around the cache.
  // `to` and `lines` are 64-byte aligned.
  void (*scatter)(const uint64_t* from, int64_t n, int shift, int bits, bool around, uint32_t* count, uint64_t* lines,
                  uint64_t* to);
  // Sorts at most 64 different numbers by counting the smaller ones.
  void (*rank_sort)(uint64_t* data, int64_t n);
};

template <typename C>
const OrderLoops<C>& loops_of(const OrderTable& t) {
  if constexpr (std::is_same_v<C, float>)
    return t.f32;
  else if constexpr (std::is_same_v<C, double>)
    return t.f64;
  else if constexpr (std::is_same_v<C, int32_t>)
    return t.i32;
  else if constexpr (std::is_same_v<C, int64_t>)
    return t.i64;
  else
    return t.u64;
}

}  // namespace facula::cpu

namespace facula {
FACULA_DECLARE_BY_ISA(cpu::OrderTable, order_table)
}  // namespace facula
