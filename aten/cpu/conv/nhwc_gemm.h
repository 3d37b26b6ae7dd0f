// Convolution of many channels in two dims, and its gradient for the input, as implicit products over NHWC tiles: rows
// of pixels times panels of output channels. Images of either layout are brought into such tiles.
#pragma once

#include "aten/cpu/conv/geometry.h"
#include "aten/cpu/conv/nhwc.h"

namespace facula::cpu {

bool nhwc_gemm_pays(const conv::Geometry& g, bool back);
template <typename T>
void nhwc_gemm_forward(const conv::Geometry& g, const Images<const T>& x, const T* weight, const T* bias,
                       const Images<T>& y);
template <typename T>
void nhwc_gemm_backward_input(const conv::Geometry& g, const Images<const T>& grad, const T* weight, const T* bias,
                              const Images<T>& out);

}  // namespace facula::cpu
