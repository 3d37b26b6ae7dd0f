// Parts of reductions and their derivatives that are easier said in C++ than as a formula.

#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::composite {

namespace {

std::vector<bool> named_dims(std::optional<IntList> dim, int64_t ndim) {
  std::vector<bool> named(static_cast<size_t>(ndim), !dim || dim->empty());
  if (dim) {
    for (const int64_t d : *dim) named[static_cast<size_t>(wrap_dim(d, ndim))] = true;
  }
  return named;
}

// The product of all elements before each one along `dim`.
Tensor product_before(const Tensor& self, int64_t dim) {
  const int64_t n = self.size(dim);
  const Tensor one = ops::ones_like(ops::narrow(self, dim, 0, 1));
  if (n == 1) return one;
  const Tensor parts[] = {one, ops::cumprod(ops::narrow(self, dim, 0, n - 1), dim)};
  return ops::cat(parts, dim);
}

// a moved by one place along `dim`, towards the end or the start, with zeros coming in.
Tensor shifted(const Tensor& a, int64_t dim, bool towards_end) {
  const int64_t n = a.size(dim);
  const Tensor zero = ops::zeros_like(ops::narrow(a, dim, 0, 1));
  if (n == 1) return zero;
  const Tensor rest = ops::narrow(a, dim, towards_end ? 0 : 1, n - 1);
  const Tensor parts[] = {towards_end ? zero : rest, towards_end ? rest : zero};
  return ops::cat(parts, dim);
}

bool is_true(const Tensor& t) { return ops::local_scalar(t).to<bool>(); }

}  // namespace

Tensor expand_reduced(const Tensor& grad, IntList shape, std::optional<IntList> dim, bool keepdim) {
  const int64_t ndim = static_cast<int64_t>(shape.size());
  if (keepdim || ndim == 0 || grad.dim() == ndim) return ops::expand(grad, shape);
  const std::vector<bool> reduced = named_dims(dim, ndim);
  DimVector kept(shape.begin(), shape.end());
  for (size_t d = 0; d < kept.size(); ++d) {
    if (reduced[d]) kept[d] = 1;
  }
  return ops::expand(ops::reshape(grad, kept), shape);
}

Tensor scatter_back(const Tensor& grad, IntList shape, int64_t dim, const Tensor& indices, bool keepdim) {
  if (shape.empty()) return grad;
  const Tensor zero = ops::new_zeros(grad, shape);
  if (keepdim) return ops::scatter(zero, dim, indices, grad);
  const int64_t d = wrap_dim(dim, static_cast<int64_t>(shape.size()));
  return ops::scatter(zero, d, ops::unsqueeze(indices, d), ops::unsqueeze(grad, d));
}

Tensor scatter_add_back(const Tensor& grad, IntList shape, int64_t dim, const Tensor& indices) {
  if (shape.empty()) return grad;
  return ops::scatter_add(ops::new_zeros(grad, shape), dim, indices, grad);
}

Tensor take_along(const Tensor& self, int64_t dim, const Tensor& indices, bool keepdim) {
  if (self.dim() == 0) return self;
  if (keepdim) return ops::gather(self, dim, indices);
  const int64_t d = wrap_dim(dim, self.dim());
  return ops::squeeze_dim(ops::gather(self, d, ops::unsqueeze(indices, d)), d);
}

Tensor prod_backward(const Tensor& grad, const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  if (self.numel() == 0) return ops::zeros_like(self);
  if (!dim || self.dim() == 0) {
    const Tensor flat = ops::reshape(self, {self.numel()});
    return ops::reshape(prod_backward(ops::reshape(grad, {1}), flat, 0, true), self.sizes());
  }
  const int64_t d = wrap_dim(*dim, self.dim());
  const Tensor before = product_before(self, d);
  const Tensor after = ops::flip(product_before(ops::flip(self, {d}), d), {d});
  return ops::mul(keepdim ? grad : ops::unsqueeze(grad, d), ops::conj(ops::mul(before, after)));
}

std::tuple<Tensor, Tensor> affine_scan_backward(const Tensor& grad, const Tensor& a, const Tensor& result, int64_t dim,
                                                bool reverse) {
  if (a.numel() == 0) return {ops::zeros_like(a), ops::zeros_like(a)};
  if (a.dim() == 0) return {ops::zeros_like(a), grad};
  const Tensor later = ops::conj(shifted(a, dim, reverse));
  const Tensor grad_b = ops::_affine_scan(later, grad, dim, !reverse);
  return {ops::mul(grad_b, ops::conj(shifted(result, dim, !reverse))), grad_b};
}

// d result[j] / d x[i] is the product of x[k], k <= j, k != i: what stands before i times a recurrence
// over what stands after it.
Tensor cumprod_backward(const Tensor& grad, const Tensor& self, int64_t dim) {
  if (self.numel() == 0) return ops::zeros_like(self);
  if (self.dim() == 0) return grad;
  const Tensor after = ops::_affine_scan(ops::conj(shifted(self, dim, false)), grad, dim, true);
  return ops::mul(ops::conj(product_before(self, dim)), after);
}

Tensor sum_to_size(const Tensor& self, IntList size) {
  const int64_t extra = self.dim() - static_cast<int64_t>(size.size());
  bool fits = extra >= 0;
  DimVector dims;
  for (int64_t d = 0; d < self.dim() && fits; ++d) {
    const int64_t wanted = d < extra ? 1 : size[static_cast<size_t>(d - extra)];
    if (d < extra || (wanted == 1 && self.size(d) != 1)) {
      dims.push_back(d);
    } else {
      fits = wanted == self.size(d);
    }
  }
  FACULA_CHECK(fits, Shape, Operator{"sum_to_size"}, "size ", shape_string(size), " does not broadcast to self ",
               shape_string(self.sizes()));
  if (dims.empty()) return size.empty() ? ops::sum(self, IntList(), false) : self;
  return ops::reshape(ops::sum(self, IntList(dims), true), size);
}

Tensor checked_quantiles(const Tensor& q) {
  if (q.is_cpu() && !q.is_wrapped()) {
    const Tensor inside = ops::logical_and(ops::ge(q, wrapped_number(0)), ops::le(q, wrapped_number(1)));
    FACULA_CHECK(is_true(ops::all(inside)), Shape, Operator{"quantile"}, "the elements of q must be in [0, 1]");
  }
  return q;
}

bool equal(const Tensor& self, const Tensor& other) {
  FACULA_CHECK(self.device() == other.device(), Device, Operator{"equal"}, Argument{"self"}, " is on ",
               to_string(self.device()), ", other is on ", to_string(other.device()));
  if (self.sizes() != other.sizes()) return false;
  return is_true(ops::all(ops::eq(self, other)));
}

bool allclose(const Tensor& self, const Tensor& other, double rtol, double atol, bool equal_nan) {
  return is_true(ops::all(ops::isclose(self, other, rtol, atol, equal_nan)));
}

}  // namespace facula::composite
