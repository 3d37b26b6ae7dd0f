// The meaning of index expressions, for runtime/.
#include "runtime/dispatch/indexing.h"

#include <algorithm>
#include <vector>

#include "facula/ops.h"
#include "runtime/dispatch/core_operators.h"

namespace facula::indexing {

namespace {

bool is_mask(const Tensor& t) { return t.dtype() == ScalarType::Bool || t.dtype() == ScalarType::UInt8; }

// Dims of self that an item uses up.
int64_t dims_used(const Item& item) {
  switch (item.kind) {
    case Kind::Int:
    case Kind::Slice:
      return 1;
    case Kind::Tensor:
      return is_mask(item.tensor) ? item.tensor.dim() : 1;
    default:
      return 0;
  }
}

// A 0-d integer tensor whose value can be read acts as that integer.
bool acts_as_int(const Item& item) {
  return item.kind == Kind::Tensor && item.tensor.dim() == 0 && is_integral(item.tensor.dtype()) &&
         !is_mask(item.tensor) && item.tensor.is_cpu() && !item.tensor.is_wrapped();
}

int64_t read_int(const Tensor& t) {
  return visit_dtype(t.dtype(), [&]<typename T>(std::type_identity<T>) -> int64_t {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<int64_t>(*with_data(t, "index").data<T>());
    } else {
      return 0;
    }
  });
}

void check_mask(const Tensor& self, const Tensor& mask, int64_t dim) {
  for (int64_t d = 0; d < mask.dim(); ++d) {
    const int64_t have = self.sizes()[static_cast<size_t>(dim + d)];
    const int64_t want = mask.sizes()[static_cast<size_t>(d)];
    FACULA_CHECK(have == want, Index, Operator{"index"}, "a mask of shape ", shape_string(mask.sizes()),
                 " does not fit a tensor of shape ", shape_string(self.sizes()), ": dimension ", dim + d, " has size ",
                 have, ", the mask's has ", want);
  }
}

// A mask may have no places along dims that have some.
bool fits_or_is_empty(const Tensor& self, const Tensor& mask, int64_t dim) {
  bool fits = true;
  for (int64_t d = 0; d < mask.dim(); ++d) fits = fits && (mask.size(d) == 0 || mask.size(d) == self.size(dim + d));
  return fits;
}

struct Basic {
  Tensor view;
  std::vector<Tensor> indices;  // by dim of `view`; empty when all was basic
  DimVector reversed;           // dims of `view` that are still to be
};

Tensor select(const Tensor& self, int64_t dim, int64_t index) {
  FACULA_CHECK(self.dim() > 0, Index, Operator{"index"},
               "a 0-d tensor cannot be indexed with an int; use tensor.item() for its number");
  const int64_t size = self.sizes()[static_cast<size_t>(dim)];
  FACULA_CHECK(index >= -size && index < size, Index, Operator{"index"}, Argument{"index"}, " ", index,
               " is out of range for dimension ", dim, " of size ", size);
  return ops::select(self, dim, index < 0 ? index + size : index);
}

// A slice as in Python; of a negative step, from its last element to the first, which is to be reversed.
Tensor rising_slice(const Tensor& self, int64_t dim, int64_t start, int64_t stop, int64_t step) {
  FACULA_CHECK(self.dim() > 0, Index, Operator{"index"}, "a 0-d tensor cannot be sliced");
  FACULA_CHECK(step != 0, Value, Operator{"index"}, "the step of a slice cannot be zero");
  const int64_t size = self.sizes()[static_cast<size_t>(dim)];
  const int64_t below = step < 0 ? -1 : 0;  // the ends, before which nothing is
  const auto clamp = [=](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, below, size + below); };
  const int64_t from = start == Item::kUnset ? (step < 0 ? size - 1 : 0) : clamp(start);
  const int64_t to = stop == Item::kUnset ? (step < 0 ? -1 : size) : clamp(stop);
  if (step > 0) return ops::slice(self, dim, from, std::max(from, to), step);
  if (from <= to) return ops::slice(self, dim, 0, 0, 1);
  return ops::slice(self, dim, from - (from - to - 1) / -step * -step, from + 1, -step);
}

Tensor slice(const Tensor& self, int64_t dim, int64_t start, int64_t stop, int64_t step) {
  const Tensor t = rising_slice(self, dim, start, stop, step);
  return step < 0 ? ops::flip(t, {{dim}}) : t;
}

// Does the basic part; what is left is for index() and index_put_().
Basic apply_basic(const Tensor& self, std::span<const Item> items) {
  int64_t used = 0;
  int ellipses = 0;
  for (const Item& item : items) {
    used += dims_used(item);
    ellipses += item.kind == Kind::Ellipsis;
  }
  FACULA_CHECK(ellipses <= 1, Index, Operator{"index"}, "an index can have one ellipsis ('...') only");
  FACULA_CHECK(used <= self.dim(), Index, Operator{"index"}, "too many indices: the tensor has ", self.dim(),
               " dimensions, but ", used, " were indexed");
  Basic result{self, {}, {}};
  int64_t dim = 0;    // of result.view
  int64_t place = 0;  // in result.indices, where a mask of n dims takes one place for them all
  const auto skip = [&](int64_t dims) {
    dim += dims;
    place += dims;
  };
  const auto add_index = [&](Tensor t, int64_t dims) {
    result.indices.resize(static_cast<size_t>(place++));
    result.indices.push_back(std::move(t));
    dim += dims;
  };
  for (const Item& item : items) {
    switch (item.kind) {
      case Kind::Int:
        result.view = select(result.view, dim, item.start);
        break;
      case Kind::Slice:
        if (item.start != Item::kUnset || item.stop != Item::kUnset || item.step != 1) {
          result.view = rising_slice(result.view, dim, item.start, item.stop, item.step);
          if (item.step < 0) result.reversed.push_back(dim);
        }
        skip(1);
        break;
      case Kind::NewAxis:
        result.view = ops::unsqueeze(result.view, dim);
        skip(1);
        break;
      case Kind::Ellipsis:
        skip(self.dim() - used);
        break;
      case Kind::Bool: {
        result.view = ops::unsqueeze(result.view, dim);
        Tensor flag = make_empty({1}, ScalarType::Bool);
        *flag.data<bool>() = item.start != 0;
        add_index(std::move(flag), 1);
        break;
      }
      case Kind::Tensor: {
        const Tensor& t = item.tensor;
        if (acts_as_int(item)) {
          result.view = select(result.view, dim, read_int(t));
          break;
        }
        if (is_mask(t)) {
          if (t.dim() == 0) {
            result.view = ops::unsqueeze(result.view, dim);
            add_index(ops::unsqueeze(t, 0), 1);
            break;
          }
          if (t.numel() == 0 && fits_or_is_empty(result.view, t, dim)) {  // picks nothing, as in NumPy
            for (int64_t d = 0; d < t.dim(); ++d) add_index(make_empty({0}, ScalarType::Int64, t.device()), 1);
            break;
          }
          check_mask(result.view, t, dim);
          add_index(t, t.dim());
          break;
        }
        FACULA_CHECK(is_integral(t.dtype()), Index, Operator{"index"},
                     "tensors used as indices must hold integers or bools, not ", dtype_name(t.dtype()));
        add_index(t, 1);
        break;
      }
    }
  }
  return result;
}

// Leading dims of size 1 that the target lacks are dropped, as in x[0] = value of shape (1, n).
Tensor fit_value(const Tensor& value, int64_t ndim) {
  if (value.dim() <= ndim) return value;
  Tensor v = value;
  while (v.dim() > ndim && v.sizes()[0] == 1) v = ops::select(v, 0, 0);
  return v;
}

Tensor get(const Tensor& self, std::span<const Item> items) {
  Basic b = apply_basic(self, items);
  if (!b.reversed.empty()) b.view = ops::flip(b.view, b.reversed);  // strides are not negative: a copy
  if (!b.indices.empty()) return ops::index(b.view, b.indices);
  // x[...] and x[:] are views too, never x itself.
  return b.view.is_same(self) ? ops::view(self, self.sizes()) : b.view;
}

void set(const Tensor& self, std::span<const Item> items, const Tensor& value) {
  const Basic b = apply_basic(self, items);
  if (b.indices.empty()) {
    Tensor v = fit_value(value, b.view.dim());
    if (!b.reversed.empty()) v = ops::flip(ops::expand(v, b.view.sizes()), b.reversed);
    ops::copy_(b.view, v, false);
    return;
  }
  Tensor v = value;
  if (v.dtype() != self.dtype() || (v.dim() > 0 && v.device() != self.device())) {
    v = core_operators().cast(v, self.dtype(), self.device());
  }
  if (b.reversed.empty()) {
    ops::index_put_(b.view, b.indices, v, false);
    return;
  }
  const Tensor turned = ops::flip(b.view, b.reversed);
  ops::index_put_(turned, b.indices, v, false);
  ops::copy_(b.view, ops::flip(turned, b.reversed), false);
}

[[maybe_unused]] const bool installed = (operators = {select, slice, get, set}, true);

}  // namespace

}  // namespace facula::indexing
