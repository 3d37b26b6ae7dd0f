// Locks for the few moments at which threads meet on one leaf or view: held for nanoseconds, so that
// waiting yields instead of sleeping.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>

namespace facula::detail {

class YieldLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

// One of a fixed set of locks by address: a lock in every record would cost more than it saves.
// Never take a second one while holding one.
inline YieldLock& lock_for(const void* object) {
  struct alignas(64) Padded {
    YieldLock lock;
  };
  static constinit Padded locks[32];
  return locks[(reinterpret_cast<uintptr_t>(object) >> 6) % 32].lock;
}

// Guards every Hooks::retain list: they are rare, and a dying tensor must find its own.
YieldLock& retain_lock();

}  // namespace facula::detail
