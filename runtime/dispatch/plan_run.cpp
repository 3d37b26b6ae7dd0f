// Running plans: addresses are filled in, and the groups run one after another.
#include <cmath>
#include <cstring>

#include "runtime/dispatch/device_rows.h"
#include "runtime/dispatch/plan.h"
#include "runtime/dispatch/plan_reduced.h"
#include "runtime/dispatch/plan_rows.h"
#include "runtime/iterate/convert.h"
#include "runtime/iterate/fused.h"
#include "runtime/iterate/fused_tuning.h"
#include "runtime/iterate/pointwise_cpu.h"
#include "runtime/iterate/stream.h"

namespace facula::detail {

namespace {

char* address(const Record& record, const RecordOperand& o) {
  return record.buffers[static_cast<size_t>(o.buffer)].data + o.offset;
}

// One element of an operand, as `want`.
void read_element(const Record& record, const RecordOperand& o, ScalarType want, char* value) {
  if (o.buffer >= 0) return convert_elements(want, value, o.dtype, address(record, o), 1);
  const Scalar& number = record.numbers[o.at];
  visit_dtype(o.dtype, [&]<typename T>(std::type_identity<T>) {
    const T element = number.to<T>();
    convert_elements(want, value, o.dtype, &element, 1);
  });
}

// Elements of `source`, in the order in which those of the shape lie in memory.
StridedPlan gathered(const RecordShape& shape, const DimVector& strides, char* source) {
  DimVector both[2] = {shape.strides, strides};
  char* data[2] = {nullptr, source};
  return make_plan(shape.sizes, both, data);
}

}  // namespace

void fill_in(const PlanGroup& group, const Record& record, FusedRun& run, std::vector<StridedPlan>& plans) {
  const RecordShape& shape = record.shapes[group.shape];
  run.numel = shape.numel;
  run.slots = group.slots;
  run.widest = group.widest;
  run.registers.resize(group.registers.size());
  run.used = group.used;
  run.steps.reserve(group.steps.size() + group.registers.size());
  const auto overwrites = [&](uint32_t operand) {  // memory that the group reads is in the cache when it is written
    for (const PlanRegister& r : group.registers) {
      if (r.kind == PlanRegister::Kind::Memory &&
          record.operands[r.operand].buffer == record.operands[operand].buffer) {
        return true;
      }
    }
    return false;
  };
  const auto store = [&](uint32_t reg, uint32_t operand) {
    const RecordOperand& o = record.operands[operand];
    FusedStep s;
    s.kind = FusedStep::Kind::Store;
    s.from = o.dtype;
    s.memory = address(record, o);
    s.first = static_cast<uint32_t>(run.used.size());
    run.used.push_back(reg);
    run.steps.push_back(s);
  };
  // Bytes of the whole that a group of rows may run a part of; memory for a part alone is small.
  const auto bytes = [&](uint32_t operand) {
    const RecordOperand& o = record.operands[operand];
    return std::min(shape.whole * static_cast<int64_t>(itemsize(o.dtype)),
                    static_cast<int64_t>(record.buffers[static_cast<size_t>(o.buffer)].nbytes));
  };
  const auto streams = [&](uint32_t operand) { return bytes(operand) >= kStreamBytes && !overwrites(operand); };
  for (size_t i = 0; i < group.registers.size(); ++i) {
    const PlanRegister& r = group.registers[i];
    FusedRegister& to = run.registers[i];
    to.item = static_cast<int64_t>(itemsize(r.dtype));
    to.slot = r.slot;
    if (r.kind == PlanRegister::Kind::Memory) {
      to.base = address(record, record.operands[r.operand]);
      to.far = bytes(r.operand) >= tuning::kFusedFarBytes;
    } else if (r.kind == PlanRegister::Kind::Fill) {
      FusedFill f{r.slot, to.item, {}};
      read_element(record, record.operands[r.operand], r.dtype, f.value);
      run.fills.push_back(f);
    } else if (r.stored) {
      (streams(r.operand) ? to.stream : to.base) = address(record, record.operands[r.operand]);
    }
  }
  plans.reserve(group.steps.size());  // steps point into it
  for (uint32_t k = 0; k < group.steps.size(); ++k) {
    const PlanStep& from = group.steps[k];
    FusedStep s;
    s.first = from.first;
    const uint32_t* const used = group.used.data() + from.first;
    if (from.kind == PlanStep::Kind::Loop) {
      const RecordNode& node = record.nodes[from.node];
      s.loop = node.loop;
      s.outs = from.outs;
      s.ins = from.ins;
      s.args = args_of(record, node);
    } else if (from.kind == PlanStep::Kind::Convert) {
      s.kind = FusedStep::Kind::Convert;
      s.to = group.registers[used[0]].dtype;
      s.from = group.registers[used[1]].dtype;
    } else {
      const RecordOperand& o = record.operands[from.operand];
      plans.push_back(gathered(shape, record.strides[o.at], address(record, o)));
      s.kind = FusedStep::Kind::Gather;
      s.from = o.dtype;
      s.gathered = &plans.back();
    }
    run.steps.push_back(s);
    for (const PlanCopy& c : group.copies) {
      if (c.after == k) store(c.from, c.operand);
    }
  }
}

namespace {

// Which calls an error within a plan is about.
std::string described(const PlanGroup& group, const Record& record) {
  constexpr size_t kMost = 8;
  std::string text = "; this was found when calls ran that compile() had taken down:";
  for (size_t i = 0; i < std::min(kMost, group.nodes.size()); ++i) {
    const uint32_t n = group.nodes[i];
    text += concat(i == 0 ? " " : ", ", record.nodes[n].name);
    if (!record.places.empty()) text += concat(" at ", record.places[n]);
  }
  if (group.nodes.size() > kMost) text += concat(" and ", group.nodes.size() - kMost, " more");
  return record.places.empty() ? text + "; FACULA_COMPILE=check tells their lines" : text;
}

void run_group(const PlanGroup& group, const Record& record) {
  FusedRun run;
  std::vector<StridedPlan> plans;
  fill_in(group, record, run, plans);
  run_fused(run);
}

// The same bits, but for which NaN it is: that is nobody's promise on a device.
bool same_values(const StorageImpl& copy, const RecordBuffer& buffer, const Record& record, ScalarType dtype) {
  if (record.device.type == kCPU) return std::memcmp(copy.data(), buffer.data, buffer.nbytes) == 0;
  std::vector<char> ours(buffer.nbytes), theirs(buffer.nbytes);
  device_groups.to_host(ours.data(), buffer.data, record.device, buffer.nbytes);
  device_groups.to_host(theirs.data(), copy.data(), record.device, buffer.nbytes);
  const size_t item = itemsize(dtype);
  const auto has_nan = [&](const char* element) {
    complex128 value;
    convert_elements(ScalarType::Complex128, &value, dtype, element, 1);
    return std::isnan(value.real()) || std::isnan(value.imag());
  };
  for (size_t i = 0; i + item <= ours.size(); i += item) {
    const char *const a = ours.data() + i, *const b = theirs.data() + i;
    if (std::memcmp(a, b, item) != 0 && !(has_nan(a) && has_nan(b))) return false;
  }
  return true;
}

}  // namespace

Storage& storage_of(Record& record, std::vector<Storage>& lent, size_t b) {
  RecordBuffer& buffer = record.buffers[b];
  if (buffer.storage) return buffer.storage;
  if (!lent[b]) {
    lent[b] = StorageImpl::allocate(buffer.nbytes, record.device);
    buffer.data = static_cast<char*>(lent[b]->data());
  }
  return lent[b];
}

void run_groups(const Plan& plan, size_t first, size_t last, Record& record, std::vector<Storage>& lent) {
  for (size_t g = first; g < last; ++g) {
    const PlanGroup& group = plan.groups[g];
    try {
      for (const int32_t b : group.lent) storage_of(record, lent, static_cast<size_t>(b));
      if (record.device.type != kCPU && group.reduction >= 0) {
        run_taken_down(record, record.nodes[static_cast<size_t>(group.reduction)], lent);
      } else if (record.device.type != kCPU) {
        run_on_device(group, record, lent);
      } else if (group.reduction < 0) {
        run_group(group, record);
      } else {
        const RecordOperand* const at =
            record.operands.data() + record.nodes[static_cast<size_t>(group.reduction)].operands;
        const auto out = static_cast<size_t>(at[0].buffer), in = static_cast<size_t>(at[1].buffer);
        const bool own = !record.buffers[in].storage && !lent[in];  // nobody has asked for the elements in memory
        run_reduced_group(group, record, storage_of(record, lent, in), storage_of(record, lent, out));
        if (own) lent[in].reset();
      }
    } catch (const Error& e) {
      throw Error(e.kind(), e.op(), e.argument(), concat(e.text(), described(group, record)));
    }
    for (const int32_t b : group.returned) lent[static_cast<size_t>(b)].reset();
  }
}

void run_plan(const Plan& plan, Record& record) {
  const RecordStream stream(record);
  std::vector<Storage> lent(record.buffers.size());
  for (size_t b = 0; record.device.type != kCPU && b < lent.size(); ++b) lent[b] = record.buffers[b].storage;
  size_t g = 0;
  for (const PlanRows& rows : plan.rows) {
    run_groups(plan, g, rows.first, record, lent);
    if (!rows.form) {
      run_rows(plan, rows, record, lent);
    } else if (!run_rows_on_device(plan, rows, record, lent)) {
      run_groups(plan, rows.first, rows.last, record, lent);
    }
    g = rows.last;
  }
  run_groups(plan, g, plan.groups.size(), record, lent);
}

void check_plan(const Plan& plan, Record& record, const std::vector<bool>& held) {
  // Node by node on copies of all memory.
  const bool on_device = record.device.type != kCPU;
  std::vector<Storage> copies;
  {
    const RecordStream stream(record);
    for (const RecordBuffer& b : record.buffers) {
      copies.push_back(StorageImpl::allocate(b.nbytes, record.device));
      if (!b.storage || b.nbytes == 0) continue;
      allocator_of(record.device.type).copy(copies.back()->data(), b.data, b.nbytes, record.device);
    }
    for (const RecordNode& node : record.nodes) {
      if (node.kind == RecordNode::Kind::Reduce) {
        run_taken_down(record, node, copies);
        continue;
      }
      const std::vector<Tensor> tensors = tensors_of(record, node, copies);
      if (on_device) {
        run_alone(record, node, tensors);
        continue;
      }
      if (node.kind == RecordNode::Kind::Copy) {
        copy_strided(tensors[0], tensors[1]);
        continue;
      }
      std::vector<const Tensor*> pointers;
      for (const Tensor& t : tensors) pointers.push_back(&t);
      const std::span<const Tensor* const> all(pointers);
      pointwise_cpu(*node.op, node.loop, node.compute, all.subspan(node.outputs), all.first(node.outputs),
                    args_of(record, node));
    }
  }
  run_plan(plan, record);
  for (size_t n = record.nodes.size(); n-- > 0;) {
    const RecordNode& node = record.nodes[n];
    for (int i = 0; i < node.outputs; ++i) {
      const int32_t b = record.operands[node.operands + static_cast<size_t>(i)].buffer;
      const RecordBuffer& buffer = record.buffers[static_cast<size_t>(b)];
      if (!held[static_cast<size_t>(b)] || !buffer.storage) continue;
      const ScalarType dtype = record.operands[node.operands + static_cast<size_t>(i)].dtype;
      FACULA_CHECK(same_values(*copies[static_cast<size_t>(b)], buffer, record, dtype), Runtime, Operator{node.name},
                   "FACULA_COMPILE=check: the plan's result is not that of the operators run "
                   "one by one",
                   record.places.empty() ? std::string() : concat(", called at ", record.places[n]),
                   "; please report it, and set FACULA_COMPILE=0 meanwhile");
    }
  }
}

}  // namespace facula::detail
