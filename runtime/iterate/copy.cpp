// copy_strided: one tensor into another of any layout and dtype.
#include <cstdlib>
#include <cstring>

#include "runtime/core/rounding.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/stream.h"
#include "runtime/iterate/tiles.h"

namespace facula {

namespace {

void copy_dense(char* dst, ScalarType to, const char* src, ScalarType from, int64_t n) {
  const int64_t d = static_cast<int64_t>(itemsize(to)), s = static_cast<int64_t>(itemsize(from));
  if (n * d >= kStreamBytes && whole_lines(dst)) {
    const auto stream = FACULA_BY_ISA(convert_table).stream;
    const int64_t part = kStreamPiece / std::max(d, s);
    parallel_for(0, ceil_div(n, part), kGrain / part, [&](int64_t begin, int64_t end) {
      alignas(64) char piece[kStreamPiece];
      for (int64_t i = begin * part; i < std::min(end * part, n); i += part) {
        const int64_t m = std::min(part, n - i);
        if (to != from) {
          fetch(src + (i + part) * s, src + (i + 2 * part) * s);
          convert_elements(to, piece, from, src + i * s, m);
        }
        stream(dst + i * d, to == from ? src + i * s : piece, m * d);
      }
      stream_done();
    });
    return;
  }
  parallel_for(0, n, kGrain,
               [&](int64_t b, int64_t e) { convert_elements(to, dst + b * d, from, src + b * s, e - b); });
}

// Conversion of one box through at most two tiles.
void convert_box(const StridedPlan& plan, const Box& box, ScalarType to, ScalarType from, char* raw, char* converted,
                 DimVector& dense) {
  const int ndim = static_cast<int>(box.sizes.size());
  const auto is_dense = [&](int k, size_t item) {
    dense_strides(box.sizes, static_cast<int64_t>(item), dense);
    for (size_t d = 0; d < dense.size(); ++d) {
      if (box.sizes[d] != 1 && plan.strides[k][d] != dense[d]) return false;
    }
    return true;
  };
  const bool dst_dense = is_dense(0, itemsize(to));
  const char* src = box.data[1];
  if (!is_dense(1, itemsize(from))) {
    move_box(itemsize(from), ndim, box.sizes.data(), raw, dense.data(), src, plan.strides[1].data());
    src = raw;
  }
  char* dst = dst_dense ? box.data[0] : converted;
  convert_elements(to, dst, from, src, box.numel);
  if (!dst_dense) {
    dense_strides(box.sizes, static_cast<int64_t>(itemsize(to)), dense);
    move_box(itemsize(to), ndim, box.sizes.data(), box.data[0], plan.strides[0].data(), converted, dense.data());
  }
}

// A large transposition whose result has lines that can be written whole.
bool streams(const StridedPlan& plan, const BoxGrid& grid, int64_t item) {
  if (!grid.transposed || plan.numel * item < 2 * kStreamBytes || plan.strides[0][0] != item ||
      plan.strides[1][1] != item || reinterpret_cast<uintptr_t>(plan.data[0]) % 64 != 0) {
    return false;
  }
  for (size_t d = 1; d < plan.sizes.size(); ++d) {
    if (plan.strides[0][d] % 64 != 0) return false;
  }
  return true;
}

}  // namespace

void move_rows(const StridedPlan& plan, size_t itemsize) {
  if (plan.numel == 0) return;
  const ConvertTable& table = FACULA_BY_ISA(convert_table);
  const auto move = table.move[size_log2(itemsize)];
  const int64_t item = static_cast<int64_t>(itemsize), apart = std::abs(plan.strides[1][0]);
  const bool near = apart >= item && apart <= 4 * item;  // all lines from the first to the last element are read
  // Elements of a piece: whole lines of the result, made of what is fetched at once.
  const int64_t part = near ? kStreamPiece / apart / (64 / item) * (64 / item) : kStreamPiece / item;
  const bool stream = plan.numel * item >= kStreamBytes && plan.strides[0][0] == item;
  // Pieces and short rows end before the memory's own foresight has begun: what is read next is fetched.
  const int64_t next = plan.sizes.size() > 1 ? plan.strides[1][1] : 0;
  parallel_for(0, plan.numel, kGrain, [&](int64_t begin, int64_t end) {
    detail::for_each_row(plan, begin, end, [&](char** p, const int64_t* s, int64_t n) {
      if (!stream || !whole_lines(p[0])) {
        move(p[0], s[0], p[1], s[1], n);
        return;
      }
      alignas(64) char piece[kStreamPiece];
      for (int64_t i = 0; i < n; i += part) {
        const int64_t m = std::min(part, n - i);
        const char* from = p[1] + i * s[1];
        const char* ahead = i + part < n ? from + part * s[1] : p[1] + next;
        if (near) fetch(std::min(ahead, ahead + m * s[1]), std::max(ahead, ahead + m * s[1]));
        if (s[1] != item) move(piece, item, from, s[1], m);
        table.stream(p[0] + i * item, s[1] == item ? from : piece, m * item);
      }
    });
    if (stream) stream_done();
  });
}

void copy_strided(const Tensor& dst, const Tensor& src) {
  FACULA_CHECK(dst.is_cpu() && src.is_cpu(), Device, "copy: both tensors must be on cpu, not ", to_string(dst.device()),
               " and ", to_string(src.device()));
  const ScalarType to = dst.dtype(), from = src.dtype();
  char* const out = static_cast<char*>(dst.raw());
  const char* const in = static_cast<const char*>(src.raw());
  const bool same_shape = dst.sizes() == src.sizes();
  FACULA_CHECK(same_shape || (src.dim() <= dst.dim() &&
                              broadcast_shapes(dst.sizes(), src.sizes(), "copy") == DimVector(dst.sizes())),
               Shape, "copy: the values are ", shape_string(src.sizes()), " and do not broadcast to the ",
               shape_string(dst.sizes()), " they are written to");
  if (dst.numel() == 0 || (out == in && to == from && same_shape && dst.strides() == src.strides())) return;
  if (same_shape && dst.is_contiguous() && src.is_contiguous()) {
    if (dst.numel() < 2 * kGrain) {
      convert_elements(to, out, from, in, dst.numel());
    } else {
      copy_dense(out, to, in, from, dst.numel());
    }
    return;
  }
  const Tensor* operands[] = {&dst, &src};
  StridedPlan plan = make_plan(dst.sizes(), operands);
  const int64_t items[] = {static_cast<int64_t>(itemsize(to)), static_cast<int64_t>(itemsize(from))};
  if (plan.sizes.size() == 1 && plan.strides[0][0] == items[0] && plan.strides[1][0] == items[1]) {
    copy_dense(plan.data[0], to, plan.data[1], from, plan.numel);
    return;
  }
  const bool converts = to != from;
  BoxGrid grid = make_grid(plan, items, converts ? kTile : kGrain);
  if (!converts && !grid.transposed && plan.sizes[0] >= kLongRow) {
    move_rows(plan, itemsize(to));
    return;
  }
  const bool stream = !converts && streams(plan, grid, items[0]);
  if (stream) {  // one line of dst by a long run of src, which the hardware reads ahead
    grid.set_extent(plan, 0, 64 / items[0]);
    grid.set_extent(plan, 1, 4096 / items[0]);
  }
  const int64_t elements = std::max<int64_t>(1, plan.numel / grid.boxes);
  parallel_for(0, grid.boxes, std::max<int64_t>(1, kGrain / elements), [&](int64_t begin, int64_t end) {
    const int64_t raw_bytes = (grid.box_numel() * items[1] + 63) & ~int64_t{63};
    Scratch scratch(converts ? static_cast<size_t>(raw_bytes + grid.box_numel() * items[0]) : 0);
    char* const raw = scratch.data();
    char* const converted = converts ? raw + raw_bytes : nullptr;
    Box box;
    DimVector dense;
    for (int64_t b = begin; b < end; ++b) {
      locate_box(plan, grid, b, box);
      if (stream) {
        FACULA_BY_ISA(convert_table)
            .transpose_stream[size_log2(static_cast<size_t>(items[0]))](box.data[0], plan.strides[0][1], box.data[1],
                                                                        plan.strides[1][0], box.sizes[0], box.sizes[1]);
      } else if (converts) {
        convert_box(plan, box, to, from, raw, converted, dense);
      } else {
        move_box(static_cast<size_t>(items[0]), static_cast<int>(box.sizes.size()), box.sizes.data(), box.data[0],
                 plan.strides[0].data(), box.data[1], plan.strides[1].data());
      }
    }
  });
}

}  // namespace facula
