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
Tensor to_other(const Tensor& self, const Tensor& other, bool non_blocking, bool copy,
                std::optional<MemoryFormat> memory_format) {
  return converted(self, other.device(), other.dtype(), copy, memory_format, non_blocking);
}

const Tensor& zero_(const Tensor& self) { return ops::fill_(self, 0); }
const Tensor& resize_as_(const Tensor& self, const Tensor& other, std::optional<MemoryFormat> memory_format) {
  return ops::resize_(self, other.sizes(), memory_format);
}
Tensor dense_copy(const Tensor& self) { return ops::clone(self, MemoryFormat::Contiguous); }

// ---- shapes ----

Tensor reshape(const Tensor& self, IntList shape) {
  const DimVector sizes = resolve_shape(shape, self.numel(), "reshape");
  if (self.is_contiguous() || view_strides(self.sizes(), self.strides(), sizes)) return ops::view(self, sizes);
  return ops::view(ops::clone(self, MemoryFormat::Contiguous), sizes);
}

Tensor flatten(const Tensor& self, int64_t start_dim, int64_t end_dim) {
  const size_t first = static_cast<size_t>(wrap_dim(start_dim, self.dim(), "flatten"));
  const size_t last = static_cast<size_t>(wrap_dim(end_dim, self.dim(), "flatten"));
  FACULA_CHECK(first <= last, Runtime, Operator{"flatten"}, "start_dim ", start_dim, " must not come after end_dim ",
               end_dim);
  const int64_t one = 1;
  if (self.dim() == 0) return ops::reshape(self, IntList(&one, 1));
  if (first == last) return self;
  DimVector sizes(self.sizes().begin(), self.sizes().begin() + first);
  sizes.push_back(product(self.sizes(), first, last + 1));
  for (size_t d = last + 1; d < self.sizes().size(); ++d) sizes.push_back(self.sizes()[d]);
  return ops::reshape(self, sizes);
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

std::vector<Tensor> broadcast_tensors(TensorList tensors) {
  DimVector shape;
  for (const Tensor& t : tensors) shape = broadcast_shapes(shape, t.sizes(), "broadcast_tensors");
  std::vector<Tensor> result;
  result.reserve(tensors.size());
  for (const Tensor& t : tensors) result.push_back(ops::expand(t, shape));
  return result;
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

Tensor narrow(const Tensor& self, int64_t dim, int64_t start, int64_t length) {
  FACULA_CHECK(self.dim() > 0, Shape, Operator{"narrow"}, "a 0-d tensor cannot be narrowed");
  FACULA_CHECK(length >= 0, Runtime, Operator{"narrow"}, Argument{"length"}, " must not be negative, not ", length);
  const int64_t size = self.size(wrap_dim(dim, self.dim(), "narrow"));
  FACULA_CHECK(start >= -size && start <= size, Index, Operator{"narrow"}, "start ", start, " is out of range for dim ",
               dim, " of size ", size);
  if (start < 0) start += size;
  FACULA_CHECK(length <= size - start, Shape, Operator{"narrow"}, length, " entries from ", start, " on leave dim ",
               dim, " of size ", size);
  return ops::slice(self, dim, start, start + length, 1);
}

namespace {

// Pieces that may be empty are not bounded by the size; a list of so many is surely a mistake.
constexpr int64_t kMostPieces = int64_t{1} << 20;

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
    FACULA_CHECK(chunks <= kMostPieces, Runtime, Operator{"chunk"}, chunks, " empty chunks are too many");
    return ops::split_with_sizes(self, DimVector(static_cast<size_t>(chunks), 0), dim);
  }
  return equal_pieces(self, size / chunks + (size % chunks != 0), size, dim, "chunk");
}

std::vector<Tensor> tensor_split_sections(const Tensor& self, int64_t sections, int64_t dim) {
  const int64_t size = splittable(self, dim, "tensor_split");
  FACULA_CHECK(sections > 0 && sections <= kMostPieces, Runtime, Operator{"tensor_split"},
               "the number of pieces must be from 1 to ", kMostPieces, ", not ", sections);
  DimVector sizes;
  for (int64_t i = 0; i < sections; ++i) sizes.push_back(size / sections + (i < size % sections));
  return ops::split_with_sizes(self, sizes, dim);
}

std::vector<Tensor> tensor_split_indices(const Tensor& self, IntList indices, int64_t dim) {
  splittable(self, dim, "tensor_split");
  std::vector<Tensor> pieces;
  std::optional<int64_t> start = 0;
  for (const int64_t end : indices) {
    pieces.push_back(ops::slice(self, dim, start, end, 1));
    start = end;
  }
  pieces.push_back(ops::slice(self, dim, start, std::nullopt, 1));
  return pieces;
}

std::vector<Tensor> tensor_split_tensor(const Tensor& self, const Tensor& where, int64_t dim) {
  FACULA_CHECK(where.dim() <= 1 && where.dtype() == ScalarType::Int64, Runtime, Operator{"tensor_split"},
               Argument{"tensor_indices_or_sections"}, " must be int64 of at most 1 dim, not ",
               dtype_name(where.dtype()), " of shape ", shape_string(where.sizes()));
  if (where.dim() == 0) return ops::tensor_split(self, ops::local_scalar(where).to<int64_t>(), dim);
  DimVector indices;
  for (int64_t i = 0; i < where.numel(); ++i) {
    indices.push_back(ops::local_scalar(ops::select(where, 0, i)).to<int64_t>());
  }
  return ops::tensor_split_indices(self, indices, dim);
}

namespace {

std::vector<Tensor> equal_sections(const Tensor& self, int64_t sections, int64_t dim, int64_t ndim, const char* op) {
  FACULA_CHECK(self.dim() >= ndim, Shape, Operator{op}, Argument{"self"}, " must have at least ", ndim, " dims, not ",
               self.dim());
  FACULA_CHECK(sections > 0 && self.size(dim) % sections == 0, Shape, Operator{op}, "dim ", dim, " of size ",
               self.size(dim), " does not split into ", sections, " equal pieces");
  return ops::tensor_split(self, sections, dim);
}
std::vector<Tensor> at_indices(const Tensor& self, IntList indices, int64_t dim, int64_t ndim, const char* op) {
  FACULA_CHECK(self.dim() >= ndim, Shape, Operator{op}, Argument{"self"}, " must have at least ", ndim, " dims, not ",
               self.dim());
  return ops::tensor_split_indices(self, indices, dim);
}

}  // namespace

std::vector<Tensor> hsplit_sections(const Tensor& self, int64_t sections) {
  return equal_sections(self, sections, self.dim() == 1 ? 0 : 1, 1, "hsplit");
}
std::vector<Tensor> hsplit_indices(const Tensor& self, IntList indices) {
  return at_indices(self, indices, self.dim() == 1 ? 0 : 1, 1, "hsplit");
}
std::vector<Tensor> vsplit_sections(const Tensor& self, int64_t sections) {
  return equal_sections(self, sections, 0, 2, "vsplit");
}
std::vector<Tensor> vsplit_indices(const Tensor& self, IntList indices) {
  return at_indices(self, indices, 0, 2, "vsplit");
}
std::vector<Tensor> dsplit_sections(const Tensor& self, int64_t sections) {
  return equal_sections(self, sections, 2, 3, "dsplit");
}
std::vector<Tensor> dsplit_indices(const Tensor& self, IntList indices) {
  return at_indices(self, indices, 2, 3, "dsplit");
}

// ---- diagonals and grids ----

Tensor diag_embed(const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2) {
  FACULA_CHECK(self.dim() > 0, Shape, Operator{"diag_embed"}, Argument{"self"}, " must have at least 1 dim");
  const int64_t ndim = self.dim() + 1;
  const int64_t a = wrap_dim(dim1, ndim, "diag_embed"), b = wrap_dim(dim2, ndim, "diag_embed");
  FACULA_CHECK(a != b, Runtime, Operator{"diag_embed"}, "dim1 and dim2 must differ, both are ", a);
  int64_t n = 0;
  FACULA_CHECK(offset != std::numeric_limits<int64_t>::min() &&
                   !__builtin_add_overflow(self.sizes().back(), offset < 0 ? -offset : offset, &n),
               Runtime, Operator{"diag_embed"}, "offset ", offset, " is too large");
  DimVector sizes;
  for (int64_t d = 0, from = 0; d < ndim; ++d)
    sizes.push_back(d == a || d == b ? n : self.sizes()[static_cast<size_t>(from++)]);
  return ops::diagonal_scatter(ops::new_zeros(self, sizes), self, offset, a, b);
}

Tensor diag(const Tensor& self, int64_t diagonal) {
  FACULA_CHECK(self.dim() == 1 || self.dim() == 2, Shape, Operator{"diag"}, Argument{"self"},
               " must have 1 or 2 dims, not ", self.dim());
  return self.dim() == 1 ? ops::diag_embed(self, diagonal) : ops::clone(ops::diagonal(self, diagonal), std::nullopt);
}

std::vector<Tensor> meshgrid(TensorList tensors, std::string_view indexing) {
  FACULA_CHECK(indexing == "ij" || indexing == "xy", Value, Operator{"meshgrid"}, Argument{"indexing"},
               " must be 'ij' or 'xy', not '", indexing, "'");
  FACULA_CHECK(!tensors.empty(), Shape, Operator{"meshgrid"}, "at least one tensor is needed");
  const bool swap = indexing == "xy" && tensors.size() >= 2;
  DimVector sizes;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[swap && i < 2 ? 1 - i : i];
    FACULA_CHECK(t.dim() <= 1, Shape, Operator{"meshgrid"}, Argument{"tensors"}, " must be 1-d or 0-d, not ",
                 shape_string(t.sizes()));
    sizes.push_back(t.numel());
  }
  std::vector<Tensor> grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    DimVector shape(tensors.size(), 1);
    shape[swap && i < 2 ? 1 - i : i] = tensors[i].numel();
    grids.push_back(ops::expand(ops::reshape(tensors[i], shape), sizes));
  }
  return grids;
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
