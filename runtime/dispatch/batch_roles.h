// A call for all rows of a batch by the roles that its arguments have; for batching.cpp.
#pragma once

#include <algorithm>
#include <vector>

#include "runtime/dispatch/argument_list.h"
#include "runtime/dispatch/core_operators.h"
#include "runtime/dispatch/levels.h"

namespace facula::detail {

using Kind = KernelArg::Kind;

inline const Wrapping* of_level(const Tensor& t, const Level& level) {
  const Wrapping* w = t.impl()->wrapping;
  return w != nullptr && w->level == level.number ? w : nullptr;
}
inline bool is_batched(const Tensor& t, const Level& level) {
  const Wrapping* w = of_level(t, level);
  return w != nullptr && w->dim >= 0;
}
inline Tensor inner_of(const Tensor& t, const Level& level) {
  const Wrapping* w = of_level(t, level);
  return w != nullptr ? w->inner : t;
}
// With the batch dim first, where there is one.
inline Tensor front(const Tensor& t, const Level& level) {
  const Wrapping* w = of_level(t, level);
  if (w == nullptr) return t;
  return w->dim > 0 ? core_operators().move_dim(w->inner, w->dim, 0) : w->inner;
}
// With a batch dim first in any case.
inline Tensor all_rows(const Tensor& t, const Level& level) {
  if (is_batched(t, level)) return front(t, level);
  const Tensor inner = inner_of(t, level);
  DimVector sizes(inner.sizes());
  sizes.insert(sizes.begin(), level.size);
  return core_operators().expand(core_operators().add_dim(inner, 0), sizes);
}

inline bool has_batched(const KernelArg& arg, const Level& level) {
  bool found = false;
  for_each_tensor(arg, [&](const Tensor& t) { found = found || is_batched(t, level); });
  return found;
}

inline const Tensor* first_tensor(std::span<const KernelArg> args) {
  const Tensor* first = nullptr;
  for (const KernelArg& arg : args) {
    if (first == nullptr) for_each_tensor(arg, [&](const Tensor& t) { first = first == nullptr ? &t : first; });
  }
  return first;
}

inline DimVector ints_of(const KernelArg& arg) {
  if (arg.at == nullptr) return {};
  if (arg.kind == Kind::Int) return DimVector{*static_cast<const int64_t*>(arg.at)};
  return DimVector(*static_cast<const IntList*>(arg.at));
}

class ByRoles {
 public:
  ByRoles(const OperatorEntry& op, const BatchRule& rule, std::span<const KernelArg> args, const Level& level)
      : op_(op), roles_(rule.arguments), results_(rule.results), args_(args), level_(level), inner_(args) {
    const Tensor* first = first_tensor(args);
    ndim_ = first != nullptr ? first->dim() : 0;
    for (const KernelArg& arg : args) for_each_tensor(arg, [&](const Tensor& t) { most_ = std::max(most_, t.dim()); });
    for (size_t i = 0; i < args.size(); ++i) {  // dims of a result of stated sizes
      if (roles_[i] == BatchRole::Sizes) ndim_ = static_cast<int64_t>(ints_of(args[i]).size());
    }
    for (size_t i = 0; i < args.size(); ++i) {
      const BatchRole role = roles_[i];
      scalar_ = scalar_ || (ndim_ == 0 && (role == BatchRole::Dim || role == BatchRole::Reduced));
    }
  }

  bool serves() const {
    for (size_t i = 0; i < args_.size(); ++i) {
      if (roles_[i] == BatchRole::Alone && has_batched(args_[i], level_)) return false;
      if ((roles_[i] == BatchRole::Channels || roles_[i] == BatchRole::Fold) && level_.size == 0) return false;
      if (args_[i].kind == Kind::Format && args_[i].at != nullptr &&
          *static_cast<const MemoryFormat*>(args_[i].at) > MemoryFormat::Preserve) {
        return false;  // of so many dims as the function sees
      }
    }
    return true;
  }

  void call(Variant variant, Stack& results) {
    for (size_t i = 0; i < args_.size(); ++i) tensors(i);
    for (size_t i = 0; i < args_.size(); ++i) numbers(i);
    const int form = static_cast<int>(variant);
    const size_t from = results.size();
    op_.invoke[form](op_.forms[form], inner_, results);
    for (size_t i = from; i < results.size(); ++i) {
      const BatchRole role = i - from < results_.size() ? results_[i - from] : BatchRole::Front;
      if (auto* t = std::get_if<Tensor>(&results[i]); t != nullptr && t->defined()) finish(*t, role);
      if (auto* list = std::get_if<std::vector<Tensor>>(&results[i])) {
        for (Tensor& t : *list) finish(t, role);
      }
    }
  }

 private:
  void tensors(size_t i) {
    if (args_[i].kind != Kind::Tensor && args_[i].kind != Kind::Tensors) return;
    const CoreOperators& core = core_operators();
    const BatchRole role = roles_[i];
    inner_.change(i, [&](const Tensor& t) {
      if (role == BatchRole::Alone) return inner_of(t, level_);
      Tensor rows = all_rows(t, level_);
      if (role == BatchRole::Aligned) {
        for (int64_t d = t.dim(); d < most_; ++d) rows = core.add_dim(rows, 1);
      }
      if (role == BatchRole::Fold || role == BatchRole::Channels) {
        const size_t at = role == BatchRole::Fold ? 0 : 1;
        DimVector sizes(t.sizes());
        FACULA_CHECK(sizes.size() > at, Shape, Operator{op_.name}, "an input has ", sizes.size(), " dims, needed are ",
                     at + 1, " at least");
        sizes[at] *= level_.size;
        return core.reshape(at == 0 ? rows : core.move_dim(rows, 0, 1), sizes);
      }
      if (scalar_ && t.dim() == 0) return core.add_dim(rows, 1);
      return rows;
    });
  }

  int64_t dim(int64_t d, int64_t ndim) const { return wrap_dim(d, ndim, op_.name) + 1; }

  void numbers(size_t i) {
    const KernelArg& arg = args_[i];
    switch (roles_[i]) {
      case BatchRole::Dim:
        if (arg.at == nullptr) return;
        return dims(i, ints_of(arg), ndim_);
      case BatchRole::NewDim:
        return dims(i, ints_of(arg), ndim_ + 1);
      case BatchRole::Reduced: {
        DimVector given = ints_of(arg);
        if (!given.empty()) return dims(i, std::move(given), ndim_);
        if (arg.kind == Kind::Int) return flatten(i);
        given.resize(static_cast<size_t>(std::max<int64_t>(ndim_, 1)));
        for (size_t d = 0; d < given.size(); ++d) given[d] = static_cast<int64_t>(d);
        return dims(i, std::move(given), ndim_);
      }
      case BatchRole::Groups:
        return inner_.set(i, *static_cast<const int64_t*>(arg.at) * level_.size);
      case BatchRole::Fold: {  // sizes of a tensor that is folded
        if (arg.kind != Kind::Ints) return;
        DimVector sizes = ints_of(arg);
        if (!sizes.empty()) sizes[0] *= level_.size;
        return inner_.set(i, std::move(sizes));
      }
      case BatchRole::Order: {
        DimVector order = ints_of(arg);
        for (int64_t& d : order) d = dim(d, ndim_);
        order.insert(order.begin(), 0);
        return inner_.set(i, std::move(order));
      }
      case BatchRole::Sizes:
      case BatchRole::Expanded: {
        DimVector sizes = ints_of(arg);
        if (roles_[i] == BatchRole::Expanded) align(sizes.size());
        for (int64_t& s : sizes) {
          if (s == -1 && roles_[i] == BatchRole::Sizes) s = missing_size(sizes);
        }
        sizes.insert(sizes.begin(), level_.size);
        return inner_.set(i, std::move(sizes));
      }
      case BatchRole::Strides: {
        DimVector strides = ints_of(arg);
        if (op_.is_view) check_row(i, strides);
        strides.insert(strides.begin(), first_tensor(inner_)->strides()[0]);
        return inner_.set(i, std::move(strides));
      }
      default:
        return;
    }
  }

  // A view of stated strides stays within what the row has, or what it is a view of: its neighbours are other rows.
  void check_row(size_t at, const DimVector& strides) const {
    const Tensor& rows = *first_tensor(inner_);
    int64_t first = 0, last = -1, from = rows.offset();
    const auto add = [&](const Tensor& t) {
      int64_t end = t.offset();
      for (size_t d = 1; d < t.sizes().size(); ++d) end += (t.sizes()[d] - 1) * t.strides()[d];
      first = last < 0 ? t.offset() : std::min(first, t.offset());
      last = std::max(last, end);
    };
    add(rows);
    const Tensor& seen = *first_tensor(args_);
    if (seen.is_view()) {
      const Tensor base(intrusive_ptr<TensorImpl>::share(seen.impl()->base.get()));
      if (is_batched(base, level_)) {
        const Tensor whole = front(base, level_);
        if (whole.strides()[0] == rows.strides()[0]) add(whole);
      }
    }
    DimVector sizes;
    for (size_t i = 0; i < args_.size(); ++i) {
      if (roles_[i] == BatchRole::Sizes) sizes = ints_of(args_[i]);
      if (i > at && args_[i].kind == Kind::Int && args_[i].at != nullptr) {
        from = *static_cast<const int64_t*>(args_[i].at);
      }
    }
    int64_t to = from;
    for (size_t d = 0; d < std::min(sizes.size(), strides.size()); ++d) {
      if (sizes[d] == 0) return;
      int64_t step = 0;
      if (__builtin_mul_overflow(sizes[d] - 1, strides[d], &step) || __builtin_add_overflow(to, step, &to)) return;
    }
    FACULA_CHECK(rows.numel() > 0 && from >= first && to <= last, Runtime, Operator{op_.name}, "a view of shape ",
                 shape_string(sizes), " with strides ", shape_string(strides), " has elements ", from, " to ", to,
                 " of the memory, and within vmap() it must stay within its row, elements ", first, " to ", last,
                 " of the first one");
  }

  void dims(size_t i, DimVector list, int64_t ndim) {
    for (int64_t& d : list) d = dim(d, ndim);
    if (args_[i].kind == Kind::Int) return inner_.set(i, list[0]);
    inner_.set(i, std::move(list));
  }

  // `int? dim`: without one, the operator counts elements through all dims.
  void flatten(size_t i) {
    if (!scalar_) {
      for (size_t k = 0; k < args_.size(); ++k) {
        inner_.change(k, [&](const Tensor& t) {
          const int64_t each = args_[k].kind == Kind::Tensor ? static_cast<const Tensor*>(args_[k].at)->numel()
                                                             : t.numel() / std::max<int64_t>(level_.size, 1);
          const DimVector sizes{level_.size, each};
          return core_operators().reshape(t, sizes);
        });
      }
    }
    flattened_ = true;
    inner_.set(i, int64_t{1});
  }

  // The first tensor with leading dims of 1, so that it has `ndim`.
  void align(size_t ndim) {
    for (size_t k = 0; k < args_.size(); ++k) {
      inner_.change(k, [&](const Tensor& t) {
        Tensor wider = t;
        for (size_t d = static_cast<size_t>(t.dim()) - 1; d < ndim; ++d) wider = core_operators().add_dim(wider, 1);
        return wider;
      });
    }
  }

  int64_t missing_size(const DimVector& sizes) const {
    int64_t known = 1;
    FACULA_CHECK(std::count(sizes.begin(), sizes.end(), -1) == 1, Value, Operator{op_.name},
                 "one size may be -1, not several: ", shape_string(sizes));
    for (const int64_t s : sizes) known *= s == -1 ? 1 : s;
    const int64_t numel = first_tensor(args_)->numel();
    return known > 0 && numel % known == 0 ? numel / known : -1;
  }

  void finish(Tensor& t, BatchRole role) {
    const CoreOperators& core = core_operators();
    if (role == BatchRole::Fold || role == BatchRole::Channels) {
      const size_t at = role == BatchRole::Fold ? 0 : 1;
      DimVector sizes(t.sizes());
      if (sizes.size() <= at) return;  // was not asked for
      sizes[at] /= std::max<int64_t>(level_.size, 1);
      sizes.insert(sizes.begin() + at, level_.size);
      t = core.reshape(t, sizes);
      if (at > 0) t = core.move_dim(t, 1, 0);
    } else if (scalar_ && t.dim() == 2) {
      t = core.reshape(t, DimVector{level_.size});
    } else if (flattened_ && t.dim() == 2) {  // with its dims kept
      DimVector sizes(static_cast<size_t>(ndim_ + 1), 1);
      sizes[0] = level_.size;
      t = core.reshape(t, sizes);
    }
  }

  const OperatorEntry& op_;
  std::span<const BatchRole> roles_, results_;
  std::span<const KernelArg> args_;
  const Level& level_;
  ArgumentList inner_;
  int64_t ndim_ = 0;     // dims of the first tensor, as the function sees it
  int64_t most_ = 0;     // dims of the tensor that has most
  bool scalar_ = false;  // it has none, and gets one for an operator along a dim
  bool flattened_ = false;
};

}  // namespace facula::detail
