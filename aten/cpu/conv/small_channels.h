// Convolution of NHWC images of few channels.
#pragma once

#include "aten/cpu/conv/geometry.h"
#include "aten/cpu/conv/nhwc.h"

namespace facula::cpu {

bool small_channels_pays(const conv::Geometry& g);
// Both images are NHWC, output channels whole vectors.
template <typename T>
void small_channels_forward(const conv::Geometry& g, const Images<const T>& x, const T* weight, const T* bias,
                            const Images<T>& y);

}  // namespace facula::cpu
