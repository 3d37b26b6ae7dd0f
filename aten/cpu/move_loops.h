// Inner loops of moving elements by masks and indices.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

inline constexpr int64_t kCompactRun = 1024;

struct MoveLoops {
  // Smallest (at most 0) and largest (at least -1) of n numbers.
  void (*range)(const int64_t* v, int64_t n, int64_t* least, int64_t* most);
  // By log2 of the element size. out[i] = mask[i] ? *value : self[i]; out may be self.
  void (*select[5])(void* out, const void* self, const uint8_t* mask, const void* value, int64_t n);
  // A mask is set where its byte is not 0. The elements whose mask is set, one after another; returns their number. n
  // <= kCompactRun.
  int64_t (*compact[5])(void* out, const void* from, const uint8_t* mask, int64_t n);
  // first + i for those i whose mask is set.
  int64_t (*positions)(int64_t* out, int64_t first, const uint8_t* mask, int64_t n);
  // The i < n (at most kCompactRun) whose index, counted from the end when negative, is in [low, high);
  // `stride` bytes from one index to the next. Returns their number. `out` has room for n + 8.
  int64_t (*within)(int32_t* out, const char* index, int64_t stride, int64_t n, int64_t size, int64_t low,
                    int64_t high);
  // How many masks are set.
  int64_t (*count)(const uint8_t* mask, int64_t n);
};
FACULA_DECLARE_BY_ISA(MoveLoops, move_loops)

}  // namespace facula
