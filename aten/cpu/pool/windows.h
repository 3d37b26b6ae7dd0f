// The windows of pooling in one to three dims.
#pragma once

#include <array>
#include <optional>
#include <vector>

#include "aten/cpu/common/dense.h"
#include "runtime/core/checked.h"
#include "runtime/core/interrupt.h"
#include "runtime/core/rounding.h"

namespace facula::cpu::pool {

// Windows of one dim: places start[o], start[o] + step, ... below end[o], all inside the input.
struct Axis {
  int64_t in = 1, out = 1, step = 1;
  std::vector<int64_t> start{0}, end{1};
  std::vector<double> divisor{1};
  // Where all windows are alike but for clipping: out window o begins at o * stride - padding. Taps that no window has
  // inside the input are left out. Not uniform where a row with its margins would be much longer than what there is.
  int64_t stride = 1, padding = 0, kernel = 1;
  bool uniform = true;
  // A row with its margins, wide enough for every window.
  int64_t width() const { return uniform ? std::max((out - 1) * stride + (kernel - 1) * step + 1, padding + in) : in; }
};

inline Axis strided(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                    bool count_padding) {
  if (out == 1) stride = 1;  // the window does not move
  Axis a{in, out, std::min(dilation, in + 1), {}, {}, {}, stride, padding, kernel, true};
  for (int64_t o = 0; o < out; ++o) {
    count_step();
    const int64_t from = o * stride - padding, to = saturated_add(from, (kernel - 1) * dilation + 1);
    const int64_t counted = std::min(to, in + padding) - from;
    const int64_t skipped = from < 0 ? ceil_div(-from, dilation) : 0;
    const int64_t start = skipped < kernel ? from + skipped * dilation : in;
    a.start.push_back(std::min(start, in));
    a.end.push_back(std::max(std::min(to, in), a.start.back()));
    a.divisor.push_back(static_cast<double>(count_padding ? counted : a.end.back() - a.start.back()));
  }
  // Of a tap k of output o the place is o * stride + k * dilation - padding.
  const int64_t last_window = (out - 1) * stride, highest = in - 1 + padding;
  const int64_t low = padding > last_window ? (padding - last_window) / dilation : 0;
  const int64_t high = std::min(kernel - 1, highest / dilation);
  const int64_t most = 4 * (in + out) + 64;  // of a row with its margins
  a.uniform = low <= high && a.step == dilation && padding - low * dilation <= most &&
              saturated_add(last_window, (high - low) * dilation) <= most;
  if (a.uniform) {
    a.kernel = high - low + 1;
    a.padding = padding - low * dilation;
  } else {
    a.padding = 0;
  }
  return a;
}

inline Axis adaptive(int64_t in, int64_t out) {
  Axis a{in, out, 1, {}, {}, {}, 0, 0, 0, false};
  for (int64_t o = 0; o < out; ++o) {
    __extension__ typedef __int128 wide;
    count_step();
    a.start.push_back(static_cast<int64_t>(wide{o} * in / out));
    a.end.push_back(static_cast<int64_t>(ceil_div(wide{o + 1} * in, out)));
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
