// Locks for the few moments at which threads meet on one leaf or view.
#pragma once

#include <mutex>

#include "runtime/core/yield_lock.h"

namespace facula::detail {

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
