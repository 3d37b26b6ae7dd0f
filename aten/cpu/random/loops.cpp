// build: levels
// Products and sums are rounded one by one, so that every instruction set gives the same numbers.
#include "aten/cpu/random/random.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // gcc 12 says so of its own intrinsics
#endif
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#pragma clang fp contract(off)
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

#include "facula/math_draws.h"  // of what follows the pragmas

namespace facula {

namespace FACULA_ISA {

namespace {

using cpu::PhiloxKey;

// 64-bit lanes of which the lower halves count; the upper ones may hold anything.
#if defined(__AVX512F__)
constexpr int kWide = 8;
using U = __m512i;
inline U splat(uint64_t v) { return _mm512_set1_epi64(static_cast<long long>(v)); }
inline U load64(const uint64_t* p) { return _mm512_loadu_si512(p); }
inline U add64(U a, U b) { return _mm512_add_epi64(a, b); }
inline U mul32(U a, U b) { return _mm512_mul_epu32(a, b); }
inline U high(U a) { return _mm512_srli_epi64(a, 32); }
inline U xor3(U a, U b, U c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
inline void store32(uint32_t* p, U a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi64_epi32(a)); }
#elif defined(__AVX2__)
constexpr int kWide = 4;
using U = __m256i;
inline U splat(uint64_t v) { return _mm256_set1_epi64x(static_cast<long long>(v)); }
inline U load64(const uint64_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline U add64(U a, U b) { return _mm256_add_epi64(a, b); }
inline U mul32(U a, U b) { return _mm256_mul_epu32(a, b); }
inline U high(U a) { return _mm256_srli_epi64(a, 32); }
inline U xor3(U a, U b, U c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
inline void store32(uint32_t* p, U a) {
  const __m256i packed = _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}
#elif defined(__SSE2__)
constexpr int kWide = 2;
using U = __m128i;
inline U splat(uint64_t v) { return _mm_set1_epi64x(static_cast<long long>(v)); }
inline U load64(const uint64_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
inline U add64(U a, U b) { return _mm_add_epi64(a, b); }
inline U mul32(U a, U b) { return _mm_mul_epu32(a, b); }
inline U high(U a) { return _mm_srli_epi64(a, 32); }
inline U xor3(U a, U b, U c) { return _mm_xor_si128(_mm_xor_si128(a, b), c); }
inline void store32(uint32_t* p, U a) {
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_shuffle_epi32(a, _MM_SHUFFLE(2, 0, 2, 0)));
}
#else
constexpr int kWide = 1;
using U = uint64_t;
inline U splat(uint64_t v) { return v; }
inline U load64(const uint64_t* p) { return *p; }
inline U add64(U a, U b) { return a + b; }
inline U mul32(U a, U b) { return static_cast<uint64_t>(static_cast<uint32_t>(a)) * static_cast<uint32_t>(b); }
inline U high(U a) { return a >> 32; }
inline U xor3(U a, U b, U c) { return a ^ b ^ c; }
inline void store32(uint32_t* p, U a) { *p = static_cast<uint32_t>(a); }
#endif

constexpr int kVectors = 16 / kWide;                 // that hold 16 blocks
constexpr int kBatch = kVectors < 4 ? kVectors : 4;  // worked on at a time

void words(PhiloxKey key, int64_t begin, int64_t end, uint32_t* out) {
  const U m0 = splat(0xD2511F53u), m1 = splat(0xCD9E8D57u);
  U k0[10], k1[10];
  uint32_t a = static_cast<uint32_t>(key.seed), b = static_cast<uint32_t>(key.seed >> 32);
  for (int r = 0; r < 10; ++r, a += 0x9E3779B9u, b += 0xBB67AE85u) {
    k0[r] = splat(a);
    k1[r] = splat(b);
  }
  constexpr uint64_t kLanes[8] = {0, 1, 2, 3, 4, 5, 6, 7};
  const U lanes = load64(kLanes);
  const U c2 = splat(static_cast<uint32_t>(key.offset)), c3 = splat(key.offset >> 32);
  for (int64_t g = begin; g < end; ++g, out += 64) {
    for (int v = 0; v < kVectors; v += kBatch) {
      U c[kBatch][4];
#pragma GCC unroll 8
      for (int i = 0; i < kBatch; ++i) {
        const uint64_t block = 16 * static_cast<uint64_t>(g) + static_cast<uint64_t>((v + i) * kWide);
        c[i][0] = add64(splat(block), lanes);
        c[i][1] = high(c[i][0]);
        c[i][2] = c2;
        c[i][3] = c3;
      }
#pragma GCC unroll 10
      for (int r = 0; r < 10; ++r) {
#pragma GCC unroll 8
        for (int i = 0; i < kBatch; ++i) {
          const U p0 = mul32(c[i][0], m0), p1 = mul32(c[i][2], m1);
          c[i][0] = xor3(high(p1), c[i][1], k0[r]);
          c[i][2] = xor3(high(p0), c[i][3], k1[r]);
          c[i][1] = p1;
          c[i][3] = p0;
        }
      }
#pragma GCC unroll 8
      for (int i = 0; i < kBatch; ++i) {
        for (int w = 0; w < 4; ++w) store32(out + 16 * w + (v + i) * kWide, c[i][w]);
      }
    }
  }
}

void longs(PhiloxKey key, int64_t begin, int64_t end, uint64_t* out) {
  for (int64_t g = begin; g < end; ++g, out += 32) {
    uint32_t w[64];
    words(key, g, g + 1, w);
    for (int l = 0; l < 16; ++l) out[l] = w[l] | static_cast<uint64_t>(w[16 + l]) << 32;
    for (int l = 0; l < 16; ++l) out[16 + l] = w[32 + l] | static_cast<uint64_t>(w[48 + l]) << 32;
  }
}

void uniform_f32(const uint32_t* __restrict w, int64_t n, int bits, float* __restrict out) {
  const float scale = 1.0f / static_cast<float>(1 << bits);
  const int shift = 32 - bits;
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(static_cast<int32_t>(w[i] >> shift)) * scale;
}

void uniform_f64(const uint64_t* __restrict w, int64_t n, double* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = draws::unit(w[i], 53);
}

void normal_f32(const uint32_t* __restrict w, int64_t groups, float* __restrict out) {
  for (int64_t g = 0; g < groups; ++g, w += 64, out += 64) {
    for (int i = 0; i < 32; ++i) draws::normal_pair(w[i], w[32 + i], out[i], out[32 + i]);
  }
}

void normal_f64(const uint64_t* __restrict w, int64_t groups, double* __restrict out) {
  for (int64_t g = 0; g < groups; ++g, w += 64, out += 64) {
    for (int i = 0; i < 32; ++i) draws::normal_pair(w[i], w[32 + i], out[i], out[32 + i]);
  }
}

void exponential_f32(const uint32_t* __restrict w, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = draws::exponential(w[i]);
}
void exponential_f64(const uint64_t* __restrict w, int64_t n, double* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = draws::exponential(w[i]);
}

void integers(const uint32_t* __restrict w, int64_t n, int64_t low, uint32_t range, int64_t* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    out[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + ((static_cast<uint64_t>(w[i]) * range) >> 32));
  }
}
void below(const uint32_t* __restrict w, int64_t n, uint64_t threshold, uint8_t* __restrict out) {
  if (threshold > 0xffffffffu) {
    for (int64_t i = 0; i < n; ++i) out[i] = 1;
    return;
  }
  const uint32_t limit = static_cast<uint32_t>(threshold);
  for (int64_t i = 0; i < n; ++i) out[i] = w[i] < limit;
}

}  // namespace

}  // namespace FACULA_ISA

FACULA_DEFINE_BY_ISA(cpu::RandomTable, random_table,
                     {words, longs, uniform_f32, uniform_f64, normal_f32, normal_f64, exponential_f32, exponential_f64,
                      integers, below})

}  // namespace facula
