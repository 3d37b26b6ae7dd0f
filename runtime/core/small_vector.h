// Sizes and strides: a vector that keeps up to N elements inline, and a view of one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <utility>

namespace facula {

// Like std::span<const int64_t>, and also made from a braced list inside a call.
class IntList : public std::span<const int64_t> {
 public:
  using std::span<const int64_t>::span;
  IntList() = default;
  IntList(std::span<const int64_t> s) : std::span<const int64_t>(s) {}  // NOLINT
  // Valid for the full expression, as for std::initializer_list itself.
  IntList(std::initializer_list<int64_t> l)  // NOLINT
      : std::span<const int64_t>(l.begin(), l.size()) {}
  bool operator==(const IntList& o) const { return size() == o.size() && std::equal(begin(), end(), o.begin()); }
};

// For trivially copyable T only.
template <typename T, size_t N>
class SmallVector {
 public:
  SmallVector() = default;
  explicit SmallVector(size_t n, T value = T{}) { resize(n, value); }
  SmallVector(std::initializer_list<T> l) { assign(l.begin(), l.end()); }
  SmallVector(std::span<const T> s) { assign(s.begin(), s.end()); }  // NOLINT
  template <typename It>
  SmallVector(It first, It last) {
    assign(first, last);
  }
  SmallVector(const SmallVector& o) { assign(o.begin(), o.end()); }
  SmallVector(SmallVector&& o) noexcept { take(o); }
  SmallVector& operator=(const SmallVector& o) {
    if (this != &o) assign(o.begin(), o.end());
    return *this;
  }
  SmallVector& operator=(SmallVector&& o) noexcept {
    if (this != &o) {
      free_heap();
      take(o);
    }
    return *this;
  }
  ~SmallVector() { free_heap(); }

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
  const T& back() const { return data_[size_ - 1]; }
  T& front() { return data_[0]; }
  const T& front() const { return data_[0]; }
  void clear() { size_ = 0; }
  void reserve(size_t n) {
    if (n > capacity_) grow(n);
  }
  void push_back(T v) {
    if (size_ == capacity_) grow(size_ + 1);
    data_[size_++] = v;
  }
  void pop_back() { --size_; }
  void resize(size_t n, T value = T{}) {
    reserve(n);
    for (size_t i = size_; i < n; ++i) data_[i] = value;
    size_ = static_cast<uint32_t>(n);
  }
  template <typename It>
  void assign(It first, It last) {
    const size_t n = static_cast<size_t>(std::distance(first, last));
    reserve(n);
    std::copy(first, last, data_);
    size_ = static_cast<uint32_t>(n);
  }
  void insert(T* at, T v) {
    const size_t i = static_cast<size_t>(at - data_);
    push_back(v);
    std::rotate(data_ + i, data_ + size_ - 1, data_ + size_);
  }
  void erase(T* at) {
    std::move(at + 1, end(), at);
    --size_;
  }
  operator std::span<const T>() const { return {data_, size_}; }  // NOLINT
  operator IntList() const                                        // NOLINT
    requires std::is_same_v<T, int64_t>
  {
    return IntList(data_, size_);
  }
  bool operator==(const SmallVector& o) const { return size_ == o.size_ && std::equal(begin(), end(), o.begin()); }

 private:
  void free_heap() {
    if (data_ != inline_) delete[] data_;
  }
  void take(SmallVector& o) {
    size_ = o.size_;
    if (o.data_ == o.inline_) {
      data_ = inline_;
      capacity_ = N;
      std::memcpy(static_cast<void*>(inline_), o.inline_, size_ * sizeof(T));
    } else {
      data_ = std::exchange(o.data_, o.inline_);
      capacity_ = std::exchange(o.capacity_, static_cast<uint32_t>(N));
    }
    o.size_ = 0;
  }
  [[gnu::noinline]] void grow(size_t n) {  // n > capacity_
    const size_t capacity = n + capacity_;
    T* fresh = new T[capacity];
    std::memcpy(static_cast<void*>(fresh), data_, size_ * sizeof(T));
    free_heap();
    data_ = fresh;
    capacity_ = static_cast<uint32_t>(capacity);
  }
  T* data_ = inline_;
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  T inline_[N];
};

using DimVector = SmallVector<int64_t, 5>;

}  // namespace facula
