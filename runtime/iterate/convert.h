// Moving and converting elements: the loops under every copy and every mixed-type operator.
#pragma once

#include <cstdint>

#include "runtime/core/dtype.h"
#include "runtime/iterate/isa.h"

namespace facula {

struct StridedPlan;

struct ConvertTable {
  // Contiguous, not overlapping. Float to integer truncates; what does not fit gives the smallest
  // int32 or int64, or the low bits of a 32-bit result for narrower types, and never traps.
  using Convert = void (*)(void* dst, const void* src, int64_t n);
  // n elements of 2^k bytes, any byte strides.
  using Move = void (*)(char* dst, int64_t dst_stride, const char* src, int64_t src_stride, int64_t n);
  // Each of `rows` elements n times, one after the other.
  using Spread = void (*)(char* dst, const char* src, int64_t src_stride, int64_t n, int64_t rows);
  // dst[j][i] = src[i][j] for i < rows, j < columns; elements along j of src and along i of dst touch.
  using Transpose = void (*)(char* dst, int64_t dst_pitch, const char* src, int64_t src_pitch, int64_t rows,
                             int64_t columns);
  std::array<std::array<Convert, kNumScalarTypes>, kNumScalarTypes> convert;  // [from][to]
  Move move[5];                                                               // by log2 of the element size
  Spread spread[5];
  Transpose transpose[5];
  // The same by streaming stores, for results too large to stay there: writing whole lines without reading
  // them first. dst and dst_pitch are multiples of 64.
  Transpose transpose_stream[5];
  // A plain copy by streaming stores; dst is the begin of a line. stream_done() (stream.h) has to follow.
  void (*stream)(char* dst, const char* src, int64_t bytes);
};
FACULA_DECLARE_BY_ISA(ConvertTable, convert_table)

inline int size_log2(size_t itemsize) { return __builtin_ctzll(itemsize); }

inline void convert_elements(ScalarType to, void* dst, ScalarType from, const void* src, int64_t n) {
  FACULA_BY_ISA(convert_table).convert[static_cast<size_t>(from)][static_cast<size_t>(to)](dst, src, n);
}

// A box of elements between two strided layouts (byte strides, innermost dim first). Rows, runs and
// transposed planes are recognised.
void move_box(size_t itemsize, int ndim, const int64_t* sizes, char* dst, const int64_t* dst_strides, const char* src,
              const int64_t* src_strides);

// Operand 0 of the plan = operand 1, row by row and shared among threads; large results by streaming stores.
void move_rows(const StridedPlan& plan, size_t itemsize);

}  // namespace facula
