#include "aten/cpu/conv/depthwise.h"

#include <vector>

#include "aten/cpu/conv/row.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/tuning.h"

namespace facula::cpu {
using conv::Geometry;
using conv::product;

namespace {

// One plane with its margins, whose columns come by residue modulo `split`.
template <typename T>
class Plane {
 public:
  Plane(int64_t top, int64_t left, int64_t rows, int64_t columns, int64_t split)
      : top_(top),
        left_(left),
        rows_(rows),
        columns_(ceil_div(columns, split)),
        split_(split),
        buffer_(rows * columns_ * split + kWideSlack) {
    std::fill(buffer_.get(), buffer_.get() + rows * columns_ * split + kWideSlack, T(0));
  }
  // What lies outside stays zero from one plane to the next.
  void load(const T* from, int64_t height, int64_t width) const {
    const int64_t first = std::max<int64_t>(0, top_), last = std::min(rows_, height + top_);
    for (int64_t r = first; r < last; ++r) {
      const T* row = from + (r - top_) * width;
      T* to = buffer_.get() + r * columns_ * split_;
      copy_row<false>(row, width, -left_, split_, columns_, to);
    }
  }
  const T* data() const { return buffer_.get(); }
  int64_t row() const { return columns_ * split_; }
  int64_t at(int64_t y, int64_t x) const { return y * row() + x % split_ * columns_ + x / split_; }

 private:
  int64_t top_, left_, rows_, columns_, split_;
  TypedBuffer<T> buffer_;
};

template <typename T>
Plane<T> input_plane(const Geometry& g) {
  return Plane<T>(g.padding[1], g.padding[2], (g.out[1] - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1,
                  (g.out[2] - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1, g.stride[2]);
}

template <typename T>
std::vector<int64_t> taps_of(const Geometry& g, const Plane<T>& plane) {
  std::vector<int64_t> taps;
  for (int64_t y = 0; y < g.kernel[1]; ++y) {
    for (int64_t x = 0; x < g.kernel[2]; ++x) taps.push_back(plane.at(y * g.dilation[1], x * g.dilation[2]));
  }
  return taps;
}

}  // namespace

template <typename T>
void depthwise_forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out) {
  const int64_t places = product(g.in), positions = product(g.out), depth = product(g.kernel);
  parallel_for(0, g.batch * g.groups, grain_for(positions * depth, tuning::kDepthwiseWork),
               [&](int64_t begin, int64_t end) {
                 const Plane<T> plane = input_plane<T>(g);
                 const std::vector<int64_t> taps = taps_of(g, plane);
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t c = i % g.groups;
                   plane.load(input + i * places, g.in[1], g.in[2]);
                   conv_loops<T>().depthwise_nchw(g.out[1], g.out[2], depth, taps.data(), weight + c * depth,
                                                  bias != nullptr ? bias[c] : T(0), plane.data(),
                                                  g.stride[1] * plane.row(), out + i * positions);
                 }
               });
}

template <typename T>
void depthwise_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out) {
  Geometry turned = g;
  const int64_t depth = product(g.kernel);
  std::swap(turned.in, turned.out);
  for (size_t d = 1; d < 3; ++d) turned.padding[d] = (g.kernel[d] - 1) * g.dilation[d] - g.padding[d];
  const TypedBuffer<T> reversed(g.groups * depth);
  for (int64_t c = 0; c < g.groups; ++c) {
    std::reverse_copy(weight + c * depth, weight + (c + 1) * depth, reversed.get() + c * depth);
  }
  depthwise_forward(turned, grad, reversed.get(), bias, out);
}

template <typename T>
void depthwise_backward_weight(const Geometry& g, const T* input, const T* grad, T* out) {
  const int64_t places = product(g.in), positions = product(g.out), depth = product(g.kernel);
  parallel_for(
      0, g.groups, grain_for(g.batch * positions * depth, tuning::kDepthwiseWork), [&](int64_t begin, int64_t end) {
        const Plane<T> plane = input_plane<T>(g);
        std::vector<int64_t> taps = taps_of(g, plane);
        while (taps.size() % kTapsTogether != 0) taps.push_back(0);  // not used
        std::vector<double> sums(taps.size());
        for (int64_t c = begin; c < end; ++c) {
          std::fill(sums.begin(), sums.end(), 0.0);
          for (int64_t n = 0; n < g.batch; ++n) {
            const int64_t i = n * g.groups + c;
            plane.load(input + i * places, g.in[1], g.in[2]);
            for (size_t t = 0; t < taps.size(); t += kTapsTogether) {
              conv_loops<T>().depthwise_nchw_grads(g.out[1], g.out[2], taps.data() + t, plane.data(),
                                                   g.stride[1] * plane.row(), grad + i * positions, sums.data() + t);
            }
          }
          for (int64_t t = 0; t < depth; ++t) out[c * depth + t] = static_cast<T>(sums[static_cast<size_t>(t)]);
        }
      });
}

#define FACULA_DEPTHWISE_FOR(T)                                                                 \
  template void depthwise_forward<T>(const Geometry&, const T*, const T*, const T*, T*);        \
  template void depthwise_backward_input<T>(const Geometry&, const T*, const T*, const T*, T*); \
  template void depthwise_backward_weight<T>(const Geometry&, const T*, const T*, T*);
FACULA_DEPTHWISE_FOR(float)
FACULA_DEPTHWISE_FOR(double)
#undef FACULA_DEPTHWISE_FOR

}  // namespace facula::cpu
