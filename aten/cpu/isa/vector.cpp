// Dot products and conversions of 16-bit floats.
#include "aten/cpu/isa/loops.h"
#include "aten/cpu/isa/math.h"

namespace facula::cpu::FACULA_ISA {
namespace {

// Blocks bound the rounding error of long sums.
template <typename T>
T dot(int64_t n, const T* a, const T* b) {
  constexpr int64_t kBlock = 4096;
  double total = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = n - i < kBlock ? n - i : kBlock;
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < m; ++j) sum += a[i + j] * b[i + j];
    total += sum;
  }
  return static_cast<T>(total);
}

}  // namespace

float dot_f32(int64_t n, const float* a, const float* b) { return dot(n, a, b); }
double dot_f64(int64_t n, const double* a, const double* b) { return dot(n, a, b); }

// The arithmetic of runtime/core/half.h, repeated so that no copy of its inline functions is
// compiled here.
void half_to_float(int64_t n, const uint16_t* __restrict from, float* __restrict to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t w = static_cast<uint32_t>(from[i]) << 16, sign = w & 0x80000000u, two_w = w + w;
    const float normalized = bits_of<float>((two_w >> 4) + (0xE0u << 23)) * bits_of<float>(0x7800000u);
    const float denormalized = bits_of<float>((two_w >> 17) | (126u << 23)) - 0.5f;
    const uint32_t small = bits_of<uint32_t>(denormalized), large = bits_of<uint32_t>(normalized);
    to[i] = bits_of<float>(sign | (two_w < (1u << 27) ? small : large));
  }
}

void float_to_half(int64_t n, const float* __restrict from, uint16_t* __restrict to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t w = bits_of<uint32_t>(from[i]), shl1_w = w + w, sign = w & 0x80000000u;
    float base = (bits_of<float>(w & 0x7FFFFFFFu) * bits_of<float>(0x77800000u)) * bits_of<float>(0x08800000u);
    uint32_t bias = shl1_w & 0xFF000000u;
    bias = bias < 0x71000000u ? 0x71000000u : bias;
    base = bits_of<float>((bias >> 1) + 0x07800000u) + base;
    const uint32_t bits = bits_of<uint32_t>(base);
    const uint32_t nonsign = ((bits >> 13) & 0x00007C00u) + (bits & 0x00000FFFu);
    to[i] = static_cast<uint16_t>((sign >> 16) | (shl1_w > 0xFF000000u ? 0x7E00u : nonsign));
  }
}

void bfloat16_to_float(int64_t n, const uint16_t* __restrict from, float* __restrict to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) to[i] = bits_of<float>(static_cast<uint32_t>(from[i]) << 16);
}

void float_to_bfloat16(int64_t n, const float* __restrict from, uint16_t* __restrict to) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t w = bits_of<uint32_t>(from[i]);
    const uint32_t rounded = (w + 0x7FFFu + ((w >> 16) & 1u)) >> 16, nan = (w >> 16) | 0x40u;
    to[i] = static_cast<uint16_t>((w & 0x7FFFFFFFu) > 0x7F800000u ? nan : rounded);
  }
}

}  // namespace facula::cpu::FACULA_ISA
