// Iterating over tensors: elements of any dtype and stride, brought into the types that formulas compute in.
#pragma once

#include <cstring>
#include <vector>

#include "device.h"

namespace @NAME@ {

inline size_t itemsize(int32_t dtype) {
  static constexpr uint8_t sizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};
  return sizes[dtype];
}

inline float from_bfloat16(uint16_t bits) {
  const uint32_t wide = uint32_t{bits} << 16;
  float f;
  std::memcpy(&f, &wide, 4);
  return f;
}
inline uint16_t to_bfloat16(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  if (f != f) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline float from_float16(uint16_t h) {
  const uint32_t sign = uint32_t{h & 0x8000u} << 16, exponent = h >> 10 & 31u, fraction = h & 1023u;
  float f;
  if (exponent == 0) {
    f = static_cast<float>(fraction) * 5.9604644775390625e-8f;  // 2^-24
    return sign != 0 ? -f : f;
  }
  const uint32_t bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | fraction << 13;
  std::memcpy(&f, &bits, 4);
  return f;
}
inline uint16_t to_float16(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return sign | 0x7e00;
  if (bits >= 0x477ff000) return sign | 0x7c00;
  if (bits < 0x38800000) {  // subnormal: a multiple of 2^-24, rounded to even by the addition
    float magic = 0.5f, value;
    std::memcpy(&value, &bits, 4);
    value += magic;
    uint32_t out;
    std::memcpy(&out, &value, 4);
    return static_cast<uint16_t>(sign | (out - 0x3f000000));
  }
  return static_cast<uint16_t>(sign | ((bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13));
}

// Float to integer is undefined where it does not fit; what facula's CPU gives is the smallest number.
template <typename To, typename From>
To convert(From v) {
  if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    const bool fits = v >= From(-9.2233720368547758e18) && v < From(9.2233720368547758e18);
    return static_cast<To>(fits ? static_cast<int64_t>(v) : INT64_MIN);
  } else {
    return static_cast<To>(v);
  }
}

// n elements, `stride` bytes apart, as T.
template <typename T>
void load(int32_t dtype, const char* p, int64_t stride, int64_t n, T* out) {
  const auto each = [&]<typename S>(S) {
    for (int64_t i = 0; i < n; ++i, p += stride) {
      S v;
      std::memcpy(&v, p, sizeof(S));
      out[i] = convert<T>(v);
    }
  };
  switch (dtype) {
    case FACULA_BOOL:
    case FACULA_UINT8: return each(uint8_t{});
    case FACULA_INT8: return each(int8_t{});
    case FACULA_INT16: return each(int16_t{});
    case FACULA_INT32: return each(int32_t{});
    case FACULA_INT64: return each(int64_t{});
    case FACULA_FLOAT32: return each(float{});
    case FACULA_FLOAT64: return each(double{});
    default:
      for (int64_t i = 0; i < n; ++i, p += stride) {
        uint16_t bits;
        std::memcpy(&bits, p, 2);
        out[i] = convert<T>(dtype == FACULA_BFLOAT16 ? from_bfloat16(bits) : from_float16(bits));
      }
  }
}
template <typename T>
void store(int32_t dtype, char* p, int64_t stride, int64_t n, const T* in) {
  const auto each = [&]<typename S>(S) {
    for (int64_t i = 0; i < n; ++i, p += stride) {
      const S v = convert<S>(in[i]);
      std::memcpy(p, &v, sizeof(S));
    }
  };
  switch (dtype) {
    case FACULA_BOOL: return each(bool{});
    case FACULA_UINT8: return each(uint8_t{});
    case FACULA_INT8: return each(int8_t{});
    case FACULA_INT16: return each(int16_t{});
    case FACULA_INT32: return each(int32_t{});
    case FACULA_INT64: return each(int64_t{});
    case FACULA_FLOAT32: return each(float{});
    case FACULA_FLOAT64: return each(double{});
    default:
      for (int64_t i = 0; i < n; ++i, p += stride) {
        const float f = static_cast<float>(in[i]);
        const uint16_t bits = dtype == FACULA_BFLOAT16 ? to_bfloat16(f) : to_float16(f);
        std::memcpy(p, &bits, 2);
      }
  }
}

// A tensor kept beyond the call: geometry copied, the value of a host scalar read.
struct Operand {
  char* data = nullptr;
  int32_t dtype = 0;
  std::vector<int64_t> sizes, strides;  // strides in bytes
  int64_t numel = 0;
  alignas(16) char value[16] = {};
  bool scalar = false;

  Operand() = default;
  explicit Operand(const FaculaTensor& t)
      : data(address(t.data)), dtype(t.dtype), sizes(t.sizes, t.sizes + t.ndim),
        strides(t.strides, t.strides + t.ndim), numel(t.numel), scalar((t.flags & FACULA_HOST_SCALAR) != 0) {
    for (int64_t& s : strides) s *= static_cast<int64_t>(itemsize(dtype));
    if (scalar) std::memcpy(value, t.data, itemsize(dtype));
  }
  const char* base() const { return scalar ? value : data; }
  char* at(const std::vector<int64_t>& index) const {
    char* p = data;
    for (size_t d = 0; d < index.size(); ++d) p += index[d] * strides[d];
    return p;
  }
};

// fn(index) for every index of all dims but the last `inner`; false when there is none.
template <typename F>
void for_each_index(const std::vector<int64_t>& sizes, size_t inner, const F& fn) {
  const size_t outer = sizes.size() - inner;
  for (const int64_t s : sizes) {
    if (s == 0) return;
  }
  std::vector<int64_t> index(outer, 0);
  while (true) {
    fn(index);
    size_t d = outer;
    while (d > 0 && ++index[d - 1] == sizes[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace @NAME@
