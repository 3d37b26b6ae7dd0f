#include "runtime/dispatch/capture.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/captured.h"
#include "runtime/core/shown.h"
#include "runtime/dispatch/argument_list.h"
#include "runtime/dispatch/capture_internal.h"
#include "runtime/dispatch/capture_thunk.h"
#include "runtime/iterate/fused_tuning.h"
#include "runtime/iterate/pointwise_capture.h"
#include "runtime/iterate/pointwise_cpu.h"
#include "runtime/iterate/strided.h"

namespace facula {

using namespace detail;  // NOLINT: this file is theirs

namespace {

constexpr LayerSet kCapture = kCaptureLayer;
constinit thread_local Capture* tls_capture __attribute__((tls_model("initial-exec"))) = nullptr;
constexpr int64_t kLeast = tuning::kCaptureLeast;
constexpr size_t kMostNodes = 4096;               // of a record
constexpr int64_t kSweep = int64_t{32} << 20;     // bytes without values, from which on those unheld are looked for
constexpr int64_t kMostBytes = int64_t{1} << 30;  // and from which on the record runs
constexpr int64_t kMostDeviceBytes = int64_t{8} << 30;

// ---- captures of all threads, so that each can ask the others' for values ----

struct Active {
  YieldLock mutex;
  std::vector<std::shared_ptr<Capture>> all;
};
Active& active() {
  static Active* const a = new Active;  // used until the very end
  return *a;
}

void mark(const Tensor& t) {
  if ((t.impl()->layers & kCapture) != 0) return;
  std::atomic_ref<LayerSet>(t.impl()->layers).fetch_or(kCapture, std::memory_order_relaxed);
}
// Other views of the tensor follow their base.
void mark_family(const Tensor& t) {
  mark(t);
  if (t.impl()->base) mark(Tensor(t.impl()->base));
}
void unmark(const Tensor& t) {
  std::atomic_ref<LayerSet>(t.impl()->layers).fetch_and(static_cast<LayerSet>(~kCapture), std::memory_order_relaxed);
}

// A call with a tensor that was marked: the record of another thread may have to run, because it makes what is read
// here or reads what is `written`. None of this thread's own is locked then.
void settle_elsewhere(const Tensor& t, bool written) {
  const Capture* const own = tls_capture;
  if (!t.defined() || (layers_of_written(t) & kCapture) == 0) return;
  const size_t count = active_captures.load(std::memory_order_acquire);
  if (count > (own != nullptr ? 1u : 0u)) {
    std::vector<std::shared_ptr<Capture>> others;
    {
      const std::lock_guard lock(active().mutex);
      others = active().all;
    }
    for (const auto& c : others) {
      if (c.get() != own) c->settle_for(t, written, "another thread uses the tensor");
    }
  } else if (count == 0) {
    unmark(t);
    if (t.impl()->base) unmark(Tensor(t.impl()->base));
  }
}
void settle_elsewhere(std::span<const Tensor* const> tensors, bool written) {
  for (const Tensor* t : tensors) settle_elsewhere(*t, written);
}

// A thread that goes on with another's work, in its modes: deep backward passes do. What was taken down runs first.
void settle_for_helper() {
  if (tls_capture != nullptr || (tls_state.included & kCapture) == 0) return;
  std::vector<std::shared_ptr<Capture>> all;
  {
    const std::lock_guard lock(active().mutex);
    all = active().all;
  }
  for (const auto& c : all) c->settle("a helping thread goes on");
}

// Set while operators are registered, before any call.
std::vector<const OperatorEntry*>& refused() {
  static auto* const all = new std::vector<const OperatorEntry*>;
  return *all;
}
bool is_refused(const PointwiseOp& op) {  // a handful
  const std::vector<const OperatorEntry*>& all = refused();
  return std::find(all.begin(), all.end(), op.entry) != all.end();
}

void settle_memory(const Tensor& t) {
  if (!t.storage()) return;
  settle_for_helper();
  settle_elsewhere(t, true);
  if (Capture* c = tls_capture) c->settle_for(t, true, "memory or a value is looked at");
}

// The device that takes down calls of these tensors: the one of all but numbers.
bool takes_calls(std::span<const Tensor* const> inputs, Device& device) {
  bool found = false;
  for (const Tensor* t : inputs) {
    if (!t->defined()) return false;
    if (t->is_wrapped_number() && t->dim() == 0) continue;
    if (found && !(t->device() == device)) return false;
    device = t->device();
    found = true;
  }
  return found && (device.type == kCPU || device_groups.takes(device.type));
}

bool is_dense(const Tensor& t) { return t.is_contiguous() || is_non_overlapping_and_dense(t.sizes(), t.strides()); }

}  // namespace

// ---- taking down ----

void Capture::begin(const CaptureOptions& options) {
  options_ = options;
  record_.wait = options.wait;
  record_.symbolic = options.symbolic;
  least_ = options.check ? 1 : kLeast;
  reports_.clear();
  sweep_at_ = kSweep;
}

bool Capture::is_empty() {
  const std::lock_guard lock(mutex_);
  return record_.empty();
}

bool Capture::take(const Tensor& t, Given& given) const {
  given = {&t, -1};
  if (!t.defined() || t.is_wrapped() || !t.storage()) return false;
  if (is_number(t)) return true;
  given.buffer = record_.find(*t.storage());
  return given.buffer >= 0 || !is_shown(*t.storage());
}

bool Capture::turn_to(Device device, bool enough) {
  void* const stream = device.type == kCPU ? nullptr : device_groups.stream(device);
  if (record_.device == device && record_.stream == stream) return true;
  if (!enough) return false;
  settle_locked("a call is for another device or stream");
  record_.device = device;
  record_.stream = stream;
  return true;
}

bool Capture::is_pending(int32_t buffer) const {
  if (buffer < 0) return false;
  const RecordBuffer& b = record_.buffers[static_cast<size_t>(buffer)];
  return b.fresh || b.written;
}

bool Capture::has(const Tensor& t, bool written) {
  if (!t.storage()) return false;
  const int32_t at = record_.find(*t.storage());
  if (at < 0) return false;
  const RecordBuffer& b = record_.buffers[static_cast<size_t>(at)];
  return written || b.fresh || b.written;
}

// The call is to run now: what it reads has to be there, and what it writes has to have been read.
bool Capture::run_first(std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs,
                        const char* reason) {
  bool wanted = false;
  for (const Tensor* t : inputs) wanted |= t->defined() && has(*t, false);
  for (const Tensor* t : outs) wanted |= t->defined() && has(*t, true);
  if (wanted) settle_locked(reason);
  return false;
}

RecordOperand Capture::operand_of(const Given& given, const RecordShape& shape) {
  const Tensor& t = *given.tensor;
  RecordOperand o{-1, t.dtype(), Layout::Constant};
  if (is_number(t)) {
    o.at = record_.number(load_element(t.raw(), t.dtype()));
    record_.add_to_tape(static_cast<uint64_t>(o.dtype));
    return o;
  }
  o.buffer = given.buffer;
  if (o.buffer < 0) {
    o.buffer = record_.buffer_of(t, false);
    mark_family(t);  // so that another thread that writes to it comes here first
  }
  o.offset = static_cast<char*>(t.raw()) - record_.buffers[static_cast<size_t>(o.buffer)].data;
  const TensorImpl& impl = *t.impl();
  if (impl.sizes == shape.sizes) {
    bool dense = true;
    for (size_t d = 0; d < shape.sizes.size(); ++d) {
      dense &= shape.sizes[d] == 1 || impl.strides[d] == shape.strides[d];
    }
    o.layout = dense ? Layout::Dense : Layout::Strided;
  } else if (impl.numel != 1) {
    o.layout = Layout::Strided;
  }
  record_.add_to_tape(static_cast<uint64_t>(o.buffer) << 16 | static_cast<uint64_t>(o.dtype) << 8 |
                      static_cast<uint64_t>(o.layout));
  if (o.layout == Layout::Strided) {
    DimVector strides;
    broadcast_strides(t, shape.sizes.size(), strides);
    o.at = record_.strides_of(strides);
    if (options_.symbolic) record_.add_to_tape(o.at);
    for (const int64_t s : strides) record_.add_to_tape(static_cast<uint64_t>(options_.symbolic ? s != 0 : s));
  }
  if (o.offset != 0) record_.add_to_tape(uint64_t{0xfffd} << 48 ^ static_cast<uint64_t>(o.offset));
  return o;
}

void Capture::add(const PointwiseOp& op, const PointwiseTypes& types, uint32_t shape, std::span<const Given> inputs,
                  std::span<const Given> outs, bool fresh, const LoopArgs& args, std::string place) {
  RecordNode node;
  node.op = &op;
  node.name = op.name;
  node.loop = types.loop;
  node.compute = types.compute;
  node.produced = produced_type(op, types.compute);
  node.inputs = static_cast<uint8_t>(inputs.size());
  node.outputs = static_cast<uint8_t>(outs.size());
  node.values = static_cast<uint8_t>(args.values.size());
  node.present = args.present;
  node.promoting = args.promoting;
  node.shape = shape;
  record_.add_to_tape(reinterpret_cast<uintptr_t>(&op));
  record_.add_to_tape(static_cast<uint64_t>(node.compute) | static_cast<uint64_t>(node.inputs) << 8 |
                      static_cast<uint64_t>(node.outputs) << 16 | static_cast<uint64_t>(node.shape) << 24 |
                      uint64_t{fresh} << 56);
  if (!args.values.empty()) record_.add_to_tape(node.present);
  node.value = static_cast<uint32_t>(record_.numbers.size());
  for (const Scalar& v : args.values) record_.number(v);
  RecordOperand ins[kMaxPointwiseOperands];
  for (size_t i = 0; i < inputs.size(); ++i) {
    Given given = inputs[i];
    // two inputs may share a buffer that is new
    if (given.buffer < 0 && i > 0 && !is_number(*given.tensor)) given.buffer = record_.find(*given.tensor->storage());
    ins[i] = operand_of(given, record_.shapes[shape]);
  }
  node.operands = static_cast<uint32_t>(record_.operands.size());
  for (Given given : outs) {
    const Tensor& t = *given.tensor;
    if (fresh) {
      record_.operands.push_back({record_.buffer_of(t, true), t.dtype(), Layout::Dense});
      t.impl()->layers |= kCapture;  // nobody else has it
    } else {
      if (given.buffer < 0) given.buffer = record_.find(*t.storage());
      record_.operands.push_back(operand_of(given, record_.shapes[shape]));
      record_.buffers[static_cast<size_t>(record_.operands.back().buffer)].written = true;
      mark_family(t);
    }
    record_.add_to_tape(static_cast<uint64_t>(t.dtype()));
  }
  record_.operands.insert(record_.operands.end(), ins, ins + inputs.size());
  record_.nodes.push_back(node);
  if (notes_places()) record_.places.push_back(std::move(place));
}

int64_t Capture::known_shape(std::span<const Given> inputs) const {
  if (record_.shapes.empty()) return -1;
  const RecordShape& last = record_.shapes.back();
  bool any = false;
  for (const Given& g : inputs) {
    const TensorImpl& t = *g.tensor->impl();
    if (is_number(*g.tensor)) continue;
    if (!t.contiguous || t.sizes != last.sizes || t.strides != last.strides) return -1;
    any = true;
  }
  return any ? static_cast<int64_t>(record_.shapes.size()) - 1 : -1;
}

PointwiseTypes Capture::types_of(const PointwiseOp& op, std::span<const Tensor* const> inputs, const LoopArgs& args) {
  if (op.promotion == Promotion::Bool || inputs.size() > 6 || args.values.size() > 5) {  // more do not fit
    return pointwise_types(op, inputs, args);
  }
  uint64_t dtypes = static_cast<uint64_t>(get_default_dtype());
  for (const Tensor* t : inputs) {
    dtypes = dtypes << 7 | static_cast<uint64_t>(t->dtype()) << 2 | uint64_t{t->is_wrapped_number()} << 1 |
             uint64_t{t->dim() == 0};
  }
  for (size_t i = 0; i < args.values.size(); ++i) {
    const bool counts = (args.promoting >> i & 1u) != 0 && args.has(i);
    dtypes = dtypes << 3 | (counts ? static_cast<uint64_t>(args.values[i].kind()) + 1 : 0);
  }
  const uint64_t place =
      (reinterpret_cast<uintptr_t>(&op) / sizeof(PointwiseOp)) ^ (dtypes * 0x9e3779b97f4a7c15u >> 57);
  KnownTypes& known = known_types_[place % known_types_.size()];
  if (known.op == &op && known.dtypes == dtypes) return known.types;
  const PointwiseTypes types = pointwise_types(op, inputs, args);
  // Of integers, numbers must fit as well.
  if (is_differentiable(types.compute) && !types.number && types.beyond < 0) known = {&op, dtypes, types};
  return types;
}

bool Capture::functional(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<Tensor> results,
                         const LoopArgs& args) {
  std::string place = notes_places() ? caller() : std::string();
  const NoSignals no_signals;
  const std::lock_guard lock(mutex_);
  bool known = false;
  Device device;
  if (!takes_calls(inputs, device) || is_refused(op)) return run_first(inputs, {}, op.name);
  int64_t most = 0;
  for (const Tensor* t : inputs) most = std::max(most, t->numel());
  const bool enough = device.type != kCPU || most >= least_;
  if (!turn_to(device, enough)) return run_first(inputs, {}, op.name);
  Given given[kMaxPointwiseOperands];
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!take(*inputs[i], given[i])) return run_first(inputs, {}, op.name);
    known |= is_pending(given[i].buffer);
  }
  if (!known && !enough) return run_first(inputs, {}, op.name);
  const std::span<const Given> ins(given, inputs.size());
  int64_t shape = known_shape(ins);
  PointwiseShape sizes;
  if (shape < 0) sizes = pointwise_shape(op, inputs);
  const PointwiseTypes types = types_of(op, inputs, args);
  if (types.number || types.beyond >= 0 || is_integral(types.compute) || (shape < 0 && numel_of(sizes.sizes) == 0)) {
    return run_first(inputs, {}, op.name);
  }
  record_.release_recent();
  Given outs[kMaxPointwiseOperands];
  for (size_t i = 0; i < results.size(); ++i) {
    if (shape >= 0) {
      results[i] = make_empty(record_.shapes[static_cast<size_t>(shape)].sizes, types.result, device);
    } else {
      results[i] = sizes.strides.empty() ? make_empty(sizes.sizes, types.result, device)
                                         : make_empty_strided(sizes.sizes, sizes.strides, types.result, device);
    }
    if (options_.check && device.type == kCPU) std::memset(results[i].raw(), 0xff, results[i].nbytes());
    outs[i] = {&results[i], -1};
    pending_bytes_ += static_cast<int64_t>(results[i].nbytes());
  }
  if (shape < 0) shape = record_.shape_of(sizes.sizes, results[0].impl()->strides, options_.symbolic);
  add(op, types, static_cast<uint32_t>(shape), ins, {outs, results.size()}, true, args, std::move(place));
  bound();
  return true;
}

void Capture::bound() {
  if (record_.nodes.size() >= kMostNodes) {
    settle_locked("it is long");
  } else if (pending_bytes_ >= sweep_at_) {
    record_.release_unheld();
    pending_bytes_ = record_.bytes_of_its_own();
    sweep_at_ = pending_bytes_ + kSweep;
    if (pending_bytes_ >= (record_.device.type == kCPU ? kMostBytes : kMostDeviceBytes))
      settle_locked("its results take much memory");
  }
}

bool Capture::out(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs,
                  const LoopArgs& args) {
  std::string place = notes_places() ? caller() : std::string();
  const NoSignals no_signals;
  std::unique_lock lock(mutex_);
  bool known = false;
  Given given[kMaxPointwiseOperands], target{};
  Device device;
  if (!takes_calls(inputs, device) || is_refused(op) || !(outs[0]->device() == device)) {
    return run_first(inputs, outs, op.name);
  }
  const bool enough = device.type != kCPU || outs[0]->numel() >= least_;
  if (!turn_to(device, enough)) return run_first(inputs, outs, op.name);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!take(*inputs[i], given[i])) return run_first(inputs, outs, op.name);
    known |= is_pending(given[i].buffer);
  }
  const Tensor& to = *outs[0];
  const bool fits = outs.size() == 1 && take(to, target) && !is_number(to) && !to.storage()->guarded() &&
                    is_dense(to) && to.numel() > 0;
  if (!fits || (!known && target.buffer < 0 && !enough)) {
    return run_first(inputs, outs, op.name);
  }
  const std::span<const Given> ins(given, inputs.size());
  bool same = known_shape(ins) >= 0 && to.impl()->sizes == record_.shapes.back().sizes;
  if (!same) same = pointwise_shape(op, inputs).sizes == to.impl()->sizes;
  for (size_t i = 0; same && i < inputs.size(); ++i) {
    const Overlap overlap = overlap_of(*inputs[i], to);
    same = overlap == Overlap::No || overlap == Overlap::Full;
  }
  if (!same) return run_first(inputs, outs, op.name);
  const PointwiseTypes types = types_of(op, inputs, args);
  if (types.number || types.beyond >= 0 || is_integral(types.compute) || !can_cast(types.result, to.dtype())) {
    return run_first(inputs, outs, op.name);
  }
  const uint32_t shape = record_.shape_of(to.impl()->sizes, to.impl()->strides, options_.symbolic);
  add(op, types, shape, ins, {&target, 1}, false, args, std::move(place));
  if (record_.nodes.size() >= kMostNodes) settle_locked("it is long");
  lock.unlock();  // who writes is asked of Python, whose thread may wait for the lock
  to.bump_version({op.name, "_"});
  return true;
}

// ---- running ----

void Capture::settle(const char* reason) {
  const NoSignals no_signals;
  const std::lock_guard lock(mutex_);
  settle_locked(reason);
}

void Capture::settle_for(const Tensor& t, bool written, const char* reason) {
  const NoSignals no_signals;
  const std::lock_guard lock(mutex_);
  if (has(t, written)) settle_locked(reason);
}

void Capture::settle_locked(const char* reason) {
  if (record_.empty()) return;
  struct Clear {
    Capture& c;
    ~Clear() {
      c.record_.clear();
      c.pending_bytes_ = 0;
      c.sweep_at_ = kSweep;
    }
  } const clear{*this};
  std::vector<bool> held(record_.buffers.size());
  for (size_t b = 0; b < held.size(); ++b) held[b] = record_.is_held(record_.buffers[b]);
  const std::shared_ptr<const Plan> plan = find_plan(record_, held);
  if (options_.places) report(*plan, reason);
  if (options_.check) {
    check_plan(*plan, record_, held);
  } else {
    run_plan(*plan, record_);
  }
}

std::vector<CaptureReport> Capture::take_reports() {
  const std::lock_guard lock(mutex_);
  return std::exchange(reports_, {});
}

// ---- scopes ----

namespace {
thread_local std::shared_ptr<Capture> spare;
}

CaptureScope::CaptureScope(const CaptureOptions& options) {
  if (tls_capture != nullptr) return;
  own_ = spare ? std::move(spare) : std::make_shared<Capture>();
  own_->begin(options);
  {
    const std::lock_guard lock(active().mutex);
    active().all.push_back(own_);
    active_captures.store(active().all.size(), std::memory_order_release);
  }
  tls_capture = own_.get();
  tls_state.included |= kCapture;
}

void CaptureScope::leave() {
  tls_capture = nullptr;
  tls_state.included &= static_cast<LayerSet>(~kCapture);
  {
    const std::lock_guard lock(active().mutex);
    std::erase(active().all, own_);
    active_captures.store(active().all.size(), std::memory_order_release);
  }
  if (own_.use_count() == 1) spare = std::move(own_);  // its vectors serve the next call
  own_.reset();
}

bool CaptureScope::has_work() const { return own_ && !own_->is_empty(); }

std::vector<CaptureReport> CaptureScope::end() {
  if (!own_) return {};
  std::vector<CaptureReport> reports;
  try {
    own_->settle("the function ends");
    reports = own_->take_reports();
  } catch (...) {
    leave();
    throw;
  }
  leave();
  return reports;
}

void settle_capture(const char* reason) {
  if (tls_capture != nullptr) tls_capture->settle(reason);
}
bool is_capturing() { return tls_capture != nullptr; }

CaptureScope::~CaptureScope() {
  try {
    end();
  } catch (...) {  // nobody is there to be told
  }
}

CapturePause::CapturePause() : paused_(tls_capture) {
  if (paused_ == nullptr) return;
  paused_->settle("capture is paused");
  tls_capture = nullptr;
  tls_state.included &= static_cast<LayerSet>(~kCapture);
}

CapturePause::~CapturePause() {
  if (paused_ == nullptr) return;
  tls_capture = paused_;
  tls_state.included |= kCapture;
}

// ---- the layer ----

void detail::refuse_capture(const OperatorEntry& op) { refused().push_back(&op); }

bool detail::capture_call(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, Stack& results) {
  settle_for_helper();
  Capture* const capture = tls_capture;
  if (capture != nullptr && variant == Variant::Functional && (tls_state.excluded & kCapture) == 0 && !args.empty() &&
      args[0].kind == KernelArg::Kind::Tensor && args[0].at != nullptr) {
    settle_elsewhere(*static_cast<const Tensor*>(args[0].at), false);
    if (capture->fusible(op, args, results)) return true;
  }
  for (size_t i = 0; i < args.size(); ++i) {
    const bool written = is_written(op, variant, args, i);
    for_each_tensor(args[i], [&](const Tensor& t) {
      if (!t.storage()) return;
      settle_elsewhere(t, written);
      if (capture != nullptr) capture->settle_for(t, written, op.name);
    });
  }
  return false;
}

namespace {

// Within a kernel calls run at once; what they read may be another call's that was not an argument of the kernel.
bool is_within_kernel(std::span<const Tensor* const> tensors) {
  if ((tls_state.excluded & kCapture) == 0) return false;
  for (const Tensor* t : tensors) {
    if (t->defined() && (layers_of_written(*t) & kCapture) != 0 && tls_capture != nullptr) {
      tls_capture->settle_for(*t, true, "a kernel calls another operator");
    }
  }
  return true;
}

bool take_functional(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<Tensor> results,
                     const LoopArgs& args) {
  settle_for_helper();
  settle_elsewhere(inputs, false);
  if (tls_capture == nullptr || is_within_kernel(inputs)) return false;
  return tls_capture->functional(op, inputs, results, args);
}

bool take_out(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs,
              const LoopArgs& args) {
  settle_for_helper();
  settle_elsewhere(inputs, false);
  settle_elsewhere(outs, true);
  if (tls_capture == nullptr || (is_within_kernel(inputs) && is_within_kernel(outs))) return false;
  return tls_capture->out(op, inputs, outs, args);
}

[[maybe_unused]] const bool installed = [] {
  pointwise_capture = {take_functional, take_out};
  settle_captured = settle_memory;
  return true;
}();

}  // namespace

}  // namespace facula
