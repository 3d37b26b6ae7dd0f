#include "aten/cpu/move_loops.h"

#include <cstring>

namespace facula {
namespace {

struct Wide {
  uint64_t low, high;
};

void range(const int64_t* v, int64_t n, int64_t* least, int64_t* most) {
  int64_t low = 0, high = -1;
  for (int64_t i = 0; i < n; ++i) {
    low = v[i] < low ? v[i] : low;
    high = v[i] > high ? v[i] : high;
  }
  *least = low;
  *most = high;
}

template <typename T>
void select(void* out, const void* self, const uint8_t* mask, const void* value, int64_t n) {
  T* o = static_cast<T*>(out);
  const T* s = static_cast<const T*>(self);
  T v;
  std::memcpy(&v, value, sizeof(T));
#pragma GCC ivdep
  for (int64_t i = 0; i < n; ++i) o[i] = mask[i] != 0 ? v : s[i];
}

// Every element is stored, and the place moves on behind those that stay.
template <typename T>
int64_t compact(void* out, const void* from, const uint8_t* mask, int64_t n) {
  T buffer[kCompactRun + 1];
  const T* s = static_cast<const T*>(from);
  int64_t k = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t word;
    std::memcpy(&word, mask + i, 8);
    if (word == 0) continue;
    for (int64_t j = i; j < i + 8; ++j) {
      buffer[k] = s[j];
      k += mask[j] != 0;
    }
  }
  for (; i < n; ++i) {
    buffer[k] = s[i];
    k += mask[i] != 0;
  }
  std::memcpy(out, buffer, static_cast<size_t>(k) * sizeof(T));
  return k;
}

int64_t positions(int64_t* out, int64_t first, const uint8_t* mask, int64_t n) {
  int64_t buffer[kCompactRun + 1];
  int64_t k = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    uint64_t word;
    std::memcpy(&word, mask + i, 8);
    if (word == 0) continue;
    for (int64_t j = i; j < i + 8; ++j) {
      buffer[k] = first + j;
      k += mask[j] != 0;
    }
  }
  for (; i < n; ++i) {
    buffer[k] = first + i;
    k += mask[i] != 0;
  }
  std::memcpy(out, buffer, static_cast<size_t>(k) * sizeof(int64_t));
  return k;
}

int64_t count(const uint8_t* mask, int64_t n) {
  int64_t total = 0;
  while (n > 0) {
    const int64_t run = n < (1 << 20) ? n : 1 << 20;
    uint32_t part = 0;
    for (int64_t i = 0; i < run; ++i) part += mask[i] != 0;
    total += part;
    mask += run;
    n -= run;
  }
  return total;
}

}  // namespace

FACULA_DEFINE_BY_ISA(MoveLoops, move_loops,
                     {range,
                      {select<uint8_t>, select<uint16_t>, select<uint32_t>, select<uint64_t>, select<Wide>},
                      {compact<uint8_t>, compact<uint16_t>, compact<uint32_t>, compact<uint64_t>, compact<Wide>},
                      positions,
                      count})

}  // namespace facula
