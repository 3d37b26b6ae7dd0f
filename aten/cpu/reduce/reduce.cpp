#include "aten/cpu/reduce/reduce.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>

#include "aten/cpu/common/bytes.h"
#include "aten/cpu/reduce/ends.h"
#include "aten/cpu/reduce/strided_iterator.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/parallel.h"
#include "runtime/iterate/pieces.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

constexpr int64_t kTileElements = 4096;     // converted or gathered at a time
constexpr int64_t kSliceElements = 131072;  // least work of one slice of a long reduction
constexpr int64_t kMaxSlices = 64;
constexpr int64_t kPieceElements = 8192;  // of rows that are made at a time, where they lie in no memory

// Steps for a look at signals that so many elements are worth.
int32_t steps_of(int64_t elements) { return static_cast<int32_t>(elements / 4096 + 1); }

// Merges blocks in the order of a balanced tree as they come.
class Tree {
 public:
  Tree(const ReduceLoops& loops, int64_t w, int64_t blocks)
      : loops_(loops),
        w_(w),
        bytes_(static_cast<size_t>(loops.planes) * static_cast<size_t>(w) * itemsize(loops.acc)),
        memory_(bytes_ * (static_cast<size_t>(std::bit_width(static_cast<uint64_t>(blocks))) + 1)) {}
  // Where the next block goes, planes w apart.
  char* slot() { return memory_.bytes() + bytes_ * static_cast<size_t>(depth_); }
  void push(double n) {
    counts_[depth_++] = n;
    for (uint64_t k = ++pushed_; (k & 1) == 0; k >>= 1) merge_top();
  }
  void finish(void* acc, int64_t stride) {
    while (depth_ > 1) merge_top();
    const size_t row = static_cast<size_t>(w_) * itemsize(loops_.acc);
    for (int p = 0; p < loops_.planes; ++p) {
      std::memcpy(static_cast<char*>(acc) + static_cast<size_t>(p * stride) * itemsize(loops_.acc),
                  memory_.bytes() + static_cast<size_t>(p) * row, row);
    }
  }

 private:
  void merge_top() {
    --depth_;
    char* top = memory_.bytes() + bytes_ * static_cast<size_t>(depth_);
    loops_.merge(top - bytes_, top, w_, w_, counts_[depth_ - 1], counts_[depth_]);
    counts_[depth_ - 1] += counts_[depth_];
  }
  const ReduceLoops& loops_;
  int64_t w_;
  size_t bytes_;
  Bytes memory_;
  int depth_ = 0;
  uint64_t pushed_ = 0;
  double counts_[66];
};

// One call of reduce(): reduces tiles of neighbouring outputs over parts of the reduced elements.
class Reducer {
 public:
  Reducer(const ReduceSpec& spec, const Tensor& self, const ReduceLayout& layout, ElementPieces* pieces)
      : loops_(*FACULA_BY_ISA(find_reduce_loops)(spec.op, spec.compute)),
        layout_(layout),
        load_(self.dtype(), spec.compute, spec.preload, spec.params.p),
        data_(static_cast<const char*>(self.raw())),
        pieces_(pieces),
        item_(static_cast<int64_t>(self.itemsize())),
        compute_item_(static_cast<int64_t>(itemsize(spec.compute))) {
    const int64_t kept = layout.kept.empty() ? 0 : std::abs(layout.kept.back().in);
    const int64_t reduced = layout.reduced.empty() ? 0 : std::abs(layout.reduced.back().in);
    columns_ = !layout.kept.empty() && !layout.reduced.empty() && kept < reduced;
    const ReduceAxes& along = columns_ ? layout.kept : layout.reduced;
    if (pieces != nullptr && !along.empty() && along.back().in != 1) {
      pieces->fill();
      pieces_ = nullptr;
    }
  }
  // Elements are made on their way in: nothing but this reduction has them.
  bool from_pieces() const { return pieces_ != nullptr; }
  const ReduceLoops& loops() const { return loops_; }
  bool columns() const { return columns_; }
  int64_t inner() const { return layout_.kept.empty() ? 1 : layout_.kept.back().size; }

  // acc (planes `stride` apart) = reduction of elements [begin, end) for the w outputs from `offset` on
  // along the innermost kept axis.
  void tile(int64_t offset, int64_t w, int64_t begin, int64_t end, void* acc, int64_t stride) const {
    if (columns_) {
      tile_columns(offset, w, begin, end, acc, stride);
    } else {
      tile_rows(offset, w, begin, end, acc, stride);
    }
  }

 private:
  int64_t acc_item() const { return static_cast<int64_t>(itemsize(loops_.acc)); }

  // n elements that touch: where they lie, or made in `room`.
  const char* elements(int64_t offset, int64_t n, char* room) const {
    if (pieces_ == nullptr) return data_ + offset * item_;
    pieces_->make(offset, n, room);
    return room;
  }
  // The same of `count` rows of n, `step` apart; there is room for all.
  const char* rows_of(int64_t offset, int64_t n, int64_t step, int64_t count, char* room) const {
    if (step == n) return elements(offset, n * count, room);
    for (int64_t r = 0; r < count; ++r) pieces_->make(offset + r * step, n, room + r * n * item_);
    return room;
  }
  Bytes room_for(int64_t elements) const {
    return Bytes(pieces_ == nullptr ? 0 : static_cast<size_t>(elements * item_));
  }

  void tile_made_rows(int64_t offset, int64_t n, int64_t step, int64_t w, void* acc, int64_t stride) const {
    const int64_t batch = std::min(w, std::max<int64_t>(1, kPieceElements / n));
    const Bytes room = room_for(batch * n);
    for (int64_t j = 0; j < w; j += batch) {
      const int64_t rows = std::min(batch, w - j);
      loops_.rows(rows_of(offset + j * step, n, step, rows, room.bytes()), n, n, rows,
                  static_cast<char*>(acc) + j * acc_item(), stride);
    }
  }

  void tile_rows(int64_t offset, int64_t w, int64_t begin, int64_t end, void* acc, int64_t stride) const {
    const int64_t n = end - begin;
    const int64_t step = layout_.kept.empty() ? 0 : layout_.kept.back().in;
    const bool one_axis = layout_.reduced.size() <= 1;
    const int64_t along = layout_.reduced.empty() ? 1 : layout_.reduced.back().in;
    const char* base = data_ + (offset + (one_axis ? begin * along : 0)) * item_;
    if (load_.native() && one_axis && along == 1 && n <= loops_.max_run && step >= 0) {
      if (pieces_ != nullptr) return tile_made_rows(offset + begin, n, step, w, acc, stride);
      loops_.rows(base, n, step, w, acc, stride);
    } else if (one_axis && n <= kTileElements / 4) {
      // Short rows: convert many, then reduce them in one go.
      const int64_t batch = kTileElements / n;
      alignas(64) char tile[kTileElements * 16];
      const Bytes room = room_for(batch * n);
      for (int64_t j = 0; j < w; j += batch) {
        const int64_t rows = std::min(batch, w - j);
        if (pieces_ != nullptr) {
          load_(tile, rows_of(offset + begin + j * step, n, step, rows, room.bytes()), 1, rows * n);
        } else if (along == 1 && step == n) {
          load_(tile, base + j * step * item_, 1, rows * n);
        } else if (n < rows) {
          load_columns(tile, base + j * step * item_, step, along, rows, n);
        } else {
          for (int64_t r = 0; r < rows; ++r) {
            load_(tile + r * n * compute_item_, base + (j + r) * step * item_, along, n);
          }
        }
        loops_.rows(tile, n, n, rows, static_cast<char*>(acc) + j * acc_item(), stride);
      }
    } else {
      for (int64_t j = 0; j < w; ++j) {
        one_row(offset + j * step, begin, end, static_cast<char*>(acc) + j * acc_item(), stride);
      }
    }
  }

  // tile[r][i] = element i of row r, for many short rows.
  void load_columns(char* tile, const char* base, int64_t step, int64_t along, int64_t rows, int64_t n) const {
    alignas(64) char column[kTileElements * 16];
    for (int64_t i = 0; i < n; ++i) {
      load_(column, base + i * along * item_, step, rows);
      FACULA_BY_ISA(convert_table)
          .move[size_log2(static_cast<size_t>(compute_item_))](tile + i * compute_item_, n * compute_item_, column,
                                                               compute_item_, rows);
    }
  }

  void one_row(int64_t offset, int64_t begin, int64_t end, void* acc, int64_t stride) const {
    const int64_t along = layout_.reduced.empty() ? 1 : layout_.reduced.back().in;
    const bool direct = load_.native() && along == 1;
    alignas(64) char tile[kTileElements * 16];
    const Bytes room = room_for(std::min(end - begin, std::max(loops_.max_run, kTileElements)));
    Tree tree(loops_, 1, (end - begin) / 512 + 2);
    StridedIterator at(layout_.reduced, begin);
    while (begin < end) {
      int64_t n = 0;
      const void* x = tile;
      if (direct && std::min(at.left(), end - begin) >= std::min<int64_t>(1024, end - begin)) {
        n = std::min({at.left(), end - begin, loops_.max_run});
        x = elements(offset + at.offset(), n, room.bytes());
        at.advance(n);
      } else {
        const int64_t most = std::min(kTileElements, end - begin);
        while (n < most) {
          const int64_t m = std::min(at.left(), most - n);
          load_(tile + n * compute_item_, elements(offset + at.offset(), m, room.bytes()), along, m);
          at.advance(m);
          n += m;
        }
      }
      loops_.rows(x, n, 0, 1, tree.slot(), 1);
      tree.push(static_cast<double>(n));
      begin += n;
      count_step(steps_of(n));
    }
    tree.finish(acc, stride);
  }

  void tile_columns(int64_t offset, int64_t w, int64_t begin, int64_t end, void* acc, int64_t stride) const {
    const int64_t step = layout_.kept.back().in;
    const ReduceAxis& down = layout_.reduced.back();
    const bool direct = load_.native() && step == 1;
    if (layout_.reduced.size() == 1 && step == 1 && down.in == w && w <= 256 && w <= loops_.max_width / 2 &&
        w == inner()) {
      return narrow_columns(offset, w, begin, end, acc, stride);
    }
    const int64_t block = direct ? loops_.max_rows : std::min<int64_t>(loops_.max_rows, std::max<int64_t>(1, 8192 / w));
    Bytes tile(direct ? 0 : static_cast<size_t>(block * w * compute_item_));
    const Bytes room = room_for(block * w);
    Tree tree(loops_, w, (end - begin) / block + 1);
    StridedIterator at(layout_.reduced, begin);
    const void* rows[128];
    for (int64_t i = begin; i < end; i += block) {
      const int64_t m = std::min(block, end - i);
      for (int64_t k = 0; k < m; ++k, at.advance(1)) {
        const char* row = elements(offset + at.offset(), w, room.bytes() + k * w * item_);
        if (direct) {
          rows[k] = row;
        } else {
          char* copy = tile.bytes() + k * w * compute_item_;
          load_(copy, row, step, w);
          rows[k] = copy;
        }
      }
      loops_.columns(rows, m, w, tree.slot(), w);
      tree.push(static_cast<double>(m));
      count_step(steps_of(m * w));
    }
    tree.finish(acc, stride);
  }

  // Rows of a few elements that touch: several are taken for one, and the parts merged at the end.
  void narrow_columns(int64_t offset, int64_t w, int64_t begin, int64_t end, void* acc, int64_t stride) const {
    int64_t ways = 1;
    while (2 * ways * w <= loops_.max_width / 2 && (end - begin) >= 16 * ways) ways *= 2;
    const int64_t wide = w * ways;
    const int64_t lines = (end - begin) / ways;
    const int64_t base = offset + begin * w;
    const int64_t block = loops_.max_rows;
    const bool direct = load_.native();
    Bytes tile(direct ? 0 : static_cast<size_t>(block * wide * compute_item_));
    const Bytes room = room_for(block * wide);
    Tree all(loops_, w, 2);
    {
      Tree tree(loops_, wide, lines / block + 1);
      const void* rows[128];
      for (int64_t i = 0; i < lines; i += block) {
        const int64_t m = std::min(block, lines - i);
        const char* from = elements(base + i * wide, m * wide, room.bytes());
        if (!direct) load_(tile.bytes(), from, 1, m * wide);
        for (int64_t k = 0; k < m; ++k) {
          rows[k] = direct ? from + k * wide * item_ : tile.bytes() + k * wide * compute_item_;
        }
        loops_.columns(rows, m, wide, tree.slot(), wide);
        tree.push(static_cast<double>(m));
        count_step(steps_of(m * wide));
      }
      Bytes combined(static_cast<size_t>(loops_.planes * wide * acc_item()));
      tree.finish(combined.bytes(), wide);
      double n = static_cast<double>(lines);
      for (int64_t half = ways / 2; half >= 1; half /= 2, n *= 2) {
        loops_.merge(combined.bytes(), combined.bytes() + half * w * acc_item(), half * w, wide, n, n);
      }
      for (int p = 0; p < loops_.planes; ++p) {
        std::memcpy(all.slot() + p * w * acc_item(), combined.bytes() + p * wide * acc_item(),
                    static_cast<size_t>(w * acc_item()));
      }
      all.push(static_cast<double>(lines * ways));
    }
    const int64_t rest = (end - begin) - lines * ways;
    if (rest > 0) {
      Bytes copy(static_cast<size_t>(rest * w * compute_item_));
      load_(copy.bytes(), elements(base + lines * wide, rest * w, room.bytes()), 1, rest * w);
      // Fewer than `ways` rows, and ways is at most max_width / 2.
      for (int64_t i = 0; i < rest; i += block) {
        const int64_t m = std::min(block, rest - i);
        const void* rows[128];
        for (int64_t k = 0; k < m; ++k) rows[k] = copy.bytes() + (i + k) * w * compute_item_;
        loops_.columns(rows, m, w, all.slot(), w);
        all.push(static_cast<double>(m));
      }
    }
    all.finish(acc, stride);
  }

  const ReduceLoops& loops_;
  const ReduceLayout& layout_;
  ElementLoader load_;
  const char* data_;
  ElementPieces* pieces_;
  int64_t item_, compute_item_;
  bool columns_;
};

// The common small case: everything into one number, in one call of a loop.
bool reduce_to_number(const ReduceSpec& spec, const ReduceLoops& loops, const Tensor& self, const Tensor& out,
                      const Tensor& out1) {
  if (out.numel() != 1 || !self.is_contiguous() || self.dtype() != spec.compute || spec.preload != Preload::None ||
      self.numel() > std::min<int64_t>(loops.max_run, 32768)) {
    return false;
  }
  alignas(16) char acc[32];
  loops.rows(self.raw(), self.numel(), 0, 1, acc, 1);
  if (spec.finish != nullptr) spec.finish(acc, 1, 1, self.numel(), spec.params);
  if (!plainly_fits(spec.ends, loops.acc, acc)) {
    const RangeEnds ends(spec, loops.acc, self.numel());
    if (ends.doubtful(acc, 1)) ends.repair(self, make_layout(self, reduced_dims({}, self.dim()), out, out1), 0, 1, acc);
  }
  convert_elements(out.dtype(), out.raw(), loops.acc, acc, 1);
  if (out1.defined()) convert_elements(out1.dtype(), out1.raw(), loops.acc, acc + itemsize(loops.acc), 1);
  return true;
}

}  // namespace

void reduce(const ReduceSpec& spec, const Tensor& self, DimSet dims, const Tensor& out, const Tensor& out1) {
  const ReduceLoops* loops = FACULA_BY_ISA(find_reduce_loops)(spec.op, spec.compute);
  FACULA_ASSERT(loops != nullptr);
  const bool two = out1.defined();
  ElementPieces* pieces = take_pieces(self);
  if (pieces != nullptr && spec.ends == Ends::Prod) {  // that it computes twice is ordinary
    pieces->fill();
    pieces = nullptr;
  }
  if (pieces == nullptr && reduce_to_number(spec, *loops, self, out, out1)) return;
  const ReduceLayout layout = make_layout(self, dims, out, out1);
  const Reducer reducer(spec, self, layout, pieces);
  std::atomic<bool> again = false;  // a result needs a second look at elements that no memory has
  const int64_t inner = reducer.inner();
  const int64_t acc_item = static_cast<int64_t>(itemsize(loops->acc));
  int64_t width;
  if (reducer.columns()) {
    // Columns do not meet, so their split may follow the number of threads.
    const int64_t pieces = 2 * get_num_threads();
    width = std::clamp<int64_t>(ceil_div(inner, pieces), 256, loops->max_width);
    if (inner <= 512) width = std::min(inner, loops->max_width);
  } else {
    width = std::clamp<int64_t>(kGrain / layout.count, 1, 512);
  }
  width = std::min(width, inner);
  const OutputTiles tiles(layout, width);
  const RangeEnds ends(spec, loops->acc, layout.count);
  const auto store = [&](int64_t i, int64_t w, void* acc) {
    if (spec.finish != nullptr) spec.finish(acc, w, w, layout.count, spec.params);
    if (spec.ends != Ends::None && ends.doubtful(acc, w)) {
      if (reducer.from_pieces()) {
        again = true;
        return;
      }
      ends.repair(self, layout, tiles[i].in, w, acc);
    }
    const Tensor* outs[2] = {&out, &out1};
    for (int k = 0; k < (two ? 2 : 1); ++k) {
      const Tensor& o = *outs[k];
      char* to = static_cast<char*>(o.raw()) + tiles.out(i, k) * static_cast<int64_t>(o.itemsize());
      store_elements(o.dtype(), to, tiles.out_stride(k), loops->acc, static_cast<const char*>(acc) + k * w * acc_item,
                     w);
    }
  };

  const auto once_more = [&] {
    pieces->fill();
    reduce(spec, self, dims, out, out1);
  };

  const int64_t total = layout.outputs * layout.count;
  int64_t slices = 1;
  if (layout.outputs < (reducer.columns() ? 2048 : 32) && layout.count > 1) {
    slices = std::clamp<int64_t>(total / kSliceElements, 1, kMaxSlices);
  }
  const size_t tile_bytes = static_cast<size_t>(loops->planes * width * acc_item);
  if (slices == 1) {
    const int64_t cost = width * layout.count;
    parallel_for(0, tiles.count(), std::max<int64_t>(1, kGrain / cost), [&](int64_t from, int64_t to) {
      Bytes acc(tile_bytes);
      for (int64_t i = from; i < to; ++i) {
        const OutputTiles::Tile tile = tiles[i];
        reducer.tile(tile.in, tile.width, 0, layout.count, acc.bytes(), tile.width);
        store(i, tile.width, acc.bytes());
      }
    });
    if (again) once_more();
    return;
  }
  int64_t length = ceil_div(layout.count, slices);
  length = round_up(length, 1024);
  slices = ceil_div(layout.count, length);
  Bytes parts(tile_bytes * static_cast<size_t>(slices * tiles.count()));
  const auto part = [&](int64_t i, int64_t slice) {
    return parts.bytes() + tile_bytes * static_cast<size_t>(i * slices + slice);
  };
  parallel_for(0, slices * tiles.count(), 1, [&](int64_t from, int64_t to) {
    for (int64_t k = from; k < to; ++k) {
      const int64_t i = k / slices, slice = k % slices;
      const OutputTiles::Tile tile = tiles[i];
      const int64_t end = std::min(layout.count, (slice + 1) * length);
      reducer.tile(tile.in, tile.width, slice * length, end, part(i, slice), tile.width);
    }
  });
  for (int64_t i = 0; i < tiles.count(); ++i) {
    const int64_t w = tiles[i].width;
    for (int64_t step = 1; step < slices; step *= 2) {
      for (int64_t s = 0; s + step < slices; s += 2 * step) {
        const double left = static_cast<double>(step * length);
        const double right = static_cast<double>(std::min(layout.count, (s + 2 * step) * length) - (s + step) * length);
        loops->merge(part(i, s), part(i, s + step), w, w, left, right);
      }
    }
    store(i, w, part(i, 0));
  }
  if (again) once_more();
}

}  // namespace facula::cpu
