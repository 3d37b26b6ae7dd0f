// Copies, conversions and views made of other operators.
#include <algorithm>

#include "aten/geometry.h"
#include "facula/kernels.h"
#include "facula/ops.h"
#include "runtime/core/rounding.h"
#include "runtime/device/interface.h"

namespace facula::composite {

Tensor contiguous(const Tensor& self, std::optional<MemoryFormat> memory_format) {
  const MemoryFormat format = memory_format.value_or(MemoryFormat::Contiguous);
  FACULA_CHECK(format != MemoryFormat::Preserve, Runtime, Operator{"contiguous"},
               "preserve_format is no layout to give");
  return has_format(self, format) ? self : ops::clone(self, format);
}

namespace {

Tensor converted(const Tensor& self, std::optional<Device> device, std::optional<ScalarType> dtype, bool copy,
                 std::optional<MemoryFormat> memory_format, bool non_blocking = false) {
  const bool moves = device && !(resolved(*device) == self.device());
  if (!copy && (!dtype || *dtype == self.dtype()) && !moves && (!memory_format || has_format(self, *memory_format))) {
    return self;
  }
  if (non_blocking && moves && device->type != kMeta && !self.is_meta()) {  // the copy goes on in the background
    return ops::copy_(ops::empty_like(self, dtype, device, memory_format), self, true);
  }
  return ops::to_copy(self, dtype, device, memory_format);
}

}  // namespace

Tensor to_dtype(const Tensor& self, ScalarType dtype, bool, bool copy, std::optional<MemoryFormat> memory_format) {
  return converted(self, std::nullopt, dtype, copy, memory_format);
}
Tensor to_device(const Tensor& self, std::optional<Device> device, std::optional<ScalarType> dtype, bool non_blocking,
                 bool copy, std::optional<MemoryFormat> memory_format) {
  return converted(self, device, dtype, copy, memory_format, non_blocking);
}
Tensor dense_copy(const Tensor& self) { return ops::clone(self, MemoryFormat::Contiguous); }

// ---- shapes ----

Tensor reshape(const Tensor& self, IntList shape) {
  const DimVector sizes = resolve_shape(shape, self.numel(), "reshape");
  if (self.is_contiguous() || view_strides(self.sizes(), self.strides(), sizes)) return ops::view(self, sizes);
  return ops::view(ops::clone(self, MemoryFormat::Contiguous), sizes);
}

Tensor unflatten(const Tensor& self, int64_t dim, IntList sizes) {
  FACULA_CHECK(!sizes.empty(), Shape, Operator{"unflatten"}, "sizes must not be empty");
  FACULA_CHECK(self.dim() > 0, Shape, Operator{"unflatten"}, "a 0-d tensor has no dim to unflatten");
  const size_t d = static_cast<size_t>(wrap_dim(dim, self.dim(), "unflatten"));
  const DimVector parts = resolve_shape(sizes, self.sizes()[d], "unflatten");
  DimVector shape(self.sizes().begin(), self.sizes().begin() + d);
  for (const int64_t s : parts) shape.push_back(s);
  for (size_t i = d + 1; i < self.sizes().size(); ++i) shape.push_back(self.sizes()[i]);
  // Cutting one dim never needs a copy.
  return ops::view(self, shape);
}

Tensor movedim(const Tensor& self, IntList source, IntList destination) {
  FACULA_CHECK(source.size() == destination.size(), Shape, Operator{"movedim"},
               "source and destination must have the same length, not ", source.size(), " and ", destination.size());
  const DimVector from = wrap_dims(source, self.dim(), "movedim"), to = wrap_dims(destination, self.dim(), "movedim");
  DimVector order(self.sizes().size(), -1);
  if (order.empty()) return ops::permute(self, order);
  for (size_t i = 0; i < from.size(); ++i) order[static_cast<size_t>(to[i])] = from[i];
  int64_t next = 0;
  for (int64_t& d : order) {
    if (d >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) ++next;
    d = next++;
  }
  return ops::permute(self, order);
}

namespace {

// Pieces that may be empty are not bounded by the size; a list of so many is surely a mistake.
constexpr int64_t kMaxPieces = int64_t{1} << 20;

int64_t splittable(const Tensor& self, int64_t dim, const char* op) {
  FACULA_CHECK(self.dim() > 0, Shape, Operator{op}, "a 0-d tensor cannot be split");
  return self.sizes()[static_cast<size_t>(wrap_dim(dim, self.dim(), op))];
}

std::vector<Tensor> equal_pieces(const Tensor& self, int64_t piece, int64_t size, int64_t dim, const char* op) {
  DimVector sizes;
  check_parts(ceil_div(size, piece), op);
  for (int64_t at = 0; at < size; at += piece) sizes.push_back(std::min(piece, size - at));
  if (sizes.empty()) sizes.push_back(0);
  return ops::split_with_sizes(self, sizes, dim);
}

}  // namespace

std::vector<Tensor> split(const Tensor& self, int64_t split_size, int64_t dim) {
  const int64_t size = splittable(self, dim, "split");
  FACULA_CHECK(split_size >= 0 && (split_size > 0 || size == 0), Runtime, Operator{"split"}, Argument{"split_size"},
               " must be positive, not ", split_size);
  return equal_pieces(self, std::max<int64_t>(std::min(split_size, size), 1), size, dim, "split");
}

std::vector<Tensor> chunk(const Tensor& self, int64_t chunks, int64_t dim) {
  const int64_t size = splittable(self, dim, "chunk");
  if (size == 0) {  // every chunk is empty
    FACULA_CHECK(chunks <= kMaxPieces, Runtime, Operator{"chunk"}, chunks, " empty chunks are too many");
    return ops::split_with_sizes(self, DimVector(static_cast<size_t>(chunks), 0), dim);
  }
  return equal_pieces(self, size / chunks + (size % chunks != 0), size, dim, "chunk");
}

std::vector<Tensor> tensor_split_sections(const Tensor& self, int64_t sections, int64_t dim) {
  const int64_t size = splittable(self, dim, "tensor_split");
  FACULA_CHECK(sections > 0 && sections <= kMaxPieces, Runtime, Operator{"tensor_split"},
               "the number of pieces must be from 1 to ", kMaxPieces, ", not ", sections);
  DimVector sizes;
  for (int64_t i = 0; i < sections; ++i) sizes.push_back(size / sections + (i < size % sections));
  return ops::split_with_sizes(self, sizes, dim);
}

namespace {

// The number of elements of storage up to the last one of a geometry.
int64_t reach(IntList sizes, IntList strides, int64_t offset) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) return 0;
    offset = checked_add(offset, checked_mul(sizes[i] - 1, strides[i]));
  }
  return checked_add(offset, 1);
}

}  // namespace

Tensor as_strided_backward(const Tensor& grad, IntList self_sizes, IntList self_strides, int64_t self_offset,
                           IntList size, IntList stride, std::optional<int64_t> storage_offset) {
  const int64_t offset = storage_offset.value_or(self_offset), base = std::min(offset, self_offset);
  const int64_t extent =
      std::max(reach(self_sizes, self_strides, self_offset - base), reach(size, stride, offset - base));
  // Where in storage the elements of both geometries lie.
  const Tensor all = ops::arange(extent, ScalarType::Int64, grad.device());
  const Tensor from = ops::as_strided(all, self_sizes, self_strides, self_offset - base);
  const Tensor to = ops::as_strided(all, size, stride, offset - base);
  const int64_t flat[] = {extent};
  Tensor memory = ops::index_put_long(ops::new_zeros(grad, IntList(flat, 1)), TensorList(&to, 1), grad, true);
  // An element that self reaches through several indices gets its share through each of them.
  if (has_internal_overlap(from)) {
    const Tensor ones = ops::ones_like(from, grad.dtype());
    const Tensor zeros = ops::new_zeros(grad, IntList(flat, 1));
    const Tensor count = ops::index_put_long(zeros, TensorList(&from, 1), ones, true);
    memory = ops::div(memory, ops::masked_fill(count, ops::eq(count, zeros), 1));
  }
  return ops::index_long(memory, TensorList(&from, 1));
}

}  // namespace facula::composite
