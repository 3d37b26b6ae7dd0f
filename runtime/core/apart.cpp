#include "runtime/core/apart.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "runtime/core/allocator.h"
#include "runtime/core/interrupt.h"

namespace facula {

namespace {

constexpr auto kPeriod = std::chrono::milliseconds(20);

struct State {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::optional<HoldMemory> hold;  // of work that nobody waits for
};

// Work that nobody waits for. What it uses of the process must not go before it has ended.
std::atomic<int> unheard{0};
[[maybe_unused]] const int forgets =
    pthread_atfork(nullptr, nullptr, [] { unheard.store(0); });  // no thread of a child
// As that may take minutes, the process ends without it.
void leave_unheard(int status, void*) {
  for (int i = 0; i < 5 && unheard.load(std::memory_order_acquire) > 0; ++i) std::this_thread::sleep_for(kPeriod);
  if (unheard.load(std::memory_order_acquire) == 0) return;
  std::fflush(nullptr);
  ::_exit(status);
}

}  // namespace

void run_apart(std::function<void()> work) {
  const detail::Watch& watch = detail::tls_watch;
  if (watch.cancelled == nullptr && (watch.idle || !on_main_thread())) return work();
  const auto state = std::make_shared<State>();
  std::thread thread;
  try {
    thread = std::thread([state, own = std::move(work)]() mutable {
      own();
      own = nullptr;  // and what it holds
      const std::lock_guard lock(state->mutex);
      state->done = true;
      if (state->hold) {
        state->hold.reset();
        unheard.fetch_sub(1, std::memory_order_release);
      }
      state->ended.notify_one();
    });
  } catch (const std::system_error&) {
    raise(ErrorKind::Runtime, "no more threads can be made on this machine for a long computation");
  }
  thread.detach();
  std::unique_lock lock(state->mutex);
  while (!state->ended.wait_for(lock, kPeriod, [&] { return state->done; })) {
    lock.unlock();
    try {
      check_interrupt();
    } catch (...) {
      lock.lock();
      if (!state->done) {
        static const int at_exit = on_exit(leave_unheard, nullptr);
        static_cast<void>(at_exit);
        unheard.fetch_add(1, std::memory_order_relaxed);
        state->hold.emplace();
      }
      throw;
    }
    lock.lock();
  }
}

}  // namespace facula
