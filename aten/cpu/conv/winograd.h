// Convolution by 3 x 3 kernels without stride, by Winograd's F(2x2, 3x3): 16 multiplications for four
// outputs in place of 36.
#pragma once

#include "aten/cpu/conv/nhwc.h"

namespace facula::cpu {

struct Conv3x3 {
  int64_t batch, channels, out_channels;
  int64_t height, width, out_height, out_width, top, left;  // margins of zeros
};

// Whether the method pays.
bool winograd_pays(const Conv3x3& g, int64_t least);

// False where the result holds what is not finite: sums of infinities differ then from those of the
// definition, which must be used instead.
template <typename T>
[[nodiscard]] bool winograd_forward(const Conv3x3& g, const Images<const T>& x, const Filters<T>& filters,
                                    const T* bias, const Images<T>& y);
// grad_weight (out_channels, channels, 3, 3)
template <typename T>
[[nodiscard]] bool winograd_backward_weight(const Conv3x3& g, const Images<const T>& x, const Images<const T>& grad,
                                            T* out);

}  // namespace facula::cpu
