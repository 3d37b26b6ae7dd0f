// One row of a plane with its margins.
#pragma once

#include <algorithm>

#include "aten/cpu/conv/loops.h"
#include "runtime/core/rounding.h"

namespace facula::cpu {

// Columns of a row of `width` from `left` on, zero outside it: `split` runs of `columns`, by residue modulo `split`, so
// that neighbouring results of a convolution with that stride read neighbours. Without kZeros what is outside stays as
// it is. Returns the end of the runs.
template <bool kZeros = true, typename T>
T* copy_row(const T* row, int64_t width, int64_t left, int64_t split, int64_t columns, T* out) {
  for (int64_t r = 0; r < split; ++r, out += columns) {
    const int64_t first = left + r;  // element i stands for column first + i * split
    const int64_t low = std::clamp<int64_t>(ceil_div(-first, split), 0, columns);
    const int64_t high = std::clamp<int64_t>(ceil_div(width - first, split), low, columns);
    if (kZeros) std::fill(out, out + low, T(0));
    if (split == 1) {
      std::copy(row + first + low, row + first + high, out + low);
    } else if (low < high) {
      conv_loops<T>().every(high - low, split, row + first + low * split, out + low);
    }
    if (kZeros) std::fill(out + high, out + columns, T(0));
  }
  return out;
}

}  // namespace facula::cpu
