// What random numbers the dtypes hold, by their codes: for facula's kernels and those of devices.
#pragma once

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

}  // namespace facula::draws
