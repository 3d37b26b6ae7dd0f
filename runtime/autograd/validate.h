// Bringing a gradient into the shape, dtype and device of what it is the gradient of.
#pragma once

#include "runtime/autograd/node.h"

namespace facula::detail {

[[gnu::cold]] void fix_gradient(Tensor& grad, const OutputMeta& meta, const Node& from, size_t index);

// `from` gave `grad` for its input `index`. Sums broadcast dimensions, takes the real part for real
// tensors and casts; raises naming `from` when that does not help.
inline void validate_gradient(Tensor& grad, const OutputMeta& meta, const Node& from, size_t index) {
  const TensorImpl& g = *grad.impl();
  if (g.dtype == meta.dtype && g.device == meta.device && meta.has_sizes(g.sizes)) [[likely]]
    return;
  fix_gradient(grad, meta, from, index);
}

}  // namespace facula::detail
