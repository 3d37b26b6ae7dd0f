// Products that are arrangements of mm, bmm, mv and dot; they differentiate through these.
#include <algorithm>
#include <vector>

#include "facula/kernels.h"
#include "facula/ops.h"

namespace facula::composite {
namespace {

DimVector joined(IntList a, std::initializer_list<int64_t> b) {
  DimVector all(a);
  for (const int64_t v : b) all.push_back(v);
  return all;
}

[[noreturn]] void mismatch(const Tensor& self, const Tensor& other) {
  raise(ErrorKind::Shape, Operator{"matmul"}, "self ", shape_string(self.sizes()), " and other ",
        shape_string(other.sizes()), " cannot be multiplied: the last size of self is ", self.size(-1),
        ", it must equal the ", other.dim() == 1 ? "size" : "second to last size", " of other, ",
        other.size(other.dim() == 1 ? 0 : -2));
}

}  // namespace

Tensor matmul(const Tensor& self, const Tensor& other) {
  FACULA_CHECK(self.dim() >= 1 && other.dim() >= 1, Shape, Operator{"matmul"},
               "both arguments must have at least 1 dim, self is ", self.dim(), "-d and other is ", other.dim(),
               "-d; use `*` to scale");
  if (self.size(-1) != other.size(other.dim() == 1 ? 0 : -2)) mismatch(self, other);
  const int64_t a = self.dim(), b = other.dim();
  if (a == 1 && b == 1) return ops::dot(self, other);
  if (a == 2 && b == 1) return ops::mv(self, other);
  if (a == 1 && b == 2) return ops::squeeze_dim(ops::mm(ops::unsqueeze(self, 0), other), 0);
  if (a == 2 && b == 2) return ops::mm(self, other);
  const int64_t m = a == 1 ? 1 : self.size(-2), k = self.size(-1), n = b == 1 ? 1 : other.size(-1);
  if (a >= 3 && b <= 2) {  // one matrix for all: its rows are all rows
    const IntList lead = self.sizes().first(static_cast<size_t>(a - 1));
    const int64_t rows = numel_of(lead);
    const Tensor flat = ops::reshape(self, IntList{rows, k});
    if (b == 1) return ops::reshape(ops::mv(flat, other), lead);
    return ops::reshape(ops::mm(flat, other), joined(lead, {n}));
  }
  const IntList lead_a = self.sizes().first(static_cast<size_t>(std::max<int64_t>(a - 2, 0)));
  const IntList lead_b = other.sizes().first(static_cast<size_t>(std::max<int64_t>(b - 2, 0)));
  const DimVector lead = broadcast_shapes(lead_a, lead_b, "matmul");
  const int64_t batch = numel_of(lead);
  const auto batched = [&](const Tensor& t, int64_t rows, int64_t cols) {
    const DimVector full = joined(lead, {rows, cols});
    const Tensor wide = t.sizes() == IntList(full) ? t : ops::expand(t, full);
    return wide.dim() == 3 ? wide : ops::reshape(wide, IntList{batch, rows, cols});
  };
  const Tensor x = batched(a == 1 ? ops::unsqueeze(self, 0) : self, m, k);
  const Tensor y = batched(b == 1 ? ops::unsqueeze(other, 1) : other, k, n);
  DimVector shape = lead;
  if (a > 1) shape.push_back(m);
  if (b > 1) shape.push_back(n);
  const Tensor product = ops::bmm(x, y);
  return product.sizes() == IntList(shape) ? product : ops::reshape(product, shape);
}

Tensor kron(const Tensor& self, const Tensor& other) {
  const int64_t n = std::max(self.dim(), other.dim());
  DimVector a, b, shape;
  for (int64_t d = 0; d < n; ++d) {
    const int64_t da = d - (n - self.dim()), db = d - (n - other.dim());
    const int64_t sa = da < 0 ? 1 : self.size(da), sb = db < 0 ? 1 : other.size(db);
    a.push_back(sa);
    a.push_back(1);
    b.push_back(1);
    b.push_back(sb);
    shape.push_back(sa * sb);
  }
  // A Python number stays one, whose dtype does not count.
  const auto as = [](const Tensor& t, IntList sizes) { return t.impl()->wrapped_number ? t : ops::reshape(t, sizes); };
  return ops::reshape(ops::mul(as(self, a), as(other, b)), shape);
}

Tensor tensordot(const Tensor& self, const Tensor& other, IntList dims_self, IntList dims_other) {
  FACULA_CHECK(dims_self.size() == dims_other.size(), Shape, Operator{"tensordot"},
               "dims_self and dims_other must have the ", "same length, got ", dims_self.size(), " and ",
               dims_other.size());
  const auto split = [](const Tensor& t, IntList dims, const char* name) {
    DimVector summed, kept;
    std::vector<bool> seen(static_cast<size_t>(t.dim()), false);
    for (const int64_t dim : dims) {
      FACULA_CHECK(t.dim() > 0, Shape, Operator{"tensordot"}, name, " names a dim of a 0-d tensor");
      const int64_t d = wrap_dim(dim, t.dim(), "tensordot");
      FACULA_CHECK(!seen[static_cast<size_t>(d)], Shape, Operator{"tensordot"}, "dim ", d, " appears twice in ", name);
      seen[static_cast<size_t>(d)] = true;
      summed.push_back(d);
    }
    for (int64_t d = 0; d < t.dim(); ++d) {
      if (!seen[static_cast<size_t>(d)]) kept.push_back(d);
    }
    return std::pair(summed, kept);
  };
  const auto [sum_a, keep_a] = split(self, dims_self, "dims_self");
  const auto [sum_b, keep_b] = split(other, dims_other, "dims_other");
  Tensor a = self, b = other;
  int64_t inner = 1, rows = 1, cols = 1;
  for (size_t i = 0; i < sum_a.size(); ++i) {
    const int64_t na = self.size(sum_a[i]), nb = other.size(sum_b[i]);
    FACULA_CHECK(na == nb || na == 1 || nb == 1, Shape, Operator{"tensordot"},
                 "contracted dims need to match, but size ", na, " of dim ", dims_self[i],
                 " of self does not match size ", nb, " of dim ", dims_other[i], " of other");
    if (na == 1 && nb != 1) b = ops::sum(b, IntList{sum_b[i]}, true, b.dtype());
    if (nb == 1 && na != 1) a = ops::sum(a, IntList{sum_a[i]}, true, a.dtype());
    inner *= std::min(na, nb);
  }
  DimVector shape, order_a = keep_a, order_b = sum_b;
  for (const int64_t d : keep_a) {
    shape.push_back(self.size(d));
    rows *= self.size(d);
  }
  for (const int64_t d : keep_b) {
    shape.push_back(other.size(d));
    cols *= other.size(d);
    order_b.push_back(d);
  }
  for (const int64_t d : sum_a) order_a.push_back(d);
  const Tensor x = ops::reshape(ops::permute(a, order_a), IntList{rows, inner});
  const Tensor y = ops::reshape(ops::permute(b, order_b), IntList{inner, cols});
  return ops::reshape(ops::mm(x, y), shape);
}

namespace {

// Product of tensors[i..j] in the order that `split` chose.
Tensor chain_product(const std::vector<Tensor>& tensors, const std::vector<std::vector<size_t>>& split, size_t i,
                     size_t j) {
  if (i == j) return tensors[i];
  const size_t s = split[i][j];
  return ops::mm(chain_product(tensors, split, i, s), chain_product(tensors, split, s + 1, j));
}

Tensor multiply_chain(TensorList list, const char* op, bool vectors) {
  const size_t n = list.size();
  FACULA_CHECK(n >= (vectors ? 2u : 1u), Shape, Operator{op}, "expected at least ", vectors ? 2 : 1, " tensors, got ",
               n);
  std::vector<Tensor> tensors(list.begin(), list.end());
  const bool first = vectors && tensors[0].dim() == 1, last = vectors && tensors[n - 1].dim() == 1;
  if (first) tensors[0] = ops::unsqueeze(tensors[0], 0);
  if (last) tensors[n - 1] = ops::unsqueeze(tensors[n - 1], 1);
  for (size_t i = 0; i < n; ++i) {
    FACULA_CHECK(tensors[i].dim() == 2, Shape, Operator{op}, "tensor ", i, " is ", shape_string(list[i].sizes()),
                 ", expected a matrix", vectors && (i == 0 || i + 1 == n) ? " or a vector" : "");
    FACULA_CHECK(i == 0 || tensors[i - 1].size(1) == tensors[i].size(0), Shape, Operator{op}, "tensors ", i - 1, " ",
                 shape_string(list[i == 0 ? 0 : i - 1].sizes()), " and ", i, " ", shape_string(list[i].sizes()),
                 " cannot be multiplied");
  }
  // Cheapest order by dynamic programming (Cormen et al., Introduction to Algorithms, 15.2).
  std::vector<std::vector<double>> cost(n, std::vector<double>(n, 0));
  std::vector<std::vector<size_t>> split(n, std::vector<size_t>(n, 0));
  for (size_t width = 1; width < n; ++width) {
    for (size_t i = 0; i + width < n; ++i) {
      const size_t j = i + width;
      for (size_t s = i; s < j; ++s) {
        const double c = cost[i][s] + cost[s + 1][j] +
                         static_cast<double>(tensors[i].size(0)) * static_cast<double>(tensors[s].size(1)) *
                             static_cast<double>(tensors[j].size(1));
        if (s == i || c < cost[i][j]) {
          cost[i][j] = c;
          split[i][j] = s;
        }
      }
    }
  }
  Tensor product = chain_product(tensors, split, 0, n - 1);
  if (last) product = ops::squeeze_dim(product, 1);
  if (first) product = ops::squeeze_dim(product, 0);
  return product;
}

}  // namespace

Tensor multi_dot(TensorList tensors) { return multiply_chain(tensors, "multi_dot", true); }

Tensor chain_matmul(TensorList matrices) { return multiply_chain(matrices, "chain_matmul", false); }

}  // namespace facula::composite
