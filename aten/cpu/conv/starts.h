// What the tiles of a convolution of planes start from.
#pragma once

#include "aten/cpu/common/dense.h"

namespace facula::cpu {

// The bias of each feature `width` times, for results that are whole vectors of one feature.
template <typename T>
class Starts {
 public:
  // Zero from `features` to `padded`.
  Starts(int64_t features, int64_t padded, int64_t width, const T* bias)
      : width_(width), rows_(bias == nullptr ? 0 : padded * width) {
    for (int64_t f = 0; f < padded && bias != nullptr; ++f) {
      std::fill_n(rows_.get() + f * width, width, f < features ? bias[f] : T(0));
    }
  }
  // The row of feature f, the others `width` apart; null without a bias.
  const T* at(int64_t f) const { return rows_.get() == nullptr ? nullptr : rows_.get() + f * width_; }

 private:
  int64_t width_;
  TypedBuffer<T> rows_;
};

}  // namespace facula::cpu
