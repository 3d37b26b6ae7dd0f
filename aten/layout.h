// The second memory format of images: channels within pixels (torch's channels_last).
#pragma once

#include "runtime/core/checked.h"
#include "runtime/core/tensor.h"

namespace facula {

inline DimVector channels_last_strides(IntList sizes) {
  const int64_t c = sizes[1], h = sizes[2], w = sizes[3];
  const int64_t row = checked_mul(w, c);
  return {checked_mul(h, row), 1, row, c};
}

// What is contiguous as well counts as contiguous.
inline bool is_channels_last(const Tensor& t) {
  if (!t.defined() || t.dim() != 4 || t.numel() == 0 || t.is_contiguous()) return false;
  const DimVector wanted = channels_last_strides(t.sizes());
  for (size_t d = 0; d < 4; ++d) {
    if (t.sizes()[d] != 1 && t.strides()[d] != wanted[d]) return false;
  }
  return true;
}

}  // namespace facula
