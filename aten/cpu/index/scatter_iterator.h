// Going through a table by an index for every element, along one dim: gather and the scatter family.
#pragma once

#include <atomic>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/index/move_loops.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/stream.h"
#include "runtime/iterate/tiles.h"

namespace facula::cpu {

// Operand 0: table at index 0 of the dim, 1: dense side, 2: index, 3: origin, what the table starts as. The plan walks
// all dims but the indexed one; `count` elements along that one follow from each of its elements. Each index is read
// once, and checked as it is used: other threads may have written to it since any earlier check.
struct ScatterIterator {
  StridedPlan plan;
  int64_t count = 1, size = 1, item = 1;
  int64_t table_step = 0, side_step = 0, index_step = 0, origin_step = 0;  // bytes along the dim
  bool fresh = false;                                                      // the table has yet to become the origin
  bool checks =
      false;           // whole pieces of the index are checked before their elements: for what has not been checked yet
  bool reads = false;  // the table stays as it is, the side is written
  bool streams = false;
  mutable std::atomic<bool> good{true};
  const Tensor& index;  // dense
  const int64_t dim;

  ScatterIterator(const Tensor& table, const Tensor& side, const Tensor& index, int64_t dim, const Tensor& origin);
  // Raises when an index was out of range.
  void finish(const char* op) const;

  // n elements across the dim, with all four running in byte steps; `step` bytes of the table to one index.
  // Not inlined, nor is a line, so that all they need is in registers.
  template <typename F>
  [[gnu::noinline]] void cross(char* table, int64_t ts, int64_t step, char* side, int64_t ss, const char* index,
                               int64_t is, int64_t n, const F& element) const {
    if (!checks || n <= kShortLine) {
      const uint64_t most = static_cast<uint64_t>(size);
      for (int64_t i = 0; i < n; ++i, table += ts, side += ss, index += is) {
        const int64_t v = read_once(reinterpret_cast<const int64_t*>(index));
        if (static_cast<uint64_t>(v) >= most) [[unlikely]]
          return found_bad();
        element(table + v * step, side);
      }
      return;
    }
    int64_t at[kPiece];
    for (int64_t first = 0; first < n; first += kPiece) {
      const int64_t m = std::min(n - first, kPiece);
      if (!FACULA_BY_ISA(move_loops).checked(at, index + first * is, is, m, 0, size)) return found_bad();
      for (int64_t i = 0; i < m; ++i, table += ts, side += ss) element(table + at[i] * step, side);
    }
  }

  // All elements along the dim. Pieces are checked just before they are used, and the next one is fetched meanwhile.
  template <typename F>
  [[gnu::noinline]] void line(char* table, int64_t step, char* const sides, const char* index, const F& element) const {
    const int64_t ss = side_step, is = index_step;
    char* side = sides;
    int64_t at[kPiece];
    for (int64_t first = 0; first < count; first += kPiece) {
      const int64_t m = std::min(count - first, kPiece);
      if (is != static_cast<int64_t>(sizeof(int64_t)) || m <= kShortLine) {
        cross(table, 0, step, sides + first * ss, ss, index + first * is, is, m, element);
        continue;
      }
      const int64_t* v = reinterpret_cast<const int64_t*>(index) + first;
      if (!checks) {
        if (!known_piece(v, m, table, step, sides + first * ss, element)) return found_bad();
        continue;
      }
      if (!FACULA_BY_ISA(move_loops).checked(at, reinterpret_cast<const char*>(v), is, m, 0, size)) return found_bad();
      side = sides + first * ss;
      int64_t i = 0;
      for (; i + kBlock <= m; i += kBlock) {
        fetch(v + i + kPiece, v + i + kPiece + kBlock);
        fetch_run(side + kPiece * ss, ss, kBlock);
#pragma GCC unroll 32
        for (int64_t k = 0; k < kBlock; ++k, side += ss) element(table + at[i + k] * step, side);
      }
      for (; i < m; ++i, side += ss) element(table + at[i] * step, side);
    }
  }

  // A piece of a dense index that has been checked; false when one is out of range all the same.
  template <typename F>
  bool known_piece(const int64_t* v, int64_t m, char* table, int64_t step, char* side, const F& element) const {
    const int64_t ss = side_step;
    const uint64_t most = static_cast<uint64_t>(size);
    const auto one = [&](const int64_t* p) __attribute__((always_inline)) {
      const int64_t at = read_once(p);
      if (static_cast<uint64_t>(at) >= most) [[unlikely]]
        return false;
      element(table + at * step, side);
      return true;
    };
    int64_t i = 0;
    for (; i + kBlock <= m; i += kBlock) {
      fetch(v + i + kPiece, v + i + kPiece + kBlock);
      fetch_run(side + kPiece * ss, ss, kBlock);
#pragma GCC unroll 4
      for (int64_t k = 0; k < kBlock; ++k, side += ss) {
        if (!one(v + i + k)) return false;
      }
    }
    for (; i < m; ++i, side += ss) {
      if (!one(v + i)) return false;
    }
    return true;
  }

  // Elements [begin, end) of the plan with all that follow from them.
  template <typename F>
  void range(int64_t begin, int64_t end, const F& element) const {
    detail::for_each_row(plan, begin, end, [&](char** p, const int64_t* s, int64_t n) {
      // Along the row or along the dim first, whichever lies closer together in the index.
      if (n > 1 && (s[2] <= index_step || count == 1)) {
        across(p, s, n, element);
      } else {
        for (int64_t i = 0; i < n; ++i) {
          along(p[0] + i * s[0], p[1] + i * s[1], p[2] + i * s[2], p[3] + i * s[3], element);
        }
      }
    });
    if (streams) stream_done();
  }

  static constexpr int64_t kLongRow = 64;  // elements

 private:
  static constexpr int64_t kStrip = int64_t{1} << 20;  // bytes of the table that fit the second-level cache
  static constexpr int64_t kLine = int64_t{1} << 14;   // and the first-level one
  static constexpr int64_t kAhead = 8;
  static constexpr int64_t kPiece = 1024, kBlock = 32, kShortLine = 16;  // elements of a line

  // n elements, where they touch or nearly so.
  static void fetch_run(const char* p, int64_t step, int64_t n) {
    if (step > 0 && step <= 16) fetch(p, p + n * step);
  }
  void found_bad() const { good.store(false, std::memory_order_relaxed); }
  void move(char* dst, int64_t ds, const char* src, int64_t ss, int64_t n) const {
    FACULA_BY_ISA(convert_table).move[size_log2(static_cast<size_t>(item))](dst, ds, src, ss, n);
  }
  // Into a row that is not going to be read soon.
  void put(char* dst, int64_t ds, const char* src, int64_t n) const {
    if (streams && ds == item && whole_lines(dst)) {
      FACULA_BY_ISA(convert_table).stream(dst, src, n * item);
    } else {
      move(dst, ds, src, item, n);
    }
  }

  // A row across the indexed dim goes in strips of the table. Where it is large they are made dense: at pitches that
  // are powers of two elements would drive each other out of the cache.
  template <typename F>
  void across(char** p, const int64_t* s, int64_t n, const F& element) const {
    const int64_t lines = 64 / item;
    const int64_t fit = kStrip / (std::max<int64_t>(size, 1) * item) / lines * lines;
    const int64_t width = std::min(n, std::clamp(fit, lines, kStreamPiece / item));
    const int64_t bytes = size * width * item;
    const bool packed = s[0] == item && s[3] == item && size * table_step > kStrip && width >= lines &&
                        bytes <= 2 * kStrip && 2 * count >= size;
    Scratch strip(packed ? static_cast<size_t>(bytes) : 0);
    alignas(64) char part[kStreamPiece];
    for (int64_t low = 0; low < n; low += width) {
      const int64_t m = std::min(width, n - low);
      char *table = p[0] + low * s[0], *side = p[1] + low * s[1];
      const char *index = p[2] + low * s[2], *origin = p[3] + low * s[3];
      char* const at = packed ? strip.data() : table;
      const int64_t ts = packed ? item : s[0], step = packed ? m * item : table_step;
      for (int64_t r = 0; r < size && (packed || fresh); ++r) {
        if (packed) fetch_run(origin + (r + kAhead) * origin_step, s[3], m);
        move(at + r * step, ts, origin + r * origin_step, s[3], m);
      }
      for (int64_t j = 0; j < count; ++j) {
        if (packed) fetch_run(index + (j + kAhead) * index_step, s[2], m);
        char* const x = side + j * side_step;
        if (reads && packed && s[1] == item) {
          cross(at, ts, step, part, item, index + j * index_step, s[2], m, element);
          put(x, item, part, m);
        } else {
          if (packed) fetch_run(x + kAhead * side_step, s[1], m);
          cross(at, ts, step, x, s[1], index + j * index_step, s[2], m, element);
        }
      }
      for (int64_t r = 0; r < size && packed && !reads; ++r) put(table + r * table_step, s[0], at + r * step, m);
    }
  }

  template <typename F>
  void along(char* table, char* side, const char* index, const char* origin, const F& element) const {
    if (fresh && streams && table_step == item && size * item <= kLine) {
      alignas(64) char whole[kLine];
      move(whole, item, origin, origin_step, size);
      line(whole, item, side, index, element);
      put(table, item, whole, size);
      return;
    }
    if (fresh) move(table, table_step, origin, origin_step, size);
    line(table, table_step, side, index, element);
  }
};

inline int64_t grain_of(const ScatterIterator& w) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(w.count, 1));
}

// Elements that may meet stay in order on one thread: lines along the dim are shared out, or, when
// there are few, the table is.
template <typename F>
void in_order(const ScatterIterator& w, const F& element) {
  if (w.plan.numel == 0 || w.count == 0) return;
  const int64_t threads = w.plan.numel * w.count < 2 * kGrain || in_parallel_region() ? 1 : get_num_threads();
  if (threads == 1 || w.plan.numel >= threads || w.fresh) {
    parallel_for(0, w.plan.numel, grain_of(w), [&](int64_t b, int64_t e) { w.range(b, e, element); });
    return;
  }
  const int64_t parts = std::min(threads, w.size);
  parallel_for(0, parts, 1, [&](int64_t first, int64_t last) {
    const int64_t low = w.size * first / parts, high = w.size * last / parts;
    detail::for_each_row(w.plan, 0, w.plan.numel, [&](char** p, const int64_t* s, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        char *table = p[0] + i * s[0], *side = p[1] + i * s[1], *index = p[2] + i * s[2];
        for (int64_t first_j = 0; first_j < w.count; first_j += kCompactRun) {
          const int64_t end_j = std::min(w.count, first_j + kCompactRun);
          int32_t own[kCompactRun + 8];  // positions that are this thread's
          int64_t value[kCompactRun + 8];
          const int64_t k =
              FACULA_BY_ISA(move_loops)
                  .within(own, value, index + first_j * w.index_step, w.index_step, end_j - first_j, 0, low, high);
          for (int64_t o = 0; o < k; ++o) {
            element(table + value[o] * w.table_step, side + (first_j + own[o]) * w.side_step);
          }
        }
      }
    });
  });
}

}  // namespace facula::cpu
