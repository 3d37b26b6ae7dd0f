#include "runtime/autograd/view.h"

#include <algorithm>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/validate.h"
#include "runtime/dispatch/levels.h"

namespace facula {

bool can_slice(ScalarType base, ScalarType view) {
  if (base == view) return true;
  const CoreOperators& core = core_operators();
  if (is_complex(base)) return to_real(base) == view && core.view_as_real != nullptr;
  return to_real(view) == base && core.view_as_complex != nullptr;
}

Tensor slice_of(const Tensor& t, const Geometry& base, const Geometry& view) {
  const CoreOperators& core = core_operators();
  if (base.dtype == view.dtype) {
    return core.as_strided(t, view.sizes, view.strides, t.offset() + view.offset - base.offset);
  }
  if (is_complex(base.dtype)) {
    const Tensor real = core.view_as_real(t);
    return core.as_strided(real, view.sizes, view.strides, real.offset() + view.offset - 2 * base.offset);
  }
  DimVector sizes = view.sizes, strides = view.strides;
  for (int64_t& s : strides) s *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  return core.view_as_complex(core.as_strided(t, sizes, strides, t.offset() + 2 * view.offset - base.offset));
}

namespace {

// Within levels, with the batch dims that `like` has, which is going to be written there.
Tensor zeros_of(const Geometry& g, const Tensor& like) {
  return make_as(like, Meta{g.sizes, g.dtype, g.device, g.strides}, true);
}

// A copy of `t` with the base's strides; differentiable.
Tensor clone_as(const Tensor& t, const Geometry& g, const Tensor& like) {
  Tensor copy = make_as(like, Meta{g.sizes, t.dtype(), t.device(), g.strides}, false);
  core_operators().copy_into(copy, t);
  return copy;
}

// Adds `grad` into the part of `into` with this geometry. A dimension along which indices meet in one
// element is walked index by index, so that each addition touches an element at most once.
void add_into(const Tensor& into, const Geometry& base, Geometry view, const Tensor& grad) {
  const CoreOperators& core = core_operators();
  struct Dim {
    int64_t size, stride;
    size_t at;
  };
  std::vector<Dim> dims;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 0) return;
    if (view.sizes[d] > 1) dims.push_back({view.sizes[d], view.strides[d], d});
  }
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride < b.stride; });
  int64_t reach = 0;  // the largest offset within the dims seen
  for (const Dim& d : dims) {
    if (d.stride > reach) {
      reach += (d.size - 1) * d.stride;
      continue;
    }
    DimVector part_strides(grad.strides());
    DimVector part_sizes(grad.sizes());
    part_sizes[d.at] = 1;
    Geometry part = view;
    part.sizes[d.at] = 1;
    for (int64_t i = 0; i < d.size; ++i) {
      part.offset = view.offset + i * d.stride;
      add_into(into, base, part,
               core.as_strided(grad, part_sizes, part_strides, grad.offset() + i * part_strides[d.at]));
    }
    return;
  }
  core.accumulate_into(slice_of(into, base, view), grad);
}

}  // namespace

Tensor scatter_slice(const Tensor& grad, const Geometry& base, const Geometry& view) {
  const CoreOperators& core = core_operators();
  // Expanded dimensions are many indices for one element each: one sum instead of a loop.
  DimVector summed(grad.sizes());
  Geometry part = view;
  bool expanded = false;
  for (size_t d = 0; d < summed.size(); ++d) {
    if (view.strides[d] == 0 && view.sizes[d] > 1) {
      summed[d] = part.sizes[d] = 1;
      expanded = true;
    }
  }
  Tensor into = zeros_of(base, grad);
  add_into(into, base, part, expanded ? core.sum_to(grad, summed) : grad);
  return into;
}

ViewOfBase::ViewOfBase(const Tensor& base, const Tensor& view) : base_(base), view_(view) {
  Node::add_edge(gradient_edge(base));
}

void ViewOfBase::apply(std::span<const Tensor> grads, std::span<Tensor> results) {
  if (needs(0)) results[0] = scatter_slice(grads[0], base_, view_);
}

CopySlices::CopySlices(const Tensor& base, const Tensor& view, intrusive_ptr<Node> change)
    : base_(base), view_(view), change_(std::move(change)) {
  Node::add_edge(gradient_edge(base));
  for (size_t i = 1; i < change_->num_inputs(); ++i) Node::add_edge(change_->edge(i));
  add_output(base);
}

void CopySlices::apply(std::span<const Tensor> grads, std::span<Tensor> results) {
  const CoreOperators& core = core_operators();
  const bool same = grads[0].defined() && grads[0].strides() == IntList(base_.strides);
  const Tensor grad = !grads[0].defined() ? core.zeros(Meta{base_.sizes, base_.dtype, base_.device, base_.strides})
                      : same              ? grads[0]
                                          : clone_as(grads[0], base_, grads[0]);
  InlineVector<Tensor, 4> inner;
  inner.resize(change_->num_inputs());
  const Tensor part = slice_of(grad, base_, view_);
  change_->apply(std::span<const Tensor>(&part, 1), inner);
  if (!inner.empty() && needs(0)) {
    if (inner[0].defined()) detail::validate_gradient(inner[0], change_->output(0), *change_, 0);
    results[0] = clone_as(grad, base_, grad);
    if (inner[0].defined() && !has_batch_dims_of(results[0], inner[0])) {
      const Meta meta{base_.sizes, grad.dtype(), grad.device(), base_.strides};
      results[0] = clone_as(core.accumulate(make_as(inner[0], meta, true), grad), base_, inner[0]);
    }
    core.copy_into(slice_of(results[0], base_, view_),
                   inner[0].defined() ? inner[0] : core.zeros(Meta{{}, view_.dtype, view_.device, {}}));
  }
  for (size_t i = 1; i < inner.size(); ++i) {
    if (needs(i)) results[i] = std::move(inner[i]);
  }
}

}  // namespace facula
