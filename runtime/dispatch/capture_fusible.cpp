// Taking down calls that are no formulas of elements but go with them: copies to other dtypes and layouts, and
// reductions of results that have no values yet.
#include "runtime/dispatch/capture.h"
#include "runtime/dispatch/capture_internal.h"
#include "runtime/iterate/fusible.h"

#include <cstring>

namespace facula {

using namespace detail;  // NOLINT: records are its subject

namespace {

// Within the record: the call has a result of the CPU, and all that it depends on is kept.
bool is_of_cpu(std::span<const KernelArg> args) {
  for (const KernelArg& a : args) {
    if (a.kind == KernelArg::Kind::Device && a.at != nullptr && static_cast<const Device*>(a.at)->type != kCPU) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool Capture::fusible(const OperatorEntry& op, std::span<const KernelArg> args, Stack& results) {
  const Fusible as = fusible_kernel(op.any_kernel != nullptr ? op.any_kernel : op.kernels[kCPU]);
  if (as == Fusible::No || op.outputs != 1 || !is_of_cpu(args)) return false;
  const Tensor& self = *static_cast<const Tensor*>(args[0].at);
  std::string place = notes_places() ? caller() : std::string();
  const NoSignals no_signals;
  const std::lock_guard lock(mutex_);
  Given given;
  if (!self.is_cpu() || !take(self, given) || self.numel() == 0 || self.is_complex()) return false;
  const bool pending = is_pending(given.buffer);
  if (!pending && (as == Fusible::Reduce || self.numel() < least_)) return false;
  RecordReduction reduction;
  int64_t shape = -1;
  if (as == Fusible::Reduce) {
    if (op.forms[static_cast<int>(Variant::Out)] == nullptr || !is_made_as(self, given.buffer)) return false;
    reduction.entry = &op;
    for (const KernelArg& a : args.subspan(1)) {
      const std::optional<KeptArgument> kept = kept_argument(a);
      if (!kept) return false;
      reduction.arguments.push_back(*kept);
    }
    shape = record_.nodes[record_.buffers[static_cast<size_t>(given.buffer)].maker].shape;
  }
  const Tensor meta = result_without_values(op, args);
  const Tensor result = make_empty_strided(meta.sizes(), meta.strides(), meta.dtype());
  if (result.numel() == 0 || result.is_complex() || !is_non_overlapping_and_dense(result.sizes(), result.strides())) {
    return false;
  }
  if (options_.check) std::memset(result.raw(), 0xff, result.nbytes());
  if (shape < 0) shape = record_.shape_of(result.impl()->sizes, result.impl()->strides, options_.symbolic);
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
