// Intrusive reference counting.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace facula {

// Derived classes may hide `dispose()` with their own way of ending life.
class RefCounted {
 public:
  RefCounted() = default;
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  uint32_t use_count() const { return refs_.load(std::memory_order_acquire); }
  void retain() const { refs_.fetch_add(1, std::memory_order_relaxed); }
  // For holders of a weak pointer: false when the last reference is gone already.
  bool try_retain() const {
    uint32_t n = refs_.load(std::memory_order_relaxed);
    while (n != 0) {
      if (refs_.compare_exchange_weak(n, n + 1, std::memory_order_acquire, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  // True when this was the last reference.
  bool drop() const { return refs_.fetch_sub(1, std::memory_order_acq_rel) == 1; }

 protected:
  // The same without a locked instruction when nobody shares the object. Only for classes that are
  // never reached through weak pointers: with one reference left, nobody else can add one.
  bool drop_unweak() const { return refs_.load(std::memory_order_acquire) == 1 || drop(); }
  ~RefCounted() = default;

 private:
  mutable std::atomic<uint32_t> refs_{1};
};

template <typename T>
class intrusive_ptr {
 public:
  intrusive_ptr() = default;
  intrusive_ptr(std::nullptr_t) {}  // NOLINT
  // Takes over the one reference that a new object starts with.
  static intrusive_ptr adopt(T* p) {
    intrusive_ptr r;
    r.p_ = p;
    return r;
  }
  // Adds a reference.
  static intrusive_ptr share(T* p) {
    if (p != nullptr) p->retain();
    return adopt(p);
  }
  intrusive_ptr(const intrusive_ptr& o) : p_(o.p_) {
    if (p_ != nullptr) p_->retain();
  }
  intrusive_ptr(intrusive_ptr&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  template <typename U>
    requires std::is_convertible_v<U*, T*>
  intrusive_ptr(intrusive_ptr<U> o) noexcept : p_(o.release()) {}  // NOLINT
  intrusive_ptr& operator=(intrusive_ptr o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~intrusive_ptr() { reset(); }
  void reset() {
    if (T* p = std::exchange(p_, nullptr); p != nullptr && p->drop()) T::dispose(p);
  }
  T* release() { return std::exchange(p_, nullptr); }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool operator==(const intrusive_ptr&) const = default;

 private:
  T* p_ = nullptr;
};

template <typename T, typename... Args>
intrusive_ptr<T> make_intrusive(Args&&... args) {
  return intrusive_ptr<T>::adopt(new T(std::forward<Args>(args)...));
}

}  // namespace facula
