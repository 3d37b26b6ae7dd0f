// Convolution of contiguous images in one to three dims as a matrix product whose second operand, the windows, is
// gathered panel by panel (implicit im2col): any kernel, stride and groups.
#pragma once

#include "aten/cpu/conv/geometry.h"

namespace facula::cpu::conv {

template <typename T>
void implicit_gemm_forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out);
// grad_input (batch, groups * channels, in) from grad (batch, groups * out_channels, out); also the transposed
// convolution, with a bias by channel.
template <typename T>
void implicit_gemm_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
// Both with the sums of runs of the depth made in double.
template <typename T>
void long_sums_forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out);
template <typename T>
void long_sums_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
// grad_weight (groups, out_channels, channels * taps) from input and the gradient of the output.
template <typename T>
void implicit_gemm_backward_weight(const Geometry& g, const T* input, const T* grad, T* out);

}  // namespace facula::cpu::conv
