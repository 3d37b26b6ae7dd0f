// Which tensors the calls of all threads are at work on, so that none gets another shape or memory meanwhile.
//
// A call takes note of its tensors in a list of its thread: two stores and a load, no locked instruction. Who changes
// a tensor in place, which is rare, looks through the lists of all threads and waits until no other thread is at work
// on it; calls that come meanwhile wait for him. So sizes and addresses that a call has checked stay until it ends,
// whatever lock Python has or has not.
#pragma once

#include <atomic>

#include "runtime/core/tensor.h"

namespace facula {

namespace detail {

struct ThreadCalls {
  static constexpr uint32_t kMaxTensors = 224, kSingle = 24;
  std::atomic<uint32_t> depth{0};     // of `tensors`
  std::atomic<uint32_t> unlisted{0};  // calls with more tensors than fit: as if they were at work on every one
  std::atomic<const TensorImpl*> waits_for{nullptr};  // what this thread is about to change
  std::atomic<const TensorImpl*> tensors[kMaxTensors + kSingle];
};

// Null before the thread's first call.
extern FACULA_API constinit thread_local ThreadCalls* tls_calls __attribute__((tls_model("initial-exec")));
extern FACULA_API std::atomic<const TensorImpl*> tensor_in_change;  // at most one at a time
extern FACULA_API std::atomic<bool> calls_need_fence;               // the system has no barrier for all threads at once
#ifdef FACULA_TSAN
inline constexpr std::memory_order kLoadChange = std::memory_order_seq_cst;
#else
inline constexpr std::memory_order kLoadChange = std::memory_order_acquire;
#endif
FACULA_API ThreadCalls* make_thread_calls();
FACULA_API void wait_for_change(ThreadCalls& calls, uint32_t before, bool unlisted);

}  // namespace detail

// For the length of a call; of tensors and lists of them.
class InCall {
 public:
  template <typename... Tensors>
  explicit InCall(const Tensors&... tensors) : calls_(detail::tls_calls) {
    static_assert(sizeof...(tensors) <= detail::ThreadCalls::kSingle);
    if (calls_ == nullptr) [[unlikely]]
      calls_ = detail::make_thread_calls();
    uint32_t n = before_ = calls_->depth.load(std::memory_order_relaxed);
    if (n <= detail::ThreadCalls::kMaxTensors) [[likely]] {
      (add(n, tensors), ...);
    } else {
      unlisted_ = true;
    }
    if (unlisted_) [[unlikely]]
      calls_->unlisted.fetch_add(1, std::memory_order_seq_cst);
#ifdef FACULA_TSAN
    calls_->depth.exchange(n, std::memory_order_seq_cst);
#else
    calls_->depth.store(n, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the other side has a barrier for both
    if (detail::calls_need_fence.load(std::memory_order_relaxed)) [[unlikely]]
      std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
    if (detail::tensor_in_change.load(detail::kLoadChange) != nullptr) [[unlikely]]
      detail::wait_for_change(*calls_, before_, unlisted_);
  }
  ~InCall() {
    if (unlisted_) [[unlikely]]
      calls_->unlisted.fetch_sub(1, std::memory_order_release);
    calls_->depth.store(before_, std::memory_order_release);
  }
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  // Release: who reads an entry that took another's place knows that the call before it has ended.
  void add(uint32_t& n, const Tensor& t) { calls_->tensors[n++].store(t.impl(), std::memory_order_release); }
  void add(uint32_t& n, TensorList list) {
    for (const Tensor& t : list) {
      if (n >= detail::ThreadCalls::kMaxTensors) {
        unlisted_ = true;
        return;
      }
      add(n, t);
    }
  }
  detail::ThreadCalls* calls_;
  uint32_t before_;
  bool unlisted_ = false;
};

// Before the sizes, strides, dtype, offset or storage of a tensor are changed in place: waits until no call of another
// thread is at work on it. Raises when such a call waits for this thread in turn.
class FACULA_API Changing {
 public:
  explicit Changing(const Tensor& t);
  ~Changing();
  Changing(const Changing&) = delete;
  Changing& operator=(const Changing&) = delete;

 private:
  bool outer_;  // this thread changes a tensor already
};

// Runs a wait of this thread such that others may go on meanwhile. Set by the bindings.
extern FACULA_API void (*wait_aside)(void (*wait)(void* context), void* context);

}  // namespace facula
