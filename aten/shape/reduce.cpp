// Shape rules of reductions, scans and ordering.
#include <bitset>
#include <cmath>

#include "facula/shapes.h"

namespace facula::shape {

namespace {

using OptionalDims = std::optional<IntList>;
using OptionalType = std::optional<ScalarType>;
using Name = std::string_view;

// Which dims are reduced; an absent or empty list means all.
std::bitset<64> dims_of(const Tensor& self, const OptionalDims& dim, Name op) {
  std::bitset<64> set;
  const std::string name(op);
  FACULA_CHECK(self.dim() <= 64, Shape, Operator{op}, "tensors of more than 64 dims are not supported, self has ",
               self.dim());
  if (!dim || dim->empty()) {
    for (int64_t d = 0; d < self.dim(); ++d) set.set(static_cast<size_t>(d));
    return set;
  }
  for (const int64_t given : *dim) {
    const size_t d = static_cast<size_t>(wrap_dim(given, self.dim(), name.c_str()));
    FACULA_CHECK(!set[d], Shape, Operator{op}, "dim ", given, " is given twice in ", shape_string(*dim));
    set.set(d);
  }
  return set;
}

Meta without(const Tensor& self, const std::bitset<64>& dims, bool keepdim, ScalarType dtype) {
  Meta meta{{}, dtype, self.device(), {}};
  for (size_t d = 0; d < self.sizes().size(); ++d) {
    if (!dims[d]) {
      meta.sizes.push_back(self.sizes()[d]);
    } else if (keepdim) {
      meta.sizes.push_back(1);
    }
  }
  return meta;
}

void check_ordered(const Tensor& self, Name op) {
  FACULA_CHECK(!self.is_complex(), Dtype, Operator{op}, "complex numbers have no order, self is ",
               dtype_name(self.dtype()));
}

// Reduced dims must have elements where there is no neutral element.
void check_not_empty(const Tensor& self, const std::bitset<64>& dims, bool all, ErrorKind kind, Name op) {
  if (self.numel() > 0) return;
  if (all) {
    raise(kind, Operator{op}, Argument{"self"}, " has no elements, its shape is ", shape_string(self.sizes()),
          "; name a dim that has some");
  }
  for (size_t d = 0; d < self.sizes().size(); ++d) {
    FACULA_CHECK(!dims[d] || self.sizes()[d] > 0, Index, Operator{op}, "dim ", d,
                 " of self has no elements, its shape is ", shape_string(self.sizes()));
  }
}

// Integers are summed as int64, which holds all but uint64.
ScalarType summed_type(ScalarType t) { return is_integral(t, true) && t != ScalarType::UInt64 ? ScalarType::Int64 : t; }

int64_t checked_dim(const Tensor& self, int64_t dim, Name op) {
  const std::string name(op);
  return wrap_dim(dim, self.dim(), name.c_str());
}

}  // namespace

Meta reduced(const Tensor& self, OptionalDims dim, bool keepdim, OptionalType dtype, Name op) {
  return without(self, dims_of(self, dim, op), keepdim, dtype.value_or(self.dtype()));
}

Meta summed(const Tensor& self, OptionalDims dim, bool keepdim, OptionalType dtype, Name op) {
  const ScalarType wide = summed_type(self.dtype());
  FACULA_CHECK(op != "nansum" || !self.is_complex(), Dtype, Operator{op}, "not implemented for ",
               dtype_name(self.dtype()));
  return reduced(self, dim, keepdim, dtype.value_or(wide), op);
}

Meta averaged(const Tensor& self, OptionalDims dim, bool keepdim, OptionalType dtype, Name op) {
  const ScalarType type = dtype.value_or(self.dtype());
  FACULA_CHECK(is_differentiable(type), Dtype, Operator{op}, dtype ? "dtype" : "self",
               " must be floating-point or complex, not ", dtype_name(type), "; say ", op,
               "(..., dtype=float32) to average integers");
  return reduced(self, dim, keepdim, type, op);
}

Meta varied(const Tensor& self, OptionalDims dim, bool keepdim, bool mean, Name op) {
  FACULA_CHECK(is_differentiable(self.dtype()), Dtype, Operator{op}, Argument{"self"},
               " must be floating-point or complex, not ", dtype_name(self.dtype()));
  return reduced(self, dim, keepdim, mean ? self.dtype() : to_real(self.dtype()), op);
}

Meta extreme(const Tensor& self, OptionalDims dim, bool keepdim, Name op) {
  check_ordered(self, op);
  const auto dims = dims_of(self, dim, op);
  check_not_empty(self, dims, !dim || dim->empty(), ErrorKind::Runtime, op);
  return without(self, dims, keepdim, self.dtype());
}

Meta picked(const Tensor& self, std::optional<int64_t> dim, bool keepdim, OptionalType dtype, Name op) {
  check_ordered(self, op);
  const OptionalDims list = dim ? OptionalDims(IntList(&*dim, 1)) : std::nullopt;
  const auto dims = dims_of(self, list, op);
  check_not_empty(self, dims, !dim, ErrorKind::Index, op);
  return without(self, dims, keepdim, dtype.value_or(self.dtype()));
}

Meta truth(const Tensor& self, OptionalDims dim, bool keepdim, Name op) {
  const ScalarType type = self.dtype() == ScalarType::UInt8 ? ScalarType::UInt8 : ScalarType::Bool;
  // An empty list of dims is taken at its word here.
  const auto dims = dim && dim->empty() ? std::bitset<64>() : dims_of(self, dim, op);
  return without(self, dims, keepdim, type);
}

Meta normed(const Tensor& x, const Scalar& ord, OptionalDims dim, bool keepdim, OptionalType dtype) {
  constexpr Name op = "linalg.vector_norm";
  FACULA_CHECK(is_differentiable(x.dtype()), Dtype, Operator{op}, Argument{"x"},
               " must be floating-point or complex, not ", dtype_name(x.dtype()));
  FACULA_CHECK(ord.kind() != Category::Complex, Runtime, Operator{op}, Argument{"ord"}, " must be real");
  FACULA_CHECK(!std::isnan(ord.as_double()), Runtime, Operator{op}, Argument{"ord"}, " must not be NaN");
  if (dtype) {
    FACULA_CHECK(is_differentiable(*dtype), Dtype, Operator{op}, Argument{"dtype"},
                 " must be floating-point or complex, not ", dtype_name(*dtype));
    FACULA_CHECK(is_complex(*dtype) == x.is_complex(), Dtype, Operator{op}, Argument{"dtype"}, " must be ",
                 x.is_complex() ? "complex" : "real", " as x is, not ", dtype_name(*dtype));
    FACULA_CHECK(promote_types(x.dtype(), *dtype) == *dtype, Dtype, Operator{op}, "dtype ", dtype_name(*dtype),
                 " is narrower than that of x, ", dtype_name(x.dtype()));
  }
  const auto dims = dims_of(x, dim, op);
  if (ord.as_double() < 0 || std::isinf(ord.as_double())) {
    check_not_empty(x, dims, !dim || dim->empty(), ErrorKind::Runtime, op);
  }
  return without(x, dims, keepdim, to_real(dtype.value_or(x.dtype())));
}

Meta scanned(const Tensor& self, int64_t dim, OptionalType dtype, bool widen, Name op) {
  checked_dim(self, dim, op);
  const ScalarType type = dtype.value_or(widen ? summed_type(self.dtype()) : self.dtype());
  FACULA_CHECK(type != ScalarType::Bool, Dtype, Operator{op}, Argument{"dtype"}, " must not be bool");
  FACULA_CHECK(widen || is_differentiable(type), Dtype, Operator{op}, Argument{"self"}, " must be floating-point, not ",
               dtype_name(type));
  return {DimVector(self.sizes()), type, self.device(), {}};
}

Meta affine_scanned(const Tensor& a, const Tensor& b, int64_t dim) {
  checked_dim(b, dim, "_affine_scan");
  FACULA_CHECK(a.sizes() == b.sizes() && a.dtype() == b.dtype(), Shape, Operator{"_affine_scan"}, Argument{"a"}, " is ",
               shape_string(a.sizes()), ", b is ", shape_string(b.sizes()), "; shapes and dtypes must agree");
  return {DimVector(b.sizes()), b.dtype(), b.device(), {}};
}

Meta ordered(const Tensor& self, int64_t dim, OptionalType dtype, Name op) {
  check_ordered(self, op);
  checked_dim(self, dim, op);
  return {DimVector(self.sizes()), dtype.value_or(self.dtype()), self.device(), {}};
}

Meta top(const Tensor& self, int64_t k, int64_t dim, OptionalType dtype) {
  Meta meta = ordered(self, dim, dtype, "topk");
  const int64_t size = self.dim() == 0 ? 1 : self.size(dim);
  FACULA_CHECK(k >= 0 && k <= size, Shape, Operator{"topk"}, Argument{"k"}, " is ", k, ", dim ", dim, " of self has ",
               size, " elements");
  if (self.dim() > 0) meta.sizes[static_cast<size_t>(wrap_dim(dim, self.dim()))] = k;
  return meta;
}

Meta kth(const Tensor& self, int64_t k, int64_t dim, bool keepdim, OptionalType dtype) {
  Meta meta = picked(self, dim, keepdim, dtype, "kthvalue");
  const int64_t size = self.dim() == 0 ? 1 : self.size(dim);
  FACULA_CHECK(k >= 1 && k <= size, Shape, Operator{"kthvalue"}, Argument{"k"}, " is ", k,
               ", it must be from 1 to the size of dim ", dim, ", ", size);
  return meta;
}

Meta searched(const Tensor& sorted_sequence, const Tensor& values, std::optional<std::string_view> side, bool right,
              const Tensor& sorter, bool out_int32, Name op) {
  check_ordered(sorted_sequence, op);
  check_ordered(values, op);
  if (side) {
    FACULA_CHECK(*side == "left" || *side == "right", Value, Operator{op}, Argument{"side"},
                 " must be 'left' or 'right', not '", *side, "'");
    FACULA_CHECK(!(right && *side == "left"), Runtime, Operator{op},
                 "side='left' and right=True contradict each other");
  }
  FACULA_CHECK(sorted_sequence.device() == values.device(), Device, Operator{op}, Argument{"sorted_sequence"},
               " is on ", to_string(sorted_sequence.device()), ", self is on ", to_string(values.device()));
  const IntList s = sorted_sequence.sizes(), v = values.sizes();
  FACULA_CHECK(s.size() >= 1, Shape, Operator{op}, "the sorted sequence must have at least one dim");
  const bool same = s.size() == v.size() && std::equal(s.begin(), s.end() - 1, v.begin());
  FACULA_CHECK(s.size() == 1 || same, Shape, Operator{op},
               "the sorted sequence must have one dim, or the dims of self ", shape_string(v), " but the last, and is ",
               shape_string(s));
  if (sorter.defined()) {
    FACULA_CHECK(sorter.sizes() == s, Shape, Operator{op}, Argument{"sorter"}, " is ", shape_string(sorter.sizes()),
                 ", the sorted sequence is ", shape_string(s), "; they must have one shape");
    FACULA_CHECK(sorter.dtype() == ScalarType::Int64, Dtype, Operator{op}, Argument{"sorter"}, " must be int64, not ",
                 dtype_name(sorter.dtype()));
    FACULA_CHECK(sorter.device() == values.device(), Device, Operator{op}, Argument{"sorter"}, " is on ",
                 to_string(sorter.device()), ", self is on ", to_string(values.device()));
  }
  FACULA_CHECK(!out_int32 || s.back() < (int64_t{1} << 31), Shape, Operator{op}, "the sorted sequence has ", s.back(),
               " elements, too many for out_int32");
  return {DimVector(v), out_int32 ? ScalarType::Int32 : ScalarType::Int64, values.device(), {}};
}

Meta histogram(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  FACULA_CHECK(self.is_floating_point(), Dtype, Operator{"histc"}, Argument{"self"}, " must be floating-point, not ",
               dtype_name(self.dtype()));
  FACULA_CHECK(bins < (int64_t{1} << 31), Runtime, Operator{"histc"}, Argument{"bins"}, " must be less than 2^31, not ",
               bins);
  const double low = min.as_double(), high = max.as_double();
  FACULA_CHECK(std::isfinite(low) && std::isfinite(high), Runtime, Operator{"histc"},
               "min and max must be finite, got [", low, ", ", high, "]");
  FACULA_CHECK(low <= high, Runtime, Operator{"histc"}, Argument{"max"}, " must not be less than min, got [", low, ", ",
               high, "]");
  return {DimVector{bins}, self.dtype(), self.device(), {}};
}

}  // namespace facula::shape
