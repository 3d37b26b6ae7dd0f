// Shapes and strides shared by view operators, their composites and shape rules.
#pragma once

#include <optional>

#include "runtime/core/checked.h"
#include "runtime/core/tensor.h"
#include "runtime/dispatch/value.h"

namespace facula {

// `shape` with at most one -1, which becomes what is left of `numel`.
DimVector resolve_shape(IntList shape, int64_t numel, const char* op);

// Strides of `sizes` over the memory of a tensor of sizes `from` and strides `strides`, when no copy
// is needed.
std::optional<DimVector> view_strides(IntList from, IntList strides, IntList sizes);

// The layout a memory format names; empty for contiguous. `op` for the message when ndim is wrong.
DimVector format_strides(IntList sizes, MemoryFormat format, const char* op);
// The same where Preserve (and nullopt when `preserve`) means the layout of `self`.
DimVector format_strides_like(const Tensor& self, std::optional<MemoryFormat> format, bool preserve, const char* op);
bool has_format(const Tensor& t, MemoryFormat format);

// Start, length and step of a Python slice of `size` elements.
struct Span {
  int64_t start, length, step;
};
Span resolve_slice(int64_t size, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step,
                   const char* op);

// Dims wrapped, each at most once.
DimVector wrap_dims(IntList dims, int64_t ndim, const char* op);

// -size..size-1 -> 0..size-1; raises IndexError.
int64_t wrap_index(int64_t index, int64_t size, int64_t dim, const char* op);

// The common shape of index tensors: what does not broadcast is an index error.
DimVector index_shape(IntList a, IntList b, const char* op);
// Where the index dims stand in the result: {first dim, their number}, {0, number} when scattered.
struct IndexLayout {
  size_t first = 0, index_ndim = 0;
  DimVector sizes;  // of the result
};
IndexLayout index_layout(IntList table, TensorList indices, const char* op);

// Raises where so many tensors, of some 250 bytes each, are more than a list should hold.
void check_parts(int64_t count, const char* op);

// Product of sizes[begin, end).
inline int64_t product(IntList sizes, size_t begin, size_t end) {
  int64_t p = 1;
  for (size_t i = begin; i < end; ++i) p = checked_mul(p, sizes[i]);
  return p;
}

}  // namespace facula
