#include "runtime/dispatch/levels.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "runtime/dispatch/argument_list.h"
#include "runtime/dispatch/autocast.h"
#include "runtime/dispatch/compound.h"
#include "runtime/dispatch/core_operators.h"

namespace facula {

void (*exchange_dual_level)(std::shared_ptr<DualLevel>& with) = nullptr;
uint64_t (*level_of_backward)() = nullptr;
void (*call_compound)(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args,
                      Stack& results) = nullptr;

namespace {

constexpr LayerSet kAutograd = layer_bit(Layer::Autograd), kLevels = layer_bit(Layer::Batching);
constexpr LayerSet kAutocast = layer_bit(Layer::Autocast);
std::atomic<uint64_t> last_number{0};
thread_local bool tls_halted = false;

// Whether calls enter the autograd layer follows from the modes.
void set_modes(ThreadState& s, bool grad_enabled, bool forward_mode) {
  s.grad_enabled = grad_enabled;
  s.forward_mode = forward_mode;
  s.excluded = static_cast<LayerSet>(grad_enabled || forward_mode ? s.excluded & ~kAutograd : s.excluded | kAutograd);
}

Level& push(Level::Kind kind) {
  ThreadState& s = tls_state;
  auto* level = new Level;
  level->number = last_number.fetch_add(1, std::memory_order_relaxed) + 1;
  level->kind = kind;
  level->excluded = s.excluded;
  level->grad_enabled = s.grad_enabled;
  level->halted = tls_halted;
  level->forward_mode = s.forward_mode;
  level->outer = s.level;
  s.level = level;
  s.included |= kLevels;
  return *s.level;
}

const Level* find(const Level* from, uint64_t number) {
  while (from != nullptr && from->number != number) from = from->outer;
  return from;
}

void check_closed(uint64_t again) {
  FACULA_CHECK(again == 0 || find(tls_state.level, again) == nullptr, Runtime,
               "a function that a transform gave is called within that transform");
}

[[noreturn]] void raise_escaped(const char* op, const Tensor& t) {
  raise(ErrorKind::Runtime, Operator{op}, "a tensor of shape ", shape_string(t.sizes()),
        " comes from within a function transform (vmap, grad, jvp, ...) that has ended, or that runs on another "
        "thread; return what is needed from the transformed function instead of keeping it elsewhere");
}

// What a tensor of levels that are not open from `from` on stands for, where it is a constant of gradients there: it
// was made while a function was differentiated, and has no part in that. Of others itself.
const Tensor& settled(const Tensor& t, const Level* from) {
  const Tensor* at = &t;
  while (at->is_wrapped() && !is_compound(*at)) {
    const Wrapping& w = *at->impl()->wrapping;
    if (w.dim >= 0 || at->requires_grad() || find(from, w.level) != nullptr) break;
    at = &w.inner;
  }
  return *at;
}

bool is_outdated(const Tensor& t, const Level* from) {
  return t.is_wrapped() && !is_compound(t) && find(from, t.impl()->wrapping->level) == nullptr;
}

}  // namespace

uint64_t push_batch_level(int64_t size, Randomness randomness, uint64_t again) {
  check_closed(again);
  Level& level = push(Level::Kind::Batch);
  if (again != 0) level.number = again;
  level.size = size;
  level.randomness = randomness;
  return level.number;
}

uint64_t push_gradient_level(uint64_t again) {
  check_closed(again);
  Level& level = push(Level::Kind::Gradients);
  if (again != 0) level.number = again;
  exchange_dual_level(level.dual);
  set_modes(tls_state, true, false);
  tls_halted = false;
  return level.number;
}

void pop_level(uint64_t number) {
  ThreadState& s = tls_state;
  FACULA_CHECK(find(s.level, number) != nullptr, Runtime,
               "a function transform ends on another thread than it began on, or twice");
  for (bool last = false; !last;) {
    const std::unique_ptr<Level> level(s.level);
    last = level->number == number;
    s.level = level->outer;
    if (level->kind == Level::Kind::Gradients) {
      exchange_dual_level(level->dual);
      set_modes(s, level->grad_enabled, level->forward_mode);
      tls_halted = level->halted;
      s.excluded = level->excluded;
    }
  }
  if (s.level == nullptr) s.included &= static_cast<LayerSet>(~kLevels);
}

bool exchange_halted(bool halted) { return std::exchange(tls_halted, halted); }

bool levels_record() {
  for (const Level* level = tls_state.level; level != nullptr; level = level->outer) {
    if (level->kind == Level::Kind::Gradients && (level->grad_enabled || level->forward_mode)) return true;
  }
  return false;
}

size_t level_depth() {
  size_t depth = 0;
  for (const Level* level = tls_state.level; level != nullptr; level = level->outer) ++depth;
  return depth;
}

Tensor enter_level(const Tensor& t, uint64_t number, int64_t dim) {
  FACULA_CHECK(find(tls_state.level, number) != nullptr, Runtime, "the level of this function transform is not open");
  const Level* const outer = find(tls_state.level, number)->outer;
  const Tensor& given = settled(t, outer);
  if (is_outdated(given, outer)) raise_escaped(nullptr, t);
  return make_wrapped(given, number, dim);
}

std::pair<Tensor, int64_t> leave_level(const Tensor& t, uint64_t number) {
  if (!t.is_wrapped() || is_compound(t)) return {t, -1};
  const Wrapping& w = *t.impl()->wrapping;
  if (w.level == number) return {w.inner, w.dim};
  const Tensor& given = settled(t, tls_state.level);
  if (is_outdated(given, tls_state.level)) raise_escaped(nullptr, t);
  return {given, -1};
}

const Tensor& below_levels(const Tensor& t) {
  const Tensor* at = &t;
  while (at->is_wrapped() && !is_compound(*at)) at = &at->impl()->wrapping->inner;
  return *at;
}

Tensor made_within(Tensor t) {
  const Level* const level = tls_state.level;
  if (level == nullptr || level->kind != Level::Kind::Gradients) return t;
  if (t.is_wrapped() && t.impl()->wrapping->level == level->number) return t;
  return make_wrapped(std::move(t), level->number, -1);
}

bool has_batch_dims_of(const Tensor& t, const Tensor& of) {
  for (const Wrapping* w = of.impl()->wrapping; w != nullptr; w = w->inner.impl()->wrapping) {
    if (w->dim < 0) continue;
    const Wrapping* own = t.impl()->wrapping;
    while (own != nullptr && (own->level != w->level || own->dim < 0)) own = own->inner.impl()->wrapping;
    if (own == nullptr) return false;
  }
  return true;
}

namespace {

// Calls meanwhile are for no level.
class BelowLevels {
 public:
  BelowLevels() : level_(tls_state.level), included_(tls_state.included) {
    tls_state.level = nullptr;
    tls_state.included &= static_cast<LayerSet>(~kLevels);
  }
  ~BelowLevels() {
    tls_state.level = level_;
    tls_state.included = included_;
  }
  BelowLevels(const BelowLevels&) = delete;
  BelowLevels& operator=(const BelowLevels&) = delete;

 private:
  Level* level_;
  LayerSet included_;
};

}  // namespace

Tensor make_as(const Tensor& like, const Meta& meta, bool zeros) {
  if (!like.is_wrapped() || is_compound(like)) {
    const BelowLevels below;
    if (zeros) return core_operators().zeros(meta);
    return make_tensor(meta);
  }
  const Wrapping& w = *like.impl()->wrapping;
  if (w.dim < 0) return make_wrapped(make_as(w.inner, meta, zeros), w.level, -1);
  Meta whole = meta;
  const int64_t rows = w.inner.sizes()[static_cast<size_t>(w.dim)];
  whole.sizes.insert(whole.sizes.begin(), rows);
  if (!meta.strides.empty()) {
    int64_t extent = 1;
    for (size_t d = 0; d < meta.sizes.size(); ++d) extent += (meta.sizes[d] - 1) * meta.strides[d];
    whole.strides.insert(whole.strides.begin(), std::max<int64_t>(extent, 1));
  }
  return make_wrapped(make_as(w.inner, whole, zeros), w.level, 0);
}

namespace detail {

Descent::Descent(Level& level) : level_(level) {
  ThreadState& s = tls_state;
  excluded_ = s.excluded;
  included_ = s.included;
  grad_enabled_ = s.grad_enabled;
  halted_ = tls_halted;
  forward_mode_ = s.forward_mode;
  plain_tangents_ = s.plain_tangents;
  s.level = level.outer;
  if (s.level == nullptr) s.included &= static_cast<LayerSet>(~kLevels);
  if (level.kind == Level::Kind::Gradients) {
    exchange_dual_level(level.dual);
    set_modes(s, level.grad_enabled && !tls_halted, level.forward_mode);
    tls_halted = tls_halted || level.halted;
    s.plain_tangents = false;
  } else {
    set_modes(s, s.grad_enabled, s.forward_mode);
  }
}

Descent::~Descent() {
  ThreadState& s = tls_state;
  if (level_.kind == Level::Kind::Gradients) exchange_dual_level(level_.dual);
  s.level = &level_;
  s.excluded = excluded_;
  s.included = included_;
  s.grad_enabled = grad_enabled_;
  tls_halted = halted_;
  s.forward_mode = forward_mode_;
  s.plain_tangents = plain_tangents_;
}

namespace {

// What the arguments have to do with a level.
struct Standing {
  bool here = false;      // some tensor is of the level
  bool outdated = false;  // some tensor is of a level that has ended
  bool batched = false;   // and has a batch dim
  bool written = false;   // one that is written to belongs to an outer level
  LayerSet layers = 0;    // of those of the level
};

Standing standing_of(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, const Level& level) {
  Standing found;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool written = is_written(op, variant, args, i);
    for_each_tensor(args[i], [&](const Tensor& t) {
      const Wrapping* w = t.impl()->wrapping;
      if (w == nullptr || w->level != level.number) {
        found.outdated = found.outdated || is_outdated(t, level.outer);
        found.written = found.written || written;
        return;
      }
      found.here = true;
      found.batched = found.batched || w->dim >= 0;
      found.layers |= written ? layers_of_written(t) : layers_of(t);
    });
  }
  return found;
}

// After a change in place of the sizes of what tensors stand for.
void follow_sizes(std::span<const KernelArg> args) {
  for (const KernelArg& arg : args) {
    for_each_tensor(arg, [](const Tensor& t) {
      if (!t.is_wrapped() || t.impl()->wrapping->dim >= 0 || is_compound(t)) return;
      const TensorImpl& inner = *t.impl()->wrapping->inner.impl();
      TensorImpl& outer = *t.impl();
      if (outer.sizes == inner.sizes && outer.strides == inner.strides) return;
      outer.sizes = inner.sizes;
      outer.strides = inner.strides;
      outer.offset = inner.offset;
      outer.refresh();
    });
  }
}

// The innermost of several: results that are an argument as it was are the argument.
void wrap_results(const OperatorEntry& op, const ArgumentList& inner, std::span<const KernelArg> args, Level& level,
                  Stack& results) {
  const auto wrapped = [&](Tensor& t) {
    if (!t.defined()) return;
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].kind != KernelArg::Kind::Tensor || args[i].at == nullptr) continue;
      const Tensor& outer = *static_cast<const Tensor*>(args[i].at);
      if (!outer.is_same(t) && static_cast<const Tensor*>(inner[i].at)->is_same(t)) {
        t = outer;
        return;
      }
    }
    const bool view = op.is_view && t.is_view();
    t = make_wrapped(std::move(t), level.number, -1);
    if (view) set_base(t, *static_cast<const Tensor*>(args[0].at));
  };
  for (Value& v : results) {
    if (auto* t = std::get_if<Tensor>(&v)) wrapped(*t);
    if (auto* list = std::get_if<std::vector<Tensor>>(&v)) {
      for (Tensor& t : *list) wrapped(t);
    }
  }
}

// Results that are no argument become ones of the level.
void wrap_new(std::span<const KernelArg> args, Level& level, Stack& results) {
  const auto wrapped = [&](Tensor& t) {
    if (!t.defined() || t.is_view() || t.is_wrapped_number()) return;
    bool given = false;
    for (const KernelArg& arg : args) for_each_tensor(arg, [&](const Tensor& a) { given = given || a.is_same(t); });
    if (!given) t = make_wrapped(std::move(t), level.number, -1);
  };
  for (Value& v : results) {
    if (auto* t = std::get_if<Tensor>(&v)) wrapped(*t);
    if (auto* list = std::get_if<std::vector<Tensor>>(&v)) {
      for (Tensor& t : *list) wrapped(t);
    }
  }
}

// The call with constants of levels that have ended as what they stand for.
void call_settled(const OperatorEntry& op, int form, std::span<const KernelArg> args, Stack& results) {
  const Level* const from = tls_state.level;
  bool any = false;
  const ArgumentList known(args, [&](const Tensor& t) {
    any = any || t.is_wrapped();
    const Tensor& given = settled(t, from);
    if (is_outdated(given, from)) raise_escaped(op.name, t);
    return given;
  });
  FACULA_CHECK(any, Runtime, Operator{op.name}, "internal error: a level that is not open; please report it");
  op.invoke[form](op.forms[form], known, results);
}

}  // namespace

void set_base(const Tensor& view, const Tensor& of) {
  TensorImpl& t = *view.impl();
  const TensorImpl& from = *of.impl();
  t.base = from.base ? from.base : intrusive_ptr<TensorImpl>::share(of.impl());
  t.no_grad_view = !tls_state.grad_enabled || from.no_grad_view;
}

void call_in_level(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, Stack& results) {
  bool compound = false;
  for (const KernelArg& arg : args) for_each_tensor(arg, [&](const Tensor& t) { compound |= is_compound(t); });
  if (compound) [[unlikely]]
    return call_compound(op, variant, args, results);
  Level* const level = tls_state.level;
  const int form = static_cast<int>(variant);
  if (level == nullptr) [[unlikely]]
    return call_settled(op, form, args, results);
  const LayerSet given = static_cast<LayerSet>(active_layers(0) & op.layer_mask[form]);
  if ((given & kAutocast) != 0) {  // what is recorded is what is computed
    return op.invoke[form](op.layers[form][static_cast<int>(Layer::Autocast)], args, results);
  }
  const Standing standing = standing_of(op, variant, args, *level);
  if (standing.outdated) [[unlikely]]
    return call_settled(op, form, args, results);
  const bool draws = op.is_random && level->kind == Level::Kind::Batch;
  if (!standing.here && !draws) {
    {
      const Descent below(*level);
      op.invoke[form](op.forms[form], args, results);
    }
    // What is made within a function may be written to in place with values that are differentiated. Views are of what
    // was there before; what a backward pass makes on its way is its own, unless it is recorded (a function runs
    // again).
    if (level->kind == Level::Kind::Gradients && !op.is_view &&
        (tls_state.grad_enabled || level->number != level_of_backward())) {
      wrap_new(args, *level, results);
    }
    return;
  }
  if ((standing.layers & ~tls_state.excluded & kAutograd) != 0) {
    FACULA_CHECK(!standing.written, Runtime, Operator{op.name},
                 "a tensor from outside of the transformed function is written to in place, with values that are being "
                 "differentiated; make the change out of place, or pass the tensor to the function as an argument");
    if ((op.layer_mask[form] & kAutograd) != 0) {
      const ArgumentList lifted(args, [&](const Tensor& t) {
        const Wrapping* w = t.impl()->wrapping;
        return w != nullptr && w->level == level->number ? t : make_wrapped(t, level->number, -1);
      });
      return op.invoke[form](op.layers[form][static_cast<int>(Layer::Autograd)], lifted, results);
    }
    if (op.through_composite && variant == Variant::Functional) {
      return as_one([&] { op.invoke[form](op.decomposition, args, results); });
    }
  }
  if (standing.batched || draws) return call_batch(op, variant, args, *level, results);
  const ArgumentList inner(args, [&](const Tensor& t) {
    const Wrapping* w = t.impl()->wrapping;
    return w != nullptr && w->level == level->number ? w->inner : t;
  });
  {
    const Descent below(*level);
    op.invoke[form](op.forms[form], inner, results);
  }
  if (op.writes != 0) follow_sizes(args);
  wrap_results(op, inner, args, *level, results);
}

}  // namespace detail

}  // namespace facula
