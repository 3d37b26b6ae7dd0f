// Cutting a strided iteration into boxes small enough for the first-level cache. Inside a box every
// operand is gathered, converted and scattered as its layout wants; box extents follow the layouts.
#pragma once

#include "runtime/core/allocator.h"
#include "runtime/iterate/strided.h"

namespace facula {

inline constexpr int64_t kTile = 1024;        // elements of a box that is gathered
inline constexpr int64_t kTurnedTile = 8192;  // of a transposed box: long rows for the other operands
// Rows from here on are boxes of their own; shorter ones are gathered rather than visited: an outer product with rows
// of 16 to 64 floats took 0.22 to 0.5 of the time, exp of rows of 128 in a wider matrix 0.75, of 192 the same
// (Sapphire Rapids, 2026-11-30).
inline constexpr int64_t kLongRow = 256;

// Memory of one thread for the length of an iteration.
class Scratch {
 public:
  explicit Scratch(size_t nbytes) : nbytes_(nbytes), data_(static_cast<char*>(cpu_allocate(nbytes))) {}
  ~Scratch() { cpu_deallocate(data_, nbytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  char* data() const { return data_; }

 private:
  size_t nbytes_;
  char* data_;
};

struct BoxGrid {
  DimVector extents;  // of a box, by dim of the plan
  DimVector counts;   // boxes along each dim
  int64_t boxes = 1;
  bool transposed = false;  // some operand runs along dim 1 rather than dim 0
  int64_t box_numel() const {
    int64_t n = 1;
    for (const int64_t e : extents) n *= e;
    return n;
  }
  void set_extent(const StridedPlan& plan, size_t d, int64_t extent);
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
