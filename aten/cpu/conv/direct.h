// Direct convolution of contiguous images in one to three dims, for any kernel, stride and groups: a row of results at
// a time, one output channel after the other. Serves where panels of a matrix product would be mostly empty.
#pragma once

#include "aten/cpu/common/tuning.h"
#include "aten/cpu/conv/geometry.h"

namespace facula::cpu::conv {

// Whether a group of so few output channels would leave panels of a product mostly empty.
inline bool direct_pays(int64_t groups, int64_t out_channels) {
  return out_channels == 1 || (groups > 1 && out_channels <= tuning::kDirectMaxOutChannels);
}

template <typename T>
void direct_forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out);
// grad_input (batch, groups * channels, in) from grad (batch, groups * out_channels, out); also the transposed
// convolution, with a bias by channel.
template <typename T>
void direct_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
// grad_weight (groups, out_channels, channels * taps) from input and the gradient of the output.
template <typename T>
void direct_backward_weight(const Geometry& g, const T* input, const T* grad, T* out);

}  // namespace facula::cpu::conv
