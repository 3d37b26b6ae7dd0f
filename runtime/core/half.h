// Floats of 16 and 8 bits as storage types: arithmetic happens in float, conversion rounds to even.
#pragma once

#include <bit>
#include <cstdint>

namespace facula {

namespace detail {

// Branch-free so that loops over it vectorise.
inline float half_bits_to_float(uint16_t h) {
  const uint32_t w = static_cast<uint32_t>(h) << 16;
  const uint32_t sign = w & 0x80000000u;
  const uint32_t two_w = w + w;
  const float normalized = std::bit_cast<float>((two_w >> 4) + (0xE0u << 23)) * std::bit_cast<float>(0x7800000u);
  const float denormalized = std::bit_cast<float>((two_w >> 17) | (126u << 23)) - 0.5f;
  const uint32_t magnitude =
      two_w < (1u << 27) ? std::bit_cast<uint32_t>(denormalized) : std::bit_cast<uint32_t>(normalized);
  return std::bit_cast<float>(sign | magnitude);
}

inline uint16_t float_to_half_bits(float f) {
  const float scale_to_inf = std::bit_cast<float>(0x77800000u);
  const float scale_to_zero = std::bit_cast<float>(0x08800000u);
  const uint32_t w = std::bit_cast<uint32_t>(f);
  const float magnitude = std::bit_cast<float>(w & 0x7FFFFFFFu);
  float base = (magnitude * scale_to_inf) * scale_to_zero;
  const uint32_t shl1_w = w + w;
  const uint32_t sign = w & 0x80000000u;
  uint32_t bias = shl1_w & 0xFF000000u;
  bias = bias < 0x71000000u ? 0x71000000u : bias;
  base = std::bit_cast<float>((bias >> 1) + 0x07800000u) + base;
  const uint32_t bits = std::bit_cast<uint32_t>(base);
  const uint32_t nonsign = ((bits >> 13) & 0x00007C00u) + (bits & 0x00000FFFu);
  return static_cast<uint16_t>((sign >> 16) | (shl1_w > 0xFF000000u ? 0x7E00u : nonsign));
}

inline uint16_t float_to_bfloat16_bits(float f) {
  const uint32_t w = std::bit_cast<uint32_t>(f);
  const uint32_t rounded = (w + 0x7FFFu + ((w >> 16) & 1u)) >> 16;
  const uint32_t nan = (w >> 16) | 0x40u;
  return static_cast<uint16_t>((w & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
}

// Floats of 8 bits (OCP 8-bit Floating Point Specification, revision 1.0): e5m2 is the upper half of a float16, e4m3fn
// has no infinities and one NaN a sign, which what is beyond its range becomes.
inline float float8_e5m2_bits_to_float(uint8_t b) { return half_bits_to_float(static_cast<uint16_t>(b << 8)); }
inline float float8_e4m3fn_bits_to_float(uint8_t b) {
  const uint32_t w = static_cast<uint32_t>(b) << 24;
  const uint32_t sign = w & 0x80000000u, rest = w & 0x7F000000u;
  const float magnitude = std::bit_cast<float>(rest >> 4) * std::bit_cast<float>(0x7B800000u);  // 2**120
  return std::bit_cast<float>(sign | (rest == 0x7F000000u ? 0x7FC00000u : std::bit_cast<uint32_t>(magnitude)));
}

// `kBits` of significand are kept; below 2**kMinExponent numbers have the spacing that they have there.
template <int kBits, int kMinExponent>
inline uint32_t rounded_to_float8(uint32_t magnitude) {
  constexpr int kShift = 23 - kBits;
  constexpr uint32_t kRebias = static_cast<uint32_t>(kMinExponent - 1 + 127) << 23;
  const uint32_t normal = (magnitude - kRebias + ((1u << (kShift - 1)) - 1) + ((magnitude >> kShift) & 1u)) >> kShift;
  const float spaced = std::bit_cast<float>(static_cast<uint32_t>(kMinExponent + kShift + 127) << 23);
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + spaced) - std::bit_cast<uint32_t>(spaced);
  return magnitude < kRebias + (1u << 23) ? small : normal;
}
inline uint8_t float_to_float8_e5m2_bits(float f) {
  const uint32_t w = std::bit_cast<uint32_t>(f), magnitude = w & 0x7FFFFFFFu;
  const uint32_t finite = rounded_to_float8<2, -14>(magnitude < 0x47800000u ? magnitude : 0x47800000u);
  return static_cast<uint8_t>((w >> 24 & 0x80u) | (magnitude > 0x7F800000u ? 0x7Fu : finite));
}
inline uint8_t float_to_float8_e4m3fn_bits(float f) {
  const uint32_t w = std::bit_cast<uint32_t>(f), magnitude = w & 0x7FFFFFFFu;
  const uint32_t finite = rounded_to_float8<3, -6>(magnitude < 0x43F00000u ? magnitude : 0x43F00000u);  // 480
  return static_cast<uint8_t>((w >> 24 & 0x80u) | (magnitude > 0x43E80000u ? 0x7Fu : finite));
}

}  // namespace detail

struct Half {
  uint16_t bits = 0;
  Half() = default;
  Half(float f) : bits(detail::float_to_half_bits(f)) {}  // NOLINT: storage type, converts freely
  operator float() const { return detail::half_bits_to_float(bits); }
};

struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  BFloat16(float f) : bits(detail::float_to_bfloat16_bits(f)) {}  // NOLINT
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

struct Float8_e4m3fn {
  uint8_t bits = 0;
  Float8_e4m3fn() = default;
  Float8_e4m3fn(float f) : bits(detail::float_to_float8_e4m3fn_bits(f)) {}  // NOLINT
  operator float() const { return detail::float8_e4m3fn_bits_to_float(bits); }
};

struct Float8_e5m2 {
  uint8_t bits = 0;
  Float8_e5m2() = default;
  Float8_e5m2(float f) : bits(detail::float_to_float8_e5m2_bits(f)) {}  // NOLINT
  operator float() const { return detail::float8_e5m2_bits_to_float(bits); }
};

}  // namespace facula
