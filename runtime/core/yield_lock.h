// A lock that is held for nanoseconds, so that waiting yields instead of sleeping; and that a forked child, which has
// the forking thread only, finds free.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "runtime/core/error.h"

namespace facula::detail {

// 1, and one more in each child: what a lock of an earlier era holds, no thread of this process does.
extern FACULA_API std::atomic<uint32_t> fork_era;

class YieldLock {
 public:
  void lock() {
    const uint32_t era = fork_era.load(std::memory_order_relaxed);
    uint32_t holder = 0;
    while (!held_.compare_exchange_weak(holder, era, std::memory_order_acquire, std::memory_order_relaxed)) {
      if (holder == era) std::this_thread::yield();
      holder = holder == era ? 0 : holder;  // one that was left behind by a fork is free
    }
  }
  void unlock() { held_.store(0, std::memory_order_release); }

 private:
  std::atomic<uint32_t> held_{0};  // the era of its holder
};

}  // namespace facula::detail
