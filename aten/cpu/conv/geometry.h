// What a convolution is given, in one to three dims: the sizes that all methods work with.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/core/checked.h"
#include "runtime/core/rounding.h"
#include "runtime/core/tensor.h"

namespace facula::cpu::conv {

using Three = std::array<int64_t, 3>;
inline int64_t product(const Three& v) { return v[0] * v[1] * v[2]; }

// A convolution seen from `input` (batch, groups * channels, in) to `output` (batch, groups * out_channels, out); lists
// of one or two dims are extended in front by dims of one.
struct Geometry {
  int64_t batch, groups, channels, out_channels;  // channels of one group
  Three in, out, kernel, stride, padding, dilation;

  // Planes of one or two dims.
  bool flat() const { return in[0] == 1 && kernel[0] == 1 && padding[0] == 0; }
  bool depthwise() const { return groups > 1 && channels == 1 && out_channels == 1 && flat(); }
};

inline Three extend(IntList list, int64_t fill) {
  Three r{fill, fill, fill};
  for (size_t i = 0; i < list.size(); ++i) r[3 - list.size() + i] = list[i];
  return r;
}

// `input` and `output` are those of the plain convolution: for a transposed one, its output and input.
inline Geometry geometry(IntList input, IntList output, IntList weight, IntList stride, IntList padding,
                         IntList dilation, int64_t groups) {
  Geometry g{input[0],
             groups,
             weight[1],
             weight[0] / groups,
             extend(input.subspan(2), 1),
             extend(output.subspan(2), 1),
             extend(weight.subspan(2), 1),
             extend(stride, 1),
             extend(padding, 0),
             extend(dilation, 1)};
  // A window that does not move may have any stride, also one that no memory could hold.
  for (size_t d = 0; d < 3; ++d) {
    if (g.out[d] == 1) g.stride[d] = std::min(g.stride[d], saturated_add(g.in[d], saturated_mul(2, g.padding[d])));
    if (g.kernel[d] == 1) g.dilation[d] = 1;
  }
  return g;
}

// Along one dim: results first, first + step, ... (`count` of them); number i reads i * stride + offsets[k]
// for the kernel's places taps[k]. The gradient of the input has a phase for each residue.
struct Phase {
  int64_t first, count;
  std::vector<int64_t> taps, offsets;
};
std::vector<Phase> phases_of(const Geometry& g, size_t d, bool back);

}  // namespace facula::cpu::conv
