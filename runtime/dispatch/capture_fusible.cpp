// Taking down calls that are no formulas of elements but go with them: copies to other dtypes and layouts, and
// reductions of results that have no values yet.
#include "runtime/dispatch/capture.h"
#include "runtime/dispatch/capture_internal.h"
#include "runtime/dispatch/device_groups.h"
#include "runtime/iterate/fusible.h"

#include <cstring>

namespace facula {

using namespace detail;  // NOLINT: records are its subject

namespace {

// No argument asks for a result elsewhere.
bool stays_on(Device device, std::span<const KernelArg> args) {
  for (const KernelArg& a : args) {
    if (a.kind != KernelArg::Kind::Device || a.at == nullptr) continue;
    if (!(*static_cast<const Device*>(a.at) == device)) return false;
  }
  return true;
}

// What devices take down: a cast between floats. What is shuffled, or copied as it is, has kernels of its own there.
bool is_float_cast(const Tensor& self, std::span<const KernelArg> args) {
  for (const KernelArg& a : args) {
    if (a.kind != KernelArg::Kind::Type || a.at == nullptr) continue;
    const ScalarType to = *static_cast<const ScalarType*>(a.at);
    return self.is_floating_point() && is_floating(to) && to != self.dtype();
  }
  return false;
}

// An operator over last dims that the device's groups take as a step.
bool takes_rows(const OperatorEntry& op, const Tensor& self, std::span<const KernelArg> args) {
  const Device device = self.device();
  if (!device_groups.takes(device.type) || !device_groups.takes_rows(device.type, op.name)) return false;
  for (const KernelArg& a : args) {
    if (a.kind != KernelArg::Kind::Int && a.kind != KernelArg::Kind::Ints) continue;
    if (a.at == nullptr) return false;
    const IntList dims = a.kind == KernelArg::Kind::Ints ? *static_cast<const IntList*>(a.at)
                                                         : IntList(static_cast<const int64_t*>(a.at), 1);
    return last_dims(dims, self.dim()) > 0;
  }
  return false;
}

}  // namespace

bool Capture::fusible(const OperatorEntry& op, std::span<const KernelArg> args, Stack& results) {
  if (op.outputs != 1) return false;
  const Tensor& self = *static_cast<const Tensor*>(args[0].at);
  Fusible as = fusible_kernel(op.any_kernel != nullptr ? op.any_kernel : op.kernels[kCPU]);
  if (!self.is_cpu() && as != Fusible::Copy) {
    as = takes_rows(op, self, args) ? Fusible::Reduce : Fusible::No;
  }
  if (as == Fusible::No) return false;
  if (self.is_wrapped() || self.numel() == 0 || self.is_complex() || !stays_on(self.device(), args)) return false;
  const Device device = self.device();
  const bool on_cpu = device.type == kCPU;
  if (!on_cpu && as == Fusible::Copy &&
      (op.kernels[device.type] != nullptr || !is_float_cast(self, args) || !device_groups.takes(device.type))) {
    return false;
  }
  std::string place = notes_places() ? caller() : std::string();
  const NoSignals no_signals;
  const std::lock_guard lock(mutex_);
  const bool enough = !on_cpu || (as == Fusible::Copy && self.numel() >= least_);
  if (!turn_to(device, enough)) return false;
  Given given;
  if (!take(self, given)) return false;
  if (!is_pending(given.buffer) && !enough) return false;
  RecordReduction reduction;
  int64_t shape = -1;
  if (as == Fusible::Reduce) {
    if (op.forms[static_cast<int>(Variant::Out)] == nullptr) return false;
    // Values that nobody has yet are taken as they are made; on devices memory is read as well, in its order.
    const bool made = is_pending(given.buffer);
    if (made ? !is_made_as(self, given.buffer) : on_cpu || !self.is_contiguous()) return false;
    reduction.entry = &op;
    for (const KernelArg& a : args.subspan(1)) {
      const std::optional<KeptArgument> kept = kept_argument(a);
      if (!kept) return false;
      reduction.arguments.push_back(*kept);
    }
    if (made) shape = record_.nodes[record_.buffers[static_cast<size_t>(given.buffer)].maker].shape;
  }
  const Tensor meta = result_without_values(op, args);
  if (!on_cpu && as == Fusible::Copy && !(meta.strides() == self.strides())) return false;
  const Tensor result = make_empty_strided(meta.sizes(), meta.strides(), meta.dtype(), device);
  if (result.numel() == 0 || result.is_complex() || !is_non_overlapping_and_dense(result.sizes(), result.strides())) {
    return false;
  }
  if (options_.check && on_cpu) std::memset(result.raw(), 0xff, result.nbytes());
  if (shape < 0) {
    const TensorImpl& lead = as == Fusible::Reduce ? *self.impl() : *result.impl();
    shape = record_.shape_of(lead.sizes, lead.strides, options_.symbolic);
  }
  record_.release_recent();

  RecordNode node{};
  node.kind = as == Fusible::Reduce ? RecordNode::Kind::Reduce : RecordNode::Kind::Copy;
  node.name = op.name;
  node.inputs = node.outputs = 1;
  node.shape = static_cast<uint32_t>(shape);
  record_.add_to_tape(uint64_t{0xfffc} << 48 | static_cast<uint64_t>(node.kind) << 40 | node.shape << 8 |
                      static_cast<uint64_t>(result.dtype()));
  const RecordOperand input = operand_of(given, record_.shapes[node.shape]);
  node.operands = static_cast<uint32_t>(record_.operands.size());
  // A reduction's result lies at none of the places of what it reads.
  const Layout layout = as == Fusible::Reduce ? Layout::Constant : Layout::Dense;
  record_.operands.push_back({record_.buffer_of(result, true), result.dtype(), layout});
  record_.operands.push_back(input);
  if (as == Fusible::Reduce) {
    reduction.sizes = result.impl()->sizes;
    reduction.strides = result.impl()->strides;
    reduction.dtype = result.dtype();
    for (const uint64_t word : words_of(reduction)) record_.add_to_tape(word);
    node.value = static_cast<uint32_t>(record_.reductions.size());
    record_.reductions.push_back(std::move(reduction));
  }
  result.impl()->layers |= kCaptureLayer;  // nobody else has it
  record_.nodes.push_back(node);
  if (notes_places()) record_.places.push_back(std::move(place));
  pending_bytes_ += static_cast<int64_t>(result.nbytes());
  results.emplace_back(result);
  bound();
  return true;
}

// All of what a node of the record makes, as it makes it.
bool Capture::is_made_as(const Tensor& t, int32_t buffer) const {
  const RecordBuffer& b = record_.buffers[static_cast<size_t>(buffer)];
  if (!b.fresh || t.raw() != b.data || t.nbytes() != b.nbytes) return false;
  const RecordNode& maker = record_.nodes[b.maker];
  if (maker.kind == RecordNode::Kind::Reduce) return false;
  const RecordShape& shape = record_.shapes[maker.shape];
  if (t.impl()->sizes != shape.sizes || t.impl()->strides != shape.strides) return false;
  for (uint32_t i = 0; i < maker.outputs; ++i) {
    const RecordOperand& o = record_.operands[maker.operands + i];
    if (o.buffer == buffer) return o.dtype == t.dtype();
  }
  return false;
}

}  // namespace facula
