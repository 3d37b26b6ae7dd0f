#include "runtime/core/in_call.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <new>
#include <utility>

#ifdef __linux__
#include <linux/membarrier.h>
#include <sys/syscall.h>
#endif

namespace facula {

namespace detail {

constinit thread_local ThreadCalls* tls_calls __attribute__((tls_model("initial-exec"))) = nullptr;
constinit std::atomic<const TensorImpl*> tensor_in_change{nullptr};
constinit std::atomic<bool> calls_need_fence{true};

namespace {

struct Entry {
  ThreadCalls calls;
  Entry* next = nullptr;
};
// Of who changes a tensor, and of the list of all threads.
constinit std::mutex mutex;
constinit Entry* entries = nullptr;
constinit thread_local bool tls_changes __attribute__((tls_model("initial-exec"))) = false;

bool barrier(int command) {
#if defined(__linux__) && defined(SYS_membarrier) && !defined(FACULA_TSAN)
  return syscall(SYS_membarrier, command, 0, 0) == 0;
#else
  return static_cast<void>(command), false;
#endif
}
#ifdef __linux__
constexpr int kRegister = MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, kBarrier = MEMBARRIER_CMD_PRIVATE_EXPEDITED;
#else
constexpr int kRegister = 0, kBarrier = 0;
#endif

void rest() {
  const timespec time{0, 20000};
  nanosleep(&time, nullptr);
}

// In a forked child there is one thread only; calls that others were in never end.
void forget_others() {
  new (&mutex) std::mutex;
  tensor_in_change.store(nullptr);
  tls_changes = false;
  Entry* own = nullptr;
  for (Entry* e = entries; e != nullptr; e = e->next) {
    if (&e->calls == tls_calls) own = e;
  }
  entries = own;  // the others' are left to leak
  if (own != nullptr) own->next = nullptr;
}

[[maybe_unused]] const bool ready = [] {
  if (barrier(kRegister)) calls_need_fence.store(false);
  pthread_atfork(nullptr, nullptr, forget_others);
  return true;
}();

void lock_mutex() {
  if (mutex.try_lock()) return;
  const auto wait = [](void*) { mutex.lock(); };
  if (wait_aside != nullptr) {
    wait_aside(wait, nullptr);
  } else {
    wait(nullptr);
  }
}

constinit thread_local bool tls_ended __attribute__((tls_model("initial-exec"))) = false;
struct EntryOwner {
  Entry* entry = nullptr;
  ~EntryOwner() {
    tls_ended = true;
    if (entry == nullptr) return;
    lock_mutex();
    for (Entry** at = &entries; *at != nullptr; at = &(*at)->next) {
      if (*at != entry) continue;
      *at = entry->next;
      break;
    }
    mutex.unlock();
    tls_calls = nullptr;
    delete entry;
  }
};

// Is a call from [first, end) of the list at work on the tensor?
bool holds(const ThreadCalls& calls, uint32_t first, uint32_t end, const TensorImpl* t) {
  for (uint32_t i = first; i < end; ++i) {
    if (calls.tensors[i].load(std::memory_order_acquire) == t) return true;
  }
  return false;
}

// What the calls of other threads say to a change.
enum class Others : uint8_t {
  Away,     // none is at work on the tensor
  Busy,     // one is
  Waiting,  // it waits to change another tensor, and so for the lock
  Crossed,  // and that is one that a call of this thread is at work on
};

Others look_at_others(const TensorImpl* t, const ThreadCalls* own) {
  Others all = Others::Away;
  for (Entry* e = entries; e != nullptr; e = e->next) {
    const ThreadCalls& calls = e->calls;
    if (&calls == own) continue;
    const uint32_t depth = calls.depth.load(std::memory_order_seq_cst);
    if (calls.unlisted.load(std::memory_order_seq_cst) == 0 && !holds(calls, 0, depth, t)) continue;
    const TensorImpl* wanted = calls.waits_for.load(std::memory_order_acquire);
    if (wanted == t) {
      // About to change the same one: it has yet to look at it, unless it is at work on others as well.
      bool only = true;
      for (uint32_t i = 0; i < depth && only; ++i) {
        const TensorImpl* other = calls.tensors[i].load(std::memory_order_acquire);
        only = other == nullptr || other == t;
      }
      if (only) continue;
    }
    Others found = Others::Busy;
    if (wanted != nullptr) {
      const bool crossed =
          own != nullptr && wanted != t && holds(*own, 0, own->depth.load(std::memory_order_relaxed), wanted);
      found = crossed ? Others::Crossed : Others::Waiting;
    }
    all = std::max(all, found);
  }
  return all;
}

void wait_outside(void (*wait)(void* context), void* context) {
  if (wait_aside != nullptr) {
    wait_aside(wait, context);
  } else {
    wait(context);
  }
}

}  // namespace

ThreadCalls* make_thread_calls() {
  if (tls_ended) {
    // Calls of a thread that is ending are not seen by others.
    constinit static thread_local ThreadCalls* spare __attribute__((tls_model("initial-exec"))) = nullptr;
    if (spare == nullptr) spare = new ThreadCalls;
    return spare;
  }
  static thread_local EntryOwner owner;
  owner.entry = new Entry;
  lock_mutex();
  owner.entry->next = std::exchange(entries, owner.entry);
  mutex.unlock();
  return tls_calls = &owner.entry->calls;
}

void wait_for_change(ThreadCalls& calls, uint32_t before, bool unlisted) {
  if (tls_changes) return;  // the change is this thread's own
  const uint32_t depth = calls.depth.load(std::memory_order_relaxed);
  // Who changes a tensor waits for the calls around this one.
  const bool around = calls.unlisted.load(std::memory_order_relaxed) != (unlisted ? 1 : 0);
  while (const TensorImpl* t = tensor_in_change.load(std::memory_order_acquire)) {
    if (around || holds(calls, 0, before, t) || !(unlisted || holds(calls, before, depth, t))) return;
    calls.depth.store(before, std::memory_order_release);
    if (unlisted) calls.unlisted.fetch_sub(1, std::memory_order_release);
    const auto wait = [](void* changed) {
      while (tensor_in_change.load(std::memory_order_acquire) == changed) rest();
    };
    wait_outside(wait, const_cast<TensorImpl*>(t));
    if (unlisted) calls.unlisted.fetch_add(1, std::memory_order_seq_cst);
    calls.depth.exchange(depth, std::memory_order_seq_cst);
  }
}

}  // namespace detail

void (*wait_aside)(void (*wait)(void* context), void* context) = nullptr;

Changing::Changing(const Tensor& t) : outer_(detail::tls_changes) {
  using namespace detail;
  if (outer_) return;
  if (tls_calls == nullptr) make_thread_calls();
  struct Wait {
    ThreadCalls* own;
    const TensorImpl* tensor;
    Others others;
  } state{tls_calls, t.impl(), Others::Away};
  if (state.own != nullptr) state.own->waits_for.store(state.tensor, std::memory_order_seq_cst);
  lock_mutex();
  while (true) {
    tensor_in_change.store(state.tensor, std::memory_order_seq_cst);
    const bool alone = entries == nullptr || (entries->next == nullptr && &entries->calls == state.own);
    if (alone) break;
    if (!barrier(kBarrier)) std::atomic_thread_fence(std::memory_order_seq_cst);
    state.others = look_at_others(state.tensor, state.own);
    if (state.others == Others::Busy) {
      // Calls that come wait, but not for ever: one that is waited for may wait for one of them.
      wait_outside(
          [](void* context) {
            Wait& w = *static_cast<Wait*>(context);
            for (int i = 0; i < 200 && w.others == Others::Busy; ++i) {
              rest();
              w.others = look_at_others(w.tensor, w.own);
            }
          },
          &state);
    }
    if (state.others == Others::Away) break;
    tensor_in_change.store(nullptr, std::memory_order_release);
    mutex.unlock();
    if (state.others == Others::Crossed) {
      if (state.own != nullptr) state.own->waits_for.store(nullptr, std::memory_order_release);
      raise(ErrorKind::Shape, "a tensor of shape ", shape_string(t.sizes()),
            " cannot be given another size or memory: a call of another thread is at work on it, and waits to change a "
            "tensor of this call in turn");
    }
    wait_outside([](void*) { rest(); }, nullptr);
    lock_mutex();
  }
  if (state.own != nullptr) state.own->waits_for.store(nullptr, std::memory_order_release);
  tls_changes = true;
}

Changing::~Changing() {
  if (outer_) return;
  detail::tls_changes = false;
  detail::tensor_in_change.store(nullptr, std::memory_order_release);
  detail::mutex.unlock();
}

}  // namespace facula
