// Cutting a strided walk into boxes small enough for the first-level cache. Inside a box every
// operand is gathered, converted and scattered as its layout wants; box extents follow the layouts.
#pragma once

#include "runtime/iterate/strided.h"

namespace facula {

inline constexpr int64_t kTile = 1024;        // elements of a box that is gathered
inline constexpr int64_t kLongRow = 256;      // rows from here on are boxes of their own

struct BoxGrid {
  DimVector extents;  // of a box, by dim of the plan
  DimVector counts;   // boxes along each dim
  int64_t boxes = 1;
  bool transposed = false;  // some operand runs along dim 1 rather than dim 0
};

// May move a dim of `plan` to position 1: where an operand (element sizes in `items`) runs along
// another dim than the first operand, boxes have a full cache line along both. `row_limit` bounds
// rows when no tile is needed.
BoxGrid make_grid(StridedPlan& plan, std::span<const int64_t> items, int64_t row_limit);

// Extents and operand pointers of box number `box`.
struct Box {
  DimVector sizes;
  int64_t numel;
  char* data[StridedPlan::kMaxOperands];
};
void locate_box(const StridedPlan& plan, const BoxGrid& grid, int64_t box, Box& out);

// Byte strides of a dense box.
void dense_strides(const DimVector& sizes, int64_t item, DimVector& strides);

}  // namespace facula
