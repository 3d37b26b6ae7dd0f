// What few objects have: made when first asked for, by whichever thread.
#pragma once

#include <atomic>

namespace facula::detail {

template <typename T>
class MadeOnce {
 public:
  MadeOnce() = default;
  ~MadeOnce() { delete get(); }
  MadeOnce(const MadeOnce&) = delete;
  MadeOnce& operator=(const MadeOnce&) = delete;
  T* get() const { return made_.load(std::memory_order_acquire); }
  T& make() {
    if (T* made = get()) return *made;
    T* fresh = new T;
    T* other = nullptr;
    if (made_.compare_exchange_strong(other, fresh, std::memory_order_acq_rel)) return *fresh;
    delete fresh;
    return *other;
  }

 private:
  std::atomic<T*> made_{nullptr};
};

}  // namespace facula::detail
