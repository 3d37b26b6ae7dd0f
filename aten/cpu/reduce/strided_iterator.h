// The way of reductions through a tensor: its axes, its outputs in tiles, its elements converted.
#pragma once

#include <algorithm>

#include "aten/cpu/reduce/reduce.h"
#include "runtime/core/rounding.h"

namespace facula::cpu {

// A dim; strides in elements.
struct ReduceAxis {
  int64_t size;
  int64_t in;
  int64_t out[2];
};
using ReduceAxes = SmallVector<ReduceAxis, 5>;

struct ReduceLayout {
  ReduceAxes kept, reduced;  // outermost first
  int64_t outputs = 1, count = 1;
};

// `out1` is undefined where there is one output.
ReduceLayout make_layout(const Tensor& self, DimSet dims, const Tensor& out, const Tensor& out1);

// Steps through the offsets of strided dims, one element after the other.
class StridedIterator {
 public:
  StridedIterator(const ReduceAxes& axes, int64_t begin) : axes_(axes), index_(axes.size(), 0) {
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
  const ReduceAxes& axes_;
  DimVector index_;
  int64_t offset_ = 0;
};

// The outputs in tiles of at most `width` neighbours along the innermost kept axis.
class OutputTiles {
 public:
  struct Tile {
    int64_t begin, width;  // along the axis
    int64_t in;            // offset of its first element in the input
  };
  OutputTiles(const ReduceLayout& layout, int64_t width)
      : axes_(layout.kept),
        last_(axes_.empty() ? ReduceAxis{1, 0, {0, 0}} : axes_.back()),
        width_(width),
        along_(ceil_div(last_.size, width)),
        count_(layout.outputs / last_.size * along_) {}
  int64_t count() const { return count_; }
  Tile operator[](int64_t i) const {
    const int64_t begin = i % along_ * width_;
    return {begin, std::min(width_, last_.size - begin),
            outer(i, [](const ReduceAxis& a) { return a.in; }) + begin * last_.in};
  }
  // Of output k: the offset of the tile's first element, and the stride to the next.
  int64_t out(int64_t i, int k) const {
    return outer(i, [k](const ReduceAxis& a) { return a.out[k]; }) + i % along_ * width_ * last_.out[k];
  }
  int64_t out_stride(int k) const { return last_.out[k]; }

 private:
  template <typename F>
  int64_t outer(int64_t i, const F& stride) const {
    int64_t offset = 0, index = i / along_;
    for (size_t d = axes_.empty() ? 0 : axes_.size() - 1; d-- > 0 && index > 0;) {
      offset += index % axes_[d].size * stride(axes_[d]);
      index /= axes_[d].size;
    }
    return offset;
  }
  const ReduceAxes& axes_;
  ReduceAxis last_;
  int64_t width_, along_, count_;
};

// Loads elements through the conversion and the preload of a reduction.
class ElementLoader {
 public:
  ElementLoader(ScalarType from, ScalarType compute, Preload preload = Preload::None, double p = 0)
      : from_(from), compute_(compute), preload_(preload), p_(p) {}
  bool native() const { return from_ == compute_ && preload_ == Preload::None; }
  void operator()(void* dst, const char* src, int64_t stride, int64_t n) const;

 private:
  void apply(void* dst, int64_t n) const;
  ScalarType from_, compute_;
  Preload preload_;
  double p_;
};

}  // namespace facula::cpu
