// Direct convolution without a padded copy, by the taps that meet the image alone, in time of outputs times taps: for
// those that mostly see their padding, margins, dilations or strides being far beyond the image, and for kernels about
// as large as the image, whose results are few.
#pragma once

#include "aten/cpu/conv/geometry.h"

namespace facula::cpu {

// Whether images with their margins, or products with them, would be much larger than what is given and asked for; with
// `back` also, whether the gradient of the input has so many residues that few taps meet each.
bool mostly_padding(const conv::Geometry& g, bool back);

enum class Result { Forward, BackwardInput, BackwardWeight };

// Whether results are so few and kernels so large that rows along the taps pay.
bool small_results_pay(const conv::Geometry& g, Result result);

// How many taps a place of the input asks for each that gives it something: gathering them takes so many times the work
// of adding each to its place.
double gather_excess(const conv::Geometry& g);

// The convolution, its gradient of the input (also the transposed convolution) and of the weight, of contiguous images.
template <typename T>
void unpadded_forward(const conv::Geometry& g, const T* input, const T* weight, const T* bias, T* out);
template <typename T>
void unpadded_backward_input(const conv::Geometry& g, const T* grad, const T* weight, const T* bias, T* out);
template <typename T>
void unpadded_backward_weight(const conv::Geometry& g, const T* input, const T* grad, T* out);

}  // namespace facula::cpu
