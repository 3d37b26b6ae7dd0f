// Random draws. Every element is a fixed function of the seed, the number of the draw and the
// element's index, so that the numbers do not depend on threads or instruction set.
//
// Elements come in groups of 64, made from the 16 Philox blocks 16 g ... 16 g + 15: word w of block
// 16 g + l is 32-bit word number 64 g + 16 w + l. A 64-bit number in place r of its half group of 32
// takes words 0 and 1 (r < 16) or 2 and 3 of block r % 16, low half first.
#pragma once

#include <cstdint>

#include "runtime/core/generator.h"
#include "runtime/iterate/isa.h"

namespace facula::cpu {

inline constexpr int64_t kRandomGroup = 64;

struct PhiloxKey {
  uint64_t seed, offset;
};

struct RandomTable {
  // 64 words for each of the groups [begin, end), in element order.
  void (*words)(PhiloxKey key, int64_t begin, int64_t end, uint32_t* out);
  // 32 64-bit numbers a group.
  void (*longs)(PhiloxKey key, int64_t begin, int64_t end, uint64_t* out);
  // From words: uniform in [0, 1), with `bits` (at most 24) random bits.
  void (*uniform_f32)(const uint32_t* words, int64_t n, int bits, float* out);
  // From 64-bit numbers: 53 random bits.
  void (*uniform_f64)(const uint64_t* longs, int64_t n, double* out);
  // Whole groups of words: standard normal by Box and Muller, elements r and r + 32 of a group
  // from words r and r + 32.
  void (*normal_f32)(const uint32_t* words, int64_t groups, float* out);
  // Pairs of half groups: 64 numbers r and r + 32.
  void (*normal_f64)(const uint64_t* longs, int64_t groups, double* out);
  // -log(u), u uniform in (0, 1].
  void (*exponential_f32)(const uint32_t* words, int64_t n, float* out);
  void (*exponential_f64)(const uint64_t* longs, int64_t n, double* out);
  // low + floor(range * word / 2^32)
  void (*integers)(const uint32_t* words, int64_t n, int64_t low, uint32_t range, int64_t* out);
  // word < threshold, as bytes
  void (*below)(const uint32_t* words, int64_t n, uint64_t threshold, uint8_t* out);
};

}  // namespace facula::cpu

namespace facula {
FACULA_DECLARE_BY_ISA(cpu::RandomTable, random_table)
}  // namespace facula
