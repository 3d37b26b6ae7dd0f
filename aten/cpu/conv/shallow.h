// Convolution of channels_last images of few channels.
#pragma once

#include "aten/cpu/conv/direct.h"
#include "aten/cpu/conv/pixels.h"

namespace facula::cpu {

bool shallow_pays(const conv::Geometry& g);
// Both images have their channels last.
template <typename T>
void shallow_forward(const conv::Geometry& g, const Pixels<const T>& x, const T* weight, const T* bias,
                     const Pixels<T>& y);

}  // namespace facula::cpu
