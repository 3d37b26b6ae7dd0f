// Convolution of each channel by itself, in two dims.
#pragma once

#include "aten/cpu/conv/direct.h"

namespace facula::cpu {

bool is_depthwise(const conv::Geometry& g);

template <typename T>
void depthwise_forward(const conv::Geometry& g, const T* input, const T* weight, const T* bias, T* out);
// Without stride only.
template <typename T>
void depthwise_backward_input(const conv::Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
template <typename T>
void depthwise_backward_weight(const conv::Geometry& g, const T* input, const T* grad, T* out);

// The same for channels_last images, with any stride.
template <typename T>
void depthwise_forward_pixels(const conv::Geometry& g, const T* input, const T* weight, const T* bias, T* out);
template <typename T>
void depthwise_backward_input_pixels(const conv::Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
template <typename T>
void depthwise_backward_weight_pixels(const conv::Geometry& g, const T* input, const T* grad, T* out);

}  // namespace facula::cpu
