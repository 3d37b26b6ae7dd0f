// The windows of pooling in one to three dims.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "aten/cpu/dense.h"

namespace facula::cpu::pool {

// Windows of one dim: places start[o], start[o] + step, ... below end[o], all inside the input.
struct Axis {
  int64_t in = 1, out = 1, step = 1;
  std::vector<int64_t> start{0}, end{1};
  std::vector<double> divisor{1};
  // Where all windows are alike but for clipping: out window o begins at o * stride - padding.
  int64_t stride = 1, padding = 0, kernel = 1;
  bool uniform = true;
};

inline Axis strided(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                    bool count_padding) {
  Axis a{in, out, dilation, {}, {}, {}, stride, padding, kernel, true};
  for (int64_t o = 0; o < out; ++o) {
    const int64_t from = o * stride - padding, to = from + (kernel - 1) * dilation + 1;
    const int64_t counted = std::min(to, in + padding) - from;
    const int64_t skipped = from < 0 ? (-from + dilation - 1) / dilation : 0;
    a.start.push_back(from + skipped * dilation);
    a.end.push_back(std::min(to, in));
    a.divisor.push_back(static_cast<double>(count_padding ? counted : a.end.back() - a.start.back()));
  }
  return a;
}

inline Axis adaptive(int64_t in, int64_t out) {
  Axis a{in, out, 1, {}, {}, {}, 0, 0, 0, false};
  for (int64_t o = 0; o < out; ++o) {
    a.start.push_back(o * in / out);
    a.end.push_back(((o + 1) * in + out - 1) / out);
    a.divisor.push_back(static_cast<double>(a.end.back() - a.start.back()));
  }
  return a;
}

struct Pool {
  std::array<Axis, 3> axes;
  int64_t planes = 1;
  int64_t in() const { return axes[0].in * axes[1].in * axes[2].in; }
  int64_t out() const { return axes[0].out * axes[1].out * axes[2].out; }
  const Axis& z() const { return axes[0]; }
  const Axis& y() const { return axes[1]; }
  const Axis& x() const { return axes[2]; }
};

// make(i, in, out) builds the axis of spatial dim i.
template <typename F>
Pool make_pool(IntList input, IntList output, size_t dims, const F& make) {
  Pool p;
  const size_t lead = input.size() - dims;
  for (size_t d = 0; d < lead; ++d) p.planes *= input[d];
  for (size_t d = 0; d < dims; ++d) p.axes[3 - dims + d] = make(d, input[lead + d], output[lead + d]);
  return p;
}

inline Pool plain_pool(IntList input, IntList output, IntList kernel, IntList stride, IntList padding, IntList dilation,
                       bool count_padding) {
  return make_pool(input, output, kernel.size(), [&](size_t d, int64_t in, int64_t out) {
    return strided(in, out, kernel[d], stride[d], padding[d], dilation.empty() ? 1 : dilation[d], count_padding);
  });
}

inline Pool adaptive_pool(IntList input, IntList output, size_t dims) {
  return make_pool(input, output, dims, [](size_t, int64_t in, int64_t out) { return adaptive(in, out); });
}

}  // namespace facula::cpu::pool
