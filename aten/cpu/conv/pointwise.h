// Convolution by 1 x 1 kernels without stride.
#pragma once

#include "aten/cpu/conv/nhwc.h"

namespace facula::cpu {

struct Conv1x1 {
  int64_t batch, channels, out_channels, positions;
};

template <typename T>
void pointwise(const Conv1x1& g, const Images<const T>& x, const Filters<T>& w, const T* bias, const Images<T>& y);

}  // namespace facula::cpu
