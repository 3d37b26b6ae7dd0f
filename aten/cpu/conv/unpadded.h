// Direct convolution without a padded copy, by the taps that meet the image alone: for those that mostly see their
// padding, margins, dilations or strides being far beyond the image.
#pragma once

#include "aten/cpu/conv/geometry.h"

namespace facula::cpu {

// Whether images with their margins, or products with them, would be much larger than what is given and asked for; with
// `back` also, whether the gradient of the input has so many residues that few taps meet each.
bool mostly_padding(const conv::Geometry& g, bool back);

// The convolution, its gradient of the input (also the transposed convolution) and of the weight, of contiguous images.
template <typename T>
void unpadded_forward(const conv::Geometry& g, const T* input, const T* weight, const T* bias, T* out);
template <typename T>
void unpadded_backward_input(const conv::Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
template <typename T>
void unpadded_backward_weight(const conv::Geometry& g, const T* input, const T* grad, T* out);

}  // namespace facula::cpu
