// The transform of one long line of real numbers.
#pragma once

#include "aten/cpu/fft/long_line.h"

namespace facula::cpu {

// Elements 0 to n / 2 of the transform of n real numbers.
template <typename T>
void long_r2c(int64_t n, const T* in, int64_t step_in, std::complex<T>* out, int64_t step_out, T scale, bool forward);
// n real numbers whose transform is Hermitian, given by its elements 0 to n / 2.
template <typename T>
void long_c2r(int64_t n, const std::complex<T>* in, int64_t step_in, T* out, int64_t step_out, T scale, bool forward);

}  // namespace facula::cpu
