// The short way with broadcasting: small contiguous CPU tensors of one type, row by row.
#pragma once

#include "runtime/iterate/pointwise.h"

namespace facula::detail {

struct RowOperand {
  const char* data;
  const DimVector* sizes;  // null: one element for all
  int64_t item;
};

// Whether rows of `shape` are worth this way rather than that of boxes.
bool fits_rows(const DimVector& shape, int64_t numel);
// Runs `loop` over the rows of contiguous outputs of `shape`; false when it must go the general way.
bool run_rows(PointwiseLoop loop, const LoopArgs& args, const DimVector& shape, std::span<const RowOperand> ins,
              std::span<char* const> outs, int64_t out_item);

}  // namespace facula::detail
