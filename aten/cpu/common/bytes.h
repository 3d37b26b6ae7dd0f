// Bytes memory of a kernel: 64-byte aligned, from the allocator's free lists.
#pragma once

#include "runtime/core/allocator.h"
#include "runtime/core/error.h"

namespace facula::cpu {

// The bytes of n elements. An expanded tensor may have more elements than there is memory in the world: beyond 2^56
// bytes this raises, so that sums of a few such numbers do not wrap.
inline size_t bytes_for(int64_t n, size_t itemsize) {
  constexpr int64_t kMost = int64_t{1} << 56;
  FACULA_CHECK(n >= 0 && n <= kMost / static_cast<int64_t>(itemsize), OutOfMemory,
               "a copy of an operand would take more than 2**56 bytes; it is an expanded tensor, perhaps: reduce it "
               "before it is expanded");
  return static_cast<size_t>(n) * itemsize;
}
template <typename T>
size_t bytes_for(int64_t n) {
  return bytes_for(n, sizeof(T));
}

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
