// Convolution of each channel by itself, in one or two dims (Geometry::depthwise).
#pragma once

#include "aten/cpu/conv/geometry.h"

namespace facula::cpu {

template <typename T>
void depthwise_forward(const conv::Geometry& g, const T* input, const T* weight, const T* bias, T* out);
// Without stride only.
template <typename T>
void depthwise_backward_input(const conv::Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
template <typename T>
void depthwise_backward_weight(const conv::Geometry& g, const T* input, const T* grad, T* out);

// The same for NHWC images, with any stride.
template <typename T>
void depthwise_nhwc_forward(const conv::Geometry& g, const T* input, const T* weight, const T* bias, T* out);
template <typename T>
void depthwise_nhwc_backward_input(const conv::Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
template <typename T>
void depthwise_nhwc_backward_weight(const conv::Geometry& g, const T* input, const T* grad, T* out);

}  // namespace facula::cpu
