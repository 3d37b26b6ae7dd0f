// A convolution as a product of weights with windows of images that are copied with their margin of zeros: every tap
// of the kernel is then a fixed offset from an output's place. With a stride the columns of the copy are sorted by
// their residue, so that neighbouring outputs always read neighbouring elements. A transposed convolution of stride s
// is one such product per residue of the output's place modulo s, with the taps that meet it.
#pragma once

#include "aten/cpu/common/dense.h"
#include "aten/cpu/conv/geometry.h"
#include "aten/cpu/conv/loops.h"
#include "aten/cpu/conv/row.h"

namespace facula::cpu::conv {

// A copy of planes whose row 0 stands for `origin` of the plane (negative: margin), `size` long; the
// columns of a row come by residue modulo `split`.
struct Margins {
  Three size, origin;
  int64_t split = 1;
};

template <typename T>
class Padded {
 public:
  Padded(const T* data, int64_t planes, const Three& from, const Margins& to)
      : height_(to.size[1]),
        columns_(ceil_div(to.size[2], to.split)),
        split_(to.split),
        plane_(to.size[0] * height_ * columns_ * split_),
        copy_(planes * plane_ + kSlack) {
    const int64_t source = product(from);
    parallel_for(0, planes, grain_for(plane_), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) copy_plane(data + i * source, from, to, copy_.get() + i * plane_);
    });
    std::fill(copy_.get() + planes * plane_, copy_.get() + planes * plane_ + kSlack, T(0));
  }
  const T* data() const { return copy_.get(); }
  int64_t plane() const { return plane_; }
  // Offset of a place along one dim.
  int64_t at(size_t dim, int64_t place) const {
    if (dim == 2) return place % split_ * columns_ + place / split_;
    return place * columns_ * split_ * (dim == 0 ? height_ : 1);
  }

 private:
  void copy_plane(const T* from, const Three& n, const Margins& to, T* out) const {
    for (int64_t d = 0; d < to.size[0]; ++d) {
      for (int64_t h = 0; h < height_; ++h) {
        const int64_t sd = d + to.origin[0], sh = h + to.origin[1];
        if (sd < 0 || sd >= n[0] || sh < 0 || sh >= n[1]) {
          out = std::fill_n(out, columns_ * split_, T(0));
          continue;
        }
        out = copy_row(from + (sd * n[1] + sh) * n[2], n[2], to.origin[2], split_, columns_, out);
      }
    }
  }
  int64_t height_, columns_, split_, plane_;
  TypedBuffer<T> copy_;
};

// Where along a dim taps read in the copy for output 0, how far the next output reads from there, and which places are
// the image.
struct Reach {
  std::vector<int64_t> taps;
  int64_t step, low, high;
};

// Output position (d, h, w) of image n reads at n * image + d * step[0] + h * step[1] + w + tap.
struct Windows {
  Three out;
  int64_t image, step[2];
  bool dense;                 // rows of positions are neighbouring rows of the image
  std::vector<int64_t> taps;  // by channel, then by place in the kernel
  std::array<Reach, 3> reach;
  int64_t positions() const { return product(out); }
};

// The weight of output channel f of group g for tap p lies at data[g * group + f * row + offsets[p]].
template <typename T>
struct Weights {
  const T* data;
  int64_t group, row;
  std::vector<int64_t> offsets;
};

// out (batch, groups, out_channels, positions) = bias + weights times windows.
template <typename T>
using Multiply = void (*)(const Windows& w, int64_t batch, int64_t groups, int64_t out_channels,
                          const Weights<T>& weights, const T* bias, const T* image, int64_t group_stride, T* out);

// Where outputs read, and the taps, in an image with input_margins.
Margins input_margins(const Geometry& g);
template <typename T>
Windows input_windows(const Geometry& g, const Padded<T>& image);

// The convolution, and its gradient for the input (also the transposed convolution, with a bias by channel).
template <typename T>
void forward_by(Multiply<T> multiply, const Geometry& g, const T* input, const T* weight, const T* bias, T* out);
template <typename T>
void backward_input_by(Multiply<T> multiply, const Geometry& g, const T* grad, const T* weight, const T* bias, T* out);

}  // namespace facula::cpu::conv
