// Dims of several operands brought to the fewest that describe them: plain arithmetic, no device.
#pragma once

#include <cstdint>

#include "facula/backend.h"

namespace facula::cuda {

inline constexpr int kMaxOperands = 24;  // 12 of them in a call, others in groups
inline constexpr int kMaxTensorDims = 64;
inline constexpr int kMaxKernelDims = 8;  // kernels/types.h

struct Layout {
  int ndim = 0;
  int operands = 0;  // kilobytes follow: it is not for copying
  int64_t sizes[kMaxTensorDims];
  int64_t strides[kMaxTensorDims][kMaxOperands];  // in elements; dim 0 is the fastest

  int64_t numel() const {
    int64_t n = 1;
    for (int d = 0; d < ndim; ++d) n *= sizes[d];
    return n;
  }
};

// `strides[i]` are operand i's over `sizes`, outermost first; null for an operand without any. Dims
// come out in the order of operand 0's strides (of the next one's where they are equal), those that
// run on from each other are one.
void collapse(int ndim, const int64_t* sizes, const int64_t* const* strides, int operands, Layout& out);

// Bytes from the first to the last element of operand `i`.
int64_t reach(const Layout& layout, int i, int itemsize);

// n / d = (umulhi(n, m) + n) >> s for n < 2^31; kernels/types.h divides by it.
struct Divisor {
  uint32_t d, m, s;
};
Divisor divisor_of(uint32_t d);

}  // namespace facula::cuda
