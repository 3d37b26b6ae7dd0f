// What random numbers the dtypes hold, by their codes: for facula's kernels and those of devices.
#pragma once

#include <algorithm>
#include <cmath>

#include "facula/backend.h"

namespace facula::draws {

// Bits that a uniform number has.
constexpr int mantissa_bits(int dtype) {
  switch (dtype) {
    case FACULA_FLOAT16:
      return 11;
    case FACULA_BFLOAT16:
      return 8;
    case FACULA_FLOAT64:
      return 53;
    default:
      return 24;
  }
}

// Largest n such that every integer in [0, n] is a number of that type.
constexpr int64_t exact_integers(int dtype) {
  switch (dtype) {
    case FACULA_BOOL:
      return 1;
    case FACULA_UINT8:
      return 255;
    case FACULA_INT8:
      return 127;
    case FACULA_INT16:
      return 32767;
    case FACULA_INT32:
      return INT32_MAX;
    case FACULA_UINT16:
      return 65535;
    case FACULA_UINT32:
      return UINT32_MAX;
    case FACULA_FLOAT16:
      return 2048;
    case FACULA_BFLOAT16:
      return 256;
    case FACULA_FLOAT32:
      return 1 << 24;
    case FACULA_FLOAT64:
      return int64_t{1} << 53;
    default:
      return INT64_MAX;
  }
}

constexpr bool is_floating(int dtype) {
  return dtype == FACULA_FLOAT16 || dtype == FACULA_BFLOAT16 || dtype == FACULA_FLOAT32 || dtype == FACULA_FLOAT64;
}
constexpr int least_exponent(int dtype) {
  return dtype == FACULA_FLOAT16 ? -14 : dtype == FACULA_FLOAT64 ? -1022 : -126;
}
inline double least_positive(int dtype) { return std::ldexp(1.0, least_exponent(dtype) - mantissa_bits(dtype) + 1); }
// An integer dtype has no more, and a double none below 2^63.
inline double most_trials(int dtype) {
  return is_floating(dtype) ? HUGE_VAL : std::min(static_cast<double>(exact_integers(dtype)), 0x1p63 - 1024);
}

// The greatest number of a floating dtype that is not above x.
inline double number_below(int dtype, double x) {
  if (dtype == FACULA_FLOAT64) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent - 1, least_exponent(dtype)) - mantissa_bits(dtype) + 1);
  return std::floor(x / step) * step;
}
inline int64_t integer_below(int dtype, int64_t x) {
  if (!is_floating(dtype)) return x;
  int shift = 0;
  for (uint64_t size = x < 0 ? 0 - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
       size >> shift >> mantissa_bits(dtype) != 0;) {
    ++shift;
  }
  return x >> shift << shift;
}

template <typename N>
struct Limits {
  N least, most;
};
// The numbers of a floating dtype in [from, to); where it has none there, `from` and `to`.
inline Limits<double> numbers_within(int dtype, double from, double to) {
  const double least = -number_below(dtype, -from), most = number_below(dtype, std::nextafter(to, -HUGE_VAL));
  return least <= most ? Limits<double>{least, most} : Limits<double>{from, to};
}
// Those that are integers in [first, last]; least > most where the dtype has none.
inline Limits<int64_t> integers_within(int dtype, int64_t first, int64_t last) {
  const int64_t least = first == INT64_MIN ? first : -integer_below(dtype, -first);
  return {least, integer_below(dtype, last)};
}

}  // namespace facula::draws
