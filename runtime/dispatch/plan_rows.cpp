#include "runtime/dispatch/plan_rows.h"

#include <algorithm>

#include "runtime/core/rounding.h"
#include "runtime/iterate/fused_tuning.h"
#include "runtime/iterate/parallel.h"

namespace facula::detail {

namespace {

int64_t product(const DimVector& sizes, size_t first, size_t last) {
  int64_t n = 1;
  for (size_t d = first; d < last; ++d) n *= sizes[d];
  return n;
}

// Is `sizes` what is left of `of` when the dims from `kept` on are reduced?
bool is_kept(const DimVector& sizes, const DimVector& of, size_t kept) {
  if (sizes.size() != kept && sizes.size() != of.size()) return false;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != (d < kept ? of[d] : 1)) return false;
  }
  // Without the dims of one element, another dim of the same size could be the one that is left.
  return sizes.size() == of.size() ||
         std::find(of.begin() + static_cast<std::ptrdiff_t>(kept), of.end(), of[kept - 1]) == of.end();
}

// The groups from one that ends in a reduction over last dims on.
class Finder {
 public:
  Finder(const Record& record, const Plan& plan, size_t first) : record_(record), plan_(plan) {
    const PlanGroup& group = plan.groups[first];
    const RecordShape& shape = record.shapes[group.shape];
    found_.first = static_cast<uint32_t>(first);
    found_.shape = group.shape;
    for (size_t kept = 1; kept < shape.sizes.size() && found_.kept == 0; ++kept) {
      if (is_kept(reduction(group).sizes, shape.sizes, kept)) found_.kept = static_cast<uint32_t>(kept);
    }
    const auto kept = static_cast<size_t>(found_.kept);
    if (kept == 0 || !is_contiguous(shape.sizes, shape.strides)) return;
    found_.rows = product(shape.sizes, 0, kept);
    length_ = product(shape.sizes, kept, shape.sizes.size());
    // Few or short rows, and longer ones than a part of a reduction, are summed in other ways.
    if (shape.sizes[kept - 1] < 2 || found_.rows < tuning::kFusedRowsLeast || length_ < 8) return;
    if (length_ > tuning::kFusedRowsBlock || shape.numel < 4 * tuning::kFusedRowsBlock) return;
    size_t last = first;
    while (last < plan.groups.size() && add(plan.groups[last])) ++last;
    found_.last = static_cast<uint32_t>(last);
  }
  bool found() const { return found_.last >= found_.first + 2; }
  PlanRows take(const std::vector<bool>& held) {
    for (uint32_t g = found_.first; g < found_.last; ++g) {
      const PlanGroup& group = plan_.groups[g];
      for (const uint32_t n : group.nodes) {
        const RecordNode& node = record_.nodes[n];
        for (uint32_t i = 0; i < node.outputs; ++i) made(record_.operands[node.operands + i].buffer, held);
      }
    }
    return std::move(found_);
  }

 private:
  const RecordReduction& reduction(const PlanGroup& group) const {
    return record_.reductions[record_.nodes[static_cast<size_t>(group.reduction)].value];
  }
  // Memory that nobody reads but these groups is there for a block.
  void made(int32_t b, const std::vector<bool>& held) {
    const auto at = static_cast<size_t>(b);
    if (held[at] || !record_.buffers[at].fresh) return;
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      if (g >= found_.first && g < found_.last) continue;
      for (const uint32_t n : plan_.groups[g].nodes) {
        const RecordNode& node = record_.nodes[n];
        for (uint32_t i = 0; i < uint32_t{node.outputs} + node.inputs; ++i) {
          if (record_.operands[node.operands + i].buffer == b) return;
        }
      }
    }
    for (PlanRows::Buffer& buffer : found_.buffers) buffer.own |= buffer.buffer == b;
  }
  bool add(const PlanGroup& group) {
    const RecordShape& whole = record_.shapes[found_.shape];
    const RecordShape& shape = record_.shapes[group.shape];
    const auto kept = static_cast<size_t>(found_.kept);
    const bool is_whole = group.shape == found_.shape;
    if (!is_whole && (group.reduction >= 0 || !is_kept(shape.sizes, whole.sizes, kept) ||
                      !is_contiguous(shape.sizes, shape.strides))) {
      return false;
    }
    if (group.reduction >= 0) {
      const RecordReduction& r = reduction(group);
      if (!is_kept(r.sizes, whole.sizes, kept) || !is_contiguous(r.sizes, r.strides)) return false;
    }
    std::vector<PlanRows::Buffer> buffers = found_.buffers;
    for (const uint32_t n : group.nodes) {
      const RecordNode& node = record_.nodes[n];
      for (uint32_t i = 0; i < uint32_t{node.outputs} + node.inputs; ++i) {
        const RecordOperand& o = record_.operands[node.operands + i];
        if (o.buffer >= 0 && !touch(o, node, i < node.outputs, is_whole ? length_ : 1, shape, buffers)) return false;
      }
    }
    found_.buffers = std::move(buffers);
    if (!is_whole && std::find(found_.small.begin(), found_.small.end(), group.shape) == found_.small.end()) {
      found_.small.push_back(group.shape);
    }
    for (const uint32_t n : group.nodes) {
      if (record_.nodes[n].kind == RecordNode::Kind::Reduce) found_.reductions.push_back(record_.nodes[n].value);
    }
    return true;
  }
  // All operands over a buffer go from row to row in one step; what is written has its rows and no more.
  bool touch(const RecordOperand& o, const RecordNode& node, bool written, int64_t length, const RecordShape& shape,
             std::vector<PlanRows::Buffer>& buffers) const {
    const auto item = static_cast<int64_t>(itemsize(o.dtype));
    int64_t step = 0;
    if (written && node.kind == RecordNode::Kind::Reduce) {
      step = item;
    } else if (o.layout == Layout::Dense) {
      step = length * item;
    } else if (o.layout == Layout::Strided) {
      const DimVector& strides = record_.strides[o.at];
      const auto kept = static_cast<size_t>(found_.kept);
      step = strides[kept - 1];
      int64_t expected = step;
      for (size_t d = kept; d-- > 0;) {
        if (shape.sizes[d] != 1 && strides[d] != expected) return false;
        expected *= shape.sizes[d];
      }
    }
    const RecordBuffer& memory = record_.buffers[static_cast<size_t>(o.buffer)];
    if (written && (o.offset != 0 || step * found_.rows != static_cast<int64_t>(memory.nbytes))) return false;
    for (PlanRows::Buffer& b : buffers) {
      if (b.buffer != o.buffer) continue;
      b.written |= written;
      return b.step == step && !(b.written && o.offset != 0);
    }
    // What is read here and written later must lie at the same rows, which only operands without an offset tell.
    buffers.push_back({o.buffer, step, written || o.offset != 0, false});
    return true;
  }

  const Record& record_;
  const Plan& plan_;
  PlanRows found_;
  int64_t length_ = 0;
};

// `sizes` with so many rows.
void set_rows(DimVector& sizes, size_t kept, int64_t rows) {
  for (size_t d = 0; d + 1 < kept; ++d) sizes[d] = 1;
  sizes[kept - 1] = rows;
}

}  // namespace

std::vector<PlanRows> find_rows(const Record& record, const Plan& plan, const std::vector<bool>& held) {
  std::vector<PlanRows> all;
  if (record.symbolic) return all;
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    if (plan.groups[g].reduction < 0) continue;
    Finder finder(record, plan, g);
    if (!finder.found()) continue;
    all.push_back(finder.take(held));
    g = all.back().last - 1;
  }
  return all;
}

void run_rows(const Plan& plan, const PlanRows& rows, Record& record, std::vector<Storage>& lent) {
  for (const PlanRows::Buffer& buffer : rows.buffers) {
    // What others read later has all of its memory.
    if (!buffer.own) storage_of(record, lent, static_cast<size_t>(buffer.buffer));
  }
  const auto kept = static_cast<size_t>(rows.kept);
  const int64_t length = record.shapes[rows.shape].numel / rows.rows;
  const int64_t block = std::max<int64_t>(1, tuning::kFusedRowsBlock / length);
  parallel_for(0, ceil_div(rows.rows, block), 1, [&](int64_t first, int64_t last) {
    Record part = record;
    for (int64_t b = first; b < last; ++b) {
      const int64_t row = b * block, n = std::min(block, rows.rows - row);
      RecordShape& shape = part.shapes[rows.shape];
      set_rows(shape.sizes, kept, n);
      shape.numel = n * length;
      for (const uint32_t s : rows.small) {
        set_rows(part.shapes[s].sizes, kept, n);
        part.shapes[s].numel = n;
      }
      for (const uint32_t r : rows.reductions) set_rows(part.reductions[r].sizes, kept, n);
      for (const PlanRows::Buffer& buffer : rows.buffers) {
        RecordBuffer& to = part.buffers[static_cast<size_t>(buffer.buffer)];
        if (buffer.own) {
          to.storage.reset();
          to.nbytes = static_cast<size_t>(n * buffer.step);
        } else {
          const RecordBuffer& from = record.buffers[static_cast<size_t>(buffer.buffer)];
          if (!to.storage) to.storage = lent[static_cast<size_t>(buffer.buffer)];
          to.data = from.data + row * buffer.step;
        }
      }
      std::vector<Storage> own(part.buffers.size());
      run_groups(plan, rows.first, rows.last, part, own);
    }
  });
  for (uint32_t g = rows.first; g < rows.last; ++g) {
    for (const int32_t b : plan.groups[g].returned) lent[static_cast<size_t>(b)].reset();
  }
}

}  // namespace facula::detail
