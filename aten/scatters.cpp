// Writing into a part of a tensor: the functional forms, and the backwards of views.
#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::any {

namespace {

void start_as(const Tensor& out, const Tensor& self) {
  if (!out.is_same(self)) ops::copy_(out, self);
}

}  // namespace

void select_scatter(const Tensor& self, const Tensor& src, int64_t dim, int64_t index, const Tensor& out) {
  start_as(out, self);
  ops::copy_(ops::select(out, dim, index), src);
}
void slice_scatter(const Tensor& self, const Tensor& src, int64_t dim, std::optional<int64_t> start,
                   std::optional<int64_t> end, int64_t step, const Tensor& out) {
  start_as(out, self);
  ops::copy_(ops::slice(out, dim, start, end, step), src);
}
void diagonal_scatter(const Tensor& self, const Tensor& src, int64_t offset, int64_t dim1, int64_t dim2,
                      const Tensor& out) {
  start_as(out, self);
  ops::copy_(ops::diagonal(out, offset, dim1, dim2), src);
}
void as_strided_scatter(const Tensor& self, const Tensor& src, IntList size, IntList stride,
                        std::optional<int64_t> storage_offset, const Tensor& out) {
  start_as(out, self);
  ops::copy_(ops::as_strided(out, size, stride, storage_offset), src);
}

void select_backward(const Tensor& grad, IntList, int64_t dim, int64_t index, const Tensor& out) {
  ops::fill_(out, 0);
  ops::copy_(ops::select(out, dim, index), grad);
}
void slice_backward(const Tensor& grad, IntList, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
                    int64_t step, const Tensor& out) {
  ops::fill_(out, 0);
  ops::copy_(ops::slice(out, dim, start, end, step), grad);
}
void diagonal_backward(const Tensor& grad, IntList, int64_t offset, int64_t dim1, int64_t dim2, const Tensor& out) {
  ops::fill_(out, 0);
  ops::copy_(ops::diagonal(out, offset, dim1, dim2), grad);
}
void unfold_backward(const Tensor& grad, IntList sizes, int64_t dimension, int64_t size, int64_t step,
                     const Tensor& out) {
  ops::fill_(out, 0);
  if (sizes.empty()) {
    if (size > 0) ops::copy_(out, ops::select(grad, -1, 0));
    return;
  }
  const int64_t dim = wrap_dim(dimension, static_cast<int64_t>(sizes.size()));
  const int64_t windows = grad.sizes()[static_cast<size_t>(dim)];
  const ScalarType wide = size > step ? compute_type(out.dtype()) : out.dtype();
  const Tensor sums = wide == out.dtype() ? out : ops::full(out.sizes(), 0, wide, out.device());
  for (int64_t i = 0; i < size; ++i) {  // the i-th element of every window: no two meet
    const int64_t end = i + (windows - 1) * step + 1;
    ops::add_(ops::slice(sums, dim, i, end, step), ops::select(grad, -1, i));
  }
  if (!sums.is_same(out)) ops::copy_(out, sums);
}

}  // namespace facula::any

namespace facula::shape {

Meta select_scattered(const Tensor& self, const Tensor& src, int64_t dim, int64_t index) {
  const Tensor part = any::select(self, dim, index);
  FACULA_CHECK(src.sizes() == part.sizes(), Shape, Operator{"select_scatter"}, Argument{"src"}, " must be ",
               shape_string(part.sizes()), ", not ", shape_string(src.sizes()));
  return {DimVector(self.sizes()), self.dtype(), self.device(), {}};
}
Meta slice_scattered(const Tensor& self, const Tensor& src, int64_t dim, std::optional<int64_t> start,
                     std::optional<int64_t> end, int64_t step) {
  const Tensor part = any::slice(self, dim, start, end, step);
  FACULA_CHECK(src.sizes() == part.sizes(), Shape, Operator{"slice_scatter"}, Argument{"src"}, " must be ",
               shape_string(part.sizes()), ", not ", shape_string(src.sizes()));
  return {DimVector(self.sizes()), self.dtype(), self.device(), {}};
}
Meta diagonal_scattered(const Tensor& self, const Tensor& src, int64_t offset, int64_t dim1, int64_t dim2) {
  const Tensor part = any::diagonal(self, offset, dim1, dim2);
  FACULA_CHECK(src.sizes() == part.sizes(), Shape, Operator{"diagonal_scatter"}, Argument{"src"}, " must be ",
               shape_string(part.sizes()), ", not ", shape_string(src.sizes()));
  return {DimVector(self.sizes()), self.dtype(), self.device(), {}};
}
// The layout of self stays, for it is what the strides are about.
Meta as_strided_scattered(const Tensor& self, const Tensor& src, IntList size, IntList stride) {
  FACULA_CHECK(size.size() == stride.size(), Value, Operator{"as_strided_scatter"}, size.size(), " sizes but ",
               stride.size(), " strides");
  FACULA_CHECK(src.sizes() == size, Shape, Operator{"as_strided_scatter"}, Argument{"src"}, " must be ",
               shape_string(size), ", not ", shape_string(src.sizes()));
  FACULA_CHECK(is_non_overlapping_and_dense(self.sizes(), self.strides()) && self.offset() == 0, Runtime,
               Operator{"as_strided_scatter"}, Argument{"self"},
               " must be dense and start at its storage; clone() it first");
  return {DimVector(self.sizes()), self.dtype(), self.device(), DimVector(self.strides())};
}
Meta of_size(const Tensor& grad, IntList sizes) { return {DimVector(sizes), grad.dtype(), grad.device(), {}}; }

}  // namespace facula::shape
