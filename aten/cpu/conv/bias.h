// Gradient of a convolution's bias: the sum of each channel's gradients.
#pragma once

#include "runtime/core/tensor.h"

namespace facula::cpu::conv {

// grad (batch, channels, positions...)
template <typename T>
void backward_bias_nchw(IntList sizes, const T* grad, T* out);
// grad (pixels, channels)
template <typename T>
void backward_bias_nhwc(int64_t pixels, int64_t channels, const T* grad, T* out);

}  // namespace facula::cpu::conv
