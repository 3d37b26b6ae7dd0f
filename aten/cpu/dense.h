// Bringing tensors into the layout a kernel works on.
#pragma once

#include "runtime/core/tensor.h"
#include "runtime/iterate/parallel.h"

namespace facula::cpu {

// Same shape and dtype, any strides; the tensors do not overlap.
void copy_elements(const Tensor& to, const Tensor& from);

// The tensor itself when contiguous, else a contiguous copy. Undefined stays undefined.
inline Tensor dense(const Tensor& t) {
  if (!t.defined() || t.is_contiguous()) return t;
  Tensor copy = make_empty(t.sizes(), t.dtype(), t.device());
  copy_elements(copy, t);
  return copy;
}

// Calls fn with a contiguous tensor that stands for `out`.
template <typename F>
void into_dense(const Tensor& out, const F& fn) {
  if (out.is_contiguous()) {
    fn(out);
    return;
  }
  const Tensor copy = make_empty(out.sizes(), out.dtype(), out.device());
  fn(copy);
  copy_elements(out, copy);
}

// Scratch memory for one call.
template <typename T>
class Buffer {
 public:
  explicit Buffer(int64_t n) : size_(static_cast<size_t>(n) * sizeof(T)) {
    if (size_ > 0) data_ = cpu_allocate(size_);
  }
  ~Buffer() {
    if (size_ > 0) cpu_deallocate(data_, size_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* get() const { return static_cast<T*>(data_); }

 private:
  size_t size_;
  void* data_ = nullptr;
};

// Items per piece so that a piece does at least `work` of element operations.
inline int64_t grain_for(int64_t per_item, int64_t work = 32768) {
  return std::max<int64_t>(1, work / std::max<int64_t>(1, per_item));
}

}  // namespace facula::cpu
