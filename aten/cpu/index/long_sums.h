// Sums at indices. A sum of many terms in float32 loses their digits, so it is made in double where many meet at one
// place: in a table of doubles beside the result, which bounds the memory, and which pays where there are more terms
// than places. Where few meet, as in most scatters, a term goes to its place at once, in the result's own type.
#pragma once

#include <vector>

#include "runtime/core/dtype.h"

namespace facula::cpu {

// What sums of many terms of `t` are made in.
inline ScalarType long_sum_type(ScalarType t) {
  return t == ScalarType::Float32 ? ScalarType::Float64 : t == ScalarType::Complex64 ? ScalarType::Complex128 : t;
}

// Whether many of `terms` terms meet at one of `places`: key(i) tells the place of term i. On an average, or at a place
// that a sample of them shows; one that has less than a few hundred may be missed.
template <typename Key>
bool many_meet(int64_t terms, int64_t places, const Key& key) {
  constexpr int64_t kFew = 64, kOnAverage = 16, kEvery = 256, kSeen = 5, kLeast = 64, kMost = 1 << 15;
  constexpr size_t kFewSlots = 128;
  if (terms <= kFew) return false;
  if (terms / kOnAverage >= places) return true;
  const int64_t samples = std::clamp(terms / kEvery, kLeast, kMost), step = terms / samples;
  size_t slots = kFewSlots;
  while (slots < 2 * static_cast<size_t>(samples)) slots *= 2;
  int64_t few_keys[kFewSlots];
  uint8_t few_seen[kFewSlots] = {};
  std::vector<int64_t> more_keys(slots > kFewSlots ? slots : 0);
  std::vector<uint8_t> more_seen(more_keys.size(), 0);
  int64_t* const keys = slots > kFewSlots ? more_keys.data() : few_keys;
  uint8_t* const seen = slots > kFewSlots ? more_seen.data() : few_seen;
  uint64_t random = 0;
  for (int64_t i = 0; i < samples; ++i) {
    random += 0x9E3779B97F4A7C15;  // terms at equal distances may be of a pattern
    const int64_t k = key(i * step + static_cast<int64_t>((random >> 32) % static_cast<uint64_t>(step)));
    size_t at = (static_cast<uint64_t>(k) * 0x9E3779B97F4A7C15 >> 24) & (slots - 1);
    while (seen[at] > 0 && keys[at] != k) at = (at + 1) & (slots - 1);
    keys[at] = k;
    if (++seen[at] == kSeen) return true;
  }
  return false;
}

}  // namespace facula::cpu
