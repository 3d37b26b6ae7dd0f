#include "launch/background.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "launch/compiler.h"

namespace facula::cuda {

namespace {

struct Workers {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void()>> waiting;
  std::vector<std::thread> threads;
  size_t idle = 0;
  bool ending = false;
};
Workers& workers() {
  static auto* const w = [] {
    compiler_missing();  // the library's own ends come after ours
    std::atexit([] {
      Workers& all = workers();
      {
        const std::lock_guard lock(all.mutex);
        all.ending = true;
        all.waiting.clear();
      }
      all.changed.notify_all();
      for (std::thread& t : all.threads) t.join();
    });
    return new Workers;
  }();
  return *w;
}

void work() {
  Workers& w = workers();
  std::unique_lock lock(w.mutex);
  for (;;) {
    ++w.idle;
    w.changed.wait(lock, [&] { return w.ending || !w.waiting.empty(); });
    --w.idle;
    if (w.ending) return;
    const std::function<void()> next = std::move(w.waiting.front());
    w.waiting.pop_front();
    lock.unlock();
    next();
    lock.lock();
  }
}

}  // namespace

bool in_background(std::function<void()> next) {
  static const size_t most = std::clamp(std::thread::hardware_concurrency() / 2, 1u, 8u);
  Workers& w = workers();
  {
    const std::lock_guard lock(w.mutex);
    if (w.ending) return false;
    if (w.waiting.size() >= w.idle && w.threads.size() < most) {
      try {
        w.threads.emplace_back(work);
      } catch (const std::system_error&) {
        if (w.threads.empty()) return false;
      }
    }
    w.waiting.push_back(std::move(next));
  }
  w.changed.notify_all();
  return true;
}

}  // namespace facula::cuda
