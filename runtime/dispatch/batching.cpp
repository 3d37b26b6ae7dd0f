// One call for a whole batch: by rule, by the operator's decomposition, or row by row.
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

#include "runtime/core/generator.h"
#include "runtime/core/warning.h"
#include "runtime/dispatch/argument_list.h"
#include "runtime/dispatch/autocast.h"
#include "runtime/dispatch/batch_roles.h"
#include "runtime/dispatch/core_operators.h"
#include "runtime/dispatch/decomposed.h"
#include "runtime/dispatch/levels.h"
#include "runtime/iterate/result_type.h"

namespace facula {

namespace {

struct Fallbacks {
  std::mutex mutex;
  std::unordered_map<const OperatorEntry*, uint64_t> counts;
  std::unordered_set<const OperatorEntry*> told;
};
Fallbacks& fallbacks() {
  static auto* const made = new Fallbacks;
  return *made;
}
std::atomic<Fallback> fallback_mode{Fallback::Warn};

void note_fallback(const OperatorEntry& op) {
  const Fallback mode = fallback_mode.load(std::memory_order_relaxed);
  FACULA_CHECK(mode != Fallback::Error, Runtime, Operator{op.name},
               "it has no rule for vmap() here and would run row by row, which vmap_fallback('error') refuses; its "
               "schema is ",
               op.schema);
  bool first = false;
  {
    std::lock_guard lock(fallbacks().mutex);
    ++fallbacks().counts[&op];
    first = mode == Fallback::Warn && fallbacks().told.insert(&op).second;
  }
  if (first) {
    warn("vmap(): ", op.name, " has no rule for this call and runs row by row, which is slow; its schema is ",
         op.schema, ". func.vmap_fallback('quiet') keeps this from being said");
  }
}

}  // namespace

std::vector<std::pair<const char*, uint64_t>> batch_fallbacks() {
  std::vector<std::pair<const char*, uint64_t>> list;
  std::lock_guard lock(fallbacks().mutex);
  for (const auto& [op, count] : fallbacks().counts) list.emplace_back(op->name, count);
  return list;
}

void reset_batch_fallbacks() {
  std::lock_guard lock(fallbacks().mutex);
  fallbacks().counts.clear();
  fallbacks().told.clear();
}

Fallback exchange_fallback(Fallback mode) { return fallback_mode.exchange(mode, std::memory_order_relaxed); }

namespace detail {

namespace {

void wrap_all(const Level& level, Stack& results, size_t from = 0) {
  const auto wrap = [&](Tensor& t) {
    if (!t.defined()) return;
    // A result that was not asked for is empty, whatever the batch.
    const bool absent = t.numel() == 0 && (t.dim() == 0 || t.sizes()[0] != level.size);
    t = make_wrapped(std::move(t), level.number, absent ? -1 : 0);
  };
  for (size_t i = from; i < results.size(); ++i) {
    if (auto* t = std::get_if<Tensor>(&results[i])) wrap(*t);
    if (auto* list = std::get_if<std::vector<Tensor>>(&results[i])) {
      for (Tensor& t : *list) wrap(t);
    }
  }
}

// Views of a level are followed by the autograd engine as others are.
void link_views(Stack& results, const Tensor& of) {
  const auto link = [&](const Tensor& t) {
    if (t.is_wrapped() && t.impl()->wrapping->inner.is_view()) set_base(t, of);
  };
  for (const Value& v : results) {
    if (const auto* t = std::get_if<Tensor>(&v)) link(*t);
    if (const auto* list = std::get_if<std::vector<Tensor>>(&v)) {
      for (const Tensor& t : *list) link(t);
    }
  }
}

void check_written(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, const Level& level) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (!is_written(op, variant, args, i)) continue;
    for_each_tensor(args[i], [&](const Tensor& t) {
      FACULA_CHECK(is_batched(t, level), Runtime, Operator{op.name},
                   "a tensor that all rows of the batch share would be written to in place, with values that differ by "
                   "row; use the out-of-place form, or let vmap() map over that tensor too");
    });
  }
}

// ---- operators of elements ----

// A 0-d tensor with a batch dim has dims to those who decide on the result's dtype, but must promote as what it is.
void fix_promotion(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, ArgumentList& inner) {
  ResultType wanted, found;
  const auto promotes = [&](size_t i) {
    return args[i].kind == Kind::Tensor && args[i].at != nullptr && (op.masks >> i & 1u) == 0;
  };
  int count = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!promotes(i)) continue;
    ++count;
    wanted.add(*static_cast<const Tensor*>(args[i].at));
    found.add(*static_cast<const Tensor*>(inner[i].at));
  }
  if (count < 2 || wanted.get() == found.get()) return;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!promotes(i) || is_written(op, variant, args, i)) continue;
    inner.change(i, [&](const Tensor& t) {
      return t.is_wrapped_number() ? t : core_operators().cast(t, wanted.get(), t.device());
    });
  }
}

bool by_elements(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, const Level& level,
                 Stack& results) {
  int64_t ndim = 0;
  bool any = false;
  for (const KernelArg& arg : args) {
    for_each_tensor(arg, [&](const Tensor& t) {
      ndim = std::max(ndim, t.dim());
      any = any || is_batched(t, level);
    });
  }
  if (variant == Variant::InPlace || op.writes != 0) {
    const Tensor& self = *static_cast<const Tensor*>(args[0].at);
    FACULA_CHECK(self.dim() == ndim, Shape, Operator{op.name}, Argument{"self"}, " is ", shape_string(self.sizes()),
                 " and another input has more dims, ", ndim, "; an in-place form cannot change the shape");
  }
  const CoreOperators& core = core_operators();
  ArgumentList inner(args, [&](const Tensor& t) {
    if (any && !is_batched(t, level)) return inner_of(t, level);
    any = true;  // a draw for all rows: of the first tensor, though they share it
    Tensor rows = all_rows(t, level);
    for (int64_t d = t.dim(); d < ndim; ++d) rows = core.add_dim(rows, 1);
    return rows;
  });
  fix_promotion(op, variant, args, inner);
  const int form = static_cast<int>(variant);
  op.invoke[form](op.forms[form], inner, results);
  wrap_all(level, results);
  return true;
}

// ---- row by row ----

// Draws of one generator, each row the same ones.
class SameDraws {
 public:
  SameDraws(std::span<const KernelArg> args, const Tensor* first) {
    Generator given;
    Device device{};
    for (const KernelArg& arg : args) {
      if (arg.at == nullptr) continue;
      if (arg.kind == Kind::Generator) given = *static_cast<const Generator*>(arg.at);
      if (arg.kind == Kind::Device) device = *static_cast<const Device*>(arg.at);
    }
    if (first != nullptr) device = first->device();
    generator_ = &generator_for(given, given ? given->device() : device, nullptr);
    state_ = generator_->state();
  }
  void again() const { generator_->set_state(state_); }

 private:
  GeneratorImpl* generator_;
  GeneratorImpl::State state_;
};

Value stacked(std::vector<Stack>& rows, size_t i) {
  const Value& first = rows[0][i];
  const auto column = [&](auto&& part) {
    std::vector<Tensor> list;
    for (Stack& row : rows) list.push_back(part(row[i]));
    return list[0].defined() ? core_operators().stack(list) : Tensor();
  };
  if (std::holds_alternative<Tensor>(first)) {
    return column([](Value& v) -> Tensor { return std::get<Tensor>(v); });
  }
  const size_t n = std::get<std::vector<Tensor>>(first).size();
  std::vector<Tensor> list;
  for (size_t k = 0; k < n; ++k) {
    list.push_back(column([k](Value& v) -> Tensor { return std::get<std::vector<Tensor>>(v)[k]; }));
  }
  return list;
}

void check_rows(const OperatorEntry& op, const std::vector<Stack>& rows) {
  for (const Stack& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const auto* t = std::get_if<Tensor>(&row[i]);
      const auto* first = std::get_if<Tensor>(&rows[0][i]);
      FACULA_CHECK(t == nullptr || !t->defined() || t->sizes() == first->sizes(), Values, Operator{op.name},
                   "the shape of the result depends on values and differs by row of the batch that vmap() goes "
                   "through: ",
                   shape_string(first->sizes()), " and ", shape_string(t->sizes()));
      if (const auto* list = std::get_if<std::vector<Tensor>>(&row[i])) {
        FACULA_CHECK(list->size() == std::get<std::vector<Tensor>>(rows[0][i]).size(), Values, Operator{op.name},
                     "the number of results differs by row of the batch that vmap() goes through");
      }
    }
  }
}

// A row is a view of the batch: written to it is, but it cannot get another size.
void check_sizes(const OperatorEntry& op, std::span<const KernelArg> args, const ArgumentList& row) {
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i].kind != Kind::Tensor || args[i].at == nullptr) continue;
    FACULA_CHECK(static_cast<const Tensor*>(args[i].at)->sizes() == static_cast<const Tensor*>(row[i].at)->sizes(),
                 Runtime, Operator{op.name}, "it changes the size of a tensor, which cannot be done within vmap()");
  }
}

void by_rows(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, const Level& level,
             Stack& results, const SameDraws* same) {
  if (level.size > 0) note_fallback(op);
  const CoreOperators& core = core_operators();
  const int form = static_cast<int>(variant);
  std::vector<Stack> rows;
  const int64_t count = std::max<int64_t>(level.size, 1);
  for (int64_t r = 0; r < count; ++r) {
    const ArgumentList row(args, [&](const Tensor& t) -> Tensor {
      const Wrapping* w = of_level(t, level);
      if (w == nullptr) return t;
      if (w->dim < 0) return w->inner;
      if (level.size > 0) return core.row(w->inner, w->dim, r);
      return core.zeros(Meta{DimVector(t.sizes()), t.dtype(), t.device(), {}});  // of an empty batch, for the shapes
    });
    if (same != nullptr && r > 0) same->again();
    if (level.size == 0 && (op.writes != 0 || variant != Variant::Functional)) return;
    op.invoke[form](op.forms[form], row, rows.emplace_back());
    if (op.writes != 0) check_sizes(op, args, row);
  }
  check_rows(op, rows);
  for (size_t i = 0; i < rows[0].size(); ++i) {
    Value v = stacked(rows, i);
    if (level.size == 0) {
      if (auto* t = std::get_if<Tensor>(&v); t != nullptr && t->defined()) {
        DimVector sizes(t->sizes());
        sizes[0] = 0;
        *t = core.zeros(Meta{sizes, t->dtype(), t->device(), {}});
      }
    }
    results.push_back(std::move(v));
  }
  wrap_all(level, results);
}

// Does autograd follow it, at a level further out or below all?
bool is_followed(const Tensor& t) {
  const auto follows = [](const TensorImpl& i) {
    return i.requires_grad || (i.layers & layer_bit(Layer::Autograd)) != 0;
  };
  const Tensor* at = &t;
  for (;;) {
    const TensorImpl& i = *at->impl();
    if (follows(i) || (i.base && follows(*i.base))) return true;
    if (i.wrapping == nullptr) return false;
    at = &i.wrapping->inner;
  }
}

void written_as_functional(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, Stack&) {
  const size_t outs = variant == Variant::Out ? op.outputs : 1;
  const size_t inputs = variant == Variant::Out ? args.size() - outs : args.size();
  // What is kept for a backward must not be what is written to then.
  bool followed = false;
  for (const KernelArg& arg : args)
    for_each_tensor(arg, [&](const Tensor& t) { followed = followed || is_followed(t); });
  std::vector<KernelArg> given(args.begin(), args.begin() + static_cast<std::ptrdiff_t>(inputs));
  Tensor unwritten;
  if (variant == Variant::InPlace && followed) {
    unwritten = core_operators().clone(*static_cast<const Tensor*>(args[0].at));
    given[0].at = &unwritten;
  }
  Stack values;
  op.invoke[0](op.forms[0], given, values);
  for (size_t i = 0; i < outs; ++i) {
    const Tensor& to = *static_cast<const Tensor*>(args[variant == Variant::Out ? inputs + i : 0].at);
    const Tensor& value = std::get<Tensor>(values[i]);
    FACULA_CHECK(to.sizes() == value.sizes(), Shape, Operator{op.name}, "the tensor to write to is ",
                 shape_string(to.sizes()), " and the result ", shape_string(value.sizes()),
                 "; within vmap() it must have that shape already");
    FACULA_CHECK(can_cast(value.dtype(), to.dtype()), Dtype, Operator{op.name}, "the result is ",
                 dtype_name(value.dtype()), " and the tensor to write to ", dtype_name(to.dtype()),
                 ", which cannot hold it");
    core_operators().copy_into(to, value);
  }
}

bool by_decomposition(const OperatorEntry& op, std::span<const KernelArg> args, Stack& results) {
  if (op.decomposition == nullptr) return false;
  try {
    as_one([&] { op.invoke[0](op.decomposition, args, results); });
    return true;
  } catch (const Error& e) {
    pass_refusal(e);
    results.clear();
    return false;
  }
}

// Is it more than a composition?
bool has_kernel(const OperatorEntry& op) {
  return op.any_kernel != nullptr || op.interface_kernel != nullptr ||
         std::any_of(std::begin(op.kernels), std::end(op.kernels), [](AnyFn fn) { return fn != nullptr; });
}

// Fills a tensor with the same numbers in each row: drawn for one row, where no other tensor has a part in them.
bool draws_once(const OperatorEntry& op, std::span<const KernelArg> args, Level& level) {
  int tensors = 0;
  for (const KernelArg& arg : args) for_each_tensor(arg, [&](const Tensor&) { ++tensors; });
  if (tensors != 1) return false;
  if (level.size == 0) return true;
  const Tensor& all = *first_tensor(args);
  const Descent below(level);
  const CoreOperators& core = core_operators();
  const Tensor rows = front(all, level);
  const Tensor one = make_as(core.row(rows, 0, 0), Meta{DimVector(all.sizes()), all.dtype(), all.device(), {}}, false);
  const ArgumentList drawn(args, [&](const Tensor&) { return one; });
  Stack none;
  op.invoke[0](op.forms[0], drawn, none);
  core.copy_into(rows, core.expand(core.add_dim(one, 0), rows.sizes()));
  return true;
}

// One call for all rows, whose kernel draws for the first and serves the others with the same numbers. False where it
// does not, or where there are other batches around.
bool draws_same_elements(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, Level& level,
                         Stack& results) {
  if (op.batch != BatchKind::Elements || level.size == 0) return false;
  for (const Level* outer = level.outer; outer != nullptr; outer = outer->outer) {
    if (outer->kind == Level::Kind::Batch) return false;
  }
  DimVector sizes;
  for (const KernelArg& arg : args) {
    for_each_tensor(arg, [&](const Tensor& t) { sizes = broadcast_shapes(sizes, t.sizes()); });
  }
  const struct Rows {
    DrawnRows before = detail::tls_drawn_rows;
    explicit Rows(int64_t elements) { detail::tls_drawn_rows = {elements, false}; }
    ~Rows() { detail::tls_drawn_rows = before; }
  } rows(numel_of(sizes));
  const Descent below(level);
  by_elements(op, variant, args, level, results);
  if (detail::tls_drawn_rows.served || numel_of(sizes) == 0) return true;
  results.clear();
  return false;
}

// What draws numbers, through its parts: with a batch dim in every tensor, so that each row draws its own.
bool draws_by_parts(const OperatorEntry& op, std::span<const KernelArg> args, Level& level, Stack& results) {
  if (op.decomposition == nullptr || op.writes != 0) return false;
  try {
    const ArgumentList rows(args, [&](const Tensor& t) {
      const Descent below(level);
      return is_batched(t, level) ? t : make_wrapped(all_rows(t, level), level.number, 0);
    });
    as_one([&] { op.invoke[0](op.decomposition, rows, results); });
    return true;
  } catch (const Error& e) {  // they fill memory that has no batch dim; what is wrong is said row by row
    if (e.kind() == ErrorKind::OutOfMemory) throw;
    results.clear();
    return false;
  }
}

}  // namespace

void call_batch(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, Level& level,
                Stack& results) {
  bool batched = false;
  for (const KernelArg& arg : args) batched = batched || has_batched(arg, level);
  FACULA_CHECK(!batched || !op.gives_numbers, Values, Operator{op.name},
               "it reads a value, which differs by row of the batch that vmap() goes through; compute with tensors "
               "instead (where() in place of a branch), or do this outside of vmap()");
  if (op.is_random) {
    FACULA_CHECK(level.randomness != Randomness::Error, Runtime, Operator{op.name},
                 "random numbers are drawn within vmap(); pass randomness='different' for numbers of its own in every "
                 "row, or randomness='same' for the same ones in all");
    if (level.randomness == Randomness::Same) {
      if (batched && (variant != Variant::Functional || op.writes != 0)) check_written(op, variant, args, level);
      if (batched && op.writes != 0 && draws_once(op, args, level)) return;
      const SameDraws same(args, first_tensor(args));
      if (batched && draws_same_elements(op, variant, args, level, results)) return;
      if (batched && op.writes == 0 && variant == Variant::Functional && !has_kernel(op)) {
        same.again();
        if (by_decomposition(op, args, results)) return;
      }
      if (batched) {
        same.again();
        const Descent below(level);
        return by_rows(op, variant, args, level, results, &same);
      }
      const ArgumentList inner(args, [&](const Tensor& t) { return inner_of(t, level); });
      const Descent below(level);
      return op.invoke[static_cast<int>(variant)](op.forms[static_cast<int>(variant)], inner, results);
    }
  }
  if (variant == Variant::Out || (variant == Variant::InPlace && op.batch != BatchKind::Elements)) {
    return written_as_functional(op, variant, args, results);
  }
  if (variant == Variant::InPlace || op.writes != 0) check_written(op, variant, args, level);
  bool served = false;
  {
    const Descent below(level);
    if (op.batch == BatchKind::Elements && by_elements(op, variant, args, level, results)) return;
    for (const BatchRule& of : op.batch_rules) {
      ByRoles rule(op, of, args, level);
      if (!rule.serves()) continue;
      const size_t from = results.size();
      rule.call(variant, results);
      wrap_all(level, results, from);
      served = true;
      break;
    }
  }
  if (served) {
    if (op.is_view) link_views(results, *static_cast<const Tensor*>(args[0].at));
    return;
  }
  if (op.batch != BatchKind::Rows) {
    if (op.is_random ? draws_by_parts(op, args, level, results) : by_decomposition(op, args, results)) return;
  }
  const Descent below(level);
  by_rows(op, variant, args, level, results, nullptr);
}

}  // namespace detail

}  // namespace facula
