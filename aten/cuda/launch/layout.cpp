#include "launch/layout.h"

#include <algorithm>
#include <cstdlib>

namespace facula::cuda {

void collapse(int ndim, const int64_t* sizes, const int64_t* const* strides, int operands, Layout& out) {
  Layout all;
  all.operands = operands;
  for (int d = ndim - 1; d >= 0; --d) {
    if (sizes[d] == 1) continue;
    const int to = all.ndim++;
    all.sizes[to] = sizes[d];
    for (int i = 0; i < operands; ++i) all.strides[to][i] = strides[i] != nullptr ? strides[i][d] : 0;
  }
  const auto inside = [&](int a, int b) {
    for (int i = 0; i < operands; ++i) {
      const int64_t x = std::abs(all.strides[a][i]), y = std::abs(all.strides[b][i]);
      if (x != y && x != 0 && y != 0) return x < y;
    }
    return false;
  };
  int order[kMaxTensorDims];
  for (int d = 0; d < all.ndim; ++d) {
    int at = d;
    for (; at > 0 && inside(d, order[at - 1]); --at) order[at] = order[at - 1];
    order[at] = d;
  }
  out.ndim = 0;
  out.operands = operands;
  for (int k = 0; k < all.ndim; ++k) {
    const int d = order[k];
    bool joins = out.ndim > 0;
    for (int i = 0; joins && i < operands; ++i) {
      joins = all.strides[d][i] == out.strides[out.ndim - 1][i] * out.sizes[out.ndim - 1];
    }
    if (joins) {
      out.sizes[out.ndim - 1] *= all.sizes[d];
      continue;
    }
    out.sizes[out.ndim] = all.sizes[d];
    std::copy_n(all.strides[d], operands, out.strides[out.ndim]);
    ++out.ndim;
  }
}

int64_t reach(const Layout& layout, int i, int itemsize) {
  int64_t total = itemsize;
  for (int d = 0; d < layout.ndim; ++d) total += std::abs(layout.strides[d][i]) * (layout.sizes[d] - 1) * itemsize;
  return total;
}

Divisor divisor_of(uint32_t d) {
  uint32_t s = 0;
  while ((uint64_t{1} << s) < d) ++s;
  const uint64_t m = ((uint64_t{1} << 32) * ((uint64_t{1} << s) - d)) / d + 1;
  return {d, static_cast<uint32_t>(m), s};
}

}  // namespace facula::cuda
