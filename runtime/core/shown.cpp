#include "runtime/core/shown.h"

#include <mutex>
#include <unordered_set>

#include "runtime/core/yield_lock.h"

namespace facula {

std::atomic<uint16_t> detail::shown_counts[detail::kShownCounts];

namespace {

struct Shown {
  detail::YieldLock mutex;
  std::unordered_set<const StorageImpl*> all;
};
Shown& shown() {
  static Shown* const s = new Shown;  // used until the very end
  return *s;
}

}  // namespace

void show_memory(const StorageImpl& s) {
  const StorageImpl* const owner = s.owner();
  if (owner->deleter() != nullptr) return;
  const std::lock_guard lock(shown().mutex);
  if (shown().all.insert(owner).second) {
    detail::shown_counts[detail::shown_place(owner)].fetch_add(1, std::memory_order_relaxed);
  }
}

bool is_shown(const StorageImpl& s) {
  const StorageImpl* const owner = s.owner();
  if (owner->deleter() != nullptr) return true;
  if (detail::shown_counts[detail::shown_place(owner)].load(std::memory_order_relaxed) == 0) return false;
  const std::lock_guard lock(shown().mutex);
  return shown().all.contains(owner);
}

void detail::forget_shown_at_all(const StorageImpl* s) noexcept {
  const std::lock_guard lock(shown().mutex);
  if (shown().all.erase(s) != 0) shown_counts[shown_place(s)].fetch_sub(1, std::memory_order_relaxed);
}

}  // namespace facula
