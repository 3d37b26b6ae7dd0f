// Capture: pointwise calls of a thread are taken down, and run later together.
//
// Calls are taken down where they would run, so that whatever layers do (gradients, autocast, transforms) is done when
// they are called. Such a call gives a tensor of its shape and dtype, with memory that has no values yet; kCaptureLayer
// is set of it. The record runs when its values are wanted: by an operator that is no formula of elements, by Python
// that looks at memory or values, by another thread, at the end of the scope. Whoever asks, gets what eager calls would
// give.
#pragma once

#include <array>
#include <memory>

#include "runtime/core/yield_lock.h"
#include "runtime/dispatch/plan.h"
#include "runtime/dispatch/thunk.h"
#include "runtime/iterate/pointwise_types.h"

namespace facula {

struct CaptureOptions {
  bool symbolic = false;  // plans hold for all sizes
  // Plans are compared with calls one by one, memory without values is filled with NaN, and small tensors take part.
  bool check = false;
  bool places = false;  // each call's line of Python is noted, as with `check`, and what runs is reported
  bool wait = false;    // devices build kernels when a group first runs, rather than in the background
};

// A record that ran.
struct CaptureReport {
  struct Group {
    std::vector<std::string> operators;  // "add file.py:12"
    DimVector sizes;
    int64_t before = 0, after = 0;  // bytes read and written, call by call and together
    int64_t memory = 0;             // bytes that call by call need and the group does not
    std::string apart;
    std::vector<uint32_t> uses;  // groups of the record whose results it reads
  };
  std::string reason;  // why it ran
  std::vector<Group> groups;
  uint32_t dead = 0, common = 0;
};

class FACULA_API Capture {
 public:
  Capture() = default;
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  void begin(const CaptureOptions& options);
  bool is_empty();
  bool functional(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<Tensor> results,
                  const LoopArgs& args);
  bool out(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs,
           const LoopArgs& args);
  // A call of a kernel that says how it can be fused (runtime/iterate/fusible.h).
  bool fusible(const OperatorEntry& op, std::span<const KernelArg> args, Stack& results);
  // Runs what has been taken down.
  void settle(const char* reason);
  // The same if the tensor's values are to be made, or, where it is `written`, are to be read, by the record.
  void settle_for(const Tensor& t, bool written, const char* reason);
  bool has(const Tensor& t, bool written);
  std::vector<CaptureReport> take_reports();

 private:
  // An input or output of a call, and its buffer in the record, -1 for none.
  struct Given {
    const Tensor* tensor;
    int32_t buffer;
  };
  detail::RecordOperand operand_of(const Given& given, const detail::RecordShape& shape);
  void add(const PointwiseOp& op, const detail::PointwiseTypes& types, uint32_t shape, std::span<const Given> inputs,
           std::span<const Given> outs, bool fresh, const LoopArgs& args, std::string place);
  bool take(const Tensor& t, Given& given) const;
  // A record is of one device and its current stream: what was taken down for others runs first. False: it stays, as
  // the call has not `enough` elements.
  bool turn_to(Device device, bool enough);
  bool is_pending(int32_t buffer) const;
  bool is_made_as(const Tensor& t, int32_t buffer) const;
  // The shape of the record that results have; -1: to be found out.
  int64_t known_shape(std::span<const Given> inputs) const;
  detail::PointwiseTypes types_of(const PointwiseOp& op, std::span<const Tensor* const> inputs, const LoopArgs& args);
  bool run_first(std::span<const Tensor* const> inputs, std::span<const Tensor* const> outs, const char* reason);
  void settle_locked(const char* reason);
  bool notes_places() const { return options_.places || options_.check; }
  void bound();  // before a record takes too much
  void report(const detail::Plan& plan, const char* reason);

  CaptureOptions options_;
  int64_t least_ = 1;  // elements of results; fewer are computed sooner than taken down
  detail::YieldLock mutex_;
  detail::Record record_;
  int64_t pending_bytes_ = 0, sweep_at_ = 0;  // memory that the record keeps; when to look how much it is
  // What calls compute in, where that depends on dtypes alone.
  struct KnownTypes {
    const PointwiseOp* op = nullptr;
    uint64_t dtypes = 0;
    detail::PointwiseTypes types;
  };
  std::array<KnownTypes, 128> known_types_;
  std::vector<CaptureReport> reports_;
};

// A scope of this thread; one within another goes on with that.
class FACULA_API CaptureScope {
 public:
  explicit CaptureScope(const CaptureOptions& options);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;
  // Runs what has been taken down, and ends.
  std::vector<CaptureReport> end();
  bool has_work() const;

 private:
  void leave();
  std::shared_ptr<Capture> own_;
};

// Is this thread within a scope?
FACULA_API bool is_capturing();
// Runs what this thread has taken down, before something is done to the streams of a device.
FACULA_API void settle_capture(const char* reason);

// Within a scope: a part whose calls run at once.
class FACULA_API CapturePause {
 public:
  CapturePause();
  ~CapturePause();
  CapturePause(const CapturePause&) = delete;
  CapturePause& operator=(const CapturePause&) = delete;

 private:
  Capture* paused_;
};

}  // namespace facula
