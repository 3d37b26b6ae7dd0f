// Bytes memory of a kernel: 64-byte aligned, from the allocator's free lists.
#pragma once

#include "runtime/core/allocator.h"

namespace facula::cpu {

class Bytes {
 public:
  explicit Bytes(size_t nbytes) : data_(nbytes > 0 ? cpu_allocate(nbytes) : nullptr), nbytes_(nbytes) {}
  ~Bytes() {
    if (data_ != nullptr) cpu_deallocate(data_, nbytes_);
  }
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  char* bytes() const { return static_cast<char*>(data_); }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
  size_t nbytes_;
};

}  // namespace facula::cpu
