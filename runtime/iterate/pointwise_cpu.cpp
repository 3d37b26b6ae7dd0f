#include "runtime/iterate/loop_faults.h"
#include "runtime/iterate/pointwise_cpu.h"

#include <cstring>

#include "runtime/iterate/convert.h"
#include "runtime/iterate/stream.h"
#include "runtime/iterate/tiles.h"

namespace facula {
constinit thread_local LoopFault tls_loop_fault;
}  // namespace facula

namespace facula::detail {

namespace {

constexpr int kMax = kMaxPointwiseOperands;

struct Operand {
  ScalarType dtype, want;  // in memory, in the loop
  int64_t item, want_item;
  bool constant = false;       // one element for all
  bool box_dense = false;      // a full box lies in one piece
  bool row_direct = false;     // rows can be used where they lie
  bool stream = false;         // by streaming stores, from a tile
  alignas(16) char value[16];  // of a constant, converted
  bool converts() const { return dtype != want; }
};

struct StridedIterator {
  StridedPlan plan;
  BoxGrid grid;
  Operand operands[kMax];
  int outs, count;
  int64_t box_numel = 1;
  bool by_rows = false;  // the loop is called once a row of a box
  bool ahead = false;    // operands of the next box are asked for while this one is computed
  PointwiseLoop loop;
  const LoopArgs* args;

  void prepare() {
    bool all_direct = true, any_stream = false;
    int64_t items[kMax];
    for (int k = 0; k < count; ++k) {
      Operand& o = operands[k];
      items[k] = o.item;
      const DimVector& s = plan.strides[k];
      o.constant = k >= outs && std::all_of(s.begin(), s.end(), [](int64_t x) { return x == 0; });
      if (o.constant) convert_elements(o.want, o.value, o.dtype, plan.data[k], 1);
      o.stream = k < outs && streams(k);
      any_stream |= o.stream;
      all_direct &= !o.constant && !o.converts() && s[0] == o.want_item;
    }
    grid = make_grid(plan, std::span<const int64_t>(items, static_cast<size_t>(count)),
                     all_direct && !any_stream ? kGrain : kTile);
    box_numel = grid.box_numel();
    bool mixed = false;
    for (int k = 0; k < count; ++k) {
      Operand& o = operands[k];
      o.row_direct = !o.converts() && !o.constant && (plan.strides[k][0] == o.item || plan.sizes[0] == 1);
      o.box_dense = !o.constant && dense_in_box(k);
      o.stream &= o.box_dense;
      mixed |= o.row_direct && !o.box_dense;
      ahead |= any_stream && fetched(k);
    }
    by_rows = mixed && grid.extents[0] >= kLongRow;
    ahead &= !by_rows;
  }

  // Large results that take the place of no input.
  bool streams(int k) const {
    bool apart = plan.numel * operands[k].item >= kStreamBytes;
    for (int i = outs; i < count; ++i) apart &= plan.data[i] != plan.data[k];
    return apart;
  }

  bool dense_in_box(int k) const {
    int64_t expected = operands[k].item;
    bool whole = true;  // dims so far are not cut, so this holds in smaller boxes at the edge too
    for (size_t d = 0; d < plan.sizes.size(); ++d) {
      if (grid.extents[d] == 1) {
        whole &= plan.sizes[d] == 1;
        continue;
      }
      if (!whole || plan.strides[k][d] != expected) return false;
      expected *= grid.extents[d];
      whole = grid.extents[d] == plan.sizes[d];
    }
    return true;
  }

  void run(int64_t begin, int64_t end) const {
    int64_t bytes = 0, widest = 0;
    for (int k = 0; k < count; ++k) {
      if (used_in_place(operands[k])) continue;
      bytes += (operands[k].want_item * box_numel + 63) & ~int64_t{63};
      if (operands[k].converts()) widest = std::max(widest, operands[k].item);
    }
    Scratch scratch(static_cast<size_t>(bytes + widest * box_numel));
    char* tile[kMax] = {};
    char* next = scratch.data();
    for (int k = 0; k < count; ++k) {
      if (used_in_place(operands[k])) continue;
      tile[k] = next;
      next += (operands[k].want_item * box_numel + 63) & ~int64_t{63};
      if (const Operand& o = operands[k]; o.constant) {
        FACULA_BY_ISA(convert_table)
            .move[size_log2(static_cast<size_t>(o.want_item))](tile[k], o.want_item, o.value, 0, box_numel);
      }
    }
    char* const raw = next;
    Box box, last, next_box;
    std::fill(std::begin(last.data), std::end(last.data), nullptr);
    DimVector dense;
    locate_box(plan, grid, begin, next_box);
    for (int64_t b = begin; b < end; ++b) {
      box = next_box;
      if (b + 1 < end) locate_box(plan, grid, b + 1, next_box);
      const bool same_sizes = b != begin && box.sizes == last.sizes;
      void* ptrs[kMax];
      for (int k = 0; k < count; ++k) {
        const Operand& o = operands[k];
        const bool in_place = used_in_place(o);
        ptrs[k] = in_place ? box.data[k] : tile[k];
        if (in_place || o.constant || k < outs) continue;
        if (same_sizes && box.data[k] == last.data[k]) continue;  // a broadcast operand: still in its tile
        load(k, box, tile[k], raw, dense);
      }
      if (by_rows) {
        call_rows(box, ptrs);
      } else if (ahead && b + 1 < end) {
        call_parts(box, next_box, ptrs);
      } else {
        loop(box.numel, ptrs, const_cast<const void* const*>(ptrs + outs), *args);
        check_loop_faults();
      }
      for (int k = 0; k < outs; ++k) {
        if (tile[k] != nullptr) store(k, box, tile[k], raw, dense);
      }
      last = box;
    }
    stream_done();
  }

  // Whether the loop reads or writes the operand where it lies.
  bool used_in_place(const Operand& o) const {
    return !o.constant && !o.converts() && !o.stream && (o.box_dense || (by_rows && o.row_direct));
  }

  // Operands that are converted are read in bursts with pauses, in which memory would have nothing to do.
  bool fetched(int k) const { return k >= outs && operands[k].converts() && operands[k].box_dense; }

  // A box in parts, each of which asks for a part of the next box: no more lines than can be on their way at once.
  void call_parts(const Box& box, const Box& next, void* const* ptrs) const {
    constexpr int64_t kPart = 256;
    for (int64_t i = 0; i < box.numel; i += kPart) {
      const int64_t n = std::min(kPart, box.numel - i);
      void* now[kMax];
      for (int k = 0; k < count; ++k) {
        const Operand& o = operands[k];
        now[k] = static_cast<char*>(ptrs[k]) + i * o.want_item;
        if (fetched(k)) fetch(next.data[k] + i * o.item, next.data[k] + (i + n) * o.item);
      }
      loop(n, now, const_cast<const void* const*>(now + outs), *args);
    }
    check_loop_faults();
  }

  void load(int k, const Box& box, char* tile, char* raw, DimVector& dense) const {
    const Operand& o = operands[k];
    const char* src = box.data[k];
    if (!o.box_dense) {
      char* into = o.converts() ? raw : tile;
      dense_strides(box.sizes, o.item, dense);
      move_box(static_cast<size_t>(o.item), static_cast<int>(dense.size()), box.sizes.data(), into, dense.data(), src,
               plan.strides[k].data());
      src = into;
    }
    if (o.converts()) convert_elements(o.want, tile, o.dtype, src, box.numel);
  }

  void store(int k, const Box& box, const char* tile, char* raw, DimVector& dense) const {
    const Operand& o = operands[k];
    const char* src = tile;
    if (o.converts()) {
      char* into = o.box_dense && !o.stream ? box.data[k] : raw;
      convert_elements(o.dtype, into, o.want, tile, box.numel);
      src = into;
    }
    if (o.stream) {
      if (whole_lines(box.data[k])) {
        FACULA_BY_ISA(convert_table).stream(box.data[k], src, box.numel * o.item);
      } else {
        std::memcpy(box.data[k], src, static_cast<size_t>(box.numel * o.item));
      }
      return;
    }
    if (!o.box_dense) {
      dense_strides(box.sizes, o.item, dense);
      move_box(static_cast<size_t>(o.item), static_cast<int>(dense.size()), box.sizes.data(), box.data[k],
               plan.strides[k].data(), src, dense.data());
    }
  }

  void call_rows(const Box& box, void* const* ptrs) const {
    const size_t ndim = box.sizes.size();
    const int64_t n = box.sizes[0], rows = box.numel / n;
    DimVector index(ndim, 0);
    char* row[kMax];
    for (int k = 0; k < count; ++k) row[k] = static_cast<char*>(ptrs[k]);
    for (int64_t r = 0; r < rows; ++r) {
      void* now[kMax];
      for (int k = 0; k < count; ++k) {
        const Operand& o = operands[k];
        now[k] = o.constant || used_in_place(o) ? row[k] : row[k] + r * n * o.want_item;
      }
      loop(n, now, const_cast<const void* const*>(now + outs), *args);
      check_loop_faults();
      for (size_t d = 1; d < ndim; ++d) {
        const bool more = ++index[d] < box.sizes[d];
        for (int k = 0; k < count; ++k) {
          const Operand& o = operands[k];
          if (!used_in_place(o)) continue;
          row[k] += more ? plan.strides[k][d] : -(box.sizes[d] - 1) * plan.strides[k][d];
        }
        if (more) break;
        index[d] = 0;
      }
    }
  }
};

}  // namespace

void pointwise_cpu(const PointwiseOp& op, PointwiseLoop loop, ScalarType compute, std::span<const Tensor* const> inputs,
                   std::span<const Tensor* const> outs, const LoopArgs& args) {
  if (outs[0]->numel() == 0) return;
  const ScalarType produced = produced_type(op, compute);
  const Tensor* tensors[kMax];
  StridedIterator it;
  it.outs = static_cast<int>(outs.size());
  it.count = static_cast<int>(outs.size() + inputs.size());
  it.loop = loop;
  it.args = &args;
  for (int k = 0; k < it.count; ++k) {
    const bool is_out = k < it.outs;
    const size_t i = static_cast<size_t>(is_out ? k : k - it.outs);
    const Tensor& t = is_out ? *outs[i] : *inputs[i];
    tensors[k] = &t;
    Operand& o = it.operands[k];
    o.dtype = t.dtype();
    o.want = is_out ? produced : op.masks >> i & 1u ? ScalarType::Bool : compute;
    o.item = static_cast<int64_t>(itemsize(o.dtype));
    o.want_item = static_cast<int64_t>(itemsize(o.want));
  }
  it.plan = make_plan(outs[0]->sizes(), std::span<const Tensor* const>(tensors, static_cast<size_t>(it.count)));
  it.prepare();
  const int64_t grain = std::max<int64_t>(1, kGrain / it.box_numel);
  if (it.plan.numel < 2 * kGrain) {
    it.run(0, it.grid.boxes);
  } else {
    parallel_for(0, it.grid.boxes, grain, [&](int64_t begin, int64_t end) { it.run(begin, end); });
  }
}

}  // namespace facula::detail
