#include "runtime/dispatch/device_rows.h"

#include <algorithm>
#include <map>

#include "runtime/dispatch/plan_rows.h"

namespace facula::detail {

namespace {

// A kernel's arguments and its length are bounded.
constexpr size_t kMostNodes = 48, kMostTensors = 12;

class Finder {
 public:
  // From the group of an operator over last dims on.
  Finder(const Record& record, const Plan& plan, const std::vector<bool>& held, const std::vector<size_t>& last_use,
         size_t at)
      : record_(record), plan_(plan), held_(held), last_use_(last_use) {
    const RecordNode& node = record.nodes[static_cast<size_t>(plan.groups[at].reduction)];
    const RecordShape& shape = record.shapes[node.shape];
    shape_ = node.shape;
    reduced_ = last_dims(record.reductions[node.value], static_cast<int64_t>(shape.sizes.size()));
    kept_ = shape.sizes.size() - static_cast<size_t>(reduced_);
    usable_ = reduced_ > 0 && shape.numel > 0 && is_contiguous(shape.sizes, shape.strides);
  }
  // Makes the form of groups [first, last), if they are one.
  bool fits(size_t first, size_t last) {
    if (!usable_) return false;
    form_ = {};
    strides_.clear();
    sources_.clear();
    pending_.clear();
    made_.clear();
    size_t nodes = 0;
    for (size_t g = first; g < last; ++g) {
      nodes += plan_.groups[g].nodes.size();
      if (nodes > kMostNodes) return false;
      for (const uint32_t n : plan_.groups[g].nodes) {
        if (!add(n)) return false;
      }
    }
    store(last);
    return strides_.size() <= kMostTensors && !form_.outputs.empty();
  }
  PlanRows take(size_t first, size_t last) {
    PlanRows rows;
    rows.first = static_cast<uint32_t>(first);
    rows.last = static_cast<uint32_t>(last);
    rows.shape = shape_;
    form_.id = new_form_id();
    rows.form = std::make_shared<const GroupForm>(std::move(form_));
    rows.strides = std::move(strides_);
    return rows;
  }

 private:
  struct Made {
    int32_t value;
    uint32_t operand;
    bool whole;  // an element for each of the shape; else one a row
    ScalarType dtype;
  };

  const RecordShape& shape() const { return record_.shapes[shape_]; }

  int32_t make(ScalarType dtype) {
    form_.dtypes.push_back(dtype);
    return static_cast<int32_t>(form_.dtypes.size() - 1);
  }
  // Are these the dims that stay, with ones in the place of the others or without?
  bool is_kept(const DimVector& sizes) const {
    const DimVector& whole = shape().sizes;
    if (sizes.size() != kept_ && sizes.size() != whole.size()) return false;
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] != (d < kept_ ? whole[d] : 1)) return false;
    }
    return true;
  }
  // Strides of one element a row, in elements.
  DimVector row_strides() const {
    const DimVector& sizes = shape().sizes;
    DimVector strides(sizes.size(), 0);
    int64_t step = 1;
    for (size_t d = kept_; d-- > 0;) {
      strides[d] = step;
      step *= sizes[d];
    }
    return strides;
  }
  // How an operand of a node of these sizes lies by dim of the whole shape.
  DimVector strides_of(const RecordOperand& o, const RecordShape& of) const {
    DimVector strides(shape().sizes.size(), 0);
    if (o.layout == Layout::Constant) return strides;
    const auto item = static_cast<int64_t>(itemsize(o.dtype));
    for (size_t d = 0; d < of.sizes.size(); ++d) {
      const bool moves = of.sizes[d] != 1;
      strides[d] = !moves ? 0 : o.layout == Layout::Dense ? of.strides[d] : record_.strides[o.at][d] / item;
    }
    return strides;
  }
  // Does an operand lie in one line along the row, or is it one element a row?
  bool is_line(const DimVector& strides) const {
    const DimVector& sizes = shape().sizes;
    int64_t step = 0, size = 1;
    for (size_t d = sizes.size(); d-- > kept_;) {
      if (sizes[d] == 1) continue;
      if (size == 1) step = strides[d];
      if (strides[d] != step * size) return false;
      size *= sizes[d];
    }
    return true;
  }
  bool same_places(const DimVector& a, const DimVector& b) const {
    for (size_t d = 0; d < a.size(); ++d) {
      if (shape().sizes[d] != 1 && a[d] != b[d]) return false;
    }
    return true;
  }

  // The value that an operand has; -1: the node cannot be in the form.
  int32_t source(uint32_t operand, const RecordShape& of) {
    const RecordOperand& o = record_.operands[operand];
    const DimVector strides = o.buffer < 0 ? DimVector(shape().sizes.size(), 0) : strides_of(o, of);
    if (const auto at = made_.find(o.buffer); o.buffer >= 0 && at != made_.end()) {
      const Made& m = at->second;
      const DimVector wanted = m.whole ? shape().strides : row_strides();
      return o.offset == 0 && o.dtype == m.dtype && same_places(strides, wanted) ? m.value : -1;
    }
    if (!is_line(strides)) return -1;
    std::vector<int64_t> key = {o.buffer, o.buffer < 0 ? record_.number_ids[o.at] : o.offset,
                                static_cast<int64_t>(o.dtype)};
    key.insert(key.end(), strides.begin(), strides.end());
    const auto [at, fresh] = sources_.try_emplace(std::move(key), static_cast<int32_t>(sources_.size()));
    if (fresh) pending_.push_back({operand, strides});
    return kInput + at->second;
  }
  // Inputs come first among values, but are found one by one: until store() they have numbers of their own.
  static constexpr int32_t kInput = 1 << 20;

  bool add(uint32_t n) {
    const RecordNode& node = record_.nodes[n];
    const RecordShape& of = record_.shapes[node.shape];
    const bool whole = node.shape == shape_;
    if (!whole && !(is_kept(of.sizes) && is_contiguous(of.sizes, of.strides))) return false;
    const bool rows = node.kind == RecordNode::Kind::Reduce;
    GroupForm::Step step{n, node.outputs, node.inputs, 0, 0, node.compute};
    bool made_whole = whole;
    if (rows) {
      const RecordReduction& r = record_.reductions[node.value];
      if (!whole || last_dims(r, static_cast<int64_t>(of.sizes.size())) != reduced_) return false;
      made_whole = r.sizes == of.sizes && !is_kept(of.sizes);
      if (!made_whole && !is_kept(r.sizes)) return false;
      if (!is_contiguous(r.sizes, r.strides)) return false;
      step.reduced = reduced_;
      step.compute = compute_type(r.dtype);
    } else if (node.kind == RecordNode::Kind::Copy) {
      step.node = GroupForm::kCopy;
    }
    std::vector<int32_t> ins;
    for (uint32_t i = 0; i < node.inputs; ++i) {
      const uint32_t operand = node.operands + node.outputs + i;
      ins.push_back(source(operand, of));
      if (ins.back() < 0) return false;
      // What is taken along rows has elements of its own.
      if (rows && ins.back() >= kInput && record_.operands[operand].layout != Layout::Dense) return false;
    }
    step.first = static_cast<uint32_t>(form_.used.size());
    for (uint32_t i = 0; i < node.outputs; ++i) {
      const RecordOperand& o = record_.operands[node.operands + i];
      const RecordBuffer& buffer = record_.buffers[static_cast<size_t>(o.buffer)];
      if (!buffer.fresh || buffer.maker != n || o.offset != 0) return false;
      const int32_t value = make(o.dtype);
      made_[o.buffer] = {value, node.operands + i, made_whole, o.dtype};
      form_.used.push_back(value);
    }
    form_.used.insert(form_.used.end(), ins.begin(), ins.end());
    form_.steps.push_back(step);
    return true;
  }

  // What others read goes to memory; then the values get their numbers.
  void store(size_t last) {
    const auto count = static_cast<int32_t>(pending_.size());
    std::vector<ScalarType> dtypes;
    for (const auto& [operand, strides] : pending_) {
      form_.inputs.push_back(operand);
      dtypes.push_back(record_.operands[operand].dtype);
      strides_.push_back(strides);
    }
    pending_.clear();
    form_.dtypes.insert(form_.dtypes.begin(), dtypes.begin(), dtypes.end());
    for (int32_t& v : form_.used) v = v >= kInput ? v - kInput : v + count;
    for (const auto& [buffer, m] : made_) {
      if (!held_[static_cast<size_t>(buffer)] && last_use_[static_cast<size_t>(buffer)] < last) continue;
      form_.outputs.push_back(m.operand);
      form_.stored.push_back(m.value + count);
      strides_.push_back(m.whole ? shape().strides : row_strides());
    }
  }

  const Record& record_;
  const Plan& plan_;
  const std::vector<bool>& held_;
  const std::vector<size_t>& last_use_;
  uint32_t shape_ = 0;
  int reduced_ = 0;
  size_t kept_ = 0;
  bool usable_ = false;
  GroupForm form_;
  std::vector<DimVector> strides_;
  std::map<std::vector<int64_t>, int32_t> sources_;
  std::vector<std::pair<uint32_t, DimVector>> pending_;  // inputs
  std::map<int32_t, Made> made_;                         // by buffer
};

}  // namespace

std::vector<PlanRows> find_device_rows(const Record& record, const Plan& plan, const std::vector<bool>& held) {
  std::vector<PlanRows> all;
  if (record.symbolic) return all;
  std::vector<size_t> last_use(record.buffers.size());  // the last group that has to do with a buffer
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    for (const uint32_t n : plan.groups[g].nodes) {
      const RecordNode& node = record.nodes[n];
      for (uint32_t i = 0; i < uint32_t{node.outputs} + node.inputs; ++i) {
        const int32_t b = record.operands[node.operands + i].buffer;
        if (b >= 0) last_use[static_cast<size_t>(b)] = g;
      }
    }
  }
  size_t free = 0;  // the first group that is in none yet
  for (size_t g = 0; g < plan.groups.size(); ++g) {
    if (plan.groups[g].reduction < 0) continue;
    Finder finder(record, plan, held, last_use, g);
    size_t first = g, last = g + 1;
    if (!finder.fits(first, last)) continue;
    // A group before makes what is taken along rows; those behind are looked at first, as they leave less in memory.
    while (last < plan.groups.size() && finder.fits(first, last + 1)) ++last;
    while (first > free && finder.fits(first - 1, last)) --first;
    while (last < plan.groups.size() && finder.fits(first, last + 1)) ++last;
    if (last - first < 2 || !finder.fits(first, last)) continue;
    all.push_back(finder.take(first, last));
    free = last;
    g = last - 1;
  }
  return all;
}

bool run_rows_on_device(const Plan& plan, const PlanRows& rows, Record& record, std::vector<Storage>& lent) {
  const RecordShape& shape = record.shapes[rows.shape];
  const GroupForm& form = *rows.form;
  struct alignas(16) Element {
    char bytes[16];
  };
  std::vector<Element> numbers(form.inputs.size());
  GroupCall call{&form, &record, &shape.sizes, shape.numel, {}};
  call.tensors.reserve(rows.strides.size());
  const auto add = [&](uint32_t operand) {
    const RecordOperand& o = record.operands[operand];
    const size_t at = call.tensors.size();
    if (o.buffer < 0) {
      write_number(record, o, numbers[at].bytes);
      call.tensors.push_back({numbers[at].bytes, nullptr, o.dtype, true});
      return;
    }
    const Storage& memory = storage_of(record, lent, static_cast<size_t>(o.buffer));
    call.tensors.push_back({static_cast<char*>(memory->data()) + o.offset, rows.strides[at].data(), o.dtype, false});
  };
  for (const uint32_t operand : form.inputs) add(operand);
  for (const uint32_t operand : form.outputs) add(operand);
  if (!device_groups.run(call)) return false;
  for (uint32_t g = rows.first; g < rows.last; ++g) {
    for (const int32_t b : plan.groups[g].returned) lent[static_cast<size_t>(b)].reset();
  }
  return true;
}

}  // namespace facula::detail
