#include "aten/cpu/dropout_loops.h"
#include "runtime/iterate/stream.h"

#include <type_traits>

namespace facula {
namespace {

constexpr int kLanes = 16;

void mask(int64_t n, uint64_t group, uint64_t seed, uint64_t offset, uint64_t threshold, bool* __restrict keep) {
  for (int64_t at = 0; at < n; at += kDropoutGroup, ++group) {
    uint32_t c0[kLanes], c1[kLanes], c2[kLanes], c3[kLanes];
    const uint64_t first = group * kLanes;
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) {
      const uint64_t index = first + static_cast<uint64_t>(l);
      c0[l] = static_cast<uint32_t>(index);
      c1[l] = static_cast<uint32_t>(index >> 32);
      c2[l] = static_cast<uint32_t>(offset);
      c3[l] = static_cast<uint32_t>(offset >> 32);
    }
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
#pragma omp simd
      for (int l = 0; l < kLanes; ++l) {
        const uint64_t p0 = uint64_t{0xD2511F53u} * c0[l], p1 = uint64_t{0xCD9E8D57u} * c2[l];
        const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1[l] ^ k0;
        const uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c3[l] ^ k1;
        c0[l] = n0;
        c1[l] = static_cast<uint32_t>(p1);
        c2[l] = n2;
        c3[l] = static_cast<uint32_t>(p0);
      }
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    bool full[kDropoutGroup];
    bool* to = n - at >= kDropoutGroup ? keep + at : full;
#pragma omp simd
    for (int l = 0; l < kLanes; ++l) {
      to[l] = c0[l] >= threshold;
      to[kLanes + l] = c1[l] >= threshold;
      to[2 * kLanes + l] = c2[l] >= threshold;
      to[3 * kLanes + l] = c3[l] >= threshold;
    }
    if (to == full) __builtin_memcpy(keep + at, full, static_cast<size_t>(n - at));
  }
}

template <typename T>
void apply(int64_t n, const T* __restrict x, const bool* __restrict keep, T factor, T* __restrict out, bool stream) {
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const auto* ones = reinterpret_cast<const uint8_t*>(keep);
  write_row(n, out, stream, [=](int64_t i) {
    // A mask of bits: a choice would become a branch, which random numbers defeat.
    const U bits = __builtin_bit_cast(U, x[i] * factor);
    return __builtin_bit_cast(T, bits & (U(0) - static_cast<U>(ones[i])));
  });
}

}  // namespace

FACULA_DEFINE_BY_ISA(DropoutLoops, dropout_loops, {mask, apply<float>, apply<double>})

}  // namespace facula
