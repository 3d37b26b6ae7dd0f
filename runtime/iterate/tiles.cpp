#include "runtime/iterate/tiles.h"

#include <cstdlib>
#include <cstring>

#include "runtime/core/rounding.h"
#include "runtime/iterate/convert.h"

namespace facula {

namespace {

void move_dim(StridedPlan& plan, size_t from, size_t to) {
  const auto move = [&](DimVector& v) { std::rotate(v.begin() + to, v.begin() + from, v.begin() + from + 1); };
  move(plan.sizes);
  for (int k = 0; k < plan.operands; ++k) move(plan.strides[k]);
}

// The dim that operand k runs along, when that is not dim 0 and worth a transposed box.
size_t running_dim(const StridedPlan& plan, int k, int64_t item) {
  const DimVector& s = plan.strides[k];
  if (std::abs(s[0]) < 64 || plan.sizes[0] < 8) return 0;  // neighbours share a cache line already
  for (size_t d = 1; d < s.size(); ++d) {
    if (s[d] == item && plan.sizes[d] >= 4) return d;
  }
  return 0;
}

}  // namespace

void BoxGrid::set_extent(const StridedPlan& plan, size_t d, int64_t extent) {
  boxes /= counts[d];
  extents[d] = std::min(extent, plan.sizes[d]);
  counts[d] = ceil_div(plan.sizes[d], extents[d]);
  boxes *= counts[d];
}

BoxGrid make_grid(StridedPlan& plan, std::span<const int64_t> items, int64_t row_limit) {
  const size_t ndim = plan.sizes.size();
  BoxGrid grid;
  grid.extents.resize(ndim, 1);
  for (int k = 0; k < plan.operands && !grid.transposed; ++k) {
    const int64_t item = items[static_cast<size_t>(k)];
    if (const size_t d = running_dim(plan, k, item); d != 0) {
      move_dim(plan, d, 1);
      grid.transposed = true;
      grid.extents[1] = std::min(plan.sizes[1], std::clamp<int64_t>(64 / item, 8, 64));
      grid.extents[0] = std::min(plan.sizes[0], kTurnedTile / grid.extents[1]);
    }
  }
  if (!grid.transposed) {
    grid.extents[0] = std::min(plan.sizes[0], row_limit);
    int64_t room = grid.extents[0] == plan.sizes[0] && plan.sizes[0] < kLongRow ? kTile / plan.sizes[0] : 1;
    for (size_t d = 1; d < ndim && room > 1; ++d) {
      grid.extents[d] = std::min(plan.sizes[d], room);
      room = grid.extents[d] == plan.sizes[d] ? room / plan.sizes[d] : 1;
    }
  }
  grid.counts.resize(ndim);
  for (size_t d = 0; d < ndim; ++d) {
    grid.counts[d] = ceil_div(plan.sizes[d], grid.extents[d]);
    grid.boxes *= grid.counts[d];
  }
  return grid;
}

void locate_box(const StridedPlan& plan, const BoxGrid& grid, int64_t box, Box& out) {
  const size_t ndim = plan.sizes.size();
  out.sizes.resize(ndim);
  out.numel = 1;
  for (int k = 0; k < plan.operands; ++k) out.data[k] = plan.data[k];
  for (size_t d = 0; d < ndim; ++d) {
    int64_t start = 0;
    if (grid.counts[d] > 1) {
      start = box % grid.counts[d] * grid.extents[d];
      box /= grid.counts[d];
      for (int k = 0; k < plan.operands; ++k) out.data[k] += start * plan.strides[k][d];
    }
    out.sizes[d] = std::min(grid.extents[d], plan.sizes[d] - start);
    out.numel *= out.sizes[d];
  }
}

void dense_strides(const DimVector& sizes, int64_t item, DimVector& strides) {
  strides.resize(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    strides[d] = item;
    item *= sizes[d];
  }
}

void move_box(size_t itemsize, int ndim, const int64_t* sizes, char* dst, const int64_t* dst_strides, const char* src,
              const int64_t* src_strides) {
  while (ndim > 0 && sizes[ndim - 1] == 1) --ndim;
  if (ndim > 2) {
    const int last = ndim - 1;
    for (int64_t i = 0; i < sizes[last]; ++i) {
      move_box(itemsize, last, sizes, dst + i * dst_strides[last], dst_strides, src + i * src_strides[last],
               src_strides);
    }
    return;
  }
  const ConvertTable& table = FACULA_BY_ISA(convert_table);
  const int log = size_log2(itemsize);
  const int64_t item = static_cast<int64_t>(itemsize);
  if (ndim == 0) {
    std::memcpy(dst, src, itemsize);
    return;
  }
  const int64_t n0 = sizes[0], d0 = dst_strides[0], s0 = src_strides[0];
  if (ndim == 1) {
    table.move[log](dst, d0, src, s0, n0);
    return;
  }
  const int64_t n1 = sizes[1], d1 = dst_strides[1], s1 = src_strides[1];
  if (d1 == n0 * d0 && s1 == n0 * s0) {
    table.move[log](dst, d0, src, s0, n0 * n1);
  } else if (s1 == 0 && d0 == item && d1 == n0 * item) {  // one row for all: what is there already is doubled
    table.move[log](dst, item, src, s0, n0);
    const int64_t all = n1 * d1;
    for (int64_t done = d1; done < all; done *= 2) {
      std::memcpy(dst + done, dst, static_cast<size_t>(std::min(done, all - done)));
    }
  } else if (s0 == 0 && n0 > 1 && d0 == item && d1 == n0 * item) {
    table.spread[log](dst, src, s1, n0, n1);
  } else if (n0 >= 4 && n1 >= 4 && d0 == item && s1 == item) {
    table.transpose[log](dst, d1, src, s0, n0, n1);
  } else if (n0 >= 4 && n1 >= 4 && d1 == item && s0 == item) {
    table.transpose[log](dst, d0, src, s1, n1, n0);
  } else if (n0 < 16 && n1 > 2 * n0) {  // short rows: go along the other dim
    for (int64_t i = 0; i < n0; ++i) table.move[log](dst + i * d0, d1, src + i * s0, s1, n1);
  } else {
    for (int64_t i = 0; i < n1; ++i) table.move[log](dst + i * d1, d0, src + i * s1, s0, n0);
  }
}

}  // namespace facula
