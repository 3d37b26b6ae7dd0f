// What the tiles of a convolution of NCHW images start from.
#pragma once

#include "aten/cpu/common/dense.h"

namespace facula::cpu {

// The bias of each output channel `width` times, for results that are whole vectors of one output channel.
template <typename T>
class Starts {
 public:
  // Zero from `out_channels` to `padded`.
  Starts(int64_t out_channels, int64_t padded, int64_t width, const T* bias)
      : width_(width), rows_(bias == nullptr ? 0 : padded * width) {
    for (int64_t f = 0; f < padded && bias != nullptr; ++f) {
      std::fill_n(rows_.get() + f * width, width, f < out_channels ? bias[f] : T(0));
    }
  }
  // The row of output channel f, the others `width` apart; null without a bias.
  const T* at(int64_t f) const { return rows_.get() == nullptr ? nullptr : rows_.get() + f * width_; }

 private:
  int64_t width_;
  TypedBuffer<T> rows_;
};

}  // namespace facula::cpu
