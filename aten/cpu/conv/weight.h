// Gradients of the weight of any convolution in two dims of many channels, and of its bias, by pixels.
#pragma once

#include "aten/cpu/conv/direct.h"
#include "aten/cpu/conv/pixels.h"

namespace facula::cpu {

bool weight_grad_by_pixels_pays(const conv::Geometry& g);
// grad_weight (features, channels, taps)
template <typename T>
void weight_grad_by_pixels(const conv::Geometry& g, const Pixels<const T>& x, const Pixels<const T>& grad, T* out);

// grad_bias (channels) of a gradient (pixels, channels)
template <typename T>
void bias_grad_by_pixels(int64_t pixels, int64_t channels, const T* grad, T* out);

}  // namespace facula::cpu
