// Convolution in two dims of many channels with a stride, and its gradient for the input, by pixels.
#pragma once

#include "aten/cpu/conv/direct.h"
#include "aten/cpu/conv/pixels.h"

namespace facula::cpu {

bool strided_pays(const conv::Geometry& g, bool back);
template <typename T>
void strided_forward(const conv::Geometry& g, const Pixels<const T>& x, const T* weight, const T* bias,
                     const Pixels<T>& y);
template <typename T>
void strided_backward_input(const conv::Geometry& g, const Pixels<const T>& grad, const T* weight, const T* bias,
                            const Pixels<T>& out);

}  // namespace facula::cpu
