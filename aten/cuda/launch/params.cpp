#include "launch/params.h"

#include <bit>
#include <cmath>
#include <limits>

namespace facula::cuda {

namespace {

float half_to_float(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000u) << 16, exponent = h >> 10 & 31u, fraction = h & 1023u;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | fraction << 13);
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(fraction + 1024), static_cast<int>(exponent) - 25);
  return sign != 0 ? -size : size;
}

template <typename T>
T read(const void* data) {
  T v;
  std::memcpy(&v, data, sizeof(T));
  return v;
}

}  // namespace

FaculaValue value_of(const void* data, int32_t dtype) {
  FaculaValue v{};
  v.kind = FACULA_INT;
  const auto real = [&](double x) {
    v.kind = FACULA_FLOAT;
    v.at.f = x;
  };
  switch (dtype) {
    case FACULA_BOOL:
      v.kind = FACULA_TRUTH;
      v.at.i = read<uint8_t>(data) != 0;
      break;
    case FACULA_UINT8:
      v.at.i = read<uint8_t>(data);
      break;
    case FACULA_INT8:
      v.at.i = read<int8_t>(data);
      break;
    case FACULA_INT16:
      v.at.i = read<int16_t>(data);
      break;
    case FACULA_INT32:
      v.at.i = read<int32_t>(data);
      break;
    case FACULA_INT64:
      v.at.i = read<int64_t>(data);
      break;
    case FACULA_FLOAT16:
      real(half_to_float(read<uint16_t>(data)));
      break;
    case FACULA_BFLOAT16:
      real(std::bit_cast<float>(static_cast<uint32_t>(read<uint16_t>(data)) << 16));
      break;
    case FACULA_FLOAT32:
      real(read<float>(data));
      break;
    case FACULA_FLOAT64:
      real(read<double>(data));
      break;
    default: {
      const bool wide = dtype == FACULA_COMPLEX128;
      const char* const imag = static_cast<const char*>(data) + (wide ? 8 : 4);
      v.kind = FACULA_COMPLEX;
      v.at.f = wide ? read<double>(data) : read<float>(data);
      v.more.imag = wide ? read<double>(imag) : read<float>(imag);
    }
  }
  return v;
}

double real_of(const FaculaValue& v) {
  return v.kind == FACULA_FLOAT || v.kind == FACULA_COMPLEX ? v.at.f : static_cast<double>(v.at.i);
}
int64_t integer_of(const FaculaValue& v) {
  if (v.kind != FACULA_FLOAT && v.kind != FACULA_COMPLEX) return v.at.i;
  const double f = v.at.f;
  return f >= -9223372036854775808.0 && f < 9223372036854775808.0 ? static_cast<int64_t>(f)
                                                                  : std::numeric_limits<int64_t>::min();
}

void Params::put_number(const FaculaValue& v, int32_t compute) {
  align(16);
  const size_t start = size_;
  std::memset(bytes_ + start, 0, 16);
  const bool real = v.kind == FACULA_FLOAT || v.kind == FACULA_COMPLEX;
  switch (compute) {
    case FACULA_BOOL:
      put<uint8_t>(real ? v.at.f != 0 || (v.kind == FACULA_COMPLEX && v.more.imag != 0) : v.at.i != 0);
      break;
    case FACULA_UINT8:
      put(static_cast<uint8_t>(integer_of(v)));
      break;
    case FACULA_INT8:
      put(static_cast<int8_t>(integer_of(v)));
      break;
    case FACULA_INT16:
      put(static_cast<int16_t>(integer_of(v)));
      break;
    case FACULA_INT32:
      put(static_cast<int32_t>(integer_of(v)));
      break;
    case FACULA_INT64:
      put(integer_of(v));
      break;
    case FACULA_FLOAT64:
      put(real_of(v));
      break;
    case FACULA_COMPLEX64:
      put(static_cast<float>(real_of(v)));
      put(static_cast<float>(v.kind == FACULA_COMPLEX ? v.more.imag : 0));
      break;
    case FACULA_COMPLEX128:
      put(real_of(v));
      put(v.kind == FACULA_COMPLEX ? v.more.imag : 0.0);
      break;
    default:
      put(static_cast<float>(real_of(v)));
  }
  size_ = start + 16;
}

void Params::put_element(const void* data, int32_t dtype, int32_t compute) {
  put_number(value_of(data, dtype), compute);
}

}  // namespace facula::cuda
