// Parts of reductions and their derivatives that are easier said in C++ than as a formula.

#include <limits>

#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/dispatch/capture.h"

namespace facula::composite {

namespace {

std::vector<bool> named_dims(std::optional<IntList> dim, int64_t ndim) {
  std::vector<bool> named(static_cast<size_t>(ndim), !dim || dim->empty());
  if (dim) {
    for (const int64_t d : *dim) named[static_cast<size_t>(wrap_dim(d, ndim))] = true;
  }
  return named;
}

bool is_true(const Tensor& t) { return ops::local_scalar(t).to<bool>(); }

}  // namespace

Tensor expand_reduced(const Tensor& grad, IntList shape, std::optional<IntList> dim, bool keepdim) {
  const int64_t ndim = static_cast<int64_t>(shape.size());
  if (keepdim || ndim == 0 || grad.dim() == ndim) return ops::expand(grad, shape);
  const std::vector<bool> reduced = named_dims(dim, ndim);
  DimVector kept(shape.begin(), shape.end());
  for (size_t d = 0; d < kept.size(); ++d) {
    if (reduced[d]) kept[d] = 1;
  }
  return ops::expand(ops::reshape(grad, kept), shape);
}

Tensor checked_quantiles(const Tensor& q) {
  if (q.is_cpu() && !q.is_wrapped()) {
    const Tensor inside = ops::logical_and(ops::ge(q, wrapped_number(0)), ops::le(q, wrapped_number(1)));
    FACULA_CHECK(is_true(ops::all(inside)), Shape, Operator{"quantile"}, "the elements of q must be in [0, 1]");
  }
  return q;
}

Tensor where_norms_have_slopes(const Tensor& grad, const Tensor& x, const Tensor& norms, std::optional<IntList> dim,
                               bool keepdim) {
  if (norms.is_cpu() && !norms.is_wrapped() && !is_capturing() && !is_true(ops::any(ops::isinf(norms)))) return grad;
  const Tensor infinite = ops::sum(ops::isinf(x), dim, keepdim, std::nullopt);
  return ops::where(ops::gt(infinite, wrapped_number(1)), wrapped_number(std::numeric_limits<double>::quiet_NaN()),
                    grad);
}

}  // namespace facula::composite
