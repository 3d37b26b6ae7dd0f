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

// A number as an element of `dtype`. Integers that do not fit raise; floats are truncated.
struct Element {
  alignas(16) char bytes[16] = {};
  template <typename T>
  T as() const {
    T v;
    std::memcpy(&v, bytes, sizeof(T));
    return v;
  }
};

inline Element element_of(const Scalar& value, ScalarType dtype, const char* op) {
  FACULA_CHECK(value.kind() != Category::Complex || is_complex(dtype), Type, op,
               "(): the number is complex, the tensor is ", dtype_name(dtype));
  Element e;
  visit_dtype(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      using Limits = std::numeric_limits<T>;
      const double d = value.as_double();
      const bool fits = (value.kind() <= Category::Integral && sizeof(T) == 8) ||
                        (d >= static_cast<double>(Limits::min()) && d <= static_cast<double>(Limits::max()));
      FACULA_CHECK(fits, Overflow, op, "(): the number ",
                   value.kind() <= Category::Integral ? std::to_string(value.to<int64_t>()) : concat(d),
                   " does not fit into ", dtype_name(dtype), " (", int64_t{Limits::min()}, " to ",
                   int64_t{Limits::max()}, ")");
    }
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
