// Compiled once per instruction set; see runtime/iterate/isa.h.
#include "aten/cpu/order_loops.h"

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
    if (any != 0) return i;
  }
  return whole;
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
    const C value = values[j];
    if (n == 0) {
      out[j] = 0;
    } else if (value == value) {
      const C probe = line[low[j]];
      out[j] = low[j] + (Right ? probe <= value : probe < value);
    } else {
      int64_t first = 0, last = n;  // of the NaNs
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
template <typename C>
void search(const C* line, int64_t n, const C* values, int64_t count, bool right, int64_t* out) {
  if (right) {
    search_all<true>(line, n, values, count, out);
  } else {
    search_all<false>(line, n, values, count, out);
  }
}

void pack32(const uint32_t* __restrict keys, int64_t n, uint64_t* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint64_t>(keys[i]) << 32 | static_cast<uint64_t>(i);
}
void pack64(const uint64_t* __restrict keys, int64_t n, uint64_t base, int shift, uint64_t* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = ((keys[i] - base) >> shift) << 32 | static_cast<uint64_t>(i);
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

template <int N>
void rank_sort_of(uint64_t* data, int64_t n) {
  uint64_t x[N];
  uint64_t rank[N];
  // Padding sorts last.
  for (int64_t i = 0; i < N; ++i) x[i] = i < n ? data[i] : ~uint64_t{0};
  for (int64_t i = 0; i < N; ++i) rank[i] = 0;
  for (int64_t j = 0; j < n; ++j) {
    const uint64_t v = x[j];
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
  return {make_keys<C>, skip<C>, search<C>};
}

}  // namespace

}  // namespace FACULA_ISA

FACULA_DEFINE_BY_ISA(cpu::OrderTable, order_table,
                     {loops<float>(), loops<double>(), loops<int32_t>(), loops<int64_t>(), pack32, pack64, range64,
                      rank_sort})

}  // namespace facula
