// Forward mode: tangents of tensors within a dual level.
#include "runtime/autograd/engine.h"
#include "runtime/autograd/generated.h"
#include "runtime/autograd/locks.h"
#include "runtime/autograd/meta.h"
#include "runtime/autograd/view.h"
#include "runtime/core/compound.h"
#include "runtime/dispatch/levels.h"

namespace facula {

struct DualLevel {
  detail::YieldLock lock;
  TangentRecord* first = nullptr;
};

namespace {

// Shared by its records, since a tensor may die on another thread, or after its level's.
thread_local std::shared_ptr<DualLevel> tls_level;

void remove_tangent(TensorImpl& t) {
  if (!detail::owns_tangent(&t)) return;
  const auto old = std::move(t.autograd->forward);  // dropped last: that may run Python, which may drop `t`
  if (!t.requires_grad) t.layers &= static_cast<LayerSet>(~layer_bit(Layer::Autograd));
}

Tensor add_tangent(const Tensor& t, Tensor tangent) {
  auto record = std::unique_ptr<TangentRecord, TangentDeleter>(new TangentRecord);
  record->tangent = std::move(tangent);
  record->owner = t.impl();
  record->level = tls_level;
  {
    std::lock_guard lock(tls_level->lock);
    record->next = tls_level->first;
    if (record->next != nullptr) record->next->previous = record.get();
    tls_level->first = record.get();
  }
  AutogradMeta& meta = autograd_meta(t);
  meta.forward = std::move(record);
  t.impl()->layers |= layer_bit(Layer::Autograd);
  return meta.forward->tangent;
}

// Zeros with the geometry of `t`, so that the tangent of a view is the same view of the tangent.
// Within levels, with the batch dims of what is to be written there.
Tensor zeros_like_layout(const Tensor& t, const Tensor& written) {
  return make_as(written, Meta{DimVector(t.sizes()), t.dtype(), t.device(), DimVector(t.strides())}, true);
}

}  // namespace

void detail::unlink_tangent(TangentRecord& r) noexcept {
  if (!r.level) return;
  {
    std::lock_guard lock(r.level->lock);
    (r.previous != nullptr ? r.previous->next : r.level->first) = r.next;
    if (r.next != nullptr) r.next->previous = r.previous;
  }
  r.level.reset();
}

void TangentDeleter::operator()(TangentRecord* r) const noexcept {
  detail::unlink_tangent(*r);
  delete r;
}

void enter_dual_level() {
  ThreadState& s = thread_state();
  FACULA_CHECK(!s.forward_mode, Runtime, "forward mode has one level: a dual level is open already on this thread");
  tls_level = std::make_shared<DualLevel>();
  s.forward_mode = true;
  s.excluded &= static_cast<LayerSet>(~layer_bit(Layer::Autograd));
}

void exit_dual_level() {
  ThreadState& s = thread_state();
  FACULA_CHECK(s.forward_mode, Runtime, "no dual level is open on this thread");
  while (tls_level->first != nullptr) remove_tangent(*tls_level->first->owner);
  tls_level.reset();
  s.forward_mode = false;
  if (!s.grad_enabled) s.excluded |= layer_bit(Layer::Autograd);
}

namespace {

// The tangent that `t` has of its own, brought to its strides: that of a view of `t` is the same view of it.
const Tensor& laid_out_tangent(const Tensor& t) {
  Tensor& tangent = t.impl()->autograd->forward->tangent;
  if (tangent.strides() != t.strides()) {
    Tensor laid_out = zeros_like_layout(t, tangent);
    core_operators().copy_into(laid_out, tangent);
    tangent = std::move(laid_out);
  }
  return tangent;
}

// Does nothing else refer to it or to its memory?
bool is_sole(const Tensor& t) {
  const TensorImpl& i = *t.impl();
  if (i.use_count() != 1 || is_compound(t)) return false;
  return t.is_wrapped() ? is_sole(i.wrapping->inner) : i.storage && i.storage->users() == 1;
}

// A view's tangent is a part of its base's, where that has one.
TensorImpl* owner_of_tangent(const Tensor& t) {
  TensorImpl* const own = t.impl();
  const bool of_base = own->base && !own->no_grad_view && detail::owns_tangent(own->base.get());
  return of_base ? own->base.get() : own;
}

// The tangents of the level that are views of `leaf`, or the leaf itself, of tensors in the memory of `t`.
std::vector<Tensor> owners_with(const Tensor& leaf, const Tensor& t) {
  const auto root = [](const TensorImpl* i) { return i->base ? i->base.get() : i; };
  std::vector<Tensor> owners;
  std::lock_guard lock(tls_level->lock);
  for (const TangentRecord* r = tls_level->first; r != nullptr; r = r->next) {
    if (root(r->owner) != root(t.impl()) || root(r->tangent.impl()) != leaf.impl()) continue;
    if (r->owner->try_retain()) owners.emplace_back(intrusive_ptr<TensorImpl>::adopt(r->owner));
  }
  return owners;
}

// A tangent that is to be overwritten, and is a leaf that requires a gradient or a view of one: the leaf is let be,
// and what shares memory goes on with a copy of it.
void leave_leaf(const Tensor& t) {
  const Tensor held = owner_of_tangent(t)->autograd->forward->tangent;
  if (!tls_state.grad_enabled || !held.requires_grad()) return;
  const bool of_base = held.impl()->base && !held.impl()->no_grad_view;
  const Tensor leaf = of_base ? Tensor(intrusive_ptr<TensorImpl>::share(held.impl()->base.get())) : held;
  if (!leaf.requires_grad() || !is_leaf(leaf)) return;
  const Tensor copy = zeros_like_layout(leaf, leaf);
  core_operators().copy_into(copy, leaf);
  for (const Tensor& owner : owners_with(leaf, t)) {
    Tensor& tangent = owner.impl()->autograd->forward->tangent;
    const Tensor before = tangent;  // dropped last
    tangent = before.is_same(leaf) ? copy : slice_of(copy, Geometry(leaf), Geometry(before));
  }
}

// A tangent that is to be overwritten gets the batch dims of what is written.
void make_room(const Tensor& t, const Tensor& written) {
  TensorImpl* const owner = owner_of_tangent(t);
  if (owner != t.impl()) remove_tangent(*t.impl());  // it is a part of the base's from now on
  Tensor& tangent = owner->autograd->forward->tangent;
  const Meta meta{DimVector(tangent.sizes()), tangent.dtype(), tangent.device(), DimVector(tangent.strides())};
  tangent = core_operators().accumulate(make_as(written, meta, true), tangent);
}

}  // namespace

namespace detail {

std::shared_ptr<DualLevel> dual_level() { return tls_level; }
void set_dual_level(std::shared_ptr<DualLevel> level) { tls_level = std::move(level); }
[[maybe_unused]] const bool exchanging =
    (exchange_dual_level = [](std::shared_ptr<DualLevel>& with) { tls_level.swap(with); }, true);

Tensor tangent_from_base(const Tensor& t) {
  const Tensor base(intrusive_ptr<TensorImpl>::share(t.impl()->base.get()));
  if (!can_slice(base.dtype(), t.dtype())) return Tensor();
  return slice_of(laid_out_tangent(base), Geometry(base), Geometry(t));
}

}  // namespace detail

std::vector<std::pair<Tensor, Tensor>> tangents_of(const std::shared_ptr<DualLevel>& level) {
  std::vector<std::pair<Tensor, Tensor>> list;
  if (!level) return list;
  std::lock_guard lock(level->lock);
  for (const TangentRecord* r = level->first; r != nullptr; r = r->next) {
    if (r->owner->try_retain()) list.emplace_back(intrusive_ptr<TensorImpl>::adopt(r->owner), r->tangent);
  }
  return list;
}

void restore_tangent(const Tensor& t, Tensor tangent) {
  FACULA_CHECK(tls_state.forward_mode, Runtime, "a tangent can be set within a dual level only");
  if (!detail::owns_tangent(t.impl())) add_tangent(t, std::move(tangent));
}

void set_tangent(const Tensor& t, Tensor tangent) {
  if (!tangent.defined()) {
    remove_tangent(*t.impl());
    return;
  }
  FACULA_CHECK(tls_state.forward_mode, Runtime, "a tangent can be set within a dual level only");
  FACULA_CHECK(is_differentiable(t.dtype()), Dtype, "a ", dtype_name(t.dtype()),
               " tensor cannot have a tangent; floating-point and complex ones can");
  FACULA_CHECK(tangent.sizes() == t.sizes(), Shape, "the tangent has shape ", shape_string(tangent.sizes()),
               " but its tensor ", shape_string(t.sizes()));
  FACULA_CHECK(tangent.dtype() == t.dtype() && tangent.device() == t.device(), Device, "the tangent is ",
               dtype_name(tangent.dtype()), " on ", to_string(tangent.device()), " but its tensor is ",
               dtype_name(t.dtype()), " on ", to_string(t.device()));
  if (has_tangent(t)) {
    const Tensor old = tangent_of(t);
    if (old.is_same(tangent)) return;
    leave_leaf(t);
    if (!has_batch_dims_of(old, tangent)) make_room(t, tangent);
    core_operators().copy_into(tangent_of(t), tangent);
    return;
  }
  add_tangent(t, std::move(tangent));
}

bool share_tangent(const Tensor& view, const Tensor& of) {
  if (has_tangent(view)) return true;  // its base's
  if (!view.impl()->base || !has_tangent(of) || !can_slice(of.dtype(), view.dtype())) return false;
  const bool owns = !of.impl()->base && detail::owns_tangent(of.impl());
  const Tensor tangent = owns ? laid_out_tangent(of) : tangent_of(of);
  if (tangent.strides() != of.strides()) return false;
  add_tangent(view, slice_of(tangent, Geometry(of), Geometry(view)));
  return true;
}

void set_new_tangent(const Tensor& t, Tensor tangent) {
  if (!is_differentiable(t.dtype())) return;  // integers of a dual tensor have none
  // The next change of `t` must not be one of what has that tangent too.
  if (tangent.defined() && !t.impl()->base && !has_tangent(t) && !is_sole(tangent)) {
    add_tangent(t, zeros_like_layout(t, tangent));
  }
  set_tangent(t, std::move(tangent));
}

void set_tangent_inplace(const Tensor& t, Tensor tangent) {
  if (!is_differentiable(t.dtype())) return;
  const TensorImpl& impl = *t.impl();
  if (tangent.defined() && impl.base && !has_tangent(t) && !detail::owns_tangent(impl.base.get()) &&
      can_slice(impl.base->dtype, impl.dtype)) {
    // Its base is changed too: what is not in the view has the tangent zero.
    const Tensor base(intrusive_ptr<TensorImpl>::share(impl.base.get()));
    const Tensor whole = add_tangent(base, zeros_like_layout(base, tangent));
    add_tangent(t, slice_of(whole, Geometry(base), Geometry(t)));
  }
  set_new_tangent(t, std::move(tangent));
}

}  // namespace facula
