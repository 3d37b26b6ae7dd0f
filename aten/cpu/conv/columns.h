// The gradient of the input as a product of the weight with the gradient of the output, whose rows, one for each tap,
// are added to the places that they belong to (col2im): for kernels about as large as the image, whose results are few.
#pragma once

#include "aten/cpu/conv/geometry.h"

namespace facula::cpu::conv {

// Whether the product of one channel is no larger than what stays in memory beside the images.
bool columns_fit(const Geometry& g);

// Whether gathering asks for many times the taps that give something, and the product has depth enough.
bool columns_pay(const Geometry& g);

// grad_input (batch, groups * channels, in) from grad (batch, groups * out_channels, out), contiguous; also the
// transposed convolution, with a bias by channel.
template <typename T>
void columns_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out);

}  // namespace facula::cpu::conv
