// Convolutions that mostly see their padding: margins, dilations or strides far beyond the image.
#pragma once

#include "aten/cpu/conv/direct.h"

namespace facula::cpu {

// Whether images with their margins, or products with them, would be much larger than what is given and asked for; with
// `back` also, whether the gradient of the input has so many residues that few taps meet each.
bool is_sparse(const conv::Geometry& g, bool back);

// The convolution, its gradient of the input (also the transposed convolution) and of the weight, on dense planes, by
// the taps that meet the image alone.
template <typename T>
void sparse_forward(const conv::Geometry& g, const T* input, const T* weight, const T* bias, T* out);
template <typename T>
void sparse_backward_input(const conv::Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
template <typename T>
void sparse_backward_weight(const conv::Geometry& g, const T* input, const T* grad, T* out);

}  // namespace facula::cpu
