// The autograd record of a tensor, and what generated code calls to keep it.
#pragma once

#include <memory>
#include <vector>

#include "runtime/autograd/node.h"
#include "runtime/core/thread_state.h"

namespace facula {

// Made only for tensors that take part in autograd. Lives in TensorImpl::autograd.
struct FACULA_API AutogradMeta {
  intrusive_ptr<Node> grad_fn;        // null for leaves
  uint32_t output_nr = 0;
  bool leaf_requires_grad = false;
  bool retains_grad = false;
  uint32_t view_version = 0;          // storage version grad_fn was made for (views)
  Tensor grad;
  Node* accumulator = nullptr;        // weak; cleared by ~AccumulateGrad
  std::vector<std::shared_ptr<NodeHook>> hooks;  // tensor hooks of a leaf
  Tensor tangent;                     // forward mode
};

FACULA_API AutogradMeta& autograd_meta(const Tensor& t);  // makes it when absent
inline AutogradMeta* autograd_meta_or_null(const Tensor& t) { return t.impl()->autograd.get(); }

// ---- properties ----
FACULA_API bool is_leaf(const Tensor& t);
// Up to date also for views whose base was changed in place.
FACULA_API intrusive_ptr<Node> grad_fn(const Tensor& t);
FACULA_API Edge gradient_edge(const Tensor& t);  // to grad_fn or the leaf's accumulator; null if none
FACULA_API void set_requires_grad(const Tensor& t, bool requires_grad);  // checks leaf and dtype
FACULA_API Tensor& grad_of(const Tensor& t);     // the .grad slot
FACULA_API void retain_grad(const Tensor& t);
FACULA_API Tensor detach(const Tensor& t);       // shares storage and version, no view link

// Layers a call on `t` must pass. A view follows its base, which may have come to require grad
// after the view was made.
inline LayerSet layers_of(const Tensor& t) {
  const TensorImpl* i = t.impl();
  if (i == nullptr) return 0;
  return i->base && !i->no_grad_view ? static_cast<LayerSet>(i->layers | i->base->layers) : i->layers;
}
FACULA_API LayerSet layers_of(TensorList list);
inline bool needs_grad(const Tensor& t) {
  return t.defined() && is_differentiable(t.dtype()) &&
         (layers_of(t) & layer_bit(Layer::Autograd)) != 0;
}
inline bool needs_grad(TensorList list) {
  for (const Tensor& t : list) {
    if (needs_grad(t)) return true;
  }
  return false;
}

// ---- called by generated autograd functions ----
// Appends the edge of each input (lists: one edge an element).
FACULA_API void add_edge(Node& node, const Tensor& t);
FACULA_API void add_edge(Node& node, TensorList list);
// `result` is output number result_nr of `node`. Non-differentiable dtypes are left alone, but the
// number is still taken so that positions stay.
FACULA_API void set_history(const Tensor& result, const intrusive_ptr<Node>& node);
// Before an in-place change: refuses leaves that require grad, and views made under no_grad, with
// a sentence that names the operation.
FACULA_API void check_inplace(const Tensor& self, const char* op, bool needs_graph);
// After an in-place change: `self` (or its base, through a CopySlices node) now comes from `node`.
FACULA_API void rebase_history(const Tensor& self, intrusive_ptr<Node> node);
// out= forms do not differentiate.
FACULA_API void check_out_no_grad(TensorList inputs, const Tensor& out, const char* op);

// ---- forward mode ----
inline bool has_tangent(const Tensor& t) {
  return t.defined() && t.impl()->autograd && t.impl()->autograd->tangent.defined();
}
inline Tensor tangent_of(const Tensor& t) { return has_tangent(t) ? t.impl()->autograd->tangent : Tensor(); }
// Sets the layer bit too, so that calls with `t` enter the autograd layer.
FACULA_API void set_tangent(const Tensor& t, Tensor tangent);

}  // namespace facula
