// Gradient of the weight of convolutions of many channels in two dims, by NHWC tiles of images of either layout.
#pragma once

#include "aten/cpu/conv/geometry.h"
#include "aten/cpu/conv/nhwc.h"

namespace facula::cpu {

bool nhwc_weight_pays(const conv::Geometry& g);
// grad_weight (out_channels, channels, taps)
template <typename T>
void nhwc_gemm_backward_weight(const conv::Geometry& g, const Images<const T>& x, const Images<const T>& grad, T* out);

}  // namespace facula::cpu
