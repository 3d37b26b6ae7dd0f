#include "runtime/autograd/graph_task.h"

#include <algorithm>
#include <atomic>
#include <optional>

#include "runtime/autograd/hook_lists.h"
#include "runtime/autograd/validate.h"
#include "runtime/core/interrupt.h"
#include "runtime/dispatch/levels.h"
#include "runtime/dispatch/observe.h"

namespace facula {

namespace {

std::atomic<uint64_t> last_task{0};
constinit thread_local GraphTask* tls_current = nullptr;
constinit thread_local uint64_t tls_within = 0;  // the level in which it runs

[[maybe_unused]] const bool registered = (level_of_backward = [] { return tls_within; }, true);

}  // namespace

GraphTask* GraphTask::current() { return tls_current; }

void GraphTask::start(const BackwardOptions& options, std::vector<Tensor>* results) {
  options_ = options;
  number_ = last_task.fetch_add(1, std::memory_order_relaxed) + 1;
  results_ = results;
  selective_ = false;
  first_sequence_ = ~uint64_t{0};
}

void GraphTask::finish() noexcept {
  slots_.clear();
  heap_.clear();
  for (Pending& p : pending_) p.grads.clear();
  pending_.clear();
  free_slots_.clear();
  targets_.clear();
  meanings_.clear();
  running_ = nullptr;
  if (reachable_known_) {
    reachable_.clear();
    reachable_known_ = false;
  }
  callbacks_.clear();
}

bool GraphTask::reaches(const Node* node) {
  if (!reachable_known_) {
    std::vector<const Node*> stack;
    const auto visit = [&](const Node* n) {
      if (n == nullptr || (selective_ && !is_wanted(n)) || !reachable_.insert(n, 0).second) return;
      stack.push_back(n);
    };
    visit(running_);
    for (const Waiting& w : heap_) visit(w.node);
    while (!stack.empty()) {
      const Node* n = stack.back();
      stack.pop_back();
      for (const Edge& edge : n->edges()) visit(edge.node.get());
    }
    reachable_known_ = true;
  }
  return reachable_.find(node) != detail::NodeMap::kNone;
}

// ---- runs with chosen inputs ----

void GraphTask::add_target(const Edge& edge, size_t result_index, bool capture, bool run_target) {
  selective_ = true;
  first_sequence_ = std::min(first_sequence_, edge.node->sequence());
  const auto [meaning, fresh] = meanings_.insert(edge.node.get(), kTarget + static_cast<uint32_t>(targets_.size()));
  if (fresh) targets_.emplace_back();
  Target& target = targets_[meaning - kTarget];
  target.runs |= run_target;
  if (capture) target.captures.push_back({edge.output_nr, static_cast<uint32_t>(result_index)});
}

void GraphTask::find_wanted(std::span<const Edge> roots) {
  struct Frame {
    const Node* node;
    size_t next_edge;
  };
  std::vector<Frame> stack;
  const auto visit = [&](const Node* node) {
    if (node == nullptr || node->sequence() < first_sequence_) return;
    const auto [meaning, fresh] = meanings_.insert(node, kSeen);
    if (!fresh && (meaning < kTarget || std::exchange(targets_[meaning - kTarget].searched, true))) return;
    stack.push_back({node, 0});
  };
  for (const Edge& root : roots) {
    visit(root.node.get());
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next_edge < top.node->num_inputs()) {
        visit(top.node->edge(top.next_edge++).node.get());  // may move `top`
        continue;
      }
      for (const Edge& edge : top.node->edges()) {
        if (edge && is_wanted(edge.node.get())) {
          const uint32_t meaning = meanings_.find(top.node);
          meaning < kTarget ? meanings_.set(top.node, kRuns) : void(targets_[meaning - kTarget].runs = true);
          break;
        }
      }
      stack.pop_back();
    }
  }
}

// ---- gradients on their way ----

GraphTask::Pending& GraphTask::place_for(const Edge& edge) {
  Node* node = edge.node.get();
  const uint32_t next = free_slots_.empty() ? static_cast<uint32_t>(pending_.size()) : free_slots_.back();
  const auto [slot, fresh] = slots_.insert(node, next);
  if (fresh) {
    if (free_slots_.empty()) {
      pending_.emplace_back();
    } else {
      free_slots_.pop_back();
    }
    pending_[slot].grads.resize(node->num_outputs());
    pending_[slot].sums = 0;
    pending_[slot].widened = false;
    heap_.push_back({node->sequence(), node, slot});
    std::push_heap(heap_.begin(), heap_.end());
  }
  return pending_[slot];
}

namespace {

// May the sum be written over `t`?
bool can_overwrite(const Tensor& t, const Tensor& other, bool widened = false) {
  const TensorImpl& impl = *t.impl();
  return !tls_state.grad_enabled && impl.use_count() == 1 && impl.storage && impl.storage->users() == 1 &&
         !impl.wrapped_number && impl.pyobject == nullptr && !impl.requires_grad &&
         (impl.dtype == other.dtype() || widened) &&
         (impl.contiguous || is_non_overlapping_and_dense(impl.sizes, impl.strides)) && !has_tangent(t) &&
         !has_tangent(other) && !other.is_wrapped();  // which may have batch dims that `t` has not
}

}  // namespace

void GraphTask::add_to(Tensor& sum, Tensor grad) {
  if (!sum.defined()) {
    sum = std::move(grad);
  } else if (can_overwrite(sum, grad)) {
    core_operators().accumulate_into(sum, grad);
  } else if (can_overwrite(grad, sum)) {
    core_operators().accumulate_into(grad, sum);
    sum = std::move(grad);
  } else {
    sum = core_operators().accumulate(sum, grad);
  }
}

namespace {

// Gradients of 16 bits are added in float32 from the third on: sums of many would stand still. Of two, the usual
// number, the rounded sum is the best there is.
void add_widened(Tensor& sum, const Tensor& grad) {
  const CoreOperators& core = core_operators();
  if (sum.dtype() == grad.dtype()) sum = core.cast(sum, ScalarType::Float32, sum.device());
  if (can_overwrite(sum, grad, true)) {
    core.accumulate_into(sum, grad);
  } else {
    sum = core.accumulate(sum, grad);
  }
}

void narrow_sums(const Node& node, std::span<Tensor> grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined() || grads[i].dtype() != ScalarType::Float32) continue;
    const ScalarType dtype = node.output(i).dtype;
    if (is_reduced_float(dtype)) grads[i] = core_operators().cast(grads[i], dtype, grads[i].device());
  }
}

}  // namespace

void GraphTask::add_gradient(const Edge& edge, Tensor grad) {
  Pending& place = place_for(edge);
  if (!grad.defined()) return;
  Tensor& sum = place.grads[edge.output_nr];
  if (sum.defined() && is_reduced_float(grad.dtype()) && sum.impl()->storage && grad.impl()->storage) {
    const uint32_t bit = uint32_t{1} << std::min<uint32_t>(edge.output_nr, 31);
    if ((place.sums & bit) != 0) {
      place.widened = true;
      return add_widened(sum, grad);
    }
    place.sums |= bit;
  }
  add_to(sum, std::move(grad));
}

// ---- running ----

void GraphTask::run() {
  struct Restore {
    GraphTask* outer;
    uint64_t within;
    ~Restore() { tls_current = outer, tls_within = within; }
  } restore{tls_current, tls_within};
  tls_current = this;
  tls_within = tls_state.level == nullptr ? 0 : tls_state.level->number;
  run_waiting();
  while (!callbacks_.empty()) {
    std::vector<Tensor> nothing;
    for (const auto& callback : std::exchange(callbacks_, {})) callback->run(nothing);
    run_waiting();
  }
}

void GraphTask::run_waiting() {
  while (!heap_.empty()) {
    count_step(16);
    const Waiting next = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end());
    heap_.pop_back();
    slots_.erase(next.node);
    Gradients grads = std::move(pending_[next.slot].grads);
    if (pending_[next.slot].widened) narrow_sums(*next.node, grads);
    free_slots_.push_back(next.slot);
    running_ = next.node;
    run_node(*next.node, grads);
  }
}

namespace {

void run_tensor_hook(NodeHook& hook, Tensor& grad) {
  if (hook.removed || !grad.defined()) return;
  std::vector<Tensor> list{grad};
  hook.run(list);
  grad = list.empty() ? Tensor() : std::move(list[0]);
}

void store_retained(const Node::Hooks& hooks, std::span<const Tensor> grads) {
  for (size_t i = 0;;) {
    // Outside the lock: the addition is an operator. The tensor may die or be given another gradient
    // meanwhile, so look again.
    AutogradMeta* meta = nullptr;
    Tensor before, grad;
    {
      std::lock_guard lock(detail::retain_lock());
      if (i >= hooks.retain.size()) return;
      meta = hooks.retain[i].second;
      grad = grads[hooks.retain[i].first];
      before = meta->grad();
    }
    if (!grad.defined()) {
      ++i;
      continue;
    }
    Tensor after = before.defined() ? core_operators().accumulate(before, grad) : core_operators().clone(grad);
    std::lock_guard lock(detail::retain_lock());
    const bool alive =
        std::any_of(hooks.retain.begin(), hooks.retain.end(), [&](const auto& entry) { return entry.second == meta; });
    if (!alive || meta->replace_grad(before, after)) ++i;
  }
}

// Replaced gradients must still fit the outputs.
void check_replaced(const Node& node, std::span<Tensor> grads) {
  for (size_t i = 0; i < grads.size(); ++i) {
    if (grads[i].defined()) detail::validate_gradient(grads[i], node.output(i), node, i);
  }
}

// Tensor hooks, then retain_grad, then the node's own hooks; as torch orders them.
void run_pre_hooks(Node& node, std::span<Tensor> grads) {
  const Node::Hooks& hooks = *node.hooks_or_null();
  if (const auto list = detail::hooks_of(&node, hooks.tensor); !list.empty()) {
    for (const auto& [nr, hook] : list) run_tensor_hook(*hook, grads[nr]);
    check_replaced(node, grads);
  }
  if (!hooks.retain.empty()) store_retained(hooks, grads);
  const HookList list = detail::hooks_of(&node, hooks.pre);
  if (list.empty()) return;
  std::vector<Tensor> copy(grads.begin(), grads.end());
  for (const auto& hook : list) {
    if (!hook->removed) hook->run(copy);
  }
  FACULA_CHECK(copy.size() == grads.size(), Runtime, node.name(), ": a pre hook returned ", copy.size(),
               " gradients, expected ", grads.size());
  std::copy(copy.begin(), copy.end(), grads.begin());
  check_replaced(node, grads);
}

void run_post_hooks(const Node& node, std::span<Tensor> results, std::span<const Tensor> grads) {
  const HookList list = detail::hooks_of(&node, node.hooks_or_null()->post);
  if (list.empty()) return;
  std::vector<Tensor> copy(results.begin(), results.end());
  for (const auto& hook : list) {
    if (!hook->removed) hook->run_post(copy, grads);
  }
  FACULA_CHECK(copy.size() == results.size(), Runtime, node.name(), ": a hook returned ", copy.size(),
               " gradients, expected ", results.size());
  std::copy(copy.begin(), copy.end(), results.begin());
}

std::string made_at(const Node& node) {
  const Node::Hooks* hooks = node.hooks_or_null();
  return hooks != nullptr && !hooks->made_at.empty() ? concat(" (made at ", hooks->made_at, ")") : std::string();
}

constinit thread_local bool tls_check_nan = true;

void check_nan(const Node& node, std::span<const Tensor> results) {
  const auto has_nan = core_operators().has_nan;
  if (has_nan == nullptr) return;
  for (size_t i = 0; i < results.size(); ++i) {
    FACULA_CHECK(!results[i].defined() || !has_nan(results[i]), Runtime, node.name(), made_at(node),
                 " returned nan values in gradient ", i);
  }
}

// Operators of a formula name themselves, which says nothing to who wrote the forward pass.
[[noreturn]] void raise_from(const Node& node, const Error& e) {
  std::string cause;
  SavedFields fields;
  node.saved(fields);
  for (const auto& [name, value] : fields.list()) {
    const auto* saved = std::get_if<const SavedTensor*>(&value);
    if (saved != nullptr && (*saved)->reshaped()) {
      cause =
          concat(" `.data = ...` gave `", name, "`, which it saved, another shape or dtype after the forward pass.");
      break;
    }
  }
  if (cause.empty()) throw;
  raise(e.kind(), node.name(), made_at(node), ": its gradient cannot be computed.", cause, " ", e.message());
}

class InUse {
 public:
  InUse(Node& node, bool release) : node_(node), release_(release) { node.enter(); }
  ~InUse() { node_.leave(release_ && done_); }
  void done() { done_ = true; }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;

 private:
  Node& node_;
  bool release_;
  bool done_ = false;
};

// What runs is told to nodes that are made meanwhile.
class RunningScope {
 public:
  explicit RunningScope(const Node* node) : saved_(detail::tls_running) {
    if (tls_state.anomaly) [[unlikely]]
      detail::tls_running = node;
  }
  ~RunningScope() { detail::tls_running = saved_; }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  const Node* saved_;
};

class WantedScope {
 public:
  WantedScope(const Node* node, const bool* wanted) : saved_(detail::tls_wanted) {
    detail::tls_wanted = {node, wanted};
  }
  ~WantedScope() { detail::tls_wanted = saved_; }
  WantedScope(const WantedScope&) = delete;
  WantedScope& operator=(const WantedScope&) = delete;

 private:
  detail::WantedInputs saved_;
};

}  // namespace

void set_check_nan(bool check) { tls_check_nan = check; }
bool checks_nan() { return tls_check_nan; }

void GraphTask::run_node(Node& node, Gradients& grads) {
  if (node.hooks_or_null() != nullptr) [[unlikely]] {
    run_pre_hooks(node, grads);
    const bool any = std::any_of(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); });
    if (!any && !node.runs_without_grad()) return;
  }
  if (node.accumulates_) {
    run_leaf(static_cast<AccumulateGrad&>(node), grads);
    return;
  }
  if (!selective_ || capture(node, grads)) run_function(node, grads);
}

bool GraphTask::capture(const Node& node, const Gradients& grads) {
  const uint32_t meaning = meanings_.find(&node);
  if (meaning < kTarget) return true;
  const Target& target = targets_[meaning - kTarget];
  for (const Capture& c : target.captures) (*results_)[c.result] = grads[c.output_nr];
  return target.runs;
}

void GraphTask::run_leaf(AccumulateGrad& node, Gradients& grads) {
  const AutogradMeta& meta = *autograd_meta_or_null(node.leaf());
  if (const LeafHooks* hooks = meta.leaf_hooks.get(); hooks != nullptr) [[unlikely]] {
    const HookList list = detail::hooks_of(&meta, hooks->tensor);
    for (const auto& hook : list) run_tensor_hook(*hook, grads[0]);
    check_replaced(node, grads);
  }
  if (selective_ && !capture(node, grads)) return;
  const Node::Hooks* hooks = node.hooks_or_null();
  if (hooks == nullptr || detail::hooks_of(&node, hooks->post).empty()) {
    node.accumulate(std::move(grads[0]));
    return;
  }
  node.accumulate(grads[0]);
  run_post_hooks(node, {}, grads);
}

void GraphTask::run_function(Node& node, Gradients& grads) {
  const size_t n = node.num_inputs();
  InlineVector<Tensor, 4> results;
  results.resize(n);
  {
    InUse use(node, !options_.keep_graph);
    const RunningScope running(&node);
    std::optional<ObservedCall> observed;
    if (is_observed()) [[unlikely]]
      observed.emplace(node.name(), EventKind::Backward);
    try {
      if (!selective_) {
        node.apply(grads, results);
      } else {
        InlineVector<bool, 16> mask;
        mask.resize(n);
        for (size_t i = 0; i < n; ++i) mask[i] = node.edge(i) && is_wanted(node.edge(i).node.get());
        WantedScope scope(&node, mask.data());
        node.apply(grads, results);
      }
    } catch (const Error& e) {
      raise_from(node, e);
    }
    use.done();
  }
  if (tls_state.anomaly && checks_nan()) [[unlikely]]
    check_nan(node, results);
  if (node.hooks_or_null() != nullptr) [[unlikely]]
    run_post_hooks(node, results, grads);
  grads.clear();  // so that gradients handed on may be written over
  for (size_t i = 0; i < n; ++i) {
    const Edge& edge = node.edge(i);
    if (!edge || (selective_ && !is_wanted(edge.node.get()))) continue;
    if (results[i].defined()) [[likely]] {
      detail::validate_gradient(results[i], edge.node->output(edge.output_nr), node, i);
    } else if (!edge.node->runs_without_grad()) {
      continue;
    }
    add_gradient(edge, std::move(results[i]));
  }
}

}  // namespace facula
