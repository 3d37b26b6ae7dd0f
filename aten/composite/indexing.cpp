// Indexing made of other operators: masks become positions, forms of scatter, one-hot vectors.
#include <algorithm>

#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/dispatch/formula.h"
#include "runtime/dispatch/levels.h"
#include "runtime/core/checked.h"

namespace facula::composite {

namespace {

bool is_mask(const Tensor& t) {
  return t.defined() && (t.dtype() == ScalarType::Bool || t.dtype() == ScalarType::UInt8);
}

void check_mask_shape(const Tensor& mask, const Tensor& self, size_t at, const char* op) {
  for (size_t d = 0; d < mask.sizes().size(); ++d) {
    FACULA_CHECK(at + d < self.sizes().size() && mask.sizes()[d] == self.sizes()[at + d], Index, Operator{op},
                 "the mask is ", shape_string(mask.sizes()), " and does not fit self, ", shape_string(self.sizes()),
                 ", from dim ", at, " on");
  }
}

// Masks replaced by the positions of their true elements, one index for each of their dims.
std::vector<Tensor> positions(const Tensor& self, TensorList indices, const char* op) {
  std::vector<Tensor> result;
  for (const Tensor& index : indices) {
    if (!index.defined()) {
      result.emplace_back();
    } else if (is_mask(index)) {
      check_mask_shape(index, self, result.size(), op);
      if (index.dim() == 0) {
        raise(ErrorKind::Index, Operator{op}, "a 0-d mask needs a new dim in front; index with self[mask]");
      }
      for (Tensor& t : ops::nonzero_tuple(index)) result.push_back(std::move(t));
    } else {
      FACULA_CHECK(index.dtype() == ScalarType::Int64 || index.dtype() == ScalarType::Int32, Index, Operator{op},
                   "tensors used as indices must be int64, int32 or bool, not ", dtype_name(index.dtype()));
      result.push_back(index);
    }
  }
  FACULA_CHECK(result.size() <= self.sizes().size(), Index, Operator{op}, result.size(), " indices for a tensor of ",
               self.dim(), " dims");
  // Indices may come from another device, as torch allows for those on the CPU.
  for (Tensor& t : result) {
    if (t.defined() && t.device() != self.device()) t = ops::to_device(t, self.device(), ScalarType::Int64);
  }
  return result;
}

bool covers(const Tensor& self, TensorList indices) {
  return indices.size() == 1 && is_mask(indices[0]) && indices[0].dim() == self.dim() && self.dim() > 0;
}

// `self` with the values where a mask that differs by row of a batch is true: not by positions, whose number may differ
// too. Undefined for other indices.
Tensor put_by_mask(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate, const char* op) {
  if (indices.size() != 1 || !is_mask(indices[0]) || indices[0].dim() == 0 ||
      below_levels(indices[0]).dim() == indices[0].dim()) {
    return {};
  }
  check_mask_shape(indices[0], self, 0, op);
  FACULA_CHECK(values.dtype() == self.dtype(), Dtype, Operator{op}, "the values are ", dtype_name(values.dtype()),
               " and self is ", dtype_name(self.dtype()), "; they must be of one dtype");
  const Tensor mask = ops::to_dtype(indices[0], ScalarType::Bool);
  const int64_t others = self.dim() - mask.dim(), count = values.dim() > others ? values.size(0) : 1;
  Tensor taken = values, chosen = mask;
  if (values.dim() == others + 1 && count == 1) {
    taken = ops::select(values, 0, 0);
  } else if (values.dim() == others + 1) {
    const Tensor trues = ops::sum(mask, std::nullopt, false, ScalarType::Int64);
    const Tensor& of_all = below_levels(trues);
    const bool none = of_all.numel() == 0;
    const int64_t least = none ? count : ops::local_scalar(ops::min(of_all)).to<int64_t>();
    const int64_t most = none ? count : ops::local_scalar(ops::max(of_all)).to<int64_t>();
    FACULA_CHECK(least == count && most == count, Shape, Operator{op}, "there are ", count,
                 " values, and the masks of the rows are true ", least, " to ", most, " times");
    if (count == 0) return ops::clone(self, std::nullopt);
    const Tensor number =
        ops::sub(ops::cumsum(ops::reshape(mask, DimVector{mask.numel()}), 0, std::nullopt), wrapped_number(Scalar(1)));
    const Tensor at = ops::reshape(ops::clamp(number, Scalar(0)), mask.sizes());
    taken = ops::index_long(values, TensorList(&at, 1));
  }
  for (int64_t d = 0; d < others; ++d) chosen = ops::unsqueeze(chosen, -1);
  if (accumulate) taken = ops::add(self, taken);
  Tensor result = ops::where(chosen, taken, self);
  FACULA_CHECK(values.dim() <= others + 1 && result.sizes() == self.sizes(), Shape, Operator{op}, "the values are ",
               shape_string(values.sizes()), " and do not fit self, ", shape_string(self.sizes()), ", where a mask of ",
               mask.dim(), " dims is true");
  return result;
}

}  // namespace

Tensor index(const Tensor& self, TensorList indices) {
  if (covers(self, indices)) {
    check_mask_shape(indices[0], self, 0, "index");
    return ops::masked_select(self, ops::to_dtype(indices[0], ScalarType::Bool));
  }
  return ops::index_long(self, positions(self, indices, "index"));
}

const Tensor& index_put_(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  Tensor source = values;
  if (source.device() != self.device() && source.dim() == 0)
    source = ops::to_device(source, self.device(), std::nullopt);
  if (covers(self, indices) && source.numel() == 1 && !accumulate && source.dtype() == self.dtype()) {
    check_mask_shape(indices[0], self, 0, "index_put_");
    const Tensor mask = ops::to_dtype(indices[0], ScalarType::Bool);
    return ops::masked_fill_tensor_(self, mask, source.dim() == 0 ? source : ops::reshape(source, IntList()));
  }
  const Tensor put = put_by_mask(self, indices, source, accumulate, "index_put_");
  if (put.defined()) return ops::copy_(self, put);
  return ops::index_put_long_(self, positions(self, indices, "index_put_"), source, accumulate);
}

Tensor index_put(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  Tensor put = put_by_mask(self, indices, values, accumulate, "index_put");
  if (put.defined()) return put;
  return ops::index_put_long(self, positions(self, indices, "index_put"), values, accumulate);
}

const Tensor& put_(const Tensor& self, const Tensor& index, const Tensor& source, bool accumulate) {
  FACULA_CHECK(index.numel() == source.numel(), Shape, Operator{"put_"},
               "index and source must have as many elements, not ", index.numel(), " and ", source.numel());
  const int64_t flat[] = {self.numel()};
  const Tensor values = ops::reshape(source, index.sizes());
  if (self.is_contiguous()) {
    ops::index_put_long_(ops::view(self, IntList(flat, 1)), TensorList(&index, 1), values, accumulate);
    return self;
  }
  const Tensor line = ops::reshape(self, IntList(flat, 1));
  return ops::copy_(self,
                    ops::view(ops::index_put_long(line, TensorList(&index, 1), values, accumulate), self.sizes()));
}

// ---- for devices with index_long and index_put_long alone ----

namespace {

std::vector<Tensor> at_dim(const Tensor& self, int64_t dim, const Tensor& index) {
  std::vector<Tensor> list(static_cast<size_t>(wrap_dim(dim, self.dim())) + 1);
  list.back() = index.dim() == 0 ? ops::unsqueeze(index, 0) : index;
  return list;
}
Tensor at_least_1d(const Tensor& t) { return t.dim() == 0 ? ops::unsqueeze(t, 0) : t; }

Tensor put_along(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& values, bool accumulate) {
  const Tensor put = ops::index_put_long(at_least_1d(self), at_dim(self, dim, index), values, accumulate);
  return self.dim() == 0 ? ops::select(put, 0, 0) : put;
}

}  // namespace

Tensor index_select_long(const Tensor& self, int64_t dim, const Tensor& index) {
  const Tensor taken = ops::index_long(at_least_1d(self), at_dim(self, dim, index));
  return self.dim() == 0 ? ops::select(taken, 0, 0) : taken;
}
Tensor index_add_long(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Scalar& alpha) {
  const Tensor values = alpha.equals(1) ? source : ops::mul(source, ops::full({}, alpha, self.dtype(), self.device()));
  return put_along(self, dim, index, at_least_1d(values), true);
}
Tensor index_copy_long(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  return put_along(self, dim, index, at_least_1d(source), false);
}
Tensor index_fill_long(const Tensor& self, int64_t dim, const Tensor& index, const Scalar& value) {
  return put_along(self, dim, index, ops::full({}, value, self.dtype(), self.device()), false);
}
Tensor index_fill_tensor_long(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& value) {
  return put_along(self, dim, index, ops::to_dtype(value, self.dtype()), false);
}

namespace {

// For each element of `index` its place in contiguous memory of `sizes`, at that position along `dim`; one past the end
// for a position that there is not, so that the index kernel refuses it.
Tensor places_along(const Tensor& index, int64_t dim, IntList sizes) {
  const Tensor at = ops::to_dtype(index, ScalarType::Int64);
  const auto number = [](int64_t n) { return wrapped_number(Scalar(n)); };
  const size_t along = static_cast<size_t>(wrap_dim(dim, std::ssize(sizes)));
  const DimVector strides = contiguous_strides(sizes);
  const bool flat = sizes.empty();  // 0-d: as of one element
  Tensor places = ops::mul(at, number(flat ? 1 : strides[along]));
  for (size_t d = 0; d < index.sizes().size(); ++d) {
    if (d == along || index.sizes()[d] < 2) continue;
    DimVector shape(index.sizes().size(), 1);
    shape[d] = index.sizes()[d];
    const Tensor steps = ops::arange(index.sizes()[d], ScalarType::Int64, index.device());
    places = ops::add(places, ops::view(ops::mul(steps, number(strides[d])), shape));
  }
  const Tensor inside = ops::logical_and(ops::ge(at, number(0)), ops::lt(at, number(flat ? 1 : sizes[along])));
  return ops::where(inside, places, number(numel_of(sizes)));
}
Tensor flattened(const Tensor& t) {
  const int64_t all = -1;
  return t.numel() > 0 ? ops::reshape(t, IntList(&all, 1)) : ops::new_zeros(t, DimVector{0});
}

}  // namespace

Tensor gather_long(const Tensor& self, int64_t dim, const Tensor& index, bool) {
  const Tensor places = places_along(index, dim, self.sizes());
  return ops::index_long(flattened(self), TensorList(&places, 1));
}
Tensor scatter_sum_long(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src,
                        std::string_view reduce, bool include_self) {
  FACULA_CHECK(reduce == "sum", NotImplemented, "index_put_long() adds, and cannot take the ", reduce);
  const Tensor places = places_along(index, dim, self.sizes());
  Tensor values = src;
  for (int64_t d = 0; d < index.dim(); ++d) values = ops::narrow(values, d, 0, index.size(d));
  Tensor memory = flattened(self);
  if (!include_self) {
    const Tensor zero = ops::zeros({}, self.dtype(), self.device());
    memory = ops::index_put_long(memory, TensorList(&places, 1), zero, false);
  }
  return ops::reshape(ops::index_put_long(memory, TensorList(&places, 1), values, true), self.sizes());
}

Tensor one_hot(const Tensor& self, int64_t num_classes) {
  FACULA_CHECK(self.dtype() == ScalarType::Int64, Dtype, Operator{"one_hot"}, Argument{"self"}, " must be int64, not ",
               dtype_name(self.dtype()));
  FACULA_CHECK(num_classes >= -1 && num_classes != 0, Runtime, Operator{"one_hot"}, Argument{"num_classes"},
               " must be positive, or -1, not ", num_classes);
  if (self.numel() == 0) {
    FACULA_CHECK(num_classes > 0, Runtime, Operator{"one_hot"}, "an empty tensor does not tell num_classes; give it");
  } else if (!self.is_meta()) {
    const Tensor& all = num_classes > 0 ? below_levels(self) : self;  // with the rows of all batches
    FACULA_CHECK(ops::local_scalar(ops::min(all)).to<int64_t>() >= 0, Runtime, Operator{"one_hot"},
                 "class numbers must not be negative");
    const int64_t largest = ops::local_scalar(ops::max(all)).to<int64_t>();
    FACULA_CHECK(num_classes == -1 || largest < num_classes, Runtime, Operator{"one_hot"}, "class ", largest,
                 " is out of range for ", num_classes, " classes");
    if (num_classes == -1) num_classes = checked_add(largest, 1);
  }
  FACULA_CHECK(num_classes > 0, Values, Operator{"one_hot"},
               "num_classes depends on the values, which a meta tensor does not have; give it");
  DimVector sizes(self.sizes());
  sizes.push_back(num_classes);
  const Tensor result = make_as(self, Meta{sizes, ScalarType::Int64, self.device(), {}}, true);
  return ops::scatter_value_(result, -1, ops::unsqueeze(self, -1), 1);
}

Tensor bincount(const Tensor& self, const Tensor& weights, int64_t minlength) {
  FACULA_CHECK(self.dim() == 1 && is_integral(self.dtype()), Shape, Operator{"bincount"}, Argument{"self"},
               " must be a vector of integers, not ", shape_string(self.sizes()), " of ", dtype_name(self.dtype()));
  FACULA_CHECK(!weights.defined() || weights.sizes() == self.sizes(), Shape, Operator{"bincount"},
               "weights must have the shape of self");
  int64_t size = minlength;
  const Tensor bins = ops::to_dtype(self, ScalarType::Int64);
  if (bins.numel() > 0) {
    FACULA_CHECK(ops::local_scalar(ops::min(bins)).to<int64_t>() >= 0, Runtime, Operator{"bincount"}, Argument{"self"},
                 " must not hold negative numbers");
    size = std::max(size, checked_add(ops::local_scalar(ops::max(bins)).to<int64_t>(), 1));
  }
  const ScalarType type = !weights.defined()                       ? ScalarType::Int64
                          : weights.dtype() == ScalarType::Float32 ? ScalarType::Float32
                                                                   : widest_float(self.device());
  const Tensor counts = ops::zeros(IntList(&size, 1), type, self.device());
  const Tensor source = weights.defined() ? ops::to_dtype(weights, type)
                                          : ops::expand(ops::scalar_tensor(1, type, self.device()), bins.sizes());
  // Of no elements in each row of a batch all rows share the zeros.
  return bins.is_wrapped() || source.is_wrapped() ? ops::index_add(counts, 0, bins, source, 1)
                                                  : ops::index_add_(counts, 0, bins, source, 1);
}

}  // namespace facula::composite
