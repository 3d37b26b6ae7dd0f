// Arguments of kernels laid out as the kernel's structure has them.
#pragma once

#include <cstring>

#include "launch/host.h"

namespace facula::cuda {

class Params {
 public:
  Params() {}  // NOLINT: not "= default", which would clear the bytes first
  template <typename T>
  void put(const T& value) {
    align(alignof(T));
    std::memcpy(bytes_ + size_, &value, sizeof(T));
    size_ += sizeof(T);
  }
  void align(size_t to) {
    for (const size_t end = round_up(size_, to); size_ < end; ++size_) bytes_[size_] = 0;
  }
  // 16 bytes with a number of type `compute` in front, or a bool.
  void put_number(const FaculaValue& value, int32_t compute);
  // The same of an element in host memory.
  void put_element(const void* data, int32_t dtype, int32_t compute);
  void* data() { return bytes_; }

 private:
  alignas(16) unsigned char bytes_[4096];
  size_t size_ = 0;
};

// The element in host memory as a number.
FaculaValue value_of(const void* data, int32_t dtype);
double real_of(const FaculaValue& value);
int64_t integer_of(const FaculaValue& value);

}  // namespace facula::cuda
