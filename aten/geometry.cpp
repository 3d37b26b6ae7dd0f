#include "aten/geometry.h"

#include "runtime/core/checked.h"

namespace facula {

DimVector resolve_shape(IntList shape, int64_t numel, const char* op) {
  DimVector sizes(shape);
  int64_t known = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1) {
      FACULA_CHECK(!open, Shape, Operator{op}, "only one size can be -1, not two as in ", shape_string(shape));
      open = i;
    } else {
      FACULA_CHECK(sizes[i] >= 0, Shape, Operator{op},
                   "sizes must not be negative (but for one -1): ", shape_string(shape));
      FACULA_CHECK(!__builtin_mul_overflow(known, sizes[i], &known), Shape, Operator{op}, "the shape ",
                   shape_string(shape), " has more elements than can be counted");
    }
  }
  if (open) {
    FACULA_CHECK(known != 0, Shape, Operator{op}, "-1 in ", shape_string(shape), " is not determined for ", numel,
                 " elements");
    FACULA_CHECK(numel % known == 0, Shape, Operator{op}, numel, " elements do not fit the shape ",
                 shape_string(shape));
    sizes[*open] = numel / known;
  } else {
    FACULA_CHECK(known == numel, Shape, Operator{op}, numel, " elements do not fit the shape ", shape_string(shape));
  }
  return sizes;
}

std::optional<DimVector> view_strides(IntList from, IntList strides, IntList sizes) {
  DimVector result(sizes.size());
  int64_t numel = 1;
  for (const int64_t s : from) numel *= s;
  if (numel == 0 || from.empty()) return from == sizes ? DimVector(strides) : contiguous_strides(sizes);
  size_t at = sizes.size();
  int64_t chunk = 1, filled = 1, base = strides.back();
  // Runs of dims that are one range of memory are cut anew, from the innermost on.
  for (size_t i = from.size(); i-- > 0;) {
    chunk *= from[i];
    if (i == 0 || (from[i - 1] != 1 && strides[i - 1] != wrapped_mul(chunk, base))) {
      while (at > 0 && (filled < chunk || sizes[at - 1] == 1)) {
        --at;
        result[at] = wrapped_mul(filled, base);
        filled *= sizes[at];
      }
      if (filled != chunk) return std::nullopt;
      if (i > 0) {
        base = strides[i - 1];
        chunk = filled = 1;
      }
    }
  }
  return result;
}

DimVector format_strides(IntList sizes, MemoryFormat format, const char* op) {
  if (format == MemoryFormat::Contiguous || format == MemoryFormat::Preserve) return {};
  const size_t ndim = format == MemoryFormat::ChannelsLast ? 4 : 5;
  FACULA_CHECK(sizes.size() == ndim, Runtime, Operator{op}, "memory_format ",
               ndim == 4 ? "channels_last" : "channels_last_3d", " is for tensors of ", ndim, " dims, not ",
               sizes.size());
  DimVector strides(ndim);
  int64_t stride = 1;
  const auto place = [&](size_t d) {
    strides[d] = stride;
    stride = checked_mul(stride, std::max<int64_t>(sizes[d], 1));
  };
  place(1);
  for (size_t d = ndim; d-- > 2;) place(d);
  place(0);
  return strides;
}

DimVector format_strides_like(const Tensor& self, std::optional<MemoryFormat> format, bool preserve, const char* op) {
  if (!format ? preserve : *format == MemoryFormat::Preserve) {
    return self.is_contiguous() ? DimVector() : preserved_strides(self);
  }
  return format ? format_strides(self.sizes(), *format, op) : DimVector();
}

bool has_format(const Tensor& t, MemoryFormat format) {
  if (format == MemoryFormat::Preserve) return true;
  if (format == MemoryFormat::Contiguous) return t.is_contiguous();
  const DimVector wanted = format_strides(t.sizes(), format, "contiguous");
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (t.sizes()[i] != 1 && t.strides()[i] != wanted[i]) return false;
  }
  return true;
}

Span resolve_slice(int64_t size, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step,
                   const char* op) {
  FACULA_CHECK(step > 0, Value, Operator{op}, "the step of a slice must be positive, not ", step,
               "; use flip() to reverse");
  const auto clip = [size](int64_t i) {
    if (i < 0) i = i < -size ? 0 : i + size;
    return std::min(i, size);
  };
  const int64_t first = start ? clip(*start) : 0;
  const int64_t last = std::max(first, end ? clip(*end) : size);
  const int64_t extent = last - first;
  return {first, extent / step + (extent % step != 0), step};
}

DimVector wrap_dims(IntList dims, int64_t ndim, const char* op) {
  DimVector wrapped(dims.size());
  for (size_t i = 0; i < dims.size(); ++i) {
    wrapped[i] = wrap_dim(dims[i], ndim, op);
    for (size_t j = 0; j < i; ++j) {
      FACULA_CHECK(wrapped[j] != wrapped[i], Shape, Operator{op}, "dim ", wrapped[i], " is given twice in ",
                   shape_string(dims));
    }
  }
  return wrapped;
}

void check_parts(int64_t count, const char* op) {
  constexpr int64_t kMaxCount = int64_t{1} << 24;
  FACULA_CHECK(count <= kMaxCount, Runtime, Operator{op}, "a list of ", count, " tensors is too long; at most ",
               kMaxCount, " are made");
}

int64_t wrap_index(int64_t index, int64_t size, int64_t dim, const char* op) {
  FACULA_CHECK(index >= -size && index < size, Index, Operator{op}, Argument{"index"}, " ", index,
               " is out of range for dim ", dim, " of size ", size);
  return index < 0 ? index + size : index;
}

DimVector index_shape(IntList a, IntList b, const char* op) {
  for (size_t i = 1; i <= std::min(a.size(), b.size()); ++i) {
    const int64_t x = a[a.size() - i], y = b[b.size() - i];
    FACULA_CHECK(x == y || x == 1 || y == 1, Index, Operator{op}, "the indices have shapes ", shape_string(a), " and ",
                 shape_string(b), ", which do not broadcast");
  }
  return broadcast_shapes(a, b, op);
}

IndexLayout index_layout(IntList table, TensorList indices, const char* op) {
  FACULA_CHECK(indices.size() <= table.size(), Index, Operator{op}, indices.size(), " indices for a tensor of ",
               table.size(), " dims");
  IndexLayout layout;
  DimVector shape;
  size_t first = table.size(), last = 0, count = 0;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    shape = index_shape(shape, indices[d].sizes(), op);
    if (count++ == 0) first = d;
    last = d;
  }
  const bool adjacent = count == 0 || last - first + 1 == count;
  layout.first = adjacent ? (count == 0 ? 0 : first) : 0;
  layout.index_ndim = shape.size();
  for (size_t d = 0; d < layout.first; ++d) layout.sizes.push_back(table[d]);
  for (const int64_t s : shape) layout.sizes.push_back(s);
  for (size_t d = layout.first; d < table.size(); ++d) {
    if (d >= indices.size() || !indices[d].defined()) layout.sizes.push_back(table[d]);
  }
  return layout;
}

}  // namespace facula
