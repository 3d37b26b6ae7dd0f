// Which taps of a kernel meet the image from which outputs, for methods that make no padded copy.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "aten/cpu/conv/geometry.h"
#include "runtime/core/interrupt.h"

namespace facula::cpu::conv {

// Along one dim outputs and taps take the same part: output o and tap k read place o * stride + k * dilation - padding.
// One of them is `at`; of the other, [first, last) meet the image, at `place` for the first of them.
struct Meeting {
  int64_t at, first, last, place;
};
using Meetings = std::vector<Meeting>;

// By output (else by tap).
Meetings meetings_of(const Geometry& g, size_t d, bool by_output);

// The same convolution with fewer dims: those of which the kernel covers everything, with `channels` these too, are one
// long row with the dim before, and dims of one go to the front.
Geometry merged(const Geometry& g, bool channels);

// The rows of a plane in which outputs and taps meet: along the taps for one output each where kernels are wider than
// results, else along the outputs for one tap each.
class Rows {
 public:
  explicit Rows(const Geometry& g)
      : g_(g),
        along_taps_(g.kernel[2] > g.out[2]),
        all_{meetings_of(g, 0, false), meetings_of(g, 1, false), meetings_of(g, 2, along_taps_)} {}
  bool along_taps() const { return along_taps_; }
  // How far neighbours in a row lie apart in the image.
  int64_t step() const { return along_taps_ ? g_.dilation[2] : g_.stride[2]; }
  // Those of the last dim, for threads that share a plane.
  std::span<const Meeting> columns() const { return all_[2]; }

  // fn(tap in the kernel, place in the image, place in the output, count)
  template <typename F>
  void each(std::span<const Meeting> columns, const F& fn) const {
    for (const Meeting& z : all_[0]) {
      for (const Meeting& y : all_[1]) {
        const int64_t taps = (z.at * g_.kernel[1] + y.at) * g_.kernel[2];
        for (int64_t a = z.first; a < z.last; ++a) {
          const int64_t plane = (z.place + (a - z.first) * g_.stride[0]) * g_.in[1];
          for (int64_t b = y.first; b < y.last; ++b) {
            const int64_t row = (plane + y.place + (b - y.first) * g_.stride[1]) * g_.in[2];
            const int64_t outputs = (a * g_.out[1] + b) * g_.out[2];
            for (const Meeting& x : columns) {
              const int64_t count = x.last - x.first;
              count_step(static_cast<int32_t>(1 + std::min<int64_t>(count >> 7, 255)));
              if (along_taps_) {
                fn(taps + x.first, row + x.place, outputs + x.at, count);
              } else {
                fn(taps + x.at, row + x.place, outputs + x.first, count);
              }
            }
          }
        }
      }
    }
  }
  template <typename F>
  void each(const F& fn) const {
    each(all_[2], fn);
  }

 private:
  const Geometry& g_;
  bool along_taps_;
  std::array<Meetings, 3> all_;
};

}  // namespace facula::cpu::conv
