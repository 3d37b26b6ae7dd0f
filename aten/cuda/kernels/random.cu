// Random draws with the numbers of aten/cpu/random.h: every element is a fixed function of the seed, the
// number of the draw and its place. Compiled without multiply-add, so that the bits are the CPU's.
// Before it stand: C (float or double: what is drawn), S (elements), FACULA_DRAW.
#include "facula/cuda/walk.h"

namespace facula {

struct Params {
  char* out;
  const double* chances;  // of kBernoulliOf and kPoisson
  uint64_t seed, offset;
  double a, b;            // by the kind of draw
  int64_t low;
  uint64_t range;
  int64_t bits, dense;
  Walk<1> walk;
};
enum { kUniform, kNormal, kExponential, kIntegers, kLongIntegers, kBernoulli, kBernoulliOf, kGeometric, kCauchy, kLogNormal, kPoisson, kKeys };

struct Block {
  uint32_t w[4];
};
FD Block philox(const Params& p, uint64_t index) {
  uint32_t c0 = static_cast<uint32_t>(index), c1 = static_cast<uint32_t>(index >> 32);
  uint32_t c2 = static_cast<uint32_t>(p.offset), c3 = static_cast<uint32_t>(p.offset >> 32);
  uint32_t k0 = static_cast<uint32_t>(p.seed), k1 = static_cast<uint32_t>(p.seed >> 32);
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t h0 = __umulhi(0xD2511F53u, c0), l0 = 0xD2511F53u * c0;
    const uint32_t h1 = __umulhi(0xCD9E8D57u, c2), l1 = 0xCD9E8D57u * c2;
    c0 = h1 ^ c1 ^ k0;
    c1 = l1;
    c2 = h0 ^ c3 ^ k1;
    c3 = l0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

FD float unit(uint32_t w, int bits) {
  return static_cast<float>(static_cast<int32_t>(w >> (32 - bits))) * (1.0f / static_cast<float>(1 << bits));
}
FD double unit(uint64_t v, int) {
  const double high = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(v >> 32) ^ 0x80000000u)) + 0x1p31;
  const double low = static_cast<double>(static_cast<int32_t>(static_cast<uint32_t>(v) >> 11));
  return high * 0x1p-32 + low * 0x1p-53;
}
FD float open_unit(uint32_t w) {
  const float high = static_cast<float>(static_cast<int32_t>(w >> 16)) * 65536.0f;
  const float low = static_cast<float>(static_cast<int32_t>(w & 0xffffu)) + 0.5f;
  return (high + low) * 0x1p-32f;
}
FD double open_unit(uint64_t v) { return unit(v, 53) + 0x1p-54; }

// Coefficients: Cephes Mathematical Library (Moshier), as on the CPU.
FD float log_of(float x) {
  const uint32_t shifted = __float_as_uint(x) - 0x3f3504f3u;
  const int32_t e = static_cast<int32_t>(shifted) >> 23;
  const float m = __uint_as_float((shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
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
FD double log_of(double x) {
  const uint64_t bits = static_cast<uint64_t>(__double_as_longlong(x));
  const uint32_t top = static_cast<uint32_t>(bits >> 32) - 0x3fe6a09eu;
  const int32_t e = static_cast<int32_t>(top) >> 20;
  const uint64_t m_bits = (static_cast<uint64_t>((top & 0x000fffffu) + 0x3fe6a09eu) << 32) | (bits & 0xffffffffu);
  const double m = __longlong_as_double(static_cast<long long>(m_bits)) - 1.0;
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

template <typename F>
FD void rotate(F s, F c, uint32_t quarter, F r, F& a, F& b) {
  const F sine = (quarter & 1) != 0 ? c : s, cosine = (quarter & 1) != 0 ? s : c;
  a = cosine * (((quarter + 1) & 2) != 0 ? -r : r);
  b = sine * ((quarter & 2) != 0 ? -r : r);
}
// Two standard normal numbers, by Box and Muller.
FD void normal_pair(uint32_t w, uint32_t turn, float& a, float& b) {
  const float r = ::sqrtf(-2.0f * log_of(open_unit(w)));
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
  rotate(s, c, quarter, r, a, b);
}
FD void normal_pair(uint64_t w, uint64_t turn, double& a, double& b) {
  const double r = ::sqrt(-2.0 * log_of(open_unit(w)));
  const uint32_t quarter = (static_cast<uint32_t>(turn >> 32) + 0x20000000u) >> 30;
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
  rotate(s, c, quarter, r, a, b);
}
FD float exponential(uint32_t w) {
  const float y = -log_of(open_unit(w));
  return y > 0x1p-126f ? y : 0x1p-33f;
}
FD double exponential(uint64_t v) {
  const double y = -log_of(open_unit(v));
  return y > 0x1p-1022 ? y : 0x1p-54;
}

template <typename T>
FD void put(const Params& p, int64_t i, T value) {
  if (i >= p.walk.count) return;
  int64_t at[1] = {i * static_cast<int64_t>(sizeof(S))};
  if (!p.dense) p.walk.places(i, at);
  *reinterpret_cast<S*>(p.out + at[0]) = element<S>(value);
}

// A stream of numbers for one element: block k of element i is Philox block i + k 2^48.
struct ElementStream {
  const Params& p;
  uint64_t next;
  Block words;
  int left;
  FD double operator()() {
    if (left == 0) {
      words = philox(p, next);
      next += uint64_t(1) << 48;
      left = 2;
    }
    --left;
    const uint32_t low = left == 1 ? words.w[2] : words.w[0], high = left == 1 ? words.w[3] : words.w[1];
    const uint64_t v = low | static_cast<uint64_t>(high) << 32;
    return (static_cast<double>(v >> 11) + 0.5) * 0x1p-53;
  }
};
FD double poisson_one(double rate, ElementStream& uniform) {
  if (!(rate > 0)) return rate == 0 ? 0 : math::nan<double>;
  if (rate < 10) {
    const double limit = ::exp(-rate);
    double product = 1;
    for (int64_t k = 0;; ++k) {
      product *= uniform();
      if (product <= limit) return static_cast<double>(k);
    }
  }
  const double root = ::sqrt(rate), log_rate = ::log(rate);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), vr = 0.9277 - 3.6224 / (b - 2);
  while (true) {
    const double u = uniform() - 0.5, v = uniform();
    const double us = 0.5 - ::fabs(u);
    const double k = ::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= vr) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (::log(v) + ::log(inverse_alpha) - ::log(a / (us * us) + b) <= -rate + k * log_rate - ::lgamma(k + 1)) return k;
  }
}

FD C stretched(const Params& p, C u) {
  if (p.a == 0 && p.b == 1) return u;
  const C low = static_cast<C>(p.a), span = static_cast<C>(p.b - p.a), end = static_cast<C>(p.b);
  const C v = u * span + low;
  if (v < end) return v;
  return low < end ? math::nextafter(end, low) : end;  // rounding may reach the end, which is outside
}

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(256) facula_random(const __grid_constant__ Params p) {
#if FACULA_DRAW == 10  // kPoisson
  for (int64_t i = thread_index(); i < p.walk.count; i += thread_count()) {
    if (p.chances[i] < 0) report(kBadRate, 0, 0);
    ElementStream stream{p, static_cast<uint64_t>(i), {}, 0};
    put(p, i, poisson_one(p.chances[i], stream));
  }
#elif FACULA_DRAW == 11  // kKeys: two words, that of a second draw decides where the first agree
  Params second = p;
  second.offset |= uint64_t(1) << 63;
  for (int64_t i = thread_index(); i < p.walk.count; i += thread_count()) {
    const uint64_t block = i / 64 * 16 + i % 16;
    const int word = i % 64 / 16;
    const Block x = philox(p, block), y = philox(second, block);
    const auto pick = [&](const Block& b) { return word == 0 ? b.w[0] : word == 1 ? b.w[1] : word == 2 ? b.w[2] : b.w[3]; };
    const uint64_t key = static_cast<uint64_t>(pick(x)) << 32 | pick(y);
    put(p, i, static_cast<int64_t>(key ^ uint64_t(1) << 63));
  }
#else
  // thread l of group g has elements 64 g + l + 16 k
  const int64_t jobs = (p.walk.count + 63) / 64 * 16;
  for (int64_t job = thread_index(); job < jobs; job += thread_count()) {
    const int64_t g = job / 16, l = job % 16, first = 64 * g + l;
#if FACULA_LONG
    const Block x = philox(p, 32 * g + l), y = philox(p, 32 * g + 16 + l);
    uint64_t w[4];
    w[0] = x.w[0] | static_cast<uint64_t>(x.w[1]) << 32;
    w[1] = x.w[2] | static_cast<uint64_t>(x.w[3]) << 32;
    w[2] = y.w[0] | static_cast<uint64_t>(y.w[1]) << 32;
    w[3] = y.w[2] | static_cast<uint64_t>(y.w[3]) << 32;
#else
    const Block x = philox(p, 16 * g + l);
    const uint32_t (&w)[4] = x.w;
#endif
#if FACULA_DRAW == 1 || FACULA_DRAW == 9  // kNormal, kLogNormal
    C n[4];
    normal_pair(w[0], w[2], n[0], n[2]);
    normal_pair(w[1], w[3], n[1], n[3]);
#endif
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      const int64_t i = first + 16 * k;
#if FACULA_DRAW == 0
      put(p, i, stretched(p, unit(w[k], static_cast<int>(p.bits))));
#elif FACULA_DRAW == 1
      put(p, i, p.a == 0 && p.b == 1 ? n[k] : n[k] * static_cast<C>(p.b) + static_cast<C>(p.low != 0 && i % 2 != 0 ? 0 : p.a));
#elif FACULA_DRAW == 2
      put(p, i, exponential(w[k]) * static_cast<C>(p.a));
#elif FACULA_DRAW == 3
      put(p, i, static_cast<int64_t>(static_cast<uint64_t>(p.low) + ((static_cast<uint64_t>(w[k]) * p.range) >> 32)));
#elif FACULA_DRAW == 4
      put(p, i, static_cast<int64_t>(static_cast<uint64_t>(p.low) + (p.range == 0 ? w[k] : __umul64hi(w[k], p.range))));
#elif FACULA_DRAW == 5
      put(p, i, w[k] < p.range);
#elif FACULA_DRAW == 6
      if (i < p.walk.count) {
        const double chance = p.chances[i];
        if (!(chance >= 0 && chance <= 1)) report(kBadProbability, 0, 0);
        put(p, i, w[k] * 0x1p-32 < chance);
      }
#elif FACULA_DRAW == 7
      put(p, i, ::fmax(1.0, ::ceil(exponential(w[k]) * p.a)));
#elif FACULA_DRAW == 8
      put(p, i, p.a + p.b * ::tan(3.14159265358979323846 * (unit(w[k], 53) + 0x1p-54 - 0.5)));
#elif FACULA_DRAW == 9
      put(p, i, math::exp(n[k] * static_cast<C>(p.b) + static_cast<C>(p.a)));
#endif
    }
  }
#endif
}
