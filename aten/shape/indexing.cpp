// Shape rules and argument checks of indexing operators.
#include <algorithm>

#include "aten/geometry.h"
#include "aten/shape/checks.h"
#include "facula/shapes.h"

namespace facula::shape {

namespace {

Meta same_as(const Tensor& self) { return {DimVector(self.sizes()), self.dtype(), self.device(), {}}; }

void check_index_dtype(const Tensor& index, const char* op, const char* name) {
  if (index.numel() == 0 && is_integral(index.dtype(), false)) return;  // no index is read
  FACULA_CHECK(index.dtype() == ScalarType::Int64 || index.dtype() == ScalarType::Int32, Index, Operator{op},
               Argument{name}, " must be int64 or int32, not ", dtype_name(index.dtype()));
}

void check_same_dtype(const Tensor& self, const Tensor& other, const char* op, const char* name) {
  FACULA_CHECK(self.dtype() == other.dtype(), Dtype, Operator{op}, Argument{name}, " must have the dtype of self, ",
               dtype_name(self.dtype()), ", not ", dtype_name(other.dtype()));
}

void check_same_device(const Tensor& self, const Tensor& other, const char* op, const char* name) {
  FACULA_CHECK(self.device() == other.device(), Device, Operator{op}, Argument{name}, " is on ",
               to_string(other.device()), ", self is on ", to_string(self.device()));
}

void check_vector(const Tensor& index, const char* op) {
  check_index_dtype(index, op, "index");
  FACULA_CHECK(index.dim() <= 1, Index, Operator{op}, Argument{"index"}, " must be 1-d or 0-d, not ",
               shape_string(index.sizes()));
}

void check_mask(const Tensor& mask, const char* op) {
  FACULA_CHECK(mask.dtype() == ScalarType::Bool, Dtype, Operator{op}, Argument{"mask"}, " must be bool, not ",
               dtype_name(mask.dtype()));
}

}  // namespace

Meta indexed(const Tensor& self, TensorList indices) {
  Meta meta = same_as(self);
  meta.sizes = index_layout(self.sizes(), indices, "index").sizes;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    FACULA_CHECK(self.sizes()[d] > 0 || numel_of(meta.sizes) == 0, Index, Operator{"index"}, "dim ", d, " of self, ",
                 shape_string(self.sizes()), ", has size 0 and cannot be indexed");
  }
  return meta;
}

Meta index_put(const Tensor& self, TensorList indices, const Tensor& values) {
  check_same_dtype(self, values, "index_put", "values");
  check_same_device(self, values, "index_put", "values");
  const DimVector target = indexed(self, indices).sizes;
  bool fits = values.sizes().size() <= target.size() || values.numel() == 1;
  for (size_t i = 1; fits && i <= std::min(values.sizes().size(), target.size()); ++i) {
    const int64_t have = values.sizes()[values.sizes().size() - i];
    fits = have == 1 || have == target[target.size() - i];
  }
  FACULA_CHECK(fits, Shape, Operator{"index_put"}, "values of shape ", shape_string(values.sizes()),
               " do not broadcast to the indexed part, which is ", shape_string(target));
  return same_as(self);
}

Meta index_selected(const Tensor& self, int64_t dim, const Tensor& index) {
  check_vector(index, "index_select");
  check_same_device(self, index, "index_select", "index");
  Meta meta = same_as(self);
  dim = wrap_dim(dim, self.dim(), "index_select");
  if (self.dim() == 0) {
    FACULA_CHECK(index.numel() == 1, Index, Operator{"index_select"},
                 "index for a 0-d self must have one element, not ", index.numel());
  } else {
    meta.sizes[static_cast<size_t>(dim)] = index.numel();
  }
  return meta;
}

namespace {

Meta written_along(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const char* op) {
  check_vector(index, op);
  check_same_dtype(self, source, op, "source");
  check_same_device(self, source, op, "source");
  check_same_device(self, index, op, "index");
  const size_t d = static_cast<size_t>(wrap_dim(dim, self.dim(), op));
  DimVector wanted(self.sizes());
  if (wanted.empty()) {
    FACULA_CHECK(source.numel() == 1 && index.numel() == 1, Index, Operator{op}, Argument{"self"},
                 " is 0-d, so index and source must have one element, not ", index.numel(), " and ", source.numel());
  } else {
    wanted[d] = index.numel();
    const bool scalar = source.dim() == 0 && self.dim() == 1 && index.numel() == 1;
    FACULA_CHECK(scalar || source.sizes() == IntList(wanted), Index, Operator{op}, Argument{"source"}, " must be ",
                 shape_string(wanted), " for self ", shape_string(self.sizes()), " and ", index.numel(),
                 " indices along dim ", d, ", not ", shape_string(source.sizes()));
  }
  return same_as(self);
}

}  // namespace

Meta index_added(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  FACULA_CHECK(
      category(self.dtype()) >= alpha.kind() || (is_integral(self.dtype(), true) && alpha.kind() <= Category::Integral),
      Dtype, Operator{"index_add"}, Argument{"alpha"}, " must not be of a higher kind than self, which is ",
      dtype_name(self.dtype()));
  return written_along(self, dim, index, source, "index_add");
}

Meta index_copied(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  return written_along(self, dim, index, source, "index_copy");
}

Meta index_filled(const Tensor& self, int64_t dim, const Tensor& index) {
  check_vector(index, "index_fill");
  check_same_device(self, index, "index_fill", "index");
  wrap_dim(dim, self.dim(), "index_fill");
  return same_as(self);
}

Meta filled_tensor(const Tensor& self, const Tensor& value) {
  FACULA_CHECK(value.dim() == 0, Shape, Operator{"fill"}, Argument{"value"}, " must be 0-d, not ",
               shape_string(value.sizes()));
  return same_as(self);
}

Meta index_filled_tensor(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  FACULA_CHECK(value.dim() == 0, Shape, Operator{"index_fill"}, Argument{"value"}, " must be 0-d, not ",
               shape_string(value.sizes()));
  return index_filled(self, dim, index);
}

namespace {

// index may be shorter than `tensor` in every dim but the named one.
void check_along(const Tensor& tensor, const char* name, int64_t dim, const Tensor& index, bool with_dim,
                 const char* op) {
  if (index.numel() == 0) return;
  const int64_t rank = std::max<int64_t>(tensor.dim(), 1);
  FACULA_CHECK(rank == std::max<int64_t>(index.dim(), 1), Shape, Operator{op}, Argument{"index"},
               " must have as many dims as ", name, ", which is ", shape_string(tensor.sizes()), "; it is ",
               shape_string(index.sizes()));
  for (int64_t d = 0; d < rank; ++d) {
    if (d == dim && !with_dim) continue;
    const int64_t have = tensor.dim() > 0 ? tensor.sizes()[static_cast<size_t>(d)] : 1;
    const int64_t asked = index.dim() > 0 ? index.sizes()[static_cast<size_t>(d)] : 1;
    FACULA_CHECK(asked <= have, Shape, Operator{op}, Argument{"index"}, " is ", shape_string(index.sizes()),
                 " and exceeds ", name, ", ", shape_string(tensor.sizes()), ", in dim ", d);
  }
}

}  // namespace

Meta gathered(const Tensor& self, int64_t dim, const Tensor& index) {
  check_index_dtype(index, "gather", "index");
  check_same_device(self, index, "gather", "index");
  dim = wrap_dim(dim, self.dim(), "gather");
  check_along(self, "self", dim, index, false, "gather");
  return {DimVector(index.sizes()), self.dtype(), self.device(), {}};
}

Meta scattered(const Tensor& self, int64_t dim, const Tensor& index) {
  check_index_dtype(index, "scatter", "index");
  check_same_device(self, index, "scatter", "index");
  dim = wrap_dim(dim, self.dim(), "scatter");
  check_along(self, "self", dim, index, false, "scatter");
  return same_as(self);
}

Meta scattered_from(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  check_same_dtype(self, src, "scatter", "src");
  check_same_device(self, src, "scatter", "src");
  check_along(src, "src", wrap_dim(dim, self.dim(), "scatter"), index, true, "scatter");
  return scattered(self, dim, index);
}

Meta scatter_reduced(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, std::string_view reduce) {
  const bool ordered = reduce == "amax" || reduce == "amin";
  FACULA_CHECK(ordered || reduce == "sum" || reduce == "prod" || reduce == "mean", Value, Operator{"scatter_reduce"},
               Argument{"reduce"}, " must be sum, prod, mean, amax or amin, not '", reduce, "'");
  FACULA_CHECK(!ordered || !self.is_complex(), Runtime, Operator{"scatter_reduce"}, "complex numbers have no ", reduce);
  return scattered_from(self, dim, index, src);
}

Meta embedded(const Tensor& weight, const Tensor& indices) {
  FACULA_CHECK(weight.dim() == 2, Shape, Operator{"embedding"}, Argument{"weight"}, " must have 2 dims, not ",
               shape_string(weight.sizes()));
  check_index_dtype(indices, "embedding", "indices");
  check_same_device(weight, indices, "embedding", "indices");
  Meta meta{DimVector(indices.sizes()), weight.dtype(), weight.device(), {}};
  meta.sizes.push_back(weight.sizes()[1]);
  return meta;
}

Meta embedding_grad(const Tensor& grad, const Tensor& indices, int64_t num_weights) {
  check_index_dtype(indices, "embedding_backward", "indices");
  check_floating(grad, "embedding_backward", "gradient");
  FACULA_CHECK(num_weights >= 0, Runtime, Operator{"embedding_backward"}, Argument{"num_weights"},
               " must not be negative, not ", num_weights);
  FACULA_CHECK(grad.dim() == indices.dim() + 1 &&
                   std::ranges::equal(grad.sizes().first(indices.sizes().size()), indices.sizes()),
               Runtime, Operator{"embedding_backward"}, Argument{"gradient"}, " is ", shape_string(grad.sizes()),
               ", indices are ", shape_string(indices.sizes()), "; it has a row for each of them");
  return {{num_weights, grad.sizes().back()}, grad.dtype(), grad.device(), {}};
}

Meta masked_filled(const Tensor& self, const Tensor& mask) {
  check_mask(mask, "masked_fill");
  check_same_device(self, mask, "masked_fill", "mask");
  return {broadcast_shapes(self.sizes(), mask.sizes(), "masked_fill"), self.dtype(), self.device(), {}};
}

Meta masked_filled_tensor(const Tensor& self, const Tensor& mask, const Tensor& value) {
  FACULA_CHECK(value.dim() == 0, Shape, Operator{"masked_fill"}, Argument{"value"}, " must be 0-d, not ",
               shape_string(value.sizes()));
  return masked_filled(self, mask);
}

Meta masked_scattered(const Tensor& self, const Tensor& mask, const Tensor& source) {
  check_mask(mask, "masked_scatter");
  check_same_dtype(self, source, "masked_scatter", "source");
  return {broadcast_shapes(self.sizes(), mask.sizes(), "masked_scatter"), self.dtype(), self.device(), {}};
}

Meta counted(const Tensor& self, int64_t count) { return {{count}, self.dtype(), self.device(), {}}; }

Meta positions(const Tensor& self, int64_t count) {
  return {{count, self.dim()}, ScalarType::Int64, self.device(), {}};
}

}  // namespace facula::shape
