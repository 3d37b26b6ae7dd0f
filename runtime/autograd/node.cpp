#include "runtime/autograd/node.h"

#include <pthread.h>

#include <algorithm>
#include <limits>
#include <thread>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/hook_lists.h"
#include "runtime/core/compound.h"
#include "runtime/core/pool.h"

namespace facula {

namespace detail {

constinit thread_local WantedInputs tls_wanted __attribute__((tls_model("initial-exec")));
constinit thread_local const Node* tls_running __attribute__((tls_model("initial-exec"))) = nullptr;

}  // namespace detail

namespace {

// The largest sequence number this thread has given or seen. Numbers of two threads may be equal, but
// never along an edge, which is all that the engine relies on.
constinit thread_local uint64_t tls_sequence __attribute__((tls_model("initial-exec"))) = 0;

// Nodes waiting for deletion on this thread, chained through `sequence_`.
struct Graveyard {
  Node* first = nullptr;
  bool active = false;
};
constinit thread_local Graveyard tls_graveyard __attribute__((tls_model("initial-exec")));

constexpr uint32_t kReleasing = 0x80000000u;

}  // namespace

void* Node::operator new(size_t size) { return size < kPoolLimit ? pool_allocate_object(size) : ::operator new(size); }
void Node::operator delete(void* p, size_t size) noexcept {
  size < kPoolLimit ? pool_deallocate_object(p, size) : ::operator delete(p);
}

void SavedFields::add_value(const char* name, Value value) { list_.push_back({name, std::move(value)}); }

OutputMeta::OutputMeta(const TensorImpl& t) : dtype(t.dtype), device(t.device) {
  const size_t n = t.sizes.size();
  const int64_t* const sizes = t.sizes.data();
  if (n <= kFew) [[likely]] {
    int64_t all = 0;
    for (size_t d = 0; d < n; ++d) {
      few_[d] = static_cast<int32_t>(sizes[d]);
      all |= sizes[d];
    }
    dims_ = static_cast<uint8_t>(n);
    if (all <= std::numeric_limits<int32_t>::max()) [[likely]]
      return;
  }
  auto* const many = new int64_t[n + 1];
  many[0] = static_cast<int64_t>(n);
  std::copy(t.sizes.begin(), t.sizes.end(), many + 1);
  std::memcpy(few_ + 1, &many, sizeof many);
  dims_ = kHeap;
}

DimVector OutputMeta::sizes() const {
  if (dims_ == kHeap) return DimVector(heap() + 1, heap() + 1 + heap()[0]);
  return DimVector(few_, few_ + dims_);
}

bool OutputMeta::has_many(const DimVector& sizes) const {
  const int64_t* const many = heap();
  return std::equal(sizes.begin(), sizes.end(), many + 1, many + 1 + many[0]);
}

Node::Node(Quietly) : sequence_(++tls_sequence) {}

Node::Node() : Node(Quietly{}) {
  if (tls_state.anomaly) [[unlikely]] {
    if (const auto location = core_operators().location; location != nullptr) hooks().made_at = location();
    if (const Node* of = detail::tls_running; of != nullptr) {  // of a gradient: what it is the gradient of says more
      hooks().made_at += concat(", in the backward of ", of->name());
      if (const Hooks* known = of->hooks_or_null(); known != nullptr && !known->made_at.empty()) {
        hooks().made_at += concat(", made at ", known->made_at);
      }
    }
  }
}

Node::~Node() = default;

void Node::dispose(Node* node) noexcept {
  Graveyard& graveyard = tls_graveyard;
  if (graveyard.active) {
    node->sequence_ = reinterpret_cast<uintptr_t>(graveyard.first);
    graveyard.first = node;
    return;
  }
  graveyard.active = true;
  for (;;) {
    delete node;  // its edges and saved tensors come back here and only queue
    node = graveyard.first;
    if (node == nullptr) break;
    graveyard.first = reinterpret_cast<Node*>(static_cast<uintptr_t>(node->sequence_));
  }
  graveyard.active = false;
}

void Node::add_edge(Edge edge) {
  if (edge.node && edge.node->sequence_ >= sequence_) {
    sequence_ = tls_sequence = std::max(tls_sequence, edge.node->sequence_) + 1;
  }
  edges_.push_back(std::move(edge));
}

uint32_t Node::add_output(const Tensor& t) {
  const uint32_t i = static_cast<uint32_t>(outputs_.size());
  t.defined() ? outputs_.emplace_back(*t.impl()) : outputs_.emplace_back();
  return i;
}

Tensor Node::materialize(const Tensor& grad, size_t i) const {
  if (grad.defined()) return grad;
  return core_operators().zeros(outputs_[i]);
}

Node::Hooks& Node::hooks() { return hooks_.make(); }

void Node::add_pre_hook(std::shared_ptr<NodeHook> hook) { detail::add_hook(this, hooks().pre, std::move(hook)); }
void Node::add_post_hook(std::shared_ptr<NodeHook> hook) { detail::add_hook(this, hooks().post, std::move(hook)); }
void Node::add_tensor_hook(uint32_t output_nr, std::shared_ptr<NodeHook> hook) {
  detail::add_hook(this, hooks().tensor, std::pair(output_nr, std::move(hook)));
}

void Node::enter() const {
  auto& users = const_cast<std::atomic<uint32_t>&>(users_);
  if ((users.fetch_add(1, std::memory_order_acquire) & kReleasing) == 0) [[likely]]
    return;
  while ((users.load(std::memory_order_acquire) & kReleasing) != 0) std::this_thread::yield();
}

void Node::leave(bool release) {
  uint32_t alone = 1;
  if (release && users_.compare_exchange_strong(alone, kReleasing, std::memory_order_acquire)) {
    Released released;  // dropped when the node is open again
    release_saved(released);
    users_.fetch_sub(kReleasing, std::memory_order_release);
  } else {
    users_.fetch_sub(1, std::memory_order_release);
  }
}

// ---- AccumulateGrad ----

AccumulateGrad::AccumulateGrad(Tensor leaf) : Node(Quietly{}), leaf_(std::move(leaf)) {  // made under a lock
  weakly_held_ = true;
  accumulates_ = true;
  add_output(leaf_);
}

AccumulateGrad::~AccumulateGrad() {
  std::lock_guard lock(detail::lock_for(leaf_.impl()));
  AutogradMeta& meta = *leaf_.impl()->autograd;
  if (meta.accumulator == this) meta.accumulator = nullptr;
}

void AccumulateGrad::apply(std::span<const Tensor> grads, std::span<Tensor>) { accumulate(grads[0]); }

namespace {

// May `t` become somebody's own: does nobody else hold it or its memory?
bool is_exclusive(const Tensor& t) {
  const TensorImpl& impl = *t.impl();
  if (impl.use_count() != 1 || !impl.storage || impl.wrapped_number || impl.pyobject != nullptr) return false;
  const uint32_t holders = impl.storage->users();
  // A view made in the backward pass still holds the tensor it was made from.
  return holders == 1 || (impl.base && impl.base->use_count() == 1 && holders == 2);
}

bool is_exclusive_compound(const Tensor& t) {
  if (!is_compound(t) || tls_state.grad_enabled || t.impl()->use_count() != 1 || t.requires_grad()) return false;
  const Tensor& first = t.impl()->wrapping->inner;  // held as a part too
  return compound_of(t).use_count() == 1 && first.impl()->use_count() == 2 && first.impl()->pyobject == nullptr &&
         first.storage() && first.storage()->users() == 1;
}

// The layout that `.grad` is to have: the leaf's own where that is dense.
DimVector grad_strides(const Tensor& leaf) {
  return is_non_overlapping_and_dense(leaf.sizes(), leaf.strides()) ? DimVector(leaf.strides())
                                                                    : contiguous_strides(leaf.sizes());
}

bool same_layout(const Tensor& grad, const Tensor& leaf) {
  if (grad.is_contiguous() && leaf.is_contiguous()) return true;
  const DimVector wanted = grad_strides(leaf);
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (grad.sizes()[i] > 1 && grad.strides()[i] != wanted[i]) return false;
  }
  return true;
}

// What `.grad` becomes when it was undefined: `grad` itself where nobody else holds its memory.
Tensor first_gradient(const Tensor& grad, const Tensor& leaf) {
  const CoreOperators& core = core_operators();
  if (is_exclusive_compound(grad)) return grad;
  if (tls_state.grad_enabled || grad.is_wrapped()) return core.clone(grad);
  if (is_exclusive(grad) && same_layout(grad, leaf)) {
    grad.impl()->base.reset();
    grad.impl()->no_grad_view = false;
    return grad.requires_grad() ? detach(grad) : grad;
  }
  Tensor fresh = make_empty_strided(grad.sizes(), grad_strides(leaf), grad.dtype(), grad.device());
  core.copy_into(fresh, grad);
  return fresh;
}

constinit thread_local uint32_t tls_number __attribute__((tls_model("initial-exec"))) = 0;  // 0: none yet
constinit std::atomic<uint32_t> last_number{0}, last_before_fork{0};
[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, [] {
  last_before_fork.store(last_number.load(std::memory_order_relaxed), std::memory_order_relaxed);
  tls_number = 0;
});

// One thread at a time adds to a gradient in place. The thread that does may come again, since operators
// may run Python.
class BusyGuard {
 public:
  explicit BusyGuard(std::atomic<uint32_t>& busy) : busy_(busy) {
    if (tls_number == 0) tls_number = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
    for (uint32_t user = 0; !busy_.compare_exchange_strong(user, tls_number, std::memory_order_acquire);) {
      if (user == tls_number) {
        nested_ = true;
        return;
      }
      if (user != 0 && user <= last_before_fork.load(std::memory_order_relaxed)) continue;  // no thread of this process
      busy_.wait(user, std::memory_order_relaxed);  // an addition may be long, so that waiters sleep
      user = 0;
    }
  }
  ~BusyGuard() {
    if (nested_) return;
    busy_.store(0, std::memory_order_release);
    busy_.notify_one();
  }
  BusyGuard(const BusyGuard&) = delete;
  BusyGuard& operator=(const BusyGuard&) = delete;

 private:
  std::atomic<uint32_t>& busy_;
  bool nested_ = false;
};

}  // namespace

void AccumulateGrad::accumulate(Tensor grad) {
  if (!grad.defined() || !leaf_.requires_grad()) return;  // a hook or a writer may have detached the leaf
  FACULA_CHECK(grad.sizes() == leaf_.sizes(), Runtime, "the gradient is ", shape_string(grad.sizes()),
               " and its leaf is now ", shape_string(leaf_.sizes()), "; its data were replaced after the forward pass");
  if (grad.dtype() != leaf_.dtype() || grad.device() != leaf_.device()) [[unlikely]]  // they were replaced too
    grad = core_operators().cast(grad, leaf_.dtype(), leaf_.device());
  AutogradMeta& meta = autograd_meta(leaf_);
  for (bool done = false; !done;) {
    Tensor before, after;  // dropped after the guard: that may run Python
    BusyGuard guard(meta.accumulating);
    before = meta.grad();
    // What a compound and another gradient add up to may be of another layout.
    if (before.defined() && !tls_state.grad_enabled && !before.is_wrapped()) {
      core_operators().accumulate_into(before, grad);
      break;
    }
    after = before.defined() ? core_operators().accumulate(before, grad) : first_gradient(grad, leaf_);
    if (after.requires_grad()) suspect_cycle(leaf_);  // the gradient's graph may lead back
    done = meta.replace_grad(before, after);          // unless it was set meanwhile
    if (!done && after.is_same(grad)) after.reset();  // still ours alone
  }
  grad.reset();
  const LeafHooks* hooks = meta.leaf_hooks.get();
  if (hooks == nullptr) return;
  const HookList list = detail::hooks_of(&meta, hooks->post_accumulate);
  for (const auto& hook : list) {
    if (hook->removed) continue;
    std::vector<Tensor> leaf{leaf_};
    hook->run(leaf);
  }
}

}  // namespace facula
