// Convolution by its definition, on contiguous images in one to three dims: any kernel, stride and groups.
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "runtime/core/checked.h"
#include "runtime/core/tensor.h"

namespace facula::cpu::conv {

using Three = std::array<int64_t, 3>;
inline int64_t product(const Three& v) { return v[0] * v[1] * v[2]; }

// A convolution seen from `input` (batch, groups * channels, in) to `output` (batch, groups *
// features, out); lists of one or two dims are extended in front by dims of one.
struct Geometry {
  int64_t batch, groups, channels, features;  // channels and features of one group
  Three in, out, kernel, stride, padding, dilation;
};

inline Three extend(IntList list, int64_t fill) {
  Three r{fill, fill, fill};
  for (size_t i = 0; i < list.size(); ++i) r[3 - list.size() + i] = list[i];
  return r;
}

// Groups that are summed row by row.
inline bool few(int64_t groups, int64_t features) { return features == 1 || (groups > 1 && features <= 6); }

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

template <typename T>
void forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out);
// grad_input (batch, groups * channels, in) of a convolution from grad (batch, groups * features, out);
// also the transposed convolution, with a bias by channel.
template <typename T>
void backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
// grad_weight (groups, features, channels * taps) from input and the gradient of the output.
template <typename T>
void backward_weight(const Geometry& g, const T* input, const T* grad, T* out);
template <typename T>
void backward_bias(IntList sizes, const T* grad, T* out);

}  // namespace facula::cpu::conv
