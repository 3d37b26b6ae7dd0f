// Compiled once per instruction set; see runtime/iterate/isa.h. Products and sums are rounded one
// by one, so that every instruction set gives the same numbers.
#include "aten/cpu/random.h"

#include <bit>
#include <cmath>

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
inline U mul32(U a, U b) { return _mm512_mul_epu32(a, b); }
inline U high(U a) { return _mm512_srli_epi64(a, 32); }
inline U xor3(U a, U b, U c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
inline void store32(uint32_t* p, U a) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi64_epi32(a)); }
#elif defined(__AVX2__)
constexpr int kWide = 4;
using U = __m256i;
inline U splat(uint64_t v) { return _mm256_set1_epi64x(static_cast<long long>(v)); }
inline U load64(const uint64_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
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
  const U c2 = splat(static_cast<uint32_t>(key.offset)), c3 = splat(key.offset >> 32);
  for (int64_t g = begin; g < end; ++g, out += 64) {
    for (int v = 0; v < kVectors; v += kBatch) {
      U c[kBatch][4];
#pragma GCC unroll 8
      for (int i = 0; i < kBatch; ++i) {
        uint64_t index[8];
        for (int l = 0; l < kWide; ++l) {
          index[l] = 16 * static_cast<uint64_t>(g) + static_cast<uint64_t>((v + i) * kWide + l);
        }
        c[i][0] = load64(index);
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

// The upper 53 bits, exactly, with 32-bit conversions that every instruction set has in vectors.
inline double unit_f64(uint64_t v) {
  const double high = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(v >> 32) ^ 0x80000000u)) + 0x1p31;
  const double low = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(v) >> 11));
  return high * 0x1p-32 + low * 0x1p-53;
}
void uniform_f64(const uint64_t* __restrict w, int64_t n, double* __restrict out) {
  for (int64_t i = 0; i < n; ++i) out[i] = unit_f64(w[i]);
}

// ---- logarithm, sine and cosine from additions and products alone ----
// Coefficients: Cephes Mathematical Library (Moshier).

inline float log_f32(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  // x = 2^e m with m in [sqrt(1/2), sqrt(2))
  const uint32_t shifted = bits - 0x3f3504f3u;
  const int32_t e = static_cast<int32_t>(shifted) >> 23;
  const float m = std::bit_cast<float>((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float z = m * m, f = static_cast<float>(e);
  float y = m * z * p;
  y = y - 2.12194440e-4f * f;
  y = y - 0.5f * z;
  return (m + y) + 0.693359375f * f;
}

inline double log_f64(double x) {
  const uint64_t bits = std::bit_cast<uint64_t>(x);
  const uint32_t top = static_cast<uint32_t>(bits >> 32) - 0x3fe6a09eu;
  const int32_t e = static_cast<int32_t>(top) >> 20;
  const uint64_t m_bits = (static_cast<uint64_t>((top & 0x000fffffu) + 0x3fe6a09eu) << 32) | (bits & 0xffffffffu);
  const double m = std::bit_cast<double>(m_bits) - 1.0;
  double p = 1.01875663804580931796e-4;
  p = p * m + 4.97494994976747001425e-1;
  p = p * m + 4.70579119878881725854e0;
  p = p * m + 1.44989225341610930846e1;
  p = p * m + 1.79368678507819816313e1;
  p = p * m + 7.70838733755885391666e0;
  double q = m + 1.12873587189167450590e1;
  q = q * m + 4.52279145837532221105e1;
  q = q * m + 8.29875266912776603211e1;
  q = q * m + 7.11544750618563894466e1;
  q = q * m + 2.31251620126765340583e1;
  const double z = m * m, f = static_cast<double>(e);
  double y = m * (z * p / q);
  y = y - f * 2.121944400546905827679e-4;
  y = y - 0.5 * z;
  return (m + y) + f * 0.693359375;
}

// u in (0, 1) from a word: (w + 1/2) / 2^32, rounded.
inline float open_unit_f32(uint32_t w) {
  const float high = static_cast<float>(static_cast<int32_t>(w >> 16)) * 65536.0f;
  const float low = static_cast<float>(static_cast<int32_t>(w & 0xffffu)) + 0.5f;
  return (high + low) * 0x1p-32f;
}
inline double open_unit_f64(uint64_t v) { return unit_f64(v) + 0x1p-54; }

// Sine and cosine of an angle given as a fraction of the turn, in quarters and the rest in
// [-1/8, 1/8): `theta` is that rest in radians.
template <typename F>
inline void rotate(F s, F c, uint32_t quarter, F r, F& a, F& b) {
  const F sine = (quarter & 1) != 0 ? c : s;
  const F cosine = (quarter & 1) != 0 ? s : c;
  const F sign_s = (quarter & 2) != 0 ? -r : r;
  const F sign_c = ((quarter + 1) & 2) != 0 ? -r : r;
  a = cosine * sign_c;
  b = sine * sign_s;
}

void normal_f32(const uint32_t* __restrict w, int64_t groups, float* __restrict out) {
  for (int64_t g = 0; g < groups; ++g, w += 64, out += 64) {
    for (int i = 0; i < 32; ++i) {
      const float r = std::sqrt(-2.0f * log_f32(open_unit_f32(w[i])));
      const uint32_t turn = w[32 + i];
      const uint32_t quarter = (turn + 0x20000000u) >> 30;
      const float t = static_cast<float>(static_cast<int32_t>(turn - (quarter << 30))) * 1.4629180792671596e-9f;
      const float z = t * t;
      float s = -1.9515295891e-4f;
      s = s * z + 8.3321608736e-3f;
      s = s * z - 1.6666654611e-1f;
      s = s * z * t + t;
      float c = 2.443315711809948e-5f;
      c = c * z - 1.388731625493765e-3f;
      c = c * z + 4.166664568298827e-2f;
      c = c * z * z - 0.5f * z + 1.0f;
      rotate(s, c, quarter, r, out[i], out[32 + i]);
    }
  }
}

void normal_f64(const uint64_t* __restrict w, int64_t groups, double* __restrict out) {
  for (int64_t g = 0; g < groups; ++g, w += 64, out += 64) {
    for (int i = 0; i < 32; ++i) {
      const double r = std::sqrt(-2.0 * log_f64(open_unit_f64(w[i])));
      const uint64_t turn = w[32 + i];
      const uint32_t quarter = (static_cast<uint32_t>(turn >> 32) + 0x20000000u) >> 30;
      // The rest of the turn in [-1/8, 1/8), exactly.
      const uint32_t top = static_cast<uint32_t>(turn >> 32) - (quarter << 30);
      const double rest = static_cast<double>(static_cast<int32_t>(top)) * 0x1p-32 +
                          static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(turn) >> 11)) * 0x1p-53;
      const double t = rest * 6.283185307179586477;
      const double z = t * t;
      double s = 1.58962301576546568060e-10;
      s = s * z - 2.50507477628578072866e-8;
      s = s * z + 2.75573136213857245213e-6;
      s = s * z - 1.98412698295895385996e-4;
      s = s * z + 8.33333333332211858878e-3;
      s = s * z - 1.66666666666666307295e-1;
      s = s * z * t + t;
      double c = -1.13585365213876817300e-11;
      c = c * z + 2.08757008419747316778e-9;
      c = c * z - 2.75573141792967388112e-7;
      c = c * z + 2.48015872888517045348e-5;
      c = c * z - 1.38888888888730564116e-3;
      c = c * z + 4.16666666666665929218e-2;
      c = c * z * z - 0.5 * z + 1.0;
      rotate(s, c, quarter, r, out[i], out[32 + i]);
    }
  }
}

void exponential_f32(const uint32_t* __restrict w, int64_t n, float* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    const float y = -log_f32(open_unit_f32(w[i]));
    out[i] = y > 0x1p-126f ? y : 0x1p-33f;  // u rounds to 1 at times
  }
}
void exponential_f64(const uint64_t* __restrict w, int64_t n, double* __restrict out) {
  for (int64_t i = 0; i < n; ++i) {
    const double y = -log_f64(open_unit_f64(w[i]));
    out[i] = y > 0x1p-1022 ? y : 0x1p-54;
  }
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
