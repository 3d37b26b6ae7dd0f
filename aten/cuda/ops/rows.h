// How kernels that have whole rows share them among threads; see kernels/rows.h.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

namespace facula::cuda {

struct RowForm {
  int lanes = 32, vec = 1, items = 1;
  int threads() const { return std::max(lanes, 128); }
  int rows_of_block() const { return threads() / lanes; }
  // A block goes on to other rows when there are more than `most` for one each.
  unsigned blocks(int64_t rows, int64_t most = int64_t{1} << 30) const {
    return static_cast<unsigned>(std::clamp<int64_t>(ceil_div(rows, rows_of_block()), 1, most));
  }
  uint64_t bits() const {
    return static_cast<uint64_t>(lanes) | static_cast<uint64_t>(vec) << 12 | static_cast<uint64_t>(items) << 20;
  }
  std::string text() const {
    return "#define FACULA_LANES " + std::to_string(lanes) + "\n#define FACULA_VEC " + std::to_string(vec) +
           "\n#define FACULA_ITEMS " + std::to_string(items) + "\n";
  }
};

// `held`: values that a thread may keep in registers.
inline RowForm row_form(int64_t length, int vec, int held) {
  RowForm f;
  f.vec = vec;
  const int most = std::max(1, held / vec);
  const int64_t vectors = ceil_div(length, vec);
  // four vectors of a thread at a time are on their way, or 16 single elements
  const int each = std::min(most, vec > 1 ? 4 : 16);
  for (f.lanes = 32; f.lanes < 1024 && vectors > int64_t{f.lanes} * each; f.lanes *= 2) {
  }
  const int64_t items = ceil_div(vectors, f.lanes);
  f.items = items <= most ? static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(items, 1)))) : 0;
  if (f.items > most) f.items = 0;
  return f;
}

}  // namespace facula::cuda
