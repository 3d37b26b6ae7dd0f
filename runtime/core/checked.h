// Arithmetic on sizes, strides and offsets, which users give and which may be any number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "runtime/core/error.h"

namespace facula {

[[noreturn]] __attribute__((cold, noinline)) inline void raise_too_large(int64_t a, const char* sign, int64_t b) {
  raise(ErrorKind::Value, "sizes overflow: ", a, " ", sign, " ", b, " is beyond 64 bits; give smaller numbers");
}

// a + b, a - b and a * b, or a ValueError where 64 bits do not hold them.
inline int64_t checked_add(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_add_overflow(a, b, &r)) [[unlikely]]
    raise_too_large(a, "+", b);
  return r;
}
inline int64_t checked_sub(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_sub_overflow(a, b, &r)) [[unlikely]]
    raise_too_large(a, "-", b);
  return r;
}
inline int64_t checked_mul(int64_t a, int64_t b) {
  int64_t r = 0;
  if (__builtin_mul_overflow(a, b, &r)) [[unlikely]]
    raise_too_large(a, "*", b);
  return r;
}
inline int64_t checked_neg(int64_t a) { return checked_sub(0, a); }
inline int64_t checked_abs(int64_t a) { return a < 0 ? checked_neg(a) : a; }

// The nearest number that 64 bits hold: for bounds that are clipped afterwards.
inline int64_t saturated_add(int64_t a, int64_t b) {
  int64_t r = 0;
  if (!__builtin_add_overflow(a, b, &r)) return r;
  return a < 0 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}
inline int64_t saturated_mul(int64_t a, int64_t b) {
  int64_t r = 0;
  if (!__builtin_mul_overflow(a, b, &r)) return r;
  return (a < 0) != (b < 0) ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
}

// Modulo 2^64: for strides that lead nowhere, those of dims of size 1 and of empty tensors.
inline int64_t wrapped_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t wrapped_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace facula
