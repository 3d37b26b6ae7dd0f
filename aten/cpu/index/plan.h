// Advanced indexing: a table (the indexed tensor) and a dense side (result or values) walked together.
#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "aten/geometry.h"
#include "runtime/core/tensor.h"
#include "runtime/iterate/strided.h"

namespace facula::cpu {

struct IndexedDim {
  const int64_t* index;  // n of them
  int64_t size;          // of the table's dim
  int64_t stride;        // of the table's dim, in bytes
};

// Table dims are [outer..., indexed..., inner...], dense ones [outer..., n positions, inner...].
struct IndexPlan {
  StridedPlan outer, inner;  // operand 0: table, operand 1: dense
  SmallVector<IndexedDim, 4> dims;
  int64_t n = 1;
  int64_t step = 0;  // bytes from one position to the next on the dense side
  size_t item = 1;
  bool wrap = false;                     // indices below zero count from the end
  mutable std::atomic<bool> good{true};  // false after a pass: an index was out of range, its position was left out
  std::vector<Tensor> keep;
};

// The indices as dense int64 tensors of their common shape; undefined ones stay.
std::vector<Tensor> prepare_indices(TensorList indices, const char* op);
// With `wrap`, values from -size on are allowed, else from 0; others raise IndexError naming value, dim and size.
void check_indices(const Tensor& table, const std::vector<Tensor>& indices, bool wrap, const char* op);
// The same after a pass that met one; raises in any case, for it may have been written to since.
[[noreturn]] void raise_bad_index(const Tensor& table, const std::vector<Tensor>& indices, bool wrap, const char* op);

// `dense` has the result's sizes, or broadcasts to them; false when its index dims are not one run
// of memory and it has to be copied first.
bool make_index_plan(const Tensor& table, const Tensor& dense, const std::vector<Tensor>& indices,
                     const IndexLayout& layout, IndexPlan& plan);

// The following check each index as they use it, for other threads may have written to it since any earlier check, and
// leave their verdict in `plan.good`.
// dense = table[indices]
void index_read(const IndexPlan& plan);
// table[indices] = dense; the last of several values for one place stays, at any number of threads.
void index_write(const IndexPlan& plan);
// table[indices] += dense, in order. `dtype` of both, not a 16-bit float, or of `dense` for a table of
// long_sum_type(dtype).
void index_accumulate(const IndexPlan& plan, ScalarType dtype, bool in_double);
// Whether many positions meet in one place of the table (long_sums.h).
bool many_meet(const IndexPlan& plan);
// Whether there are positions enough, of dense rows, for the following; whether it serves where many meet.
bool goes_by_rows(const IndexPlan& plan);
bool may_go_by_rows(const IndexPlan& plan);
// table = origin, as dense as the table, or zeros when null; then the same as index_accumulate or, without a dtype,
// index_write. A row is written once, however many positions meet in it.
void index_by_rows(const IndexPlan& plan, std::optional<ScalarType> sum, const void* origin);

// Raises IndexError when an index (dense int64) is not in [low, size).
void check_range(const Tensor& index, int64_t low, int64_t size, int64_t dim, const char* op);
[[noreturn]] void raise_out_of_range(const Tensor& index, int64_t low, int64_t size, int64_t dim, const char* op);

}  // namespace facula::cpu
