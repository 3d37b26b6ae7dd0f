#include "runtime/core/interrupt.h"

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <limits>
#include <mutex>

namespace facula {

namespace detail {

constinit thread_local Watch tls_watch __attribute__((tls_model("initial-exec")));

}  // namespace detail

namespace {

constexpr int64_t kPeriod = 50;  // milliseconds between questions to Python
constexpr int32_t kSteps = 256;

std::atomic<InterruptHandler> g_handler{nullptr};
std::atomic<unsigned long> g_main_thread{0};

int64_t now() {
  timespec t{};
#ifdef CLOCK_MONOTONIC_COARSE
  clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
#else
  clock_gettime(CLOCK_MONOTONIC, &t);
#endif
  return t.tv_sec * int64_t{1000} + t.tv_nsec / 1000000;
}

}  // namespace

void set_interrupt_handler(InterruptHandler handler, unsigned long main_thread) {
  g_main_thread.store(main_thread, std::memory_order_relaxed);
  g_handler.store(handler, std::memory_order_release);
  static std::once_flag once;
  // The thread that forks is the main one of the child.
  std::call_once(once, [] {
    pthread_atfork(nullptr, nullptr, [] {
      g_main_thread.store(static_cast<unsigned long>(pthread_self()), std::memory_order_relaxed);
      detail::tls_watch = {};
    });
  });
}

bool on_main_thread() {
  return g_handler.load(std::memory_order_acquire) != nullptr &&
         g_main_thread.load(std::memory_order_relaxed) == static_cast<unsigned long>(pthread_self());
}

void detail::look_for_signals() {
  Watch& watch = tls_watch;
  if (watch.cancelled != nullptr) {
    if (watch.cancelled->load(std::memory_order_relaxed)) throw Cancelled{};
    return;
  }
  const InterruptHandler handler = g_handler.load(std::memory_order_acquire);
  if (handler == nullptr) return;
  if (!watch.known) {
    watch.known = true;
    watch.idle = !on_main_thread();
    if (watch.idle) return;
  }
  const int64_t time = now();
  if (time - watch.checked < kPeriod) return;
  watch.checked = time;
  handler();
  watch.checked = now();  // the handler may have taken its time
}

void detail::end_of_steps() {
  tls_watch.steps = tls_watch.idle ? std::numeric_limits<int32_t>::max() : kSteps;
  check_interrupt();
}

}  // namespace facula
