// Elements moved by size, whatever they mean.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "runtime/core/tensor.h"

namespace facula::cpu {

struct Bits128 {
  uint64_t low, high;
};

// fn(std::type_identity<T>{}) for the unsigned type of that size.
template <typename F>
decltype(auto) visit_bits(size_t itemsize, F&& fn) {
  switch (itemsize) {
    case 1:
      return fn(std::type_identity<uint8_t>{});
    case 2:
      return fn(std::type_identity<uint16_t>{});
    case 4:
      return fn(std::type_identity<uint32_t>{});
    case 8:
      return fn(std::type_identity<uint64_t>{});
    default:
      return fn(std::type_identity<Bits128>{});
  }
}

// A number as an element of `dtype`.
struct Element {
  alignas(16) char bytes[16] = {};
  template <typename T>
  T as() const {
    T v;
    std::memcpy(&v, bytes, sizeof(T));
    return v;
  }
};

// Of numbers in tensors too, which no check before the kernel sees.
inline Element element_of(const Scalar& value, ScalarType dtype, const char* op) {
  check_fits(value, dtype, op);
  Element e;
  visit_dtype(dtype, [&]<typename T>(std::type_identity<T>) {
    const T v = value.to<T>();
    std::memcpy(e.bytes, &v, sizeof(T));
  });
  return e;
}

// A number that other threads may write meanwhile, read once: what was checked is what is used.
template <typename T>
inline T read_once(const T* p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}

// `t` itself, or a copy when `out` shares memory with it.
Tensor apart_from(const Tensor& t, const Tensor& out);
// Dense, in row-major order, of that dtype; `t` itself when it is so already.
Tensor dense(const Tensor& t, ScalarType dtype);

}  // namespace facula::cpu
