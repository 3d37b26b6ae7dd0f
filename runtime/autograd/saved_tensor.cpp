#include "runtime/autograd/saved_tensor.h"

#include "runtime/autograd/meta.h"
#include "runtime/autograd/node.h"
#include "runtime/core/thread_state.h"

namespace facula {

namespace {

// Without history, but with the tangent.
Tensor detached(const Tensor& t) {
  Tensor result = detach(t);
  if (tls_state.forward_mode && has_tangent(t)) set_tangent(result, tangent_of(t));
  return result;
}

// Gives a handle that is new its place in the graph.
Tensor with_history(Tensor t, Edge edge) {
  AutogradMeta& meta = autograd_meta(t);
  meta.grad_fn = std::move(edge.node);
  meta.output_nr = edge.output_nr;
  t.impl()->requires_grad = true;
  t.impl()->layers |= layer_bit(Layer::Autograd);
  return t;
}

Tensor without_tangent(const Tensor& t) {
  Edge edge = gradient_edge(t);
  return edge ? with_history(detach(t), std::move(edge)) : detach(t);
}

}  // namespace

Tensor (*unpack_saved)(const Tensor& packed) = nullptr;

SavedTensor::SavedTensor(const Tensor& t, bool is_output) : is_output_(is_output) {
  if (!t.defined()) return;
  FACULA_CHECK(!t.impl()->inference || tls_state.inference, Runtime,
               "a tensor made in inference mode cannot be saved for backward; clone() it outside inference mode and "
               "use the clone");
  if (StorageImpl* storage = t.counted()) [[likely]] {
    version_ = storage->version();
    storage->watch();
  }
  if (is_output) {
    const AutogradMeta* meta = autograd_meta_or_null(t);
    output_nr_ = (meta != nullptr ? meta->output_nr : 0) & 0x0FFFFFFF;
    tensor_ = detached(t);
  } else if (tls_state.plain_tangents && has_tangent(t)) [[unlikely]] {
    tensor_ = without_tangent(t);
  } else {
    tensor_ = t;
  }
  if (tls_state.saved_hooks != nullptr && !t.is_wrapped_number()) [[unlikely]]
    pack(t, *tls_state.saved_hooks);
}

void SavedTensor::register_hooks(SavedHooks& hooks) {
  FACULA_CHECK(!released_, Runtime, "register_hooks(): the saved tensor was freed by a backward pass already");
  FACULA_CHECK(tensor_.defined(), Runtime, "register_hooks(): the saved value is None, for which there are no hooks");
  FACULA_CHECK(!is_packed_, Runtime, "register_hooks(): the saved tensor has hooks already");
  FACULA_CHECK(tensor_.version() == version_, Runtime,
               "register_hooks(): the saved tensor was changed in place since; what it was is lost");
  pack(Tensor(tensor_), hooks);
}

// The stand-in has the edge that the tensor had, where that does not lead back to the node which saves it.
void SavedTensor::pack(const Tensor& t, SavedHooks& hooks) {
  const uint32_t before = t.version();
  Tensor packed;
  {
    const GradMode off(false);
    packed = hooks.pack(is_output_ ? tensor_ : t);
  }
  FACULA_CHECK(t.version() == before, Runtime,
               "a pack hook of saved tensors changed its tensor in place; return a changed copy instead");
  tensor_ = std::move(packed);
  is_packed_ = 1;
  is_packed_output_ = is_output_;
  if (!is_output_ && t.requires_grad()) {
    const Edge edge = gradient_edge(t);
    AutogradMeta& meta = autograd_meta(tensor_);
    meta.grad_fn = edge.node;
    meta.output_nr = edge.output_nr;
  }
  is_output_ = 1;
}

namespace {

[[noreturn]] void raise_released(const Node& owner, const char* name) {
  raise(ErrorKind::Runtime, owner.name(), ": trying to backward through the graph a second time (or to read `", name,
        "`, a saved tensor, after it was freed). What a graph saved is freed by backward() or "
        "autograd.grad(). Pass "
        "retain_graph=True to the first of them if you need to go through the graph again or to read saved "
        "tensors "
        "after it.");
}

[[noreturn]] void raise_changed(const Node& owner, const char* name, const Tensor& t, uint32_t was, bool is_output) {
  const uint32_t now = t.version();
  const StorageImpl* storage = t.counted();
  const std::string_view writer = storage != nullptr && storage->writer() != nullptr ? storage->writer() : "";
  const std::string_view op = writer.substr(0, writer.find(' '));
  const std::string_view where = writer.substr(op.size());
  const Node::Hooks* hooks = owner.hooks_or_null();
  const std::string made = hooks != nullptr && !hooks->made_at.empty() ? concat(" (made at ", hooks->made_at, ")") : "";
  raise(ErrorKind::Runtime, owner.name(), made, ": one of the variables needed for gradient computation has been ",
        "modified by an inplace operation: ", is_output ? "its output" : "its input", " `", name, "`, a ",
        dtype_name(t.dtype()), " tensor of shape ", shape_string(t.sizes()), ", was saved for backward at version ",
        was, " and is now at version ", now, "; ", op.empty() ? "an in-place operation" : concat("`", op, "`"), where,
        " changed it (or a tensor that shares its memory). Make the change out of place, e.g. `x = "
        "x.op(...)` instead "
        "of `x.op_(...)`, or clone before the change.",
        !made.empty() ? "" : " Anomaly mode (autograd.set_detect_anomaly(True)) says where the operation was called.");
}

}  // namespace

bool SavedTensor::reshaped() const {
  const InCall in_call(tensor_);
  const AutogradMeta* meta = tensor_.defined() ? autograd_meta_or_null(tensor_) : nullptr;
  return meta != nullptr && meta->reshaped;
}

Tensor SavedTensor::unpack_slow(const Node& owner, const char* name) const {
  if (!tensor_.defined()) {
    if (released_) raise_released(owner, name);
    return Tensor();
  }
  if (is_packed_) return unpack_packed(owner, name);
  if (version_ != tensor_.version()) raise_changed(owner, name, tensor_, version_, is_output_);
  if (!is_output_ || !tls_state.grad_enabled || !is_differentiable(tensor_.dtype())) return tensor_;
  // A fresh handle on the output, with the history that the saved one must not own.
  return with_history(detached(tensor_), Edge{intrusive_ptr<Node>::share(const_cast<Node*>(&owner)), output_nr_});
}

Tensor SavedTensor::unpack_packed(const Node& owner, const char* name) const {
  const Tensor t = unpack_saved(tensor_);
  FACULA_CHECK(t.sizes() == tensor_.sizes() && t.dtype() == tensor_.dtype(), Runtime, owner.name(),
               ": the unpack hook of saved tensors returned a ", dtype_name(t.dtype()), " tensor of shape ",
               shape_string(t.sizes()), " for `", name, "`, which was a ", dtype_name(tensor_.dtype()),
               " tensor of shape ", shape_string(tensor_.sizes()));
  if (!is_differentiable(t.dtype())) return t;
  const AutogradMeta* meta = autograd_meta_or_null(tensor_);
  if (meta != nullptr && meta->grad_fn) return with_history(detached(t), Edge{meta->grad_fn, meta->output_nr});
  if (!is_packed_output_) return t.requires_grad() ? detached(t) : t;
  return with_history(detached(t), Edge{intrusive_ptr<Node>::share(const_cast<Node*>(&owner)), output_nr_});
}

}  // namespace facula
