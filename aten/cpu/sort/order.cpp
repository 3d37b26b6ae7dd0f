#include "aten/cpu/sort/order.h"

#include <atomic>
#include <cstring>
#include <limits>
#include <vector>

#include "runtime/core/interrupt.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/stream.h"

namespace facula::cpu {

namespace {

constexpr int64_t kAround = 1 << 21;  // numbers are moved around the cache
constexpr int64_t kMoves = 1 << 20;   // numbers moved between looks for signals
// Numbers of 8 bytes that fill cache lines.
int64_t padded(int64_t n) { return round_up(n, 8); }

const OrderTable& table() { return FACULA_BY_ISA(order_table); }

// Do the buckets begin in a few sets of the cache? Those of dense keys do, being a power of two apart.
bool crowded(const uint32_t* starts, int64_t buckets) {
  constexpr size_t kSets = 512;
  uint16_t sets[kSets] = {};
  int64_t used = 0, crowd = 0;
  for (int64_t b = 0; b + 1 < buckets; ++b) {
    if (starts[b + 1] - starts[b] < 8) continue;
    ++used;
    crowd += ++sets[starts[b] / 8 % kSets] > 8 ? 1 : 0;
  }
  return 2 * crowd > used;
}

// One pass of a radix sort: `bits` bits from `shift` on. Each thread counts and moves its own part. Numbers are
// collected to whole cache lines first where the lines that buckets grow in would push each other out.
void radix_pass(const uint64_t* from, uint64_t* to, const Parts& parts, int shift, int bits, uint32_t* counts) {
  const int64_t buckets = int64_t{1} << bits, step = 2 * buckets;
  const uint64_t mask = static_cast<uint64_t>(buckets - 1);
  parts.each([=](int64_t p, int64_t begin, int64_t end) {
    uint32_t* count = counts + p * step;
    std::memset(count, 0, static_cast<size_t>(buckets) * sizeof(uint32_t));
    for (int64_t first = begin; first < end; first += kMoves) {
      check_interrupt();
      const int64_t last = std::min(end, first + kMoves);
      for (int64_t i = first; i < last; ++i) ++count[(from[i] >> shift) & mask];
    }
  });
  uint32_t sum = 0;
  for (int64_t b = 0; b < buckets; ++b) {
    for (int64_t p = 0; p < parts.count; ++p) {
      const uint32_t c = counts[p * step + b];
      counts[p * step + b] = sum;
      sum += c;
    }
  }
  const bool around = parts.n >= kAround && whole_lines(to),
             collect = around || (parts.n >= kShared && crowded(counts, buckets));
  const Bytes memory(collect ? bytes_for(parts.count * buckets, 64) : 0);
  uint64_t* lines = memory.as<uint64_t>();
  parts.each([=](int64_t p, int64_t begin, int64_t end) {
    uint32_t* count = counts + p * step;
    for (int64_t first = begin; first < end; first += kMoves) {
      check_interrupt();
      const int64_t last = std::min(end, first + kMoves);
      if (collect) {
        table().scatter(from + first, last - first, shift, bits, around, count, lines + p * buckets * 8, to);
        continue;
      }
      for (int64_t i = first; i < last; ++i) {
        const uint64_t v = from[i];
        to[count[(v >> shift) & mask]++] = v;
      }
    }
  });
}

// Order of 64-bit keys into packed[i]. True when all keys lie within 2^32 of the least: then the upper
// halves are their distances from it, else only the positions are of use.
bool sort_keys64(const uint64_t* keys, int64_t n, uint64_t* packed, uint64_t* scratch, bool shared, uint64_t& low) {
  const Parts parts(n, shared);
  std::vector<uint64_t> lows(static_cast<size_t>(parts.count)), highs(lows.size());
  parts.each([&](int64_t p, int64_t begin, int64_t end) {
    table().range64(keys + begin, end - begin, &lows[static_cast<size_t>(p)], &highs[static_cast<size_t>(p)]);
  });
  low = *std::min_element(lows.begin(), lows.end());
  const uint64_t high = *std::max_element(highs.begin(), highs.end());
  const int shift = std::max(0, static_cast<int>(std::bit_width(high - low)) - 32);
  parts.each([&](int64_t, int64_t begin, int64_t end) {
    table().pack64(keys + begin, end - begin, begin, low, shift, packed + begin);
  });
  sort_packed(packed, scratch, n, shared);
  if (shift == 0) return true;
  // Where the upper bits agree the lower ones decide.
  for (int64_t i = 0; i < n;) {
    count_step();
    int64_t j = i + 1;
    while (j < n && (packed[j] >> 32) == (packed[i] >> 32)) ++j;
    const int64_t run = j - i;
    if (run > 256) {
      const int64_t room = padded(run);
      Bytes memory(bytes_for(3 * room, 8));
      uint64_t* sub = memory.as<uint64_t>();
      for (int64_t k = 0; k < run; ++k) sub[k] = keys[position_of(packed[i + k])];
      std::memcpy(scratch + i, packed + i, static_cast<size_t>(run) * 8);
      uint64_t least;
      sort_keys64(sub, run, sub + room, sub + 2 * room, false, least);
      for (int64_t k = 0; k < run; ++k) packed[i + k] = scratch[i + position_of(sub[room + k])];
    } else if (run > 1) {
      std::sort(packed + i, packed + j, [&](uint64_t a, uint64_t b) {
        const uint64_t ka = keys[position_of(a)], kb = keys[position_of(b)];
        return ka < kb || (ka == kb && a < b);
      });
    }
    i = j;
  }
  return false;
}

}  // namespace

Parts::Parts(int64_t size, bool shared)
    : n(size),
      count(shared && size >= kShared && !in_parallel_region() ? get_num_threads() : 1),
      length(count == 1 ? size : ceil_div(size, count)) {}

void sort_packed(uint64_t* data, uint64_t* scratch, int64_t n, bool shared, bool even) {
  if (n <= 64) {
    if (n > 1) table().rank_sort(data, n);
    return;
  }
  // Positions come in order already, so only key bits that differ need a pass.
  const Parts parts(n, shared);
  std::atomic<uint64_t> differ_any = 0;
  std::atomic<bool> sorted_all = true;
  parts.each([&](int64_t, int64_t begin, int64_t end) {
    uint64_t differ = 0;
    bool sorted = true;
    for (int64_t first = begin; first < end; first += kMoves) {
      check_interrupt();
      const int64_t last = std::min(end, first + kMoves);
      for (int64_t i = std::max<int64_t>(1, first); i < last; ++i) {
        differ |= data[i] ^ data[0];
        sorted &= data[i - 1] < data[i];
      }
    }
    differ_any |= differ;
    if (!sorted) sorted_all = false;
  });
  if (sorted_all) return;
  const uint64_t mask = differ_any >> 32;
  const int high = 64 - std::countl_zero(mask);
  int low = std::countr_zero(mask);
  if (even) low = std::max(low, high - 22);
  const int most = n >= kAround ? 12 : n >= (1 << 14) ? 11 : 8;
  const int passes = ceil_div(high - low, most);
  if (n < 150 || n > std::numeric_limits<uint32_t>::max()) {
    sort_in_place(data, n);
    return;
  }
  const int bits = ceil_div(high - low, passes);
  Bytes counts(2 * bytes_for<uint32_t>(parts.count << bits));
  uint64_t *from = data, *to = scratch;
  for (int shift = low; shift < high; shift += bits) {
    radix_pass(from, to, parts, 32 + shift, std::min(bits, high - shift), counts.as<uint32_t>());
    std::swap(from, to);
  }
  if (from != data) std::memcpy(data, from, static_cast<size_t>(n) * sizeof(uint64_t));
  if (!even) return;
  // Elements are near their places.
  for (int64_t i = 1; i < n; ++i) {
    count_step();
    const uint64_t v = data[i];
    int64_t j = i;
    for (; j > 0 && v < data[j - 1]; --j) data[j] = data[j - 1];
    data[j] = v;
  }
}

template <typename P>
P kth_packed(P* data, int64_t n, int64_t k) {
  constexpr int kBits = 11;
  constexpr P kMask = (P(1) << kBits) - 1;
  int64_t rank = k - 1;
  while (n > 1024) {
    P differ = 0;
    in_blocks(n, [&](int64_t i, int64_t last) {
      for (; i < last; ++i) differ |= data[i] ^ data[0];
    });
    const uint64_t upper = static_cast<uint64_t>(differ >> (sizeof(P) * 8 - 64));
    if (upper == 0) break;
    const int shift = std::max(0, static_cast<int>(sizeof(P)) * 8 - std::countl_zero(upper) - kBits);
    uint32_t counts[1 << kBits] = {};
    in_blocks(n, [&](int64_t i, int64_t last) {
      for (; i < last; ++i) ++counts[static_cast<size_t>((data[i] >> shift) & kMask)];
    });
    size_t bucket = 0;
    while (counts[bucket] <= rank) rank -= counts[bucket++];
    int64_t kept = 0;
    in_blocks(n, [&](int64_t i, int64_t last) {
      for (; i < last; ++i) {
        const P v = data[i];
        data[kept] = v;
        kept += ((v >> shift) & kMask) == bucket ? 1 : 0;
      }
    });
    n = kept;
  }
  select_in_place(data, n, rank);
  return data[rank];
}
template uint64_t kth_packed(uint64_t*, int64_t, int64_t);
template uint128 kth_packed(uint128*, int64_t, int64_t);

template <typename P>
void select_packed(P* data, int64_t n, int64_t k) {
  constexpr int kBits = 10;
  P* end = data + n;
  P* begin = data;
  int64_t rank = k - 1;  // within [begin, end)
  while (end - begin > 2048) {
    P differ = 0;
    in_blocks(end - begin, [&](int64_t i, int64_t last) {
      for (; i < last; ++i) differ |= begin[i] ^ *begin;
    });
    const uint64_t upper = static_cast<uint64_t>(differ >> (sizeof(P) * 8 - 64));
    if (upper == 0) break;
    const int shift = std::max(0, static_cast<int>(sizeof(P)) * 8 - std::countl_zero(upper) - kBits);
    const P mask = (P(1) << kBits) - 1;
    uint32_t counts[1 << kBits] = {};
    in_blocks(end - begin, [&](int64_t i, int64_t last) {
      for (; i < last; ++i) ++counts[static_cast<size_t>((begin[i] >> shift) & mask)];
    });
    int64_t before = 0;
    size_t bucket = 0;
    while (before + counts[bucket] <= rank) before += counts[bucket++];
    // Three parts: smaller buckets, the one of interest, larger ones.
    P *low = begin, *p = begin, *high = end;
    while (p < high) {
      count_step();
      const size_t b = static_cast<size_t>((*p >> shift) & mask);
      if (b < bucket) {
        std::swap(*low++, *p++);
      } else if (b > bucket) {
        std::swap(*p, *--high);
      } else {
        ++p;
      }
    }
    begin = low;
    end = high;
    rank -= before;
  }
  select_in_place(begin, end - begin, rank);
}
template void select_packed(uint64_t*, int64_t, int64_t);
template void select_packed(uint128*, int64_t, int64_t);

template <typename C>
SortedLine<C>::SortedLine(int64_t n, bool descending, bool shared)
    : n_(n),
      flip_(descending ? ~KeyOf<C>(0) : KeyOf<C>(0)),
      shared_(shared),
      memory_(bytes_for(padded(n) * (sizeof(C) == 8 ? 3 : 2), 8)) {
  FACULA_CHECK(n <= (int64_t{1} << 32), Shape, "sorting more than 2^32 elements along one dim is not supported");
}

template <typename C>
void SortedLine<C>::sort(const C* x) {
  x_ = x;
  uint64_t* packed = memory_.as<uint64_t>();
  uint64_t* scratch = packed + padded(n_);
  if constexpr (sizeof(C) == 4) {
    std::atomic<bool> exact = true;
    parts().each([&](int64_t, int64_t begin, int64_t end) {
      uint32_t keys[1024];
      for (int64_t i = begin; i < end; i += 1024) {
        const int64_t m = std::min<int64_t>(1024, end - i);
        if (!loops_of<C>(table()).keys(x + i, m, flip_, keys)) exact = false;
        table().pack32(keys, m, i, packed + i);
      }
    });
    exact_ = exact;
    sort_packed(packed, scratch, n_, shared_);
  } else {
    uint64_t* keys = scratch + padded(n_);
    std::atomic<bool> exact = true;
    parts().each([&](int64_t, int64_t begin, int64_t end) {
      if (!loops_of<C>(table()).keys(x + begin, end - begin, flip_, keys + begin)) exact = false;
    });
    exact_ = exact;
    exact_ &= sort_keys64(keys, n_, packed, scratch, shared_, base_);
  }
}
template class SortedLine<float>;
template class SortedLine<double>;
template class SortedLine<int32_t>;
template class SortedLine<int64_t>;
template class SortedLine<uint64_t>;

}  // namespace facula::cpu
