// Convolution of NCHW images in one or two dims by tiles of rows, where rows of results fill vectors.
#pragma once

#include "aten/cpu/conv/geometry.h"

namespace facula::cpu {

template <typename T>
bool row_tiles_pay(const conv::Geometry& g);
// Images are contiguous.
template <typename T>
void row_tiles_forward(const conv::Geometry& g, const T* x, const T* weight, const T* bias, T* y);

}  // namespace facula::cpu
