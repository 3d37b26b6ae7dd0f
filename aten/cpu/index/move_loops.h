// Inner loops of moving elements by masks and indices.
#pragma once

#include <cstdint>

#include "runtime/core/dtype.h"
#include "runtime/iterate/isa.h"

namespace facula {

inline constexpr int64_t kCompactRun = 1024;

// Row r of `out` is made of that of `origin`, or of zeros, and the rows of `side` at order[ends[r - 1]] to
// order[ends[r]], in that order. Rows of out and origin have n elements and follow one another.
struct RowTerms {
  void* out;
  const void* origin;
  const char* side;
  int64_t step;  // bytes from one row of side to the next
  int64_t n;
  const int32_t* ends;
  const int32_t* order;
  int64_t count;  // of order
  bool stream;    // by streaming stores; rows of out are whole lines
};

// Indices and masks may be written by other threads meanwhile. What the following look at they read once.
struct MoveLoops {
  // Smallest (at most 0) and largest (at least -1) of n numbers.
  void (*range)(const int64_t* v, int64_t n, int64_t* least, int64_t* most);
  // By log2 of the element size. out[i] = table[index[i]], or false when one is not in [0, size).
  bool (*gather[5])(void* out, const void* table, int64_t size, const int64_t* index, int64_t n);
  // By log2 of the element size. out[i] = mask[i] ? *value : self[i]; out may be self.
  void (*select[5])(void* out, const void* self, const uint8_t* mask, const void* value, int64_t n);
  // A mask is set where its byte is not 0. The elements whose mask is set, one after another, at most `room` of them;
  // returns how many there were, which is more when the mask was written to since they were counted. n <= kCompactRun.
  int64_t (*compact[5])(void* out, const void* from, const uint8_t* mask, int64_t n, int64_t room);
  // first + i for those i whose mask is set.
  int64_t (*positions)(int64_t* out, int64_t first, const uint8_t* mask, int64_t n, int64_t room);
  // out[i] = index[i], plus `wrap` when it is negative; false when one is then not in [0, size). `stride` bytes from
  // one index to the next.
  bool (*checked)(int64_t* out, const char* index, int64_t stride, int64_t n, int64_t wrap, int64_t size);
  // The i < n (at most kCompactRun) whose index, plus `wrap` when it is negative, is in [low, high), into `at`, and
  // these indices into `value`; both have room for n + 8. Returns their number.
  int64_t (*within)(int32_t* at, int64_t* value, const char* index, int64_t stride, int64_t n, int64_t wrap,
                    int64_t low, int64_t high);
  // How many masks are set.
  int64_t (*count)(const uint8_t* mask, int64_t n);
  // Rows [begin, end). The sum of all; not for 16-bit floats.
  void (*sum_rows[kNumScalarTypes])(const RowTerms& terms, int64_t begin, int64_t end);
  // The last of all, elements being bytes.
  void (*last_rows)(const RowTerms& terms, int64_t begin, int64_t end);
};
FACULA_DECLARE_BY_ISA(MoveLoops, move_loops)

}  // namespace facula
