// Pooling of NHWC images in two dims, whole vectors of channels at a time.
#pragma once

#include "aten/cpu/pool/windows.h"

namespace facula::cpu::pool {

template <typename T>
void max_nhwc(const Pool& p, int64_t channels, const T* x, T* out);
// Adds each gradient at the place of its window's maximum.
template <typename T>
void max_nhwc_backward(const Pool& p, int64_t channels, const T* grad, const T* x, T* out);
template <typename T>
void average_nhwc(const Pool& p, int64_t channels, std::optional<int64_t> divisor, const T* x, T* out);
template <typename T>
void average_nhwc_backward(const Pool& p, int64_t channels, std::optional<int64_t> divisor, const T* grad, T* out);

}  // namespace facula::cpu::pool
