// What vmap makes of operators that neither a rule nor other operators serve: indices that differ by row of the batch.
// They are named by the key `batch_fn`.
#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/core/checked.h"
#include "runtime/dispatch/levels.h"

namespace facula::composite {

namespace {

// The innermost level's batch.
class Batch {
 public:
  explicit Batch(const char* op) {
    const Level* level = tls_state.level;
    FACULA_CHECK(level != nullptr && level->kind == Level::Kind::Batch && level->size > 0, NotImplemented, Operator{op},
                 "it serves the rows of vmap() alone");
    number_ = level->number;
    size_ = level->size;
  }
  int64_t size() const { return size_; }
  bool has(const Tensor& t) const { return t.defined() && leave_level(t, number_).second >= 0; }
  // What `t` stands for, with the batch dim first where it has one.
  Tensor within(const Tensor& t) const {
    if (!t.defined()) return t;
    const auto [inner, dim] = leave_level(t, number_);
    return dim > 0 ? ops::movedim(inner, {dim}, {0}) : inner;
  }
  // The same with a batch dim in any case, and dims of 1 behind it up to `ndim` in all.
  Tensor rows(const Tensor& t, int64_t ndim) const {
    Tensor inner = within(t);
    if (!has(t)) {
      DimVector sizes(inner.sizes());
      sizes.insert(sizes.begin(), size_);
      inner = ops::expand(ops::unsqueeze(inner, 0), sizes);
    }
    while (inner.dim() < ndim) inner = ops::unsqueeze(inner, 1);
    return inner;
  }
  Tensor result(const Tensor& inner, int64_t dim) const { return enter_level(inner, number_, dim); }
  // 0, 1, 2, ... of the rows, with `ndim` dims.
  Tensor numbers(int64_t ndim, Device device) const {
    DimVector shape(static_cast<size_t>(ndim), 1);
    shape[0] = size_;
    return ops::view(ops::arange(size_, ScalarType::Int64, device), shape);
  }

 private:
  uint64_t number_;
  int64_t size_;
};

// Indices of a call, in the place of those that one row has.
struct Indices {
  std::vector<Tensor> list;  // for `self` with a batch dim first, where `self` has one
  bool batched = false;      // some index has a batch dim
  int64_t ndim = 0;          // dims that they make for a row
  int64_t count = 0;         // dims that they take
  int64_t before = 0;        // dims of a row's result before those; 0 where they come first
  bool adjacent = true;
};

Indices read(const Batch& batch, TensorList indices) {
  Indices found;
  int64_t last = -1;
  for (int64_t i = 0; i < std::ssize(indices); ++i) {
    const Tensor& index = indices[static_cast<size_t>(i)];
    if (!index.defined()) continue;
    found.batched = found.batched || batch.has(index);
    found.ndim = std::max(found.ndim, index.dim());
    if (last < 0) found.before = i;
    found.adjacent = found.adjacent && (last < 0 || last == i - 1);
    last = i;
    ++found.count;
  }
  if (!found.adjacent) found.before = 0;
  for (const Tensor& index : indices) {
    found.list.push_back(batch.has(index) ? batch.rows(index, found.ndim + 1) : batch.within(index));
  }
  return found;
}

// Where the dims of a row's result stand in that of the whole batch, which has dims of indices first: from (batch,
// row's order) to (batch, indices' dims, others).
DimVector order_of(const Indices& of, int64_t ndim) {
  DimVector order{0};
  for (int64_t d = 0; d < of.ndim; ++d) order.push_back(1 + of.before + d);
  for (int64_t d = 0; d < ndim; ++d) {
    if (d < of.before || d >= of.before + of.ndim) order.push_back(1 + d);
  }
  return order;
}
DimVector inverse(const DimVector& order) {
  DimVector back(order.size());
  for (size_t i = 0; i < order.size(); ++i) back[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  return back;
}

// With the number of the row as the first index, or all of the rows where the indices are shared.
void prepend_rows(const Batch& batch, Indices& indices, Device device) {
  indices.list.insert(indices.list.begin(), indices.batched ? batch.numbers(indices.ndim + 1, device) : Tensor());
}

}  // namespace

Tensor index_long_batched(const Tensor& self, TensorList given) {
  const Batch batch("index_long");
  Indices indices = read(batch, given);
  const int64_t ndim = self.dim() - indices.count + indices.ndim;
  if (!batch.has(self)) {  // the dims of indices, the batch among them, stand together
    FACULA_CHECK(indices.batched, NotImplemented, Operator{"index_long"}, "nothing differs by row");
    return batch.result(ops::index_long(batch.within(self), indices.list), indices.before);
  }
  prepend_rows(batch, indices, self.device());
  Tensor whole = ops::index_long(batch.within(self), indices.list);
  if (!indices.batched) return batch.result(whole, indices.adjacent ? 0 : indices.ndim);
  if (indices.before > 0) whole = ops::permute(whole, inverse(order_of(indices, ndim)));
  return batch.result(whole, 0);
}

Tensor index_put_long_batched(const Tensor& self, TensorList given, const Tensor& values, bool accumulate) {
  const Batch batch("index_put_long");
  Indices indices = read(batch, given);
  const int64_t ndim = self.dim() - indices.count + indices.ndim;
  FACULA_CHECK(values.dim() <= ndim, Shape, Operator{"index_put_long"}, "values have ", values.dim(),
               " dims, and what is written to ", ndim);
  prepend_rows(batch, indices, self.device());
  Tensor source = batch.rows(values, ndim + 1);
  if (indices.batched && indices.before > 0) {
    source = ops::permute(source, order_of(indices, ndim));
  } else if (!indices.batched && !indices.adjacent) {
    source = ops::movedim(source, {0}, {indices.ndim});
  }
  return batch.result(ops::index_put_long(batch.rows(self, self.dim() + 1), indices.list, source, accumulate), 0);
}

// Rows of a batch below each other, or its columns side by side, are those of one product.
Tensor mm_batched(const Tensor& self, const Tensor& mat2) {
  const Batch batch("mm");
  FACULA_CHECK(self.dim() == 2 && mat2.dim() == 2, NotImplemented, Operator{"mm"}, "both must be matrices");
  const int64_t n = self.size(0), columns = mat2.size(1);
  if (batch.has(self) && batch.has(mat2)) return batch.result(ops::bmm(batch.within(self), batch.within(mat2)), 0);
  if (batch.has(self)) {
    const Tensor high = ops::reshape(batch.within(self), DimVector{checked_mul(batch.size(), n), self.size(1)});
    return batch.result(ops::view(ops::mm(high, batch.within(mat2)), DimVector{batch.size(), n, columns}), 0);
  }
  const Tensor wide = ops::movedim(batch.within(mat2), {0}, {1});
  const Tensor product =
      ops::mm(batch.within(self), ops::reshape(wide, DimVector{mat2.size(0), batch.size() * columns}));
  return batch.result(ops::view(product, DimVector{n, batch.size(), columns}), 1);
}

// Rows of weights one behind the other are the weights of one call, whose indices count through all.
Tensor embedding_backward_batched(const Tensor& gradient, const Tensor& indices, int64_t num_weights,
                                  int64_t padding_idx, bool by_frequency) {
  const Batch batch("embedding_backward");
  const int64_t width = gradient.size(-1), count = indices.numel();
  if (!batch.has(indices)) {  // gradients beside each other are those of one call of wide weights
    const Tensor wide =
        ops::reshape(ops::movedim(batch.within(gradient), {0}, {-2}), DimVector{count, batch.size() * width});
    const Tensor sums = ops::embedding_backward(wide, ops::reshape(batch.within(indices), DimVector{count}),
                                                num_weights, padding_idx, by_frequency);
    return batch.result(ops::view(sums, DimVector{num_weights, batch.size(), width}), 1);
  }
  const Tensor at = ops::reshape(batch.within(indices), DimVector{batch.size(), count});
  Tensor rows = ops::reshape(batch.rows(gradient, gradient.dim() + 1), DimVector{batch.size(), count, width});
  if (padding_idx >= 0) {
    const Tensor padded = ops::eq(at, wrapped_number(Scalar(padding_idx)));
    rows = ops::masked_fill(rows, ops::unsqueeze(padded, -1), Scalar(0));
  }
  const Tensor first = ops::mul(batch.numbers(2, at.device()), wrapped_number(Scalar(num_weights)));
  const Tensor sums = ops::embedding_backward(ops::reshape(rows, DimVector{batch.size() * count, width}),
                                              ops::reshape(ops::add(at, first), DimVector{batch.size() * count}),
                                              checked_mul(batch.size(), num_weights), -1, by_frequency);
  return batch.result(ops::view(sums, DimVector{batch.size(), num_weights, width}), 0);
}

// The strides are about a row: each gets memory of its own, laid out as the row that the function sees.
Tensor as_strided_scatter_batched(const Tensor& self, const Tensor& src, IntList size, IntList stride,
                                  std::optional<int64_t> storage_offset) {
  const Batch batch("as_strided_scatter");
  FACULA_CHECK(size.size() == stride.size(), Value, Operator{"as_strided_scatter"}, size.size(), " sizes but ",
               stride.size(), " strides");
  FACULA_CHECK(src.sizes() == size, Shape, Operator{"as_strided_scatter"}, Argument{"src"}, " must be ",
               shape_string(size), ", not ", shape_string(src.sizes()));
  const bool first = !self.is_view() || self.impl()->base->offset == self.offset();
  FACULA_CHECK(first && is_non_overlapping_and_dense(self.sizes(), self.strides()), Runtime,
               Operator{"as_strided_scatter"}, Argument{"self"},
               " must be dense and start where its row does; clone() it first");
  const Tensor like = batch.has(self) ? self : batch.result(batch.rows(self, self.dim() + 1), 0);
  const DimVector strides(self.strides());
  const Tensor result = make_as(like, Meta{DimVector(self.sizes()), self.dtype(), self.device(), strides}, false);
  ops::copy_(result, self);
  ops::copy_(ops::as_strided(result, size, stride, storage_offset.value_or(0)), src);
  return result;
}

// The number of a true element of the mask among those of its row says which of `source` it gets.
Tensor masked_scatter_batched(const Tensor& self, const Tensor& mask, const Tensor& source) {
  const Batch batch("masked_scatter");
  FACULA_CHECK(source.numel() > 0 && source.dtype() == self.dtype() && mask.dtype() == ScalarType::Bool, NotImplemented,
               Operator{"masked_scatter"}, "there is nothing to take, or nothing that fits");
  const DimVector sizes = broadcast_shapes(self.sizes(), mask.sizes());
  DimVector whole(sizes);
  whole.insert(whole.begin(), batch.size());
  const int64_t ndim = std::ssize(whole);
  const Tensor chosen = ops::expand(batch.rows(mask, ndim), whole);
  const DimVector lines{batch.size(), numel_of(sizes)};
  const Tensor number = ops::sub(ops::cumsum(ops::reshape(chosen, lines), 1), wrapped_number(Scalar(1)));
  const Tensor elements = ops::reshape(batch.rows(source, source.dim() + 1), DimVector{batch.size(), source.numel()});
  const Tensor taken = ops::gather(elements, 1, ops::clamp(number, Scalar(0)));
  return batch.result(ops::where(chosen, ops::reshape(taken, whole), ops::expand(batch.rows(self, ndim), whole)), 0);
}

Tensor searchsorted_batched(const Tensor& sorted_sequence, const Tensor& self, bool out_int32, bool right,
                            std::optional<std::string_view> side, const Tensor& sorter) {
  const Batch batch("searchsorted");
  const bool shared = !batch.has(sorted_sequence) && !batch.has(sorter);
  if (shared && sorted_sequence.dim() == 1) {
    return batch.result(ops::searchsorted(batch.within(sorted_sequence), batch.within(self), out_int32, right, side,
                                          batch.within(sorter)),
                        0);
  }
  Tensor values = batch.rows(self, self.dim() + 1);
  const DimVector sizes(values.sizes());
  if (sorted_sequence.dim() == 1) values = ops::reshape(values, DimVector{batch.size(), self.numel()});
  const Tensor order = sorter.defined() ? batch.rows(sorter, sorter.dim() + 1) : Tensor();
  const Tensor found =
      ops::searchsorted(batch.rows(sorted_sequence, sorted_sequence.dim() + 1), values, out_int32, right, side, order);
  return batch.result(ops::reshape(found, sizes), 0);
}

}  // namespace facula::composite
