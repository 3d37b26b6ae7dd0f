#include "runtime/iterate/loop_faults.h"
#include "runtime/iterate/pointwise_rows.h"

#include "runtime/iterate/convert.h"
#include "runtime/iterate/tiles.h"

namespace facula::detail {

namespace {
// Of many short rows, several make a box of the general way, over which elements are spread in one go: of 1,024 rows of
// 32 floats it takes 0.55 of the time, of 64 rows 1.1, of longer rows 1.2 (Sapphire Rapids, 2026-12-01).
constexpr int64_t kShort = 64, kMostShort = 64;
}  // namespace

bool fits_rows(const DimVector& shape, int64_t numel) {
  if (shape.empty() || shape.size() > 5 || numel == 0 || numel > kGrain) return false;
  const int64_t n = shape.back();
  return n >= 8 ? n <= kTile : numel <= 16 * n;
}

bool run_rows(PointwiseLoop loop, const LoopArgs& args, const DimVector& shape, std::span<const RowOperand> ins,
              std::span<char* const> outs, int64_t out_item) {
  constexpr int kMaxDims = 5, kMaxTiles = 2;
  constexpr size_t kMax = kMaxPointwiseOperands;
  alignas(64) char tiles[kMaxTiles][kTile * 8];
  const int ndim = static_cast<int>(shape.size());
  const int64_t n = shape[shape.size() - 1];
  int64_t strides[kMax][kMaxDims];
  const void* in[kMax];
  const char* at[kMax];
  char* tile[kMax];
  int used = 0;
  for (size_t k = 0; k < ins.size(); ++k) {
    const RowOperand& o = ins[k];
    const int own = o.sizes == nullptr ? 0 : static_cast<int>(o.sizes->size());
    int64_t stride = o.item;
    for (int d = ndim - 1; d >= 0; --d) {
      const int i = d - (ndim - own);
      const int64_t size = i >= 0 ? (*o.sizes)[static_cast<size_t>(i)] : 1;
      strides[k][d] = size == 1 ? 0 : stride;
      stride *= size;
    }
    at[k] = o.data;
    in[k] = o.data;
    tile[k] = nullptr;
    if (n > 1 && strides[k][ndim - 1] == 0) {
      const bool alike = std::all_of(strides[k], strides[k] + ndim, [](int64_t s) { return s == 0; });
      if (used == kMaxTiles || o.item > 8 || (!alike && n < kShort && numel_of(shape) > kMostShort * n)) return false;
      tile[k] = tiles[used++];
      in[k] = tile[k];
    }
  }
  const ConvertTable& table = FACULA_BY_ISA(convert_table);
  const char* spread[kMax] = {};  // what a tile holds
  void* out[kMax];
  for (size_t i = 0; i < outs.size(); ++i) out[i] = outs[i];
  int64_t index[kMaxDims] = {};
  while (true) {
    for (size_t k = 0; k < ins.size(); ++k) {
      if (tile[k] == nullptr) {
        in[k] = at[k];
      } else if (spread[k] != at[k]) {
        table.move[size_log2(static_cast<size_t>(ins[k].item))](tile[k], ins[k].item, at[k], 0, n);
        spread[k] = at[k];
      }
    }
    loop(n, out, in, args);
    check_loop_faults();
    int d = ndim - 2;
    for (; d >= 0; --d) {
      const bool more = ++index[d] < shape[static_cast<size_t>(d)];
      const int64_t steps = more ? 1 : 1 - shape[static_cast<size_t>(d)];
      for (size_t k = 0; k < ins.size(); ++k) at[k] += steps * strides[k][d];
      if (more) break;
      index[d] = 0;
    }
    if (d < 0) return true;
    for (size_t i = 0; i < outs.size(); ++i) out[i] = static_cast<char*>(out[i]) + n * out_item;
  }
}

}  // namespace facula::detail
