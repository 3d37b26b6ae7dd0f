#include "aten/cpu/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>

#include "aten/cpu/bytes.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

constexpr int64_t kTileElements = 4096;     // converted or gathered at a time
constexpr int64_t kSliceElements = 131072;  // least work of one slice of a long reduction
constexpr int64_t kMaxSlices = 64;

// A dim of the walk; strides in elements.
struct Axis {
  int64_t size;
  int64_t in;
  int64_t out[2];
};
using Axes = SmallVector<Axis, 5>;

struct Layout {
  Axes kept, reduced;  // outermost first
  int64_t outputs = 1, count = 1;
};

void merge_axes(Axes& axes) {
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& a, const Axis& b) { return std::abs(a.in) > std::abs(b.in); });
  size_t n = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Axis inner = axes[i];
    if (n > 0) {
      Axis& outer = axes[n - 1];
      if (outer.in == inner.size * inner.in && outer.out[0] == inner.size * inner.out[0] &&
          outer.out[1] == inner.size * inner.out[1]) {
        outer = {outer.size * inner.size, inner.in, {inner.out[0], inner.out[1]}};
        continue;
      }
    }
    axes[n++] = inner;
  }
  axes.resize(n);
}

Layout make_layout(const Tensor& self, DimSet dims, const Tensor& out, const Tensor& out1) {
  Layout l;
  const int64_t ndim = self.dim();
  const bool keepdim = out.dim() == ndim;
  const bool two = out1.defined();
  int64_t o = 0;
  for (int64_t d = 0; d < ndim; ++d) {
    const size_t i = static_cast<size_t>(d);
    const int64_t size = self.sizes()[i];
    const bool is_reduced = dims[i];
    if (size != 1) {
      if (is_reduced) {
        l.reduced.push_back({size, self.strides()[i], {0, 0}});
        l.count *= size;
      } else {
        const size_t j = static_cast<size_t>(o);
        l.kept.push_back({size, self.strides()[i], {out.strides()[j], two ? out1.strides()[j] : 0}});
        l.outputs *= size;
      }
    }
    if (!is_reduced || keepdim) ++o;
  }
  merge_axes(l.kept);
  merge_axes(l.reduced);
  return l;
}

// Offset of element number `index` of the walk over axes [0, n).
int64_t offset_of(const Axes& axes, size_t n, int64_t index, int64_t Axis::* stride) {
  int64_t offset = 0;
  for (size_t d = n; d-- > 0 && index > 0;) {
    offset += index % axes[d].size * (axes[d].*stride);
    index /= axes[d].size;
  }
  return offset;
}
int64_t out_offset_of(const Axes& axes, size_t n, int64_t index, int k) {
  int64_t offset = 0;
  for (size_t d = n; d-- > 0 && index > 0;) {
    offset += index % axes[d].size * axes[d].out[k];
    index /= axes[d].size;
  }
  return offset;
}

// Steps through the offsets of a walk, one element after the other.
class Walk {
 public:
  Walk(const Axes& axes, int64_t begin) : axes_(axes), index_(axes.size(), 0) {
    for (size_t d = axes.size(); d-- > 0 && begin > 0;) {
      index_[d] = begin % axes[d].size;
      begin /= axes[d].size;
      offset_ += index_[d] * axes[d].in;
    }
  }
  int64_t offset() const { return offset_; }
  // Elements left on the innermost axis, this one included.
  int64_t left() const { return axes_.empty() ? 1 : axes_.back().size - index_.back(); }
  // n at most left().
  void advance(int64_t n) {
    if (axes_.empty()) return;
    size_t d = axes_.size() - 1;
    index_[d] += n;
    offset_ += n * axes_[d].in;
    while (index_[d] == axes_[d].size && d > 0) {
      offset_ -= index_[d] * axes_[d].in;
      index_[d] = 0;
      --d;
      ++index_[d];
      offset_ += axes_[d].in;
    }
  }

 private:
  const Axes& axes_;
  DimVector index_;
  int64_t offset_ = 0;
};

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

template <typename C>
void transform(C* x, int64_t n, Preload preload, double p) {
  if (preload == Preload::Abs) {
    for (int64_t i = 0; i < n; ++i) x[i] = std::abs(x[i]);
  } else if (preload == Preload::Power) {
    for (int64_t i = 0; i < n; ++i) x[i] = std::pow(std::abs(x[i]), static_cast<C>(p));
  } else {
    for (int64_t i = 0; i < n; ++i) x[i] = x[i] == x[i] ? x[i] : C(0);
  }
}

// Loads elements through the conversion and the preload of a reduction.
class Loader {
 public:
  Loader(ScalarType from, ScalarType compute, Preload preload = Preload::None, double p = 0)
      : from_(from), compute_(compute), preload_(preload), p_(p) {}
  bool native() const { return from_ == compute_ && preload_ == Preload::None; }
  void operator()(void* dst, const char* src, int64_t stride, int64_t n) const {
    if (preload_ == Preload::NonZero) {
      bool flags[512];
      for (int64_t i = 0; i < n; i += 512) {
        const int64_t m = std::min<int64_t>(512, n - i);
        load_elements(ScalarType::Bool, flags, from_, src + i * stride * item(from_), stride, m);
        convert_elements(compute_, static_cast<char*>(dst) + i * item(compute_), ScalarType::Bool, flags, m);
      }
    } else if (preload_ != Preload::None && is_complex(from_)) {
      const auto loop = [&]<typename R>(R* d) {
        const std::complex<R>* s = reinterpret_cast<const std::complex<R>*>(src);
        for (int64_t i = 0; i < n; ++i) d[i] = std::abs(s[i * stride]);
      };
      compute_ == ScalarType::Float32 ? loop(static_cast<float*>(dst)) : loop(static_cast<double*>(dst));
      if (preload_ == Preload::Power) apply(dst, n);
    } else {
      load_elements(compute_, dst, from_, src, stride, n);
      if (preload_ != Preload::None) apply(dst, n);
    }
  }

 private:
  static int64_t item(ScalarType t) { return static_cast<int64_t>(itemsize(t)); }
  void apply(void* dst, int64_t n) const {
    if (compute_ == ScalarType::Float32) {
      transform(static_cast<float*>(dst), n, preload_, p_);
    } else if (compute_ == ScalarType::Float64) {
      transform(static_cast<double*>(dst), n, preload_, p_);
    }
  }
  ScalarType from_, compute_;
  Preload preload_;
  double p_;
};

// One call of reduce(): reduces tiles of neighbouring outputs over parts of the reduced elements.
class Reducer {
 public:
  Reducer(const ReduceSpec& spec, const Tensor& self, const Layout& layout)
      : loops_(*FACULA_BY_ISA(reduce_table).reduce(spec.op, spec.compute)),
        layout_(layout),
        load_(self.dtype(), spec.compute, spec.preload, spec.params.p),
        data_(static_cast<const char*>(self.raw())),
        item_(static_cast<int64_t>(self.itemsize())),
        compute_item_(static_cast<int64_t>(itemsize(spec.compute))) {
    const int64_t kept = layout.kept.empty() ? 0 : std::abs(layout.kept.back().in);
    const int64_t reduced = layout.reduced.empty() ? 0 : std::abs(layout.reduced.back().in);
    columns_ = !layout.kept.empty() && !layout.reduced.empty() && kept < reduced;
  }
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

  void tile_rows(int64_t offset, int64_t w, int64_t begin, int64_t end, void* acc, int64_t stride) const {
    const int64_t n = end - begin;
    const int64_t step = layout_.kept.empty() ? 0 : layout_.kept.back().in;
    const bool one_axis = layout_.reduced.size() <= 1;
    const int64_t along = layout_.reduced.empty() ? 1 : layout_.reduced.back().in;
    const char* base = data_ + (offset + (one_axis ? begin * along : 0)) * item_;
    if (load_.native() && one_axis && along == 1 && n <= loops_.max_run && step >= 0) {
      loops_.rows(base, n, step, w, acc, stride);
    } else if (one_axis && n <= kTileElements / 4) {
      // Short rows: convert many, then reduce them in one go.
      const int64_t batch = kTileElements / n;
      alignas(64) char tile[kTileElements * 16];
      for (int64_t j = 0; j < w; j += batch) {
        const int64_t rows = std::min(batch, w - j);
        if (along == 1 && step == n) {
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
    Tree tree(loops_, 1, (end - begin) / 512 + 2);
    Walk walk(layout_.reduced, begin);
    while (begin < end) {
      int64_t n = 0;
      const void* x = tile;
      if (direct && std::min(walk.left(), end - begin) >= std::min<int64_t>(1024, end - begin)) {
        n = std::min({walk.left(), end - begin, loops_.max_run});
        x = data_ + (offset + walk.offset()) * item_;
        walk.advance(n);
      } else {
        const int64_t most = std::min(kTileElements, end - begin);
        while (n < most) {
          const int64_t m = std::min(walk.left(), most - n);
          load_(tile + n * compute_item_, data_ + (offset + walk.offset()) * item_, along, m);
          walk.advance(m);
          n += m;
        }
      }
      loops_.rows(x, n, 0, 1, tree.slot(), 1);
      tree.push(static_cast<double>(n));
      begin += n;
    }
    tree.finish(acc, stride);
  }

  void tile_columns(int64_t offset, int64_t w, int64_t begin, int64_t end, void* acc, int64_t stride) const {
    const int64_t step = layout_.kept.back().in;
    const Axis& down = layout_.reduced.back();
    const bool direct = load_.native() && step == 1;
    if (layout_.reduced.size() == 1 && step == 1 && down.in == w && w <= 256 && w <= loops_.max_width / 2 &&
        w == inner()) {
      return narrow_columns(offset, w, begin, end, acc, stride);
    }
    const int64_t block = direct ? loops_.max_rows : std::min<int64_t>(loops_.max_rows, std::max<int64_t>(1, 8192 / w));
    Bytes tile(direct ? 0 : static_cast<size_t>(block * w * compute_item_));
    Tree tree(loops_, w, (end - begin) / block + 1);
    Walk walk(layout_.reduced, begin);
    const void* rows[128];
    for (int64_t i = begin; i < end; i += block) {
      const int64_t m = std::min(block, end - i);
      for (int64_t k = 0; k < m; ++k, walk.advance(1)) {
        const char* row = data_ + (offset + walk.offset()) * item_;
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
    }
    tree.finish(acc, stride);
  }

  // Rows of a few elements that touch: several are taken for one, and the parts merged at the end.
  void narrow_columns(int64_t offset, int64_t w, int64_t begin, int64_t end, void* acc, int64_t stride) const {
    int64_t fold = 1;
    while (2 * fold * w <= loops_.max_width / 2 && (end - begin) >= 16 * fold) fold *= 2;
    const int64_t wide = w * fold;
    const int64_t lines = (end - begin) / fold;
    const char* base = data_ + (offset + begin * w) * item_;
    const int64_t block = loops_.max_rows;
    const bool direct = load_.native();
    Bytes tile(direct ? 0 : static_cast<size_t>(block * wide * compute_item_));
    Tree all(loops_, w, 2);
    {
      Tree tree(loops_, wide, lines / block + 1);
      const void* rows[128];
      for (int64_t i = 0; i < lines; i += block) {
        const int64_t m = std::min(block, lines - i);
        const char* from = base + i * wide * item_;
        if (!direct) load_(tile.bytes(), from, 1, m * wide);
        for (int64_t k = 0; k < m; ++k) {
          rows[k] = direct ? from + k * wide * item_ : tile.bytes() + k * wide * compute_item_;
        }
        loops_.columns(rows, m, wide, tree.slot(), wide);
        tree.push(static_cast<double>(m));
      }
      Bytes folded(static_cast<size_t>(loops_.planes * wide * acc_item()));
      tree.finish(folded.bytes(), wide);
      double n = static_cast<double>(lines);
      for (int64_t half = fold / 2; half >= 1; half /= 2, n *= 2) {
        loops_.merge(folded.bytes(), folded.bytes() + half * w * acc_item(), half * w, wide, n, n);
      }
      for (int p = 0; p < loops_.planes; ++p) {
        std::memcpy(all.slot() + p * w * acc_item(), folded.bytes() + p * wide * acc_item(),
                    static_cast<size_t>(w * acc_item()));
      }
      all.push(static_cast<double>(lines * fold));
    }
    const int64_t rest = (end - begin) - lines * fold;
    if (rest > 0) {
      Bytes copy(static_cast<size_t>(rest * w * compute_item_));
      load_(copy.bytes(), base + lines * wide * item_, 1, rest * w);
      // Fewer than `fold` rows, and fold is at most max_width / 2.
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
  const Layout& layout_;
  Loader load_;
  const char* data_;
  int64_t item_, compute_item_;
  bool columns_;
};

}  // namespace

DimSet reduced_dims(std::optional<IntList> dim, int64_t ndim) {
  DimSet set;
  if (!dim || dim->empty()) {
    for (int64_t d = 0; d < ndim; ++d) set.set(static_cast<size_t>(d));
  } else {
    for (int64_t d : *dim) set.set(static_cast<size_t>(wrap_dim(d, ndim)));
  }
  return set;
}

ScalarType order_type(ScalarType t) {
  switch (t) {
    case ScalarType::Int64:
    case ScalarType::Float64:
    case ScalarType::Float32:
      return t;
    case ScalarType::Float16:
    case ScalarType::BFloat16:
      return ScalarType::Float32;
    default:
      return ScalarType::Int32;
  }
}

void load_elements(ScalarType to, void* dst, ScalarType from, const void* src, int64_t stride, int64_t n) {
  const int64_t item = static_cast<int64_t>(itemsize(from));
  if (stride == 1 || n == 1) {
    convert_elements(to, dst, from, src, n);
    return;
  }
  const auto move = FACULA_BY_ISA(convert_table).move[size_log2(itemsize(from))];
  if (to == from) {
    move(static_cast<char*>(dst), item, static_cast<const char*>(src), stride * item, n);
    return;
  }
  constexpr int64_t kPart = 512;
  alignas(64) char part[kPart * 16];
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t m = std::min(kPart, n - i);
    move(part, item, static_cast<const char*>(src) + i * stride * item, stride * item, m);
    convert_elements(to, static_cast<char*>(dst) + i * static_cast<int64_t>(itemsize(to)), from, part, m);
  }
}

void store_elements(ScalarType to, void* dst, int64_t stride, ScalarType from, const void* src, int64_t n) {
  if (stride == 1 || n == 1) {
    convert_elements(to, dst, from, src, n);
    return;
  }
  const int64_t item = static_cast<int64_t>(itemsize(to));
  const auto move = FACULA_BY_ISA(convert_table).move[size_log2(itemsize(to))];
  constexpr int64_t kPart = 512;
  alignas(64) char part[kPart * 16];
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t m = std::min(kPart, n - i);
    convert_elements(to, part, from, static_cast<const char*>(src) + i * static_cast<int64_t>(itemsize(from)), m);
    move(static_cast<char*>(dst) + i * stride * item, stride * item, part, item, m);
  }
}

void reduce(const ReduceSpec& spec, const Tensor& self, DimSet dims, const Tensor& out, const Tensor& out1) {
  const ReduceLoops* loops = FACULA_BY_ISA(reduce_table).reduce(spec.op, spec.compute);
  FACULA_ASSERT(loops != nullptr);
  const bool two = out1.defined();
  // The common small case: everything into one number.
  if (out.numel() == 1 && self.is_contiguous() && self.dtype() == spec.compute && spec.preload == Preload::None &&
      self.numel() <= std::min<int64_t>(loops->max_run, 32768)) {
    alignas(16) char acc[32];
    loops->rows(self.raw(), self.numel(), 0, 1, acc, 1);
    if (spec.finish != nullptr) spec.finish(acc, 1, 1, self.numel(), spec.params);
    convert_elements(out.dtype(), out.raw(), loops->acc, acc, 1);
    if (two) convert_elements(out1.dtype(), out1.raw(), loops->acc, acc + itemsize(loops->acc), 1);
    return;
  }
  const Layout layout = make_layout(self, dims, out, out1);
  const Reducer reducer(spec, self, layout);
  const int64_t inner = reducer.inner();
  const int64_t acc_item = static_cast<int64_t>(itemsize(loops->acc));
  int64_t width;
  if (reducer.columns()) {
    // Columns do not meet, so their split may follow the number of threads.
    const int64_t pieces = 2 * get_num_threads();
    width = std::clamp<int64_t>((inner + pieces - 1) / pieces, 256, loops->max_width);
    if (inner <= 512) width = std::min(inner, loops->max_width);
  } else {
    width = std::clamp<int64_t>(kGrain / layout.count, 1, 512);
  }
  width = std::min(width, inner);
  const int64_t tiles = (inner + width - 1) / width;
  const size_t outer_axes = layout.kept.empty() ? 0 : layout.kept.size() - 1;
  const int64_t units = layout.outputs / inner * tiles;

  const Axis none = {1, 0, {0, 0}};
  const Axis& last = layout.kept.empty() ? none : layout.kept.back();
  const auto store = [&](int64_t unit, int64_t begin, int64_t w, void* acc) {
    if (spec.finish != nullptr) spec.finish(acc, w, w, layout.count, spec.params);
    const Tensor* outs[2] = {&out, &out1};
    for (int k = 0; k < (two ? 2 : 1); ++k) {
      const Tensor& o = *outs[k];
      const int64_t offset = out_offset_of(layout.kept, outer_axes, unit / tiles, k) + begin * last.out[k];
      store_elements(o.dtype(), static_cast<char*>(o.raw()) + offset * static_cast<int64_t>(o.itemsize()), last.out[k],
                     loops->acc, static_cast<const char*>(acc) + k * w * acc_item, w);
    }
  };
  const auto tile_of = [&](int64_t unit, int64_t& begin, int64_t& w, int64_t& offset) {
    begin = unit % tiles * width;
    w = std::min(width, inner - begin);
    offset = offset_of(layout.kept, outer_axes, unit / tiles, &Axis::in) + begin * last.in;
  };

  const int64_t total = layout.outputs * layout.count;
  int64_t slices = 1;
  if (layout.outputs < (reducer.columns() ? 2048 : 32) && layout.count > 1) {
    slices = std::clamp<int64_t>(total / kSliceElements, 1, kMaxSlices);
  }
  const size_t unit_bytes = static_cast<size_t>(loops->planes * width * acc_item);
  if (slices == 1) {
    const int64_t cost = width * layout.count;
    parallel_for(0, units, std::max<int64_t>(1, kGrain / cost), [&](int64_t from, int64_t to) {
      Bytes acc(unit_bytes);
      for (int64_t u = from; u < to; ++u) {
        int64_t begin, w, offset;
        tile_of(u, begin, w, offset);
        reducer.tile(offset, w, 0, layout.count, acc.bytes(), w);
        store(u, begin, w, acc.bytes());
      }
    });
    return;
  }
  int64_t length = (layout.count + slices - 1) / slices;
  length = (length + 1023) / 1024 * 1024;
  slices = (layout.count + length - 1) / length;
  Bytes parts(unit_bytes * static_cast<size_t>(slices * units));
  const auto part = [&](int64_t unit, int64_t slice) {
    return parts.bytes() + unit_bytes * static_cast<size_t>(unit * slices + slice);
  };
  parallel_for(0, slices * units, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      int64_t begin, w, offset;
      const int64_t unit = i / slices, slice = i % slices;
      tile_of(unit, begin, w, offset);
      reducer.tile(offset, w, slice * length, std::min(layout.count, (slice + 1) * length), part(unit, slice), w);
    }
  });
  for (int64_t u = 0; u < units; ++u) {
    int64_t begin, w, offset;
    tile_of(u, begin, w, offset);
    for (int64_t step = 1; step < slices; step *= 2) {
      for (int64_t s = 0; s + step < slices; s += 2 * step) {
        const double left = static_cast<double>(step * length);
        const double right = static_cast<double>(std::min(layout.count, (s + 2 * step) * length) - (s + step) * length);
        loops->merge(part(u, s), part(u, s + step), w, w, left, right);
      }
    }
    store(u, begin, w, part(u, 0));
  }
}

// ---- first extremes ----

namespace {

// best, index (absolute) of rows [begin, end) for w neighbouring lines.
class ArgReducer {
 public:
  ArgReducer(bool largest, const Tensor& self, int64_t along, int64_t step)
      : compute_(order_type(self.dtype())),
        loops_(*FACULA_BY_ISA(reduce_table).arg(largest, compute_)),
        largest_(largest),
        load_(self.dtype(), compute_),
        data_(static_cast<const char*>(self.raw())),
        item_(static_cast<int64_t>(self.itemsize())),
        compute_item_(static_cast<int64_t>(itemsize(compute_))),
        along_(along),
        step_(step),
        columns_(step != 0 && std::abs(step) < std::abs(along)) {}
  bool columns() const { return columns_; }
  ScalarType compute() const { return compute_; }

  void tile(int64_t offset, int64_t w, int64_t begin, int64_t end, char* best, int64_t* index) const {
    if (columns_) {
      tile_columns(offset, w, begin, end, best, index);
    } else {
      for (int64_t j = 0; j < w; ++j) one_row(offset + j * step_, begin, end, best + j * compute_item_, index + j);
    }
  }

  // Takes later results into earlier ones.
  void merge(char* best, int64_t* index, const char* other, const int64_t* other_index, int64_t w) const {
    const auto loop = [&]<typename C>(C* b, const C* o) {
      for (int64_t j = 0; j < w; ++j) {
        const bool better = (largest_ ? o[j] > b[j] : o[j] < b[j]) || (o[j] != o[j] && b[j] == b[j]);
        if (better) {
          b[j] = o[j];
          index[j] = other_index[j];
        }
      }
    };
    switch (compute_) {
      case ScalarType::Float32:
        return loop(reinterpret_cast<float*>(best), reinterpret_cast<const float*>(other));
      case ScalarType::Float64:
        return loop(reinterpret_cast<double*>(best), reinterpret_cast<const double*>(other));
      case ScalarType::Int32:
        return loop(reinterpret_cast<int32_t*>(best), reinterpret_cast<const int32_t*>(other));
      default:
        return loop(reinterpret_cast<int64_t*>(best), reinterpret_cast<const int64_t*>(other));
    }
  }

 private:
  void one_row(int64_t offset, int64_t begin, int64_t end, char* best, int64_t* index) const {
    const char* base = data_ + offset * item_;
    if (load_.native() && along_ == 1) {
      loops_.row(base + begin * item_, end - begin, best, index);
      *index += begin;
      return;
    }
    constexpr int64_t kPart = 2048;
    alignas(64) char part[kPart * 8];
    alignas(8) char other[8];
    for (int64_t i = begin; i < end; i += kPart) {
      const int64_t n = std::min(kPart, end - i);
      int64_t at;
      load_(part, base + i * along_ * item_, along_, n);
      loops_.row(part, n, i == begin ? best : other, &at);
      at += i;
      if (i == begin) {
        *index = at;
      } else {
        merge(best, index, other, &at, 1);
      }
    }
  }

  void tile_columns(int64_t offset, int64_t w, int64_t begin, int64_t end, char* best, int64_t* index) const {
    constexpr int64_t kRows = 64;
    const bool direct = load_.native() && step_ == 1;
    Bytes tile(direct ? 0 : static_cast<size_t>(kRows * w * compute_item_));
    Bytes narrow(compute_item_ == 4 ? static_cast<size_t>(w) * 4 : 0);
    const void* rows[kRows];
    for (int64_t i = begin; i < end; i += kRows) {
      const int64_t m = std::min(kRows, end - i);
      for (int64_t k = 0; k < m; ++k) {
        const char* row = data_ + (offset + (i + k) * along_) * item_;
        if (direct) {
          rows[k] = row;
        } else {
          char* copy = tile.bytes() + k * w * compute_item_;
          load_(copy, row, step_, w);
          rows[k] = copy;
        }
      }
      loops_.columns(rows, m, w, i - begin, best, compute_item_ == 4 ? narrow.bytes() : static_cast<void*>(index));
    }
    if (compute_item_ == 4) {
      for (int64_t j = 0; j < w; ++j) index[j] = narrow.as<int32_t>()[j] + begin;
    } else {
      for (int64_t j = 0; j < w; ++j) index[j] += begin;
    }
  }

  ScalarType compute_;
  const ArgLoops& loops_;
  bool largest_;
  Loader load_;
  const char* data_;
  int64_t item_, compute_item_;
  int64_t along_, step_;
  bool columns_;
};

}  // namespace

void reduce_arg(bool largest, const Tensor& self_in, std::optional<int64_t> dim, const Tensor& values,
                const Tensor& index) {
  Tensor self = self_in;
  Layout layout;
  int64_t size = self.numel(), along = 1;
  if (dim && self.dim() > 0) {
    const int64_t d = wrap_dim(*dim, self.dim());
    DimSet set;
    set.set(static_cast<size_t>(d));
    layout = make_layout(self, set, index, values);
    size = self.size(d);
    along = self.stride(d);
  } else if (!self.is_contiguous()) {
    // The index counts in logical order.
    self = make_empty(self_in.sizes(), self_in.dtype());
    copy_strided(self, self_in);
  }
  if (size == 1) along = 1;
  const Axis none = {1, 0, {0, 0}};
  const Axis last = layout.kept.empty() ? none : layout.kept.back();
  const ArgReducer reducer(largest, self, along, layout.kept.empty() ? 0 : last.in);
  const int64_t inner = last.size;
  const int64_t width = std::min<int64_t>(inner, reducer.columns() ? 1024 : std::clamp<int64_t>(kGrain / size, 1, 512));
  const int64_t tiles = (inner + width - 1) / width;
  const size_t outer_axes = layout.kept.empty() ? 0 : layout.kept.size() - 1;
  const int64_t units = layout.outputs / inner * tiles;
  const int64_t item = static_cast<int64_t>(itemsize(reducer.compute()));
  // Comparisons are exact, so the split may follow the number of threads.
  int64_t slices = 1;
  const int64_t threads = get_num_threads();
  if (units < threads && size * layout.outputs >= 2 * kGrain) slices = std::min<int64_t>(2 * threads, size / 1024 + 1);
  slices = std::max<int64_t>(slices, (size >> 30) + 1);
  const int64_t length = (size + slices - 1) / slices;
  slices = (size + length - 1) / length;
  const int64_t part_bytes = width * (item + 8);

  const auto tile_of = [&](int64_t unit, int64_t& begin, int64_t& w, int64_t& offset) {
    begin = unit % tiles * width;
    w = std::min(width, inner - begin);
    offset = offset_of(layout.kept, outer_axes, unit / tiles, &Axis::in) + begin * last.in;
  };
  const auto store = [&](int64_t unit, int64_t begin, int64_t w, const char* best, const int64_t* at) {
    int64_t offset = out_offset_of(layout.kept, outer_axes, unit / tiles, 0) + begin * last.out[0];
    int64_t* to = index.data<int64_t>() + offset;
    for (int64_t j = 0; j < w; ++j) to[j * last.out[0]] = at[j];
    if (!values.defined()) return;
    offset = out_offset_of(layout.kept, outer_axes, unit / tiles, 1) + begin * last.out[1];
    store_elements(values.dtype(), static_cast<char*>(values.raw()) + offset * static_cast<int64_t>(values.itemsize()),
                   last.out[1], reducer.compute(), best, w);
  };

  if (slices == 1) {
    parallel_for(0, units, std::max<int64_t>(1, kGrain / (width * size)), [&](int64_t from, int64_t to) {
      Bytes part(static_cast<size_t>(part_bytes));
      int64_t* at = part.as<int64_t>();
      char* best = part.bytes() + 8 * width;
      for (int64_t u = from; u < to; ++u) {
        int64_t begin, w, offset;
        tile_of(u, begin, w, offset);
        reducer.tile(offset, w, 0, size, best, at);
        store(u, begin, w, best, at);
      }
    });
    return;
  }
  Bytes parts(static_cast<size_t>(part_bytes * slices * units));
  const auto index_of = [&](int64_t i) { return reinterpret_cast<int64_t*>(parts.bytes() + i * part_bytes); };
  const auto best_of = [&](int64_t i) { return parts.bytes() + i * part_bytes + 8 * width; };
  parallel_for(0, slices * units, 1, [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      int64_t begin, w, offset;
      tile_of(i / slices, begin, w, offset);
      const int64_t first = i % slices * length;
      reducer.tile(offset, w, first, std::min(size, first + length), best_of(i), index_of(i));
    }
  });
  for (int64_t u = 0; u < units; ++u) {
    int64_t begin, w, offset;
    tile_of(u, begin, w, offset);
    const int64_t i = u * slices;
    for (int64_t s = 1; s < slices; ++s) reducer.merge(best_of(i), index_of(i), best_of(i + s), index_of(i + s), w);
    store(u, begin, w, best_of(i), index_of(i));
  }
}

}  // namespace facula::cpu
