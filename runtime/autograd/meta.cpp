#include "runtime/autograd/meta.h"

#include <unordered_map>

#include "runtime/autograd/hook_lists.h"
#include "runtime/autograd/locks.h"
#include "runtime/autograd/view.h"
#include "runtime/core/compound.h"
#include "runtime/core/pool.h"
#include "runtime/dispatch/core_operators.h"

namespace facula {

namespace detail {

YieldLock& retain_lock() {
  static constinit YieldLock lock;
  return lock;
}

}  // namespace detail

namespace {

constexpr LayerSet kAutogradBit = layer_bit(Layer::Autograd);

// A view whose history is that of its base.
bool follows_base(const TensorImpl& t) {
  return t.base && !t.no_grad_view && t.base->requires_grad && is_differentiable(t.dtype);
}

Tensor base_of(const TensorImpl& t) { return Tensor(intrusive_ptr<TensorImpl>::share(t.base.get())); }

void mark(TensorImpl& t, bool requires_grad) {
  t.requires_grad = requires_grad;
  if (requires_grad || detail::owns_tangent(&t)) {
    t.layers |= kAutogradBit;
  } else {
    t.layers &= static_cast<LayerSet>(~kAutogradBit);
  }
}

// retain_grad() stays with the tensor: its entry leaves the old node for the new one.
void move_retain(AutogradMeta& meta, Node* from, Node& to, uint32_t output_nr) {
  std::lock_guard lock(detail::retain_lock());
  if (from != nullptr && from->hooks_or_null() != nullptr) {
    std::erase_if(from->hooks().retain, [&](const auto& entry) { return entry.second == &meta; });
  }
  to.hooks().retain.emplace_back(output_nr, &meta);
}

void become_output(const Tensor& t, AutogradMeta& meta, const intrusive_ptr<Node>& node, uint32_t output_nr) {
  if (meta.retains_grad) [[unlikely]]
    move_retain(meta, meta.grad_fn.get(), *node, output_nr);
  meta.grad_fn = node;
  meta.output_nr = output_nr;
  if (t.is_view()) meta.view_version = t.version();
  mark(*t.impl(), true);
}

// The history of a view, made anew when its storage changed since it was recorded.
Edge view_edge(const Tensor& t) {
  const InCall in_call(t);
  AutogradMeta& meta = autograd_meta(t);
  const uint32_t version = t.version();
  {
    std::lock_guard lock(detail::lock_for(&meta));
    if (meta.grad_fn && meta.view_version == version) return {meta.grad_fn, meta.output_nr};
  }
  const Tensor base = base_of(*t.impl());
  FACULA_CHECK(can_slice(base.dtype(), t.dtype()), Runtime, "a ", dtype_name(t.dtype()), " view of a ",
               dtype_name(base.dtype()),
               " tensor is used after its base (or another view of the base) was changed "
               "in place; its gradient cannot be followed through that change. Take the view again after the change, "
               "or make the change out of place");
  auto node = make_intrusive<ViewOfBase>(base, t);
  node->add_output(t);
  intrusive_ptr<Node> old;  // dropped after the lock
  std::lock_guard lock(detail::lock_for(&meta));
  if (meta.grad_fn && meta.view_version == version) return {meta.grad_fn, meta.output_nr};  // another thread's
  if (meta.retains_grad) move_retain(meta, meta.grad_fn.get(), *node, 0);
  old = std::move(meta.grad_fn);
  meta.grad_fn = node;
  meta.output_nr = 0;
  meta.view_version = version;
  mark(*t.impl(), true);
  return {std::move(node), 0};
}

bool fits(const OutputMeta& meta, const TensorImpl& leaf) {
  return meta.dtype == leaf.dtype && meta.device == leaf.device && meta.has_sizes(leaf.sizes);
}

intrusive_ptr<Node> accumulator_of(const Tensor& leaf) {
  const InCall in_call(leaf);
  AutogradMeta& meta = autograd_meta(leaf);
  std::lock_guard lock(detail::lock_for(leaf.impl()));
  // One made before `.data = ...`, set_() or resize_() gave the leaf another dtype or shape would hand on gradients of
  // the old; graphs that hold it keep it.
  if (meta.accumulator != nullptr && fits(meta.accumulator->output(0), *leaf.impl()) && meta.accumulator->try_retain())
    return intrusive_ptr<Node>::adopt(meta.accumulator);
  auto node = make_intrusive<AccumulateGrad>(leaf);
  meta.accumulator = node.get();
  return node;
}

}  // namespace

// ---- cycles ----

namespace {

// Tensors that Python's collector does not know, or knows nothing about.
struct Suspects {
  detail::YieldLock lock;
  std::unordered_map<const AutogradMeta*, TensorImpl*> of;
};
Suspects& all_suspects() {
  static auto* const made = new Suspects;  // tensors may die late
  return *made;
}

void forget_suspect(const AutogradMeta& meta) {
  std::lock_guard lock(all_suspects().lock);
  all_suspects().of.erase(&meta);
}

}  // namespace

void suspect_cycle(const Tensor& t) {
  AutogradMeta& meta = autograd_meta(t);
  std::lock_guard lock(all_suspects().lock);
  if (std::exchange(meta.suspect, true)) return;
  all_suspects().of.emplace(&meta, t.impl());
}

std::vector<Tensor> suspects() {
  std::vector<Tensor> list;
  std::lock_guard lock(all_suspects().lock);
  list.reserve(all_suspects().of.size());
  for (const auto& [meta, impl] : all_suspects().of) {
    if (impl->try_retain()) list.emplace_back(intrusive_ptr<TensorImpl>::adopt(impl));
  }
  return list;
}

void let_go(const Tensor& t) {
  AutogradMeta* meta = autograd_meta_or_null(t);
  if (meta == nullptr) return;
  intrusive_ptr<Node> node;
  {
    std::lock_guard lock(detail::retain_lock());
    if (meta->retains_grad && meta->grad_fn) {
      std::erase_if(meta->grad_fn->hooks().retain, [&](const auto& entry) { return entry.second == meta; });
    }
    meta->retains_grad = false;
    node = std::move(meta->grad_fn);
  }
  const Tensor grad = meta->exchange_grad({});
}

// ---- the record ----

namespace {

// Records of this thread that wait for deletion. Python that runs meanwhile finds a small depth, and what
// it drops dies at once.
struct DeadRecords {
  AutogradMeta* first = nullptr;
  int depth = 0;
};
constinit thread_local DeadRecords tls_dead __attribute__((tls_model("initial-exec")));
constexpr int kMaxDepth = 16;

}  // namespace

void* AutogradMeta::operator new(size_t size) { return pool_allocate_object(size); }
void AutogradMeta::operator delete(void* p, size_t size) noexcept { pool_deallocate_object(p, size); }

namespace {

void release_record(AutogradMeta* meta) noexcept {
  if (meta->suspect) [[unlikely]]
    forget_suspect(*meta);
  if (meta->retains_grad && meta->grad_fn) {
    std::lock_guard lock(detail::retain_lock());
    std::erase_if(meta->grad_fn->hooks().retain, [&](const auto& entry) { return entry.second == meta; });
  }
  if (!meta->has_chain()) [[likely]] {
    delete meta;
    return;
  }
  // Gradients of gradients and tangents of tangents may be a chain of a million tensors, which must not use
  // a million stack frames.
  DeadRecords& dead = tls_dead;
  if (dead.depth >= kMaxDepth) {
    if (meta->forward) detail::unlink_tangent(*meta->forward);  // its owner is gone before it is
    meta->next_dead = std::exchange(dead.first, meta);
    return;
  }
  ++dead.depth;
  delete meta;
  while (dead.depth == 1 && dead.first != nullptr) delete std::exchange(dead.first, dead.first->next_dead);
  --dead.depth;
}
[[maybe_unused]] const bool releasing = (autograd_release = release_record, true);

}  // namespace

AutogradMeta& autograd_meta(const Tensor& t) {
  auto& record = t.impl()->autograd;
  if (record) return *record;
  std::lock_guard lock(detail::lock_for(t.impl()));  // other threads may ask too
  if (!record) {
    auto* const made = new AutogradMeta;
    std::atomic_thread_fence(std::memory_order_release);  // whole before it is seen
    record.reset(made);
  }
  return *record;
}

// ---- properties ----

Edge gradient_edge(const Tensor& t) {
  if (!t.defined() || !t.requires_grad()) return {};
  const TensorImpl& impl = *t.impl();
  if (impl.base && follows_base(impl)) [[unlikely]]
    return view_edge(t);
  const AutogradMeta* meta = impl.autograd.get();
  if (meta != nullptr && meta->grad_fn) return {meta->grad_fn, meta->output_nr};
  return {accumulator_of(t), 0};
}

namespace {

// A saved leaf that hooks unpacked is a leaf too: its gradient is the other's.
bool stands_for_leaf(const AutogradMeta* meta) {
  return meta == nullptr || !meta->grad_fn || meta->grad_fn->accumulates();
}

}  // namespace

intrusive_ptr<Node> grad_fn(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  if (impl.base && follows_base(impl)) return view_edge(t).node;
  return !stands_for_leaf(impl.autograd.get()) ? impl.autograd->grad_fn : nullptr;
}

bool is_leaf(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  return !(impl.base && follows_base(impl)) && stands_for_leaf(impl.autograd.get());
}
[[maybe_unused]] const bool told = (core_operators().is_leaf = is_leaf, true);

void set_requires_grad(const Tensor& t, bool requires_grad) {
  if (!is_leaf(t)) {
    FACULA_CHECK(requires_grad, Runtime,
                 "requires_grad can be turned off for leaf tensors only. To use a computed tensor where no "
                 "gradient is "
                 "wanted, use `x.detach()`");
    return;
  }
  FACULA_CHECK(!requires_grad || is_differentiable(t.dtype()), Runtime,
               "only tensors of floating-point and complex dtype can require gradients; this one is ",
               dtype_name(t.dtype()));
  FACULA_CHECK(!requires_grad || !t.impl()->inference || tls_state.inference, Runtime,
               "a tensor made in inference mode cannot require gradients outside it; clone() it and use the clone");
  if (requires_grad) autograd_meta(t);  // now, so that threads sharing the leaf need not make it
  mark(*t.impl(), requires_grad);
}

Tensor grad_of(const Tensor& t) {
  const AutogradMeta* meta = autograd_meta_or_null(t);
  return meta != nullptr ? meta->grad() : Tensor();
}

void set_grad(const Tensor& t, Tensor grad) {
  if (grad.defined()) {
    FACULA_CHECK(!grad.is_same(t), Runtime, "a tensor cannot be its own grad");
    FACULA_CHECK(grad.sizes() == t.sizes(), Runtime, "grad: got a tensor of shape ", shape_string(grad.sizes()),
                 ", expected that of the tensor, ", shape_string(t.sizes()));
    FACULA_CHECK(grad.dtype() == t.dtype(), Runtime, "grad: got a ", dtype_name(grad.dtype()),
                 " tensor, expected the dtype of the tensor, ", dtype_name(t.dtype()));
    FACULA_CHECK(grad.device() == t.device(), Runtime, "grad: got a tensor on ", to_string(grad.device()),
                 ", expected the device of the tensor, ", to_string(t.device()));
  } else if (!t.impl()->autograd) {
    return;
  }
  if (grad.defined() && grad.requires_grad()) suspect_cycle(t);
  const Tensor old = autograd_meta(t).exchange_grad(std::move(grad));
}

void retain_grad(const Tensor& t) {
  FACULA_CHECK(t.requires_grad(), Runtime, "retain_grad() needs a tensor that requires grad");
  const Edge edge = gradient_edge(t);
  AutogradMeta& meta = autograd_meta(t);
  if (is_leaf(t) || meta.retains_grad) return;
  suspect_cycle(t);  // the gradient's graph may lead back
  std::lock_guard lock(detail::retain_lock());
  meta.retains_grad = true;
  edge.node->hooks().retain.emplace_back(edge.output_nr, &meta);
}

bool retains_grad(const Tensor& t) { return t.impl()->autograd && t.impl()->autograd->retains_grad; }

Tensor detach(const Tensor& t) {
  const TensorImpl& from = *t.impl();
  auto impl = make_intrusive<TensorImpl>();
  impl->storage = from.storage;
  impl->data = from.data;
  impl->offset = from.offset;
  impl->numel = from.numel;
  impl->sizes = from.sizes;
  impl->strides = from.strides;
  impl->dtype = from.dtype;
  impl->device = from.device;
  impl->layers = from.layers & static_cast<LayerSet>(~kAutogradBit);
  impl->contiguous = from.contiguous;
  impl->wrapped_number = from.wrapped_number;
  impl->inference = from.inference;
  if (from.wrapping != nullptr) [[unlikely]]
    impl->wrapping = copy_wrapping(*from.wrapping);
  return Tensor(std::move(impl));
}

void detach_(const Tensor& t) {
  FACULA_CHECK(!t.is_view() || !t.requires_grad(), Runtime, Operator{"detach_"},
               "a view cannot forget its history in place; use `x = x.detach()`");
  if (AutogradMeta* meta = autograd_meta_or_null(t); meta != nullptr) {
    if (meta->retains_grad && meta->grad_fn) {
      std::lock_guard lock(detail::retain_lock());
      std::erase_if(meta->grad_fn->hooks().retain, [&](const auto& entry) { return entry.second == meta; });
    }
    meta->retains_grad = false;
    meta->grad_fn.reset();
    meta->output_nr = 0;
  }
  mark(*t.impl(), false);
}

// ---- hooks ----

namespace {

void add_leaf_hook(const Tensor& t, HookList LeafHooks::* list, std::shared_ptr<NodeHook> hook) {
  AutogradMeta& meta = autograd_meta(t);
  detail::add_hook(&meta, meta.leaf_hooks.make().*list, std::move(hook));
}

}  // namespace

void add_tensor_hook(const Tensor& t, std::shared_ptr<NodeHook> hook) {
  FACULA_CHECK(t.requires_grad(), Runtime, "cannot register a hook on a tensor that does not require gradients");
  if (is_leaf(t)) {
    add_leaf_hook(t, &LeafHooks::tensor, std::move(hook));
    return;
  }
  const Edge edge = gradient_edge(t);
  edge.node->add_tensor_hook(edge.output_nr, std::move(hook));
}

void add_post_accumulate_hook(const Tensor& leaf, std::shared_ptr<NodeHook> hook) {
  FACULA_CHECK(leaf.requires_grad() && is_leaf(leaf), Runtime,
               "post accumulate grad hooks can be registered on leaf tensors that require gradients only");
  add_leaf_hook(leaf, &LeafHooks::post_accumulate, std::move(hook));
}

// ---- recording ----

void add_edge(Node& node, const Tensor& t) { node.add_edge(gradient_edge(t)); }

void add_edge(Node& node, TensorList list) {
  for (const Tensor& t : list) node.add_edge(gradient_edge(t));
}

void set_history(const Tensor& result, const intrusive_ptr<Node>& node) {
  const uint32_t output_nr = node->add_output(result);
  if (!result.defined() || !is_differentiable(result.dtype())) return;
  auto& record = result.impl()->autograd;
  if (!record && result.impl()->use_count() == 1) record.reset(new AutogradMeta);  // new: known to this thread alone
  become_output(result, record ? *record : autograd_meta(result), node, output_nr);
}

void set_history(TensorList results, const intrusive_ptr<Node>& node) {
  for (const Tensor& t : results) set_history(t, node);
}

void check_inplace(const Tensor& self, const char* op, bool needs_graph) {
  if (!self.defined()) return;
  const TensorImpl& impl = *self.impl();
  check_not_inference(self, op);
  if (!tls_state.grad_enabled) return;
  const bool cut_off = impl.base && impl.no_grad_view && impl.base->requires_grad && is_differentiable(impl.dtype);
  if (!needs_graph && !cut_off) return;
  if (impl.base) {
    FACULA_CHECK(!impl.no_grad_view, Runtime, Operator{op},
                 "the tensor is a view that was made under no_grad (or inside a custom function) and would be changed "
                 "in place with gradients on, which leaves open whether its base should get a gradient. Make the view "
                 "with gradients on, change it under no_grad too, or use the out-of-place form on a clone()");
    FACULA_CHECK(!self.requires_grad() || !is_leaf(base_of(impl)), Runtime, Operator{op},
                 "a view of a leaf tensor that requires grad cannot be changed in place. Use the out-of-place form, or "
                 "wrap the change in `with no_grad():` if it is not to be differentiated");
    FACULA_CHECK(!is_differentiable(self.dtype()) || can_slice(impl.base->dtype, self.dtype()), Dtype, Operator{op},
                 "the tensor is a ", dtype_name(self.dtype()), " view of a ", dtype_name(impl.base->dtype),
                 " tensor, through which an in-place change cannot be differentiated. Use the out-of-place form");
  }
  FACULA_CHECK(
      !self.requires_grad() || !is_leaf(self), Runtime, Operator{op},
      "a leaf tensor that requires grad cannot be changed in place. Use the out-of-place form, e.g. `x = x.op(...)` "
      "instead of `x.op_(...)`, or wrap the change in `with no_grad():` if it is not to be differentiated");
}

void rebase_history(const Tensor& self, intrusive_ptr<Node> node) {
  const uint32_t output_nr = node->add_output(self);
  if (!is_differentiable(self.dtype())) return;
  const Tensor changed = self.is_view() && !self.impl()->no_grad_view ? base_of(*self.impl()) : self;
  Kept kept;
  node->kept(kept);
  for (const TensorImpl* t : kept.tensors) {
    // Such as `x` of `x.mul_(x)`.
    if (t == changed.impl() || t->base.get() == changed.impl()) suspect_cycle(changed);
  }
  if (!self.is_view() || self.impl()->no_grad_view) {
    become_output(self, autograd_meta(self), node, output_nr);
    return;
  }
  FACULA_CHECK(output_nr == 0, Runtime, node->name(),
               ": a view is changed in place by an operation that changes several tensors; this cannot be "
               "differentiated. Use the out-of-place form");
  const Tensor base = base_of(*self.impl());
  become_output(base, autograd_meta(base), make_intrusive<CopySlices>(base, self, std::move(node)), 0);
  // The view, like every other view of this base, takes its new history from the base when asked.
  AutogradMeta& meta = autograd_meta(self);
  meta.view_version = self.version() - 1;
  meta.output_nr = 0;  // what a saved output of the change is
}

void check_out_no_grad(TensorList inputs, const Tensor& out, const char* op) {
  if (!tls_state.grad_enabled) return;
  FACULA_CHECK(!needs_grad(inputs) && !needs_grad(out), Runtime, Operator{op},
               "the out= form does not record gradients, but one of its arguments requires grad. Use the functional "
               "form, or call it under no_grad");
}

}  // namespace facula
