// View operators: new geometry over the same storage, for every device.
#include <algorithm>

#include "aten/geometry.h"
#include "facula/kernels.h"
#include "runtime/autograd/meta.h"
#include "runtime/core/checked.h"

namespace facula::any {

Tensor view(const Tensor& self, IntList size) {
  const DimVector sizes = resolve_shape(size, self.numel(), "view");
  if (self.is_contiguous()) return alias(self, sizes, contiguous_strides(sizes), self.offset());
  const std::optional<DimVector> strides = view_strides(self.sizes(), self.strides(), sizes);
  FACULA_CHECK(strides, Shape, Operator{"view"}, "a tensor of shape ", shape_string(self.sizes()), " and strides ",
               shape_string(self.strides()), " cannot be seen as ", shape_string(sizes),
               " without a copy; use reshape()");
  return alias(self, sizes, *strides, self.offset());
}

namespace {

// The same bytes as another dtype: the one place where a tensor over memory gets another than its base's.
Tensor retyped(const Tensor& self, ScalarType dtype, DimVector sizes, DimVector strides, int64_t offset, bool as_view) {
  if (self.device().type > kMeta) place_on_device(self.device(), dtype);  // refuses what the device has not
  Tensor result = alias(self, self.sizes(), self.strides(), self.offset(), as_view);
  TensorImpl& impl = *result.impl();
  impl.sizes = std::move(sizes);
  impl.strides = std::move(strides);
  impl.offset = offset;
  impl.dtype = dtype;
  impl.refresh();
  return result;
}

}  // namespace

Tensor view_dtype(const Tensor& self, ScalarType dtype) {
  const int64_t from = static_cast<int64_t>(self.itemsize()), to = static_cast<int64_t>(itemsize(dtype));
  DimVector sizes(self.sizes()), strides(self.strides());
  int64_t offset = self.offset();
  if (from != to) {
    FACULA_CHECK(self.dim() > 0, Dtype, Operator{"view"}, "a 0-d tensor of ", dtype_name(self.dtype()),
                 " cannot be seen as ", dtype_name(dtype), ", whose elements have another size");
    FACULA_CHECK(strides.back() == 1 || sizes.back() == 1, Dtype, Operator{"view"}, "the last dim of a tensor seen as ",
                 dtype_name(dtype), " must have stride 1, not ", strides.back());
    const bool wider = to > from;
    const int64_t ratio = wider ? to / from : from / to;
    const auto scale = [&](int64_t v, const char* what) {
      if (!wider) return checked_mul(v, ratio);
      FACULA_CHECK(v % ratio == 0, Dtype, Operator{"view"}, "the ", what, " (", v, ") must be a multiple of ", ratio,
                   " to see ", dtype_name(self.dtype()), " as ", dtype_name(dtype));
      return v / ratio;
    };
    for (size_t i = 0; i + 1 < strides.size(); ++i) strides[i] = scale(strides[i], "stride");
    strides.back() = 1;
    sizes.back() = scale(sizes.back(), "size of the last dim");
    offset = scale(offset, "storage offset");
  }
  return retyped(self, dtype, std::move(sizes), std::move(strides), offset, false);  // nothing flows through bits
}

Tensor view_as_real(const Tensor& self) {
  FACULA_CHECK(self.is_complex(), Dtype, Operator{"view_as_real"}, Argument{"self"}, " must be complex, not ",
               dtype_name(self.dtype()));
  DimVector sizes(self.sizes()), strides(self.strides());
  for (int64_t& s : strides) s = checked_mul(s, 2);
  sizes.push_back(2);
  strides.push_back(1);
  return retyped(self, to_real(self.dtype()), std::move(sizes), std::move(strides), checked_mul(self.offset(), 2),
                 true);
}

Tensor view_as_complex(const Tensor& self) {
  FACULA_CHECK(self.dtype() == ScalarType::Float32 || self.dtype() == ScalarType::Float64, Dtype,
               Operator{"view_as_complex"}, Argument{"self"}, " must be float32 or float64, not ",
               dtype_name(self.dtype()));
  FACULA_CHECK(self.dim() > 0 && self.sizes().back() == 2, Shape, Operator{"view_as_complex"},
               "the last dim must have size 2 (real and imaginary part); self is ", shape_string(self.sizes()));
  DimVector sizes(self.sizes()), strides(self.strides());
  FACULA_CHECK(strides.back() == 1, Shape, Operator{"view_as_complex"}, "the last dim must have stride 1, not ",
               strides.back(), "; call contiguous() first");
  sizes.pop_back();
  strides.pop_back();
  for (size_t i = 0; i < strides.size(); ++i) {
    FACULA_CHECK(strides[i] % 2 == 0 || sizes[i] == 1, Shape, Operator{"view_as_complex"},
                 "strides must be even, those of ", "self are ", shape_string(self.strides()),
                 "; call contiguous() first");
    strides[i] /= 2;
  }
  FACULA_CHECK(self.offset() % 2 == 0, Runtime, Operator{"view_as_complex"},
               "the storage offset must be even; call contiguous() and clone() first");
  return retyped(self, to_complex(self.dtype()), std::move(sizes), std::move(strides), self.offset() / 2, true);
}

Tensor detach(const Tensor& self) { return ::facula::detach(self); }

Tensor expand(const Tensor& self, IntList size) {
  const size_t ndim = size.size(), own = self.sizes().size();
  FACULA_CHECK(ndim >= own, Shape, Operator{"expand"}, shape_string(size), " has fewer dims than self, which is ",
               shape_string(self.sizes()));
  DimVector sizes(size), strides(ndim, 0);
  for (size_t i = 0; i < ndim; ++i) {
    if (i < ndim - own) {
      FACULA_CHECK(sizes[i] >= 0, Shape, Operator{"expand"}, "a new dim needs a size; dim ", i, " of ",
                   shape_string(size), " is ", sizes[i]);
      continue;
    }
    const int64_t have = self.sizes()[i - (ndim - own)];
    if (sizes[i] == -1) sizes[i] = have;
    FACULA_CHECK(sizes[i] == have || (have == 1 && sizes[i] >= 0), Shape, Operator{"expand"}, "dim ", i, " of self, ",
                 shape_string(self.sizes()), ", has size ", have, " and cannot become ", sizes[i], " as in ",
                 shape_string(size), "; only dims of size 1 expand");
    if (sizes[i] == have) strides[i] = self.strides()[i - (ndim - own)];
  }
  return alias(self, sizes, strides, self.offset());
}

Tensor permute(const Tensor& self, IntList dims) {
  FACULA_CHECK(dims.size() == self.sizes().size(), Shape, Operator{"permute"}, dims.size(),
               " dims are given, self has ", self.dim());
  const DimVector order = wrap_dims(dims, self.dim(), "permute");
  DimVector sizes(order.size()), strides(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sizes[i] = self.sizes()[static_cast<size_t>(order[i])];
    strides[i] = self.strides()[static_cast<size_t>(order[i])];
  }
  return alias(self, sizes, strides, self.offset());
}

Tensor transpose(const Tensor& self, int64_t dim0, int64_t dim1) {
  const size_t a = static_cast<size_t>(wrap_dim(dim0, self.dim(), "transpose"));
  const size_t b = static_cast<size_t>(wrap_dim(dim1, self.dim(), "transpose"));
  DimVector sizes(self.sizes()), strides(self.strides());
  if (a != b) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }
  return alias(self, sizes, strides, self.offset());
}

Tensor t(const Tensor& self) {
  FACULA_CHECK(self.dim() <= 2, Shape, Operator{"t"}, Argument{"self"}, " must have at most 2 dims, not ", self.dim(),
               "; use transpose() or permute()");
  const IntList sizes = self.sizes(), strides = self.strides();
  return self.dim() == 2 ? alias(self, {sizes[1], sizes[0]}, {strides[1], strides[0]}, self.offset())
                         : alias(self, sizes, strides, self.offset());
}

namespace {

template <typename Drop>
Tensor squeezed(const Tensor& self, Drop drop) {
  DimVector sizes, strides;
  for (size_t i = 0; i < self.sizes().size(); ++i) {
    if (self.sizes()[i] == 1 && drop(static_cast<int64_t>(i))) continue;
    sizes.push_back(self.sizes()[i]);
    strides.push_back(self.strides()[i]);
  }
  return alias(self, sizes, strides, self.offset());
}

}  // namespace

Tensor squeeze(const Tensor& self) {
  return squeezed(self, [](int64_t) { return true; });
}

Tensor squeeze_dim(const Tensor& self, int64_t dim) {
  dim = wrap_dim(dim, self.dim(), "squeeze");
  return squeezed(self, [dim](int64_t d) { return d == dim; });
}

Tensor squeeze_dims(const Tensor& self, IntList dim) {
  const DimVector dims = wrap_dims(dim, self.dim(), "squeeze");
  return squeezed(self, [&](int64_t d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); });
}

Tensor unsqueeze(const Tensor& self, int64_t dim) {
  const size_t d = static_cast<size_t>(wrap_dim(dim, self.dim() + 1, "unsqueeze"));
  DimVector sizes(self.sizes()), strides(self.strides());
  const int64_t stride = d < sizes.size() ? wrapped_mul(sizes[d], strides[d]) : 1;
  sizes.insert(sizes.begin() + d, 1);
  strides.insert(strides.begin() + d, stride);
  return alias(self, sizes, strides, self.offset());
}

namespace {

// Where element `index` along a dim of that stride lies; empty tensors may have any stride.
int64_t place_at(const Tensor& self, int64_t index, int64_t stride) {
  return self.numel() == 0 ? self.offset() : self.offset() + index * stride;
}

}  // namespace

Tensor select(const Tensor& self, int64_t dim, int64_t index) {
  FACULA_CHECK(self.dim() > 0, Index, Operator{"select"}, "a 0-d tensor has no dim to select from");
  dim = wrap_dim(dim, self.dim(), "select");
  const size_t d = static_cast<size_t>(dim);
  index = wrap_index(index, self.sizes()[d], dim, "select");
  DimVector sizes(self.sizes()), strides(self.strides());
  const int64_t offset = place_at(self, index, strides[d]);
  sizes.erase(sizes.begin() + d);
  strides.erase(strides.begin() + d);
  return alias(self, sizes, strides, offset);
}

Tensor slice(const Tensor& self, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  FACULA_CHECK(self.dim() > 0, Index, Operator{"slice"}, "a 0-d tensor cannot be sliced");
  const size_t d = static_cast<size_t>(wrap_dim(dim, self.dim(), "slice"));
  DimVector sizes(self.sizes()), strides(self.strides());
  const Span s = resolve_slice(sizes[d], start, end, step, "slice");
  const int64_t offset = s.length > 0 ? place_at(self, s.start, strides[d]) : self.offset();
  sizes[d] = s.length;
  if (s.length > 1) strides[d] = wrapped_mul(strides[d], step);  // the second element lies in the tensor
  return alias(self, sizes, strides, offset);
}

Tensor as_strided(const Tensor& self, IntList size, IntList stride, std::optional<int64_t> storage_offset) {
  return alias(self, size, stride, storage_offset.value_or(self.offset()));
}

Tensor diagonal(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  const size_t a = static_cast<size_t>(wrap_dim(dim1, self.dim(), "diagonal"));
  const size_t b = static_cast<size_t>(wrap_dim(dim2, self.dim(), "diagonal"));
  FACULA_CHECK(a != b && self.dim() >= 2, Shape, Operator{"diagonal"}, "dim1 and dim2 must be two dims of self, not ",
               dim1, " and ", dim2, " of ", shape_string(self.sizes()));
  DimVector sizes, strides;
  for (size_t i = 0; i < self.sizes().size(); ++i) {
    if (i == a || i == b) continue;
    sizes.push_back(self.sizes()[i]);
    strides.push_back(self.strides()[i]);
  }
  const int64_t rows = self.sizes()[a], columns = self.sizes()[b];
  const int64_t down = offset < 0 ? -std::max(offset, -rows) : 0, right = offset > 0 ? std::min(offset, columns) : 0;
  const int64_t length = std::min(rows - down, columns - right);
  sizes.push_back(length);
  strides.push_back(wrapped_add(self.strides()[a], self.strides()[b]));
  int64_t place = self.offset();
  if (length > 0 && self.numel() > 0) place += down * self.strides()[a] + right * self.strides()[b];
  return alias(self, sizes, strides, place);
}

Tensor unfold(const Tensor& self, int64_t dimension, int64_t size, int64_t step) {
  DimVector sizes(self.sizes()), strides(self.strides());
  const size_t d = static_cast<size_t>(wrap_dim(dimension, self.dim(), "unfold"));
  const bool scalar = sizes.empty();
  const int64_t have = scalar ? 1 : sizes[d], unit = scalar ? 1 : strides[d];
  FACULA_CHECK(size >= 0 && size <= have, Shape, Operator{"unfold"}, Argument{"size"},
               " must be from 0 to the size of dim ", d, ", ", have, ", not ", size);
  FACULA_CHECK(step > 0, Runtime, Operator{"unfold"}, Argument{"step"}, " must be positive, not ", step);
  const int64_t windows = (have - size) / step + 1;
  if (!scalar) {
    sizes[d] = windows;
    if (windows > 1) strides[d] = wrapped_mul(strides[d], step);
  }
  sizes.push_back(size);
  strides.push_back(unit);
  return alias(self, sizes, strides, self.offset());
}

std::vector<Tensor> split_with_sizes(const Tensor& self, IntList split_sizes, int64_t dim) {
  FACULA_CHECK(self.dim() > 0, Shape, Operator{"split_with_sizes"}, "a 0-d tensor cannot be split");
  dim = wrap_dim(dim, self.dim(), "split_with_sizes");
  const size_t d = static_cast<size_t>(dim);
  DimVector sizes(self.sizes());
  const int64_t total = sizes[d], stride = self.strides()[d];
  int64_t start = 0;
  for (const int64_t s : split_sizes) {
    FACULA_CHECK(s >= 0 && s <= total - start, Shape, Operator{"split_with_sizes"}, "the sizes ",
                 shape_string(split_sizes), " must be non-negative and add up to the size of dim ", dim, ", ", total);
    start += s;
  }
  FACULA_CHECK(start == total, Shape, Operator{"split_with_sizes"}, "the sizes ", shape_string(split_sizes),
               " add up to ", start, ", dim ", dim, " has size ", total);
  std::vector<Tensor> parts;
  parts.reserve(split_sizes.size());
  start = 0;
  for (const int64_t s : split_sizes) {
    sizes[d] = s;
    parts.push_back(alias(self, sizes, self.strides(), s > 0 ? place_at(self, start, stride) : self.offset()));
    start += s;
  }
  return parts;
}

std::vector<Tensor> unbind(const Tensor& self, int64_t dim) {
  FACULA_CHECK(self.dim() > 0, Shape, Operator{"unbind"}, "a 0-d tensor cannot be unbound");
  const size_t d = static_cast<size_t>(wrap_dim(dim, self.dim(), "unbind"));
  DimVector sizes(self.sizes()), strides(self.strides());
  const int64_t n = sizes[d], stride = strides[d];
  check_parts(n, "unbind");
  sizes.erase(sizes.begin() + d);
  strides.erase(strides.begin() + d);
  std::vector<Tensor> parts;
  parts.reserve(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) parts.push_back(alias(self, sizes, strides, place_at(self, i, stride)));
  return parts;
}

}  // namespace facula::any
