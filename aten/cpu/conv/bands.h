// Convolution in two dims of planes whose rows of results fill vectors.
#pragma once

#include "aten/cpu/conv/direct.h"

namespace facula::cpu {

template <typename T>
bool bands_pay(const conv::Geometry& g);
// Images are contiguous.
template <typename T>
void bands_forward(const conv::Geometry& g, const T* x, const T* weight, const T* bias, T* y);

}  // namespace facula::cpu
