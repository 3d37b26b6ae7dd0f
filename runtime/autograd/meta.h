// The autograd record of a tensor, and what generated code calls to keep it.
#pragma once

#include <memory>
#include <vector>

#include "runtime/autograd/locks.h"
#include "runtime/autograd/node.h"
#include "runtime/core/thread_state.h"

namespace facula {

struct DualLevel;

// The tangent of one tensor, linked into its dual level so that closing the level ends it.
struct TangentRecord {
  Tensor tangent;
  TensorImpl* owner = nullptr;
  std::shared_ptr<DualLevel> level;
  TangentRecord* previous = nullptr;
  TangentRecord* next = nullptr;
};
struct FACULA_API TangentDeleter {
  void operator()(TangentRecord* r) const noexcept;
};

namespace detail {
void unlink_tangent(TangentRecord& record) noexcept;
}

struct LeafHooks {
  HookList tensor;           // on the gradient, before it is accumulated
  HookList post_accumulate;  // on the leaf, after
};

// Made only for tensors that take part in autograd. Lives in TensorImpl::autograd.
struct FACULA_API AutogradMeta {
  intrusive_ptr<Node> grad_fn;  // null for leaves
  uint32_t output_nr = 0;
  uint32_t view_version = 0;  // storage version grad_fn was made for (views)
  bool retains_grad = false;
  bool reshaped = false;  // by `.data = ...`; for messages
  bool suspect = false;   // see suspect_cycle()

 private:
  mutable detail::YieldLock grad_lock_;  // held for no longer than a copy or an exchange of the pointer

 public:
  std::atomic<uint32_t> accumulating{0};  // the thread that adds; in the leaf, since accumulators come and go

 private:
  Tensor grad_;

 public:
  union {
    Node* accumulator = nullptr;  // weak; cleared by ~AccumulateGrad, which holds the leaf until then
    AutogradMeta* next_dead;
  };
  detail::MadeOnce<LeafHooks> leaf_hooks;
  std::unique_ptr<TangentRecord, TangentDeleter> forward;

  // Threads without the GIL add to `.grad` while others set it, so that it is only ever copied or exchanged.
  Tensor grad() const {
    std::lock_guard lock(grad_lock_);
    return grad_;
  }
  // The old one comes back, to be dropped by a caller who holds no lock: that may run Python.
  [[nodiscard]] Tensor exchange_grad(Tensor grad) {
    std::lock_guard lock(grad_lock_);
    std::swap(grad_, grad);
    return grad;
  }
  // Puts `grad` in the place of `before`, and then holds that in `grad`; false if another is there.
  bool replace_grad(const Tensor& before, Tensor& grad) {
    std::lock_guard lock(grad_lock_);
    if (!grad_.is_same(before)) return false;
    std::swap(grad_, grad);
    return true;
  }
  bool has_chain() const { return grad_.defined() || forward; }  // for the deleter

  static void* operator new(size_t size);
  static void operator delete(void* p, size_t size) noexcept;
};

FACULA_API AutogradMeta& autograd_meta(const Tensor& t);  // makes it when absent
inline AutogradMeta* autograd_meta_or_null(const Tensor& t) { return t.impl()->autograd.get(); }

// ---- properties ----
FACULA_API bool is_leaf(const Tensor& t);
// Up to date also for views whose base was changed in place.
FACULA_API intrusive_ptr<Node> grad_fn(const Tensor& t);
FACULA_API Edge gradient_edge(const Tensor& t);  // to grad_fn or the leaf's accumulator; null if none
FACULA_API void set_requires_grad(const Tensor& t, bool requires_grad);  // checks leaf and dtype
FACULA_API Tensor grad_of(const Tensor& t);
FACULA_API void set_grad(const Tensor& t, Tensor grad);  // checks shape, dtype and device; undefined clears
FACULA_API void retain_grad(const Tensor& t);
FACULA_API bool retains_grad(const Tensor& t);
FACULA_API Tensor detach(const Tensor& t);  // shares storage and version, no view link
FACULA_API void detach_(const Tensor& t);   // forgets the history in place; refuses views

// ---- cycles ----
// Says that `t` may keep itself alive, through its gradient or its history: Python's collector will look.
FACULA_API void suspect_cycle(const Tensor& t);
FACULA_API std::vector<Tensor> suspects();
// For a tensor that nothing but a cycle holds: lets go of its gradient and its history.
FACULA_API void let_go(const Tensor& t);

// ---- hooks on tensors ----
FACULA_API void add_tensor_hook(const Tensor& t, std::shared_ptr<NodeHook> hook);
FACULA_API void add_post_accumulate_hook(const Tensor& leaf, std::shared_ptr<NodeHook> hook);

// ---- called by generated autograd functions ----
// Appends the edge of each input (lists: one edge an element).
FACULA_API void add_edge(Node& node, const Tensor& t);
FACULA_API void add_edge(Node& node, TensorList list);
// `result` is the next output of `node`. Non-differentiable dtypes and undefined tensors are left
// alone, but the number is still taken so that positions stay.
FACULA_API void set_history(const Tensor& result, const intrusive_ptr<Node>& node);
FACULA_API void set_history(TensorList results, const intrusive_ptr<Node>& node);
// Before an in-place change: refuses leaves that require grad, and views made under no_grad, with
// a sentence that names the operation.
FACULA_API void check_inplace(const Tensor& self, const char* op, bool needs_graph);
inline void check_inplace(TensorList list, const char* op, bool needs_graph) {
  for (const Tensor& t : list) check_inplace(t, op, needs_graph);
}
// After an in-place change: `self` (or its base, through a CopySlices node) now comes from `node`,
// whose edge 0 is that of `self`.
FACULA_API void rebase_history(const Tensor& self, intrusive_ptr<Node> node);
// out= forms do not differentiate.
FACULA_API void check_out_no_grad(TensorList inputs, const Tensor& out, const char* op);

// ---- forward mode: one level of dual numbers a thread ----
FACULA_API void enter_dual_level();  // raises when one is open
FACULA_API void exit_dual_level();   // ends every tangent set in it
namespace detail {
inline bool owns_tangent(const TensorImpl* i) { return i->autograd && i->autograd->forward; }
FACULA_API Tensor tangent_from_base(const Tensor& t);
// The level open on this thread; a thread that works for another takes over the other's.
FACULA_API std::shared_ptr<DualLevel> dual_level();
FACULA_API void set_dual_level(std::shared_ptr<DualLevel> level);
}  // namespace detail
// All tangents of a level, with whose they are; and one of them once more, in a level that is opened later.
FACULA_API std::vector<std::pair<Tensor, Tensor>> tangents_of(const std::shared_ptr<DualLevel>& level);
FACULA_API void restore_tangent(const Tensor& t, Tensor tangent);
inline bool has_tangent(const Tensor& t) {
  if (!tls_state.forward_mode || !t.defined()) return false;
  const TensorImpl* i = t.impl();
  return detail::owns_tangent(i) ||
         (i->base && !i->no_grad_view && is_differentiable(i->dtype) && detail::owns_tangent(i->base.get()));
}
inline bool has_tangent(TensorList list) {
  for (const Tensor& t : list) {
    if (has_tangent(t)) return true;
  }
  return false;
}
// Does a call with `t` compute tangents of its results?
template <typename T>
bool wants_tangent(const T& t) {
  return tls_state.forward_mode && !tls_state.plain_tangents && has_tangent(t);
}
inline Tensor tangent_of(const Tensor& t) {
  if (!has_tangent(t)) return Tensor();
  return detail::owns_tangent(t.impl()) ? t.impl()->autograd->forward->tangent : detail::tangent_from_base(t);
}
// Sets the layer bit too, so that calls with `t` enter the autograd layer. A tangent that `t` has is
// overwritten, so that views of it follow. An undefined tangent removes it.
FACULA_API void set_tangent(const Tensor& t, Tensor tangent);
// The same of a result that is new, and no view: with memory of its own, where a formula gave what others have too.
FACULA_API void set_new_tangent(const Tensor& t, Tensor tangent);
// The same after an in-place change of `t`: where `t` is a view, its base gets a tangent with it.
FACULA_API void set_tangent_inplace(const Tensor& t, Tensor tangent);

}  // namespace facula
