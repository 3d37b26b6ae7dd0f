// A vector whose first N elements need no allocation, for element types that own something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <utility>

namespace facula {

// T must be default-constructible and nothrow-movable.
template <typename T, size_t N>
class InlineVector {
 public:
  InlineVector() {}  // NOLINT: the union keeps its bytes
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;
  InlineVector(InlineVector&& o) noexcept { take(o); }
  InlineVector& operator=(InlineVector&& o) noexcept {
    if (this != &o) {
      destroy();
      take(o);
    }
    return *this;
  }
  ~InlineVector() { destroy(); }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return on_heap() ? heap_ : inline_data(); }
  const T* data() const { return const_cast<InlineVector*>(this)->data(); }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& back() { return data()[size_ - 1]; }

  template <typename... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) grow(size_ + 1);
    T* at = new (data() + size_) T{std::forward<Args>(args)...};
    ++size_;
    return *at;
  }
  void push_back(T value) { emplace_back(std::move(value)); }
  void resize(size_t n) {
    if (n > capacity_) grow(n);
    T* const all = data();
    while (size_ < n) new (all + size_++) T{};
    while (size_ > n) all[--size_].~T();
  }
  void clear() { resize(0); }
  operator std::span<const T>() const { return {data(), size_}; }  // NOLINT
  operator std::span<T>() { return {data(), size_}; }              // NOLINT

 private:
  T* inline_data() { return reinterpret_cast<T*>(inline_); }
  bool on_heap() const { return capacity_ > N; }
  static T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{alignof(T)})); }
  static void deallocate(T* p) { ::operator delete(p, std::align_val_t{alignof(T)}); }
  void destroy() {
    T* const all = data();
    for (size_t i = 0; i < size_; ++i) all[i].~T();
    if (on_heap()) deallocate(all);
    size_ = 0;
    capacity_ = N;
  }
  void move_to(T* to) {
    T* const all = data();
    for (size_t i = 0; i < size_; ++i) {
      new (to + i) T(std::move(all[i]));
      all[i].~T();
    }
  }
  // *this must be empty and inline.
  void take(InlineVector& o) {
    if (o.on_heap()) {
      heap_ = o.heap_;
      capacity_ = std::exchange(o.capacity_, static_cast<uint32_t>(N));
    } else {
      o.move_to(inline_data());
    }
    size_ = std::exchange(o.size_, 0u);
  }
  [[gnu::noinline]] void grow(size_t n) {
    const size_t capacity = n > 2 * size_t{capacity_} ? n : 2 * size_t{capacity_};
    T* fresh = allocate(capacity);
    move_to(fresh);
    if (on_heap()) deallocate(heap_);
    heap_ = fresh;
    capacity_ = static_cast<uint32_t>(capacity);
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = N;  // more: on the heap
  union {
    T* heap_;
    alignas(T) unsigned char inline_[N * sizeof(T)];
  };
};

}  // namespace facula
