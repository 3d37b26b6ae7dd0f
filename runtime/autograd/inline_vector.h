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
  InlineVector() : data_(inline_data()) {}
  InlineVector(const InlineVector&) = delete;
  InlineVector& operator=(const InlineVector&) = delete;
  InlineVector(InlineVector&& o) noexcept : data_(inline_data()) { take(o); }
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
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }

  template <typename... Args>
  T& emplace_back(Args&&... args) {
    if (size_ == capacity_) grow(size_ + 1);
    T* at = new (data_ + size_) T{std::forward<Args>(args)...};
    ++size_;
    return *at;
  }
  void push_back(T value) { emplace_back(std::move(value)); }
  void resize(size_t n) {
    if (n > capacity_) grow(n);
    while (size_ < n) new (data_ + size_++) T{};
    while (size_ > n) data_[--size_].~T();
  }
  void clear() { resize(0); }
  operator std::span<const T>() const { return {data_, size_}; }  // NOLINT
  operator std::span<T>() { return {data_, size_}; }              // NOLINT

 private:
  T* inline_data() { return reinterpret_cast<T*>(inline_); }
  bool on_heap() const { return capacity_ > N; }
  static T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t{alignof(T)})); }
  static void deallocate(T* p) { ::operator delete(p, std::align_val_t{alignof(T)}); }
  void destroy() {
    for (size_t i = 0; i < size_; ++i) data_[i].~T();
    if (on_heap()) deallocate(data_);
    data_ = inline_data();
    size_ = 0;
    capacity_ = N;
  }
  void move_to(T* to) {
    for (size_t i = 0; i < size_; ++i) {
      new (to + i) T(std::move(data_[i]));
      data_[i].~T();
    }
  }
  // *this must be empty and inline.
  void take(InlineVector& o) {
    if (o.on_heap()) {
      data_ = std::exchange(o.data_, o.inline_data());
      capacity_ = std::exchange(o.capacity_, static_cast<uint32_t>(N));
    } else {
      o.move_to(data_);
    }
    size_ = std::exchange(o.size_, 0u);
  }
  [[gnu::noinline]] void grow(size_t n) {
    const size_t capacity = n > 2 * size_t{capacity_} ? n : 2 * size_t{capacity_};
    T* fresh = allocate(capacity);
    move_to(fresh);
    if (on_heap()) deallocate(data_);
    data_ = fresh;
    capacity_ = static_cast<uint32_t>(capacity);
  }

  T* data_;
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  alignas(T) unsigned char inline_[N * sizeof(T)];
};

}  // namespace facula
