#include "runtime/dispatch/plan_reduced.h"

#include <algorithm>
#include <atomic>

#include "runtime/core/yield_lock.h"
#include "runtime/iterate/pieces.h"

namespace facula::detail {

namespace {

class GroupPieces final : public ElementPieces {
 public:
  // `stored`: the run itself brings the elements to memory.
  GroupPieces(const FusedRun& run, uint32_t piece, char* memory, bool stored)
      : run_(run), piece_(piece), memory_(memory), stored_(stored) {}

  void make(int64_t begin, int64_t n, void* to) override {
    made_.store(true, std::memory_order_relaxed);
    std::unique_ptr<FusedWorker> worker = idle();
    (*worker)(begin, begin + n, piece_, static_cast<char*>(to));
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(worker));
  }
  void fill() override {
    if (stored_ && made_.load(std::memory_order_relaxed)) return;
    FusedRun whole = run_;
    if (!stored_) whole.registers[piece_].base = memory_;
    run_fused(whole);
  }

 private:
  // As many as there are threads, made as they are needed.
  std::unique_ptr<FusedWorker> idle() {
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<FusedWorker> last = std::move(idle_.back());
        idle_.pop_back();
        return last;
      }
    }
    return std::make_unique<FusedWorker>(run_);
  }
  const FusedRun& run_;
  YieldLock mutex_;
  std::vector<std::unique_ptr<FusedWorker>> idle_;
  uint32_t piece_;
  char* memory_;
  bool stored_;
  std::atomic<bool> made_ = false;
};

// Does the group write to memory that it reads? It cannot run twice then.
bool runs_once(const PlanGroup& group, const Record& record) {
  const auto buffer = [&](uint32_t operand) { return record.operands[operand].buffer; };
  const auto is_read = [&](int32_t b) {
    return std::any_of(
               group.registers.begin(), group.registers.end(),
               [&](const PlanRegister& r) { return r.kind != PlanRegister::Kind::Tile && buffer(r.operand) == b; }) ||
           std::any_of(group.steps.begin(), group.steps.end(),
                       [&](const PlanStep& s) { return s.kind == PlanStep::Kind::Gather && buffer(s.operand) == b; });
  };
  return std::any_of(group.registers.begin(), group.registers.end(),
                     [&](const PlanRegister& r) { return r.stored && is_read(buffer(r.operand)); }) ||
         std::any_of(group.copies.begin(), group.copies.end(),
                     [&](const PlanCopy& c) { return is_read(buffer(c.operand)); });
}

}  // namespace

Tensor reduced(const Record& record, const RecordNode& node, const Storage& memory, int64_t offset) {
  const RecordShape& shape = record.shapes[node.shape];
  const ScalarType dtype = record.operands[node.operands + 1].dtype;
  return from_storage(memory, shape.sizes, shape.strides, offset / static_cast<int64_t>(itemsize(dtype)), dtype);
}

Tensor reduction_out(const Record& record, const RecordNode& node, const Storage& memory, int64_t offset) {
  const RecordReduction& r = record.reductions[node.value];
  // What is written now was made, for those who have the result, when the operator was called.
  return from_storage(StorageImpl::share(memory, 0), r.sizes, r.strides,
                      offset / static_cast<int64_t>(itemsize(r.dtype)), r.dtype);
}

void run_taken_down(const Record& record, const RecordNode& node, const std::vector<Storage>& memory) {
  const RecordOperand* const at = record.operands.data() + node.operands;
  const auto of = [&](const RecordOperand& o) -> const Storage& { return memory[static_cast<size_t>(o.buffer)]; };
  run_reduction(record.reductions[node.value], reduced(record, node, of(at[1]), at[1].offset),
                reduction_out(record, node, of(at[0]), at[0].offset));
}

void run_reduced_group(const PlanGroup& group, const Record& record, const Storage& in, const Storage& out) {
  const RecordNode& node = record.nodes[static_cast<size_t>(group.reduction)];
  const RecordReduction& reduction = record.reductions[node.value];
  const auto offset = [&](uint32_t operand, const Storage& memory) {
    return record.buffers[static_cast<size_t>(record.operands[operand].buffer)].data -
           static_cast<char*>(memory->data());
  };
  const Tensor self = reduced(record, node, in, offset(node.operands + 1, in)),
               result = reduction_out(record, node, out, offset(node.operands, out));
  if (group.steps.empty()) return run_reduction(reduction, self, result);
  FusedRun run;
  std::vector<StridedPlan> plans;
  fill_in(group, record, run, plans);
  const uint32_t operand = node.operands + 1;
  char* const memory = static_cast<char*>(self.raw());
  bool stored = std::any_of(group.copies.begin(), group.copies.end(), [&](const PlanCopy& c) {
    return record.operands[c.operand].buffer == record.operands[operand].buffer;
  });
  if (!stored && runs_once(group, record)) {
    FusedStep store;
    store.kind = FusedStep::Kind::Store;
    store.from = self.dtype();
    store.memory = memory;
    store.first = static_cast<uint32_t>(run.used.size());
    run.used.push_back(group.piece);
    run.steps.push_back(store);
    stored = true;
  }
  GroupPieces pieces(run, group.piece, memory, stored);
  PiecesScope scope(self, pieces);
  run_reduction(reduction, self, result);
  if (scope.was_idle()) run_reduction(reduction, self, result);
}

}  // namespace facula::detail
