// build: levels
#include "aten/cpu/sort/order_loops.h"

#include <cstring>

#include "runtime/iterate/stream.h"

namespace facula {

namespace FACULA_ISA {

namespace {

using cpu::KeyOf;

template <typename C>
bool make_keys(const C* __restrict x, int64_t n, KeyOf<C> flip, KeyOf<C>* __restrict keys) {
  using K = KeyOf<C>;
  K lost = 0;
  for (int64_t i = 0; i < n; ++i) {
    const C v = x[i];
    const K key = cpu::to_key(v);
    if constexpr (!std::is_integral_v<C>) {
      lost |= std::bit_cast<K>(cpu::from_key<C>(key)) ^ std::bit_cast<K>(v);
    }
    keys[i] = key ^ flip;
  }
  return lost == 0;
}

template <typename C>
int64_t skip(const C* __restrict x, int64_t n, KeyOf<C> flip, KeyOf<C> limit) {
  using K = KeyOf<C>;
  const int64_t whole = n - n % 64;
  for (int64_t i = 0; i < whole; i += 64) {
    K any = 0;
    for (int64_t j = 0; j < 64; ++j) {
      const K key = cpu::to_key(x[i + j]) ^ flip;
      any |= key < limit ? K(1) : K(0);
    }
    if (any == 0) continue;
    for (int64_t k = i; k < i + 64; k += 16) {
      any = 0;
      for (int64_t j = 0; j < 16; ++j) {
        const K key = cpu::to_key(x[k + j]) ^ flip;
        any |= key < limit ? K(1) : K(0);
      }
      if (any != 0) return k;
    }
  }
  return whole;
}

// The k-th least of the least keys of N interleaved parts.
template <int N, typename C>
KeyOf<C> bound_of(const C* __restrict x, int64_t n, KeyOf<C> flip, int64_t k) {
  using K = KeyOf<C>;
  K least[N], before[N] = {};
  for (int j = 0; j < N; ++j) least[j] = cpu::to_key(x[j]) ^ flip;
  for (int64_t i = N; i + N <= n; i += N) {
    for (int j = 0; j < N; ++j) {
      const K key = cpu::to_key(x[i + j]) ^ flip;
      least[j] = key < least[j] ? key : least[j];
    }
  }
  for (int i = 0; i < N; ++i) {
    const K v = least[i];
    for (int j = 0; j < N; ++j) before[j] += v < least[j] ? K(1) : K(0);
  }
  K last = 0;
  for (int j = 0; j < N; ++j) {
    const K v = before[j] < static_cast<K>(k) ? least[j] : K(0);
    last = v > last ? v : last;
  }
  return last;
}
template <typename C>
KeyOf<C> bound(const C* x, int64_t n, KeyOf<C> flip, int64_t k) {
  // With twice as many parts as elements wanted, few elements beyond these pass.
  if (k <= 16) return bound_of<32>(x, n, flip, k);
  if (k <= 32) return bound_of<64>(x, n, flip, k);
  return bound_of<128>(x, n, flip, k);
}

// NaNs go before the NaNs of the line, or after them.
template <bool Right, typename C>
void place_nans(const C* line, int64_t n, const C* values, int64_t count, int64_t* out) {
  if constexpr (!std::is_integral_v<C>) {
    for (int64_t j = 0; j < count; ++j) {
      if (values[j] == values[j]) continue;
      int64_t first = 0, last = n;
      while (first < last && !Right) {
        const int64_t middle = first + (last - first) / 2;
        if (line[middle] == line[middle]) {
          first = middle + 1;
        } else {
          last = middle;
        }
      }
      out[j] = Right ? n : first;
    }
  }
}

// All values step together, so that their memory accesses overlap. Comparisons with a NaN are false, which
// is right for NaNs of the line: they come last.
template <bool Right, typename C>
void search_all(const C* __restrict line, int64_t n, const C* __restrict given, int64_t count,
                int64_t* __restrict out) {
  constexpr int kWidth = 32;
  C values[kWidth];
  int64_t low[kWidth];
  for (int j = 0; j < kWidth; ++j) {
    values[j] = given[j < count ? j : 0];
    low[j] = 0;
  }
  for (int64_t size = n; size > 1;) {
    const int64_t half = size / 2;
    const C* __restrict probes = line + half - 1;
    for (int j = 0; j < kWidth; ++j) {
      const C probe = probes[low[j]];
      const bool past = Right ? probe <= values[j] : probe < values[j];
      low[j] += past ? half : 0;
    }
    size -= half;
  }
  for (int64_t j = 0; j < count; ++j) {
    if (n == 0) {
      out[j] = 0;
    } else {
      const C probe = line[low[j]];
      out[j] = low[j] + (Right ? probe <= values[j] : probe < values[j]);
    }
  }
  place_nans<Right>(line, n, given, count, out);
}

template <bool Right, typename C>
void descend_all(const C* __restrict level, int64_t n, const C* __restrict values, int64_t count,
                 int64_t* __restrict at) {
  const int64_t last = (n - 1) / 16;
  for (int64_t j = 0; j < count; ++j) {
    const int64_t group = at[j] < last ? at[j] : last;
    const C* probes = level + 16 * group;
    const C value = values[j];
    int64_t before = 0;
    if (16 * group + 16 <= n) {
      KeyOf<C> sum = 0;
      for (int k = 0; k < 16; ++k) sum += (Right ? probes[k] <= value : probes[k] < value) ? 1u : 0u;
      before = static_cast<int64_t>(sum);
    } else {
      for (int64_t k = 16 * group; k < n; ++k) before += Right ? level[k] <= value : level[k] < value;
    }
    at[j] = 16 * group + before;
  }
}
template <typename C>
void descend(const C* level, int64_t n, const C* values, int64_t count, bool right, int64_t* at) {
  if (right) {
    descend_all<true>(level, n, values, count, at);
  } else {
    descend_all<false>(level, n, values, count, at);
  }
}
template <typename C>
void search(const C* line, int64_t n, const C* values, int64_t count, bool right, int64_t* out) {
  if (right) {
    search_all<true>(line, n, values, count, out);
  } else {
    search_all<false>(line, n, values, count, out);
  }
}

void pack32(const uint32_t* __restrict keys, int64_t n, int64_t first, uint64_t* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint64_t>(keys[i]) << 32 | static_cast<uint64_t>(first + i);
}
void pack64(const uint64_t* __restrict keys, int64_t n, int64_t first, uint64_t base, int shift,
            uint64_t* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ((keys[i] - base) >> shift) << 32 | static_cast<uint64_t>(first + i);
}
void range64(const uint64_t* __restrict keys, int64_t n, uint64_t* low_out, uint64_t* high_out) {
  uint64_t low = ~uint64_t{0}, high = 0;
  for (int64_t i = 0; i < n; ++i) {
    low = keys[i] < low ? keys[i] : low;
    high = keys[i] > high ? keys[i] : high;
  }
  *low_out = low;
  *high_out = high;
}

template <bool Around>
void scatter_lines(const uint64_t* __restrict from, int64_t n, int shift, int bits, uint32_t* __restrict count,
                   uint64_t* __restrict lines, uint64_t* __restrict to) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  // A first line that others share is written once its part is whole; so many of its words are not ours.
  uint32_t* const skipped = count + mask + 1;
  for (uint64_t b = 0; b <= mask; ++b) skipped[b] = count[b] % 8;
  for (int64_t i = 0; i < n; ++i) {
    const uint64_t v = from[i], b = (v >> shift) & mask;
    const uint32_t at = count[b]++;
    uint64_t* line = lines + 8 * b;
    line[at % 8] = v;
    if (at % 8 != 7) continue;
    uint64_t* place = to + (at - 7);
    if (skipped[b] == 0 && Around) {
      stream_line(reinterpret_cast<char*>(place), reinterpret_cast<const char*>(line));
    } else if (skipped[b] == 0) {
      std::memcpy(place, line, 64);
    } else {
      for (uint32_t j = skipped[b]; j < 8; ++j) place[j] = line[j];
      skipped[b] = 0;
    }
  }
  for (uint64_t b = 0; b <= mask; ++b) {
    const uint32_t end = count[b] % 8;
    for (uint32_t j = skipped[b]; j < end; ++j) to[count[b] - end + j] = lines[8 * b + j];
  }
  if (Around) stream_done();
}
void scatter(const uint64_t* from, int64_t n, int shift, int bits, bool around, uint32_t* count, uint64_t* lines,
             uint64_t* to) {
  if (around) {
    scatter_lines<true>(from, n, shift, bits, count, lines, to);
  } else {
    scatter_lines<false>(from, n, shift, bits, count, lines, to);
  }
}

template <int N>
void rank_sort_of(uint64_t* data, int64_t n) {
  uint64_t x[N];
  uint64_t rank[N];
  // Padding sorts last.
  for (int64_t i = 0; i < N; ++i) x[i] = i < n ? data[i] : ~uint64_t{0};
  for (int64_t i = 0; i < N; ++i) rank[i] = 0;
  for (int64_t j = 0; j < n; ++j) {
    const uint64_t v = x[j];
#pragma omp simd  // else gcc unrolls 16 of them instead
    for (int64_t i = 0; i < N; ++i) rank[i] += v < x[i] ? 1u : 0u;
  }
  for (int64_t i = 0; i < n; ++i) data[rank[i]] = x[i];
}
void rank_sort(uint64_t* data, int64_t n) {
  if (n <= 8) {
    rank_sort_of<8>(data, n);
  } else if (n <= 16) {
    rank_sort_of<16>(data, n);
  } else if (n <= 32) {
    rank_sort_of<32>(data, n);
  } else {
    rank_sort_of<64>(data, n);
  }
}

template <typename C>
constexpr cpu::OrderLoops<C> loops() {
  return {make_keys<C>, skip<C>, bound<C>, search<C>, descend<C>};
}

}  // namespace

}  // namespace FACULA_ISA

FACULA_DEFINE_BY_ISA(cpu::OrderTable, order_table,
                     {loops<float>(), loops<double>(), loops<int32_t>(), loops<int64_t>(), loops<uint64_t>(), pack32,
                      pack64, range64, scatter, rank_sort})

}  // namespace facula
