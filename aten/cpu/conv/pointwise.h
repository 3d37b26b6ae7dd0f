// Convolution by 1 x 1 kernels without stride.
#pragma once

#include "aten/cpu/conv/pixels.h"

namespace facula::cpu {

struct Conv1x1 {
  int64_t batch, channels, features, positions;
};

template <typename T>
void pointwise(const Conv1x1& g, const Pixels<const T>& x, const Filters<T>& w, const T* bias, const Pixels<T>& y);

}  // namespace facula::cpu
