// First extremes: the index, and the value, of the largest or smallest element.
#include <algorithm>
#include <cmath>

#include "aten/cpu/common/bytes.h"
#include "aten/cpu/reduce/strided_iterator.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/parallel.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

namespace {

// best, index (absolute) of rows [begin, end) for w neighbouring lines.
class ArgReducer {
 public:
  ArgReducer(bool largest, const Tensor& self, int64_t along, int64_t step)
      : compute_(order_type(self.dtype())),
        loops_(*FACULA_BY_ISA(find_arg_loops)(largest, compute_)),
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
      case ScalarType::UInt64:
        return loop(reinterpret_cast<uint64_t*>(best), reinterpret_cast<const uint64_t*>(other));
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
    Bytes narrow(compute_item_ == 4 ? bytes_for(w, 4) : 0);
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
  ElementLoader load_;
  const char* data_;
  int64_t item_, compute_item_;
  int64_t along_, step_;
  bool columns_;
};

}  // namespace

void reduce_arg(bool largest, const Tensor& self_in, std::optional<int64_t> dim, const Tensor& values,
                const Tensor& index) {
  Tensor self = self_in;
  ReduceLayout layout;
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
  const bool one = layout.kept.empty();
  const ArgReducer reducer(largest, self, along, one ? 0 : layout.kept.back().in);
  const int64_t inner = one ? 1 : layout.kept.back().size;
  const int64_t width = std::min<int64_t>(inner, reducer.columns() ? 1024 : std::clamp<int64_t>(kGrain / size, 1, 512));
  const OutputTiles tiles(layout, width);
  const int64_t item = static_cast<int64_t>(itemsize(reducer.compute()));
  // Comparisons are exact, so the split may follow the number of threads.
  int64_t slices = 1;
  const int64_t threads = get_num_threads();
  if (tiles.count() < threads && size * layout.outputs >= 2 * kGrain)
    slices = std::min<int64_t>(2 * threads, size / 1024 + 1);
  slices = std::max<int64_t>(slices, (size >> 30) + 1);
  const int64_t length = ceil_div(size, slices);
  slices = ceil_div(size, length);
  const int64_t part_bytes = width * (item + 8);

  const auto store = [&](int64_t i, int64_t w, const char* best, const int64_t* at) {
    int64_t* to = index.data<int64_t>() + tiles.out(i, 0);
    for (int64_t j = 0; j < w; ++j) to[j * tiles.out_stride(0)] = at[j];
    if (!values.defined()) return;
    char* value = static_cast<char*>(values.raw()) + tiles.out(i, 1) * static_cast<int64_t>(values.itemsize());
    store_elements(values.dtype(), value, tiles.out_stride(1), reducer.compute(), best, w);
  };

  if (slices == 1) {
    parallel_for(0, tiles.count(), std::max<int64_t>(1, kGrain / (width * size)), [&](int64_t from, int64_t to) {
      Bytes part(static_cast<size_t>(part_bytes));
      int64_t* at = part.as<int64_t>();
      char* best = part.bytes() + 8 * width;
      for (int64_t i = from; i < to; ++i) {
        const OutputTiles::Tile tile = tiles[i];
        reducer.tile(tile.in, tile.width, 0, size, best, at);
        store(i, tile.width, best, at);
      }
    });
    return;
  }
  Bytes parts(static_cast<size_t>(part_bytes * slices * tiles.count()));
  const auto index_of = [&](int64_t k) { return reinterpret_cast<int64_t*>(parts.bytes() + k * part_bytes); };
  const auto best_of = [&](int64_t k) { return parts.bytes() + k * part_bytes + 8 * width; };
  parallel_for(0, slices * tiles.count(), 1, [&](int64_t from, int64_t to) {
    for (int64_t k = from; k < to; ++k) {
      const OutputTiles::Tile tile = tiles[k / slices];
      const int64_t first = k % slices * length;
      reducer.tile(tile.in, tile.width, first, std::min(size, first + length), best_of(k), index_of(k));
    }
  });
  for (int64_t i = 0; i < tiles.count(); ++i) {
    const int64_t w = tiles[i].width, k = i * slices;
    for (int64_t s = 1; s < slices; ++s) reducer.merge(best_of(k), index_of(k), best_of(k + s), index_of(k + s), w);
    store(i, w, best_of(k), index_of(k));
  }
}

}  // namespace facula::cpu
