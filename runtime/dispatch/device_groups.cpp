#include "runtime/dispatch/device_groups.h"

#include <atomic>
#include <cstring>

#include "runtime/dispatch/plan.h"
#include "runtime/iterate/convert.h"

namespace facula::detail {

constinit DeviceGroups device_groups;

// ---- forms ----

namespace {

std::atomic<uint64_t> last_form{0};

}  // namespace

uint64_t new_form_id() { return ++last_form; }

namespace {

class Forming {
 public:
  Forming(const PlanGroup& group, const Record& record) : group_(group), record_(record) {
    form_.id = new_form_id();
    value_.assign(group.registers.size(), -1);
    unrounded_.assign(group.registers.size(), false);
    read_inputs();
    for (const PlanStep& s : group.steps) {
      if (s.kind == PlanStep::Kind::Loop) add(s);
      if (s.kind == PlanStep::Kind::Convert) convert(group.used[s.first], group.used[s.first + 1]);
    }
    for (size_t i = 0; i < group.registers.size(); ++i) {
      if (group.registers[i].stored) store(static_cast<uint32_t>(i), group.registers[i].operand);
    }
    for (const PlanCopy& c : group.copies) store(c.from, c.operand);
  }
  GroupForm take() { return std::move(form_); }

 private:
  const PlanGroup& group_;
  const Record& record_;
  GroupForm form_;
  std::vector<int32_t> value_;  // by register
  std::vector<bool> unrounded_;

  void read_inputs() {
    const auto input = [&](uint32_t reg, uint32_t operand) {
      value_[reg] = make(record_.operands[operand].dtype);
      form_.inputs.push_back(operand);
    };
    for (size_t i = 0; i < group_.registers.size(); ++i) {
      const PlanRegister& r = group_.registers[i];
      if (r.kind != PlanRegister::Kind::Tile) input(static_cast<uint32_t>(i), r.operand);
    }
    for (const PlanStep& s : group_.steps) {
      if (s.kind == PlanStep::Kind::Gather) input(group_.used[s.first], s.operand);
    }
  }
  int32_t make(ScalarType dtype) {
    form_.dtypes.push_back(dtype);
    return static_cast<int32_t>(form_.dtypes.size() - 1);
  }
  void add(const PlanStep& s) {
    const RecordNode& node = record_.nodes[s.node];
    form_.steps.push_back({s.node, s.outs, s.ins, static_cast<uint32_t>(form_.used.size()), 0, node.compute});
    for (uint32_t i = 0; i < s.outs; ++i) {
      const uint32_t reg = group_.used[s.first + i];
      const int32_t value = make(record_.operands[node.operands + i].dtype);
      value_[reg] = value;
      unrounded_[reg] = form_.dtypes.back() != group_.registers[reg].dtype;
      form_.used.push_back(value);
    }
    for (uint32_t i = 0; i < s.ins; ++i) form_.used.push_back(value_[group_.used[s.first + s.outs + i]]);
  }
  void convert(uint32_t to, uint32_t from) {
    if (unrounded_[from]) {  // to the dtype of the call's result, which its step does
      value_[to] = value_[from];
      return;
    }
    form_.steps.push_back({GroupForm::kCopy, 1, 1, static_cast<uint32_t>(form_.used.size()), 0, ScalarType::Float32});
    value_[to] = make(group_.registers[to].dtype);
    form_.used.push_back(value_[to]);
    form_.used.push_back(value_[from]);
  }
  void store(uint32_t reg, uint32_t operand) {
    form_.outputs.push_back(operand);
    form_.stored.push_back(value_[reg]);
  }
};

}  // namespace

std::shared_ptr<const GroupForm> form_of(const PlanGroup& group, const Record& record) {
  return std::make_shared<const GroupForm>(Forming(group, record).take());
}

// ---- running ----

LoopArgs args_of(const Record& record, const RecordNode& node) {
  return {std::span<const Scalar>(record.numbers.data() + node.value, node.values), node.present, node.promoting};
}

void write_number(const Record& record, const RecordOperand& o, void* to) {
  const Scalar& number = record.numbers[o.at];
  visit_dtype(o.dtype, [&]<typename T>(std::type_identity<T>) {
    const T element = number.to<T>();
    std::memcpy(to, &element, sizeof(T));
  });
}

namespace {

DimVector strides_of(const Record& record, const RecordShape& shape, const RecordOperand& o) {
  DimVector strides = shape.strides;
  if (o.layout == Layout::Dense) return strides;
  const auto item = static_cast<int64_t>(itemsize(o.dtype));
  for (size_t d = 0; d < strides.size(); ++d) {
    strides[d] = o.layout == Layout::Constant ? 0 : record.strides[o.at][d] / item;
  }
  return strides;
}

}  // namespace

std::vector<Tensor> tensors_of(const Record& record, const RecordNode& node, const std::vector<Storage>& memory) {
  const RecordShape& shape = record.shapes[node.shape];
  std::vector<Tensor> tensors;
  for (int i = 0; i < node.outputs + node.inputs; ++i) {
    const RecordOperand& o = record.operands[node.operands + static_cast<size_t>(i)];
    if (o.buffer < 0) {
      Tensor element = make_empty({}, o.dtype);
      write_number(record, o, element.raw());
      tensors.push_back(std::move(element));
      continue;
    }
    tensors.push_back(from_storage(memory[static_cast<size_t>(o.buffer)], shape.sizes, strides_of(record, shape, o),
                                   o.offset / static_cast<int64_t>(itemsize(o.dtype)), o.dtype));
  }
  return tensors;
}

void run_alone(const Record& record, const RecordNode& node, std::span<const Tensor> tensors) {
  if (node.kind == RecordNode::Kind::Copy) return device_groups.copy(tensors[0], tensors[1]);
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : tensors) pointers.push_back(&t);
  const std::span<const Tensor* const> all(pointers);
  device_groups.pointwise(*node.op, all.subspan(node.outputs), all.first(node.outputs), node.compute,
                          args_of(record, node));
}

namespace {

// As the calls would have run outside of capture. Values that the group would keep to itself get memory for now.
void run_one_by_one(const PlanGroup& group, const Record& record, std::vector<Storage>& memory) {
  std::vector<size_t> own;
  for (const uint32_t n : group.nodes) {
    const RecordNode& node = record.nodes[n];
    for (int i = 0; i < node.outputs; ++i) {
      const auto b = static_cast<size_t>(record.operands[node.operands + static_cast<size_t>(i)].buffer);
      if (memory[b]) continue;
      memory[b] = StorageImpl::allocate(record.buffers[b].nbytes, record.device);
      own.push_back(b);
    }
    const std::vector<Tensor> tensors = tensors_of(record, node, memory);
    run_alone(record, node, tensors);
  }
  for (const size_t b : own) memory[b].reset();
}

}  // namespace

void run_on_device(const PlanGroup& group, Record& record, std::vector<Storage>& memory) {
  const RecordShape& shape = record.shapes[group.shape];
  if (shape.numel == 0) return;
  const GroupForm& form = *group.form;
  struct alignas(16) Element {
    char bytes[16];
  };
  const size_t count = form.inputs.size() + form.outputs.size();
  std::vector<Element> numbers(form.inputs.size());
  std::vector<DimVector> strides;
  strides.reserve(count);
  GroupCall call{&form, &record, &shape.sizes, shape.numel, {}};
  call.tensors.reserve(count);
  const auto add = [&](uint32_t operand) {
    const RecordOperand& o = record.operands[operand];
    if (o.buffer < 0) {
      void* const to = numbers[call.tensors.size()].bytes;
      write_number(record, o, to);
      call.tensors.push_back({to, nullptr, o.dtype, true});
      return;
    }
    strides.push_back(strides_of(record, shape, o));
    char* const data = static_cast<char*>(memory[static_cast<size_t>(o.buffer)]->data()) + o.offset;
    call.tensors.push_back({data, strides.back().data(), o.dtype, false});
  };
  for (const uint32_t operand : form.inputs) add(operand);
  for (const uint32_t operand : form.outputs) add(operand);
  if (!device_groups.run(call)) run_one_by_one(group, record, memory);
}

RecordStream::RecordStream(const Record& record) : device_(record.device) {
  if (device_.type == kCPU) return;
  before_ = device_groups.stream(device_);
  changed_ = before_ != record.stream;
  if (changed_) device_groups.set_stream(device_, record.stream);
}
RecordStream::~RecordStream() {
  if (changed_) device_groups.set_stream(device_, before_);
}

}  // namespace facula::detail
