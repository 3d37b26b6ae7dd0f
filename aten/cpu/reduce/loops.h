// Inner loops of reductions. Each works in one compute type on rows or columns of contiguous
// memory; reduce.h decides what is fed to them.
#pragma once

#include <cstdint>

#include "runtime/core/dtype.h"
#include "runtime/iterate/isa.h"

namespace facula::cpu {

enum class ReduceOp : uint8_t { Sum, Prod, Min, Max, SumSquares, Moments };

// An accumulator is `planes` numbers of type `acc`, kept `stride` apart: planes of many columns.
struct ReduceLoops {
  ScalarType acc;
  int planes;
  int64_t max_run;    // elements of one row that may be reduced in one call
  int64_t max_rows;   // rows that may be reduced in one call of `columns`
  int64_t max_width;  // columns in one call
  // acc[r] = reduction of x[r * row_stride ...][0, n), 1 <= n <= max_run. Error grows as in pairwise
  // summation, and the order of additions depends on n alone.
  void (*rows)(const void* x, int64_t n, int64_t row_stride, int64_t rows, void* acc, int64_t stride);
  // acc[j] = reduction over i < m of rows[i][j], j < w, 1 <= m <= max_rows.
  void (*columns)(const void* const* rows, int64_t m, int64_t w, void* acc, int64_t stride);
  // acc[j] takes in other[j]; they stand for n_acc and n_other elements.
  void (*merge)(void* acc, const void* other, int64_t w, int64_t stride, double n_acc, double n_other);
};

// Index of the first extreme (NaN counts as more extreme than any number) in each row or column.
struct ArgLoops {
  // best/index of one row of n elements, n >= 1.
  void (*row)(const void* x, int64_t n, void* best, int64_t* index);
  // Takes rows[i], i < m (row number first + i) into best[j], index[j]; index has the width of the
  // compute type. `first == 0` initialises.
  void (*columns)(const void* const* rows, int64_t m, int64_t w, int64_t first, void* best, void* index);
};

// Null where the operation has no loops in that compute type. Sum, Prod: float32, float64, int64,
// complex; Min, Max: float32, float64, int32, int64 (NaN wins); SumSquares, Moments: float32,
// float64 (Moments: planes mean and sum of squared deviations, in float64).
using FindReduceLoops = const ReduceLoops* (*)(ReduceOp op, ScalarType compute);
using FindArgLoops = const ArgLoops* (*)(bool largest, ScalarType compute);  // float32, float64, int32, int64

}  // namespace facula::cpu

namespace facula {
FACULA_DECLARE_BY_ISA(cpu::FindReduceLoops, find_reduce_loops)
FACULA_DECLARE_BY_ISA(cpu::FindArgLoops, find_arg_loops)
}  // namespace facula
