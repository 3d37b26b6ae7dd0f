#include "runtime/autograd/validate.h"

#include "runtime/autograd/engine.h"

namespace facula::detail {

namespace {

// Can `grad` have come from broadcasting something of shape `wanted`?
bool sums_to(IntList grad, IntList wanted) {
  if (grad.size() < wanted.size()) return false;
  const size_t extra = grad.size() - wanted.size();
  for (size_t d = 0; d < wanted.size(); ++d) {
    if (wanted[d] != 1 && wanted[d] != grad[extra + d]) return false;
  }
  return true;
}

}  // namespace

void fix_gradient(Tensor& grad, const OutputMeta& meta, const Node& from, size_t index) {
  const CoreOperators& core = core_operators();
  if (grad.is_complex() && !is_complex(meta.dtype)) grad = core.real_part(grad);
  if (const DimVector sizes = meta.sizes(); grad.sizes() != IntList(sizes)) {
    FACULA_CHECK(sums_to(grad.sizes(), sizes), Runtime, from.name(), " returned an invalid gradient at index ", index,
                 ": got shape ", shape_string(grad.sizes()), " but expected a shape that reduces to ",
                 shape_string(sizes), ", that of the input it is the gradient of");
    grad = core.sum_to(grad, sizes);
  }
  if (grad.device() != meta.device) {
    FACULA_CHECK(grad.dim() == 0, Runtime, from.name(), " returned an invalid gradient at index ", index, ": it is on ",
                 to_string(grad.device()), " but the input it is the gradient of is on ", to_string(meta.device),
                 "; move it with .to('", to_string(meta.device), "')");
  }
  if (grad.dtype() != meta.dtype || grad.device() != meta.device) {
    FACULA_CHECK(is_differentiable(meta.dtype), Runtime, from.name(), " returned a gradient at index ", index,
                 " for a ", dtype_name(meta.dtype), " input, which cannot have one");
    grad = core.cast(grad, meta.dtype, meta.device);
  }
}

}  // namespace facula::detail
