// Images in either memory format, contiguous or channels_last.
#pragma once

#include "aten/cpu/common/dense.h"
#include "aten/layout.h"

namespace facula::cpu {

// Dense in channels_last with `last`, else contiguous; a copy where the tensor is neither that nor of the dtype.
inline Tensor in_format(const Tensor& t, ScalarType dtype, bool last) {
  if (!last) return dense_as(t, dtype);
  if (t.dtype() == dtype && is_channels_last(t)) return t;
  const Tensor copy = make_empty_strided(t.sizes(), channels_last_strides(t.sizes()), dtype, t.device());
  copy_strided(copy, t);
  return copy;
}

// Calls fn with a tensor of that dtype and format that stands for `out`.
template <typename F>
void into_format(const Tensor& out, ScalarType dtype, bool last, const F& fn) {
  if (!last) {
    into_dense(out, dtype, fn);
    return;
  }
  if (out.dtype() == dtype && is_channels_last(out)) {
    fn(out);
    return;
  }
  const Tensor copy = make_empty_strided(out.sizes(), channels_last_strides(out.sizes()), dtype, out.device());
  fn(copy);
  copy_strided(out, copy);
}

}  // namespace facula::cpu
