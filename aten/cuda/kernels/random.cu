// Random draws with the numbers of aten/cpu/random/random.h: every element is a fixed function of the seed, the
// number of the draw and its place (facula/math_draws.h). Compiled without multiply-add, so that the bits are the
// CPU's. Before it stand: C (float or double: what is drawn), S (elements), FACULA_DRAW, FACULA_LONG, FACULA_FLOATING.
#include "facula/cuda/strided_iterator.h"
#include "facula/draw_samplers.h"
#include "facula/math_draws.h"

namespace facula {

using namespace draws;

struct Params {
  char* out;
  const double* chances;  // of kBernoulliOf and of draws from streams
  const double* others;   // probabilities of kBinomial
  uint64_t seed, offset;
  double a, b;  // by the kind of draw
  int64_t low;
  uint64_t range;
  double least, most;  // of kUniform, kExponential, kGeometric and integers of floating S
  int64_t bits, dense;
  StridedIterator<1> iterator;
};
enum {
  kUniform,
  kNormal,
  kExponential,
  kIntegers,
  kLongIntegers,
  kBernoulli,
  kBernoulliOf,
  kGeometric,
  kCauchy,
  kLogNormal,
  kPoisson,
  kGamma,
  kLogGamma,
  kBinomial,
  kKeys
};

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

template <typename T>
FD void put(const Params& p, int64_t i, T value) {
  if (i >= p.iterator.count) return;
  int64_t at[1] = {i * static_cast<int64_t>(sizeof(S))};
  if (!p.dense) p.iterator.places(i, at);
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
FD C stretched(const Params& p, C u) {
  if (p.a == 0 && p.b == 1) return u;
  const C v = u * static_cast<C>(p.b - p.a) + static_cast<C>(p.a);
  return limited(v, static_cast<C>(p.least), static_cast<C>(p.most));
}
FD int64_t integer(const Params& p, uint64_t at) {
  const int64_t v = static_cast<int64_t>(static_cast<uint64_t>(p.low) + at);
#if FACULA_FLOATING  // whose numbers thin out
  return limited(v, static_cast<int64_t>(p.least), static_cast<int64_t>(p.most));
#else
  return v;
#endif
}

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(256) facula_random(const __grid_constant__ Params p) {
#if FACULA_DRAW >= 10 && FACULA_DRAW <= 13  // kPoisson, kGamma, kLogGamma, kBinomial
  for (int64_t i = thread_index(); i < p.iterator.count; i += thread_count()) {
    const double given = p.chances[i];
    ElementStream stream{p, static_cast<uint64_t>(i), {}, 0};
#if FACULA_DRAW == 10
    if (!(given >= 0 && given < math::infinity<double>)) report(kBadRate, 0, 0);
    put(p, i, poisson_number(given, stream));
#elif FACULA_DRAW == 13
    const bool whole = given >= 0 && given < math::infinity<double> && given == ::floor(given);
    const bool fits = p.others[i] >= 0 && p.others[i] <= 1;
    if (!whole || !fits) report(whole ? kBadProbability : kBadCount, 0, 0);
    put(p, i, whole && fits ? binomial_number(given, p.others[i], stream) : math::nan<double>);
#else
    // what is no concentration would be rejected for ever
    const bool fits = given >= 0 && given < math::infinity<double>;
    if (!fits) report(kBadConcentration, 0, 0);
#if FACULA_DRAW == 11
    put(p, i, fits ? ::fmax(gamma_number(given, stream), p.least) : math::nan<double>);
#else
    put(p, i, fits ? log_gamma_number(given, stream) : math::nan<double>);
#endif
#endif
  }
#elif FACULA_DRAW == 14  // kKeys: two words, that of a second draw decides where the first agree
  Params second = p;
  second.offset |= uint64_t(1) << 63;
  for (int64_t i = thread_index(); i < p.iterator.count; i += thread_count()) {
    const uint64_t block = i / 64 * 16 + i % 16;
    const int word = i % 64 / 16;
    const Block x = philox(p, block), y = philox(second, block);
    const auto pick = [&](const Block& b) {
      return word == 0 ? b.w[0] : word == 1 ? b.w[1] : word == 2 ? b.w[2] : b.w[3];
    };
    const uint64_t key = static_cast<uint64_t>(pick(x)) << 32 | pick(y);
    put(p, i, static_cast<int64_t>(key ^ uint64_t(1) << 63));
  }
#else
  // thread l of group g has elements 64 g + l + 16 k
  const int64_t jobs = ceil_div(p.iterator.count, 64) * 16;
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
      put(p, i,
          p.a == 0 && p.b == 1
              ? n[k]
              : scaled_normal(n[k], static_cast<C>(p.b), static_cast<C>(p.low != 0 && i % 2 != 0 ? 0 : p.a)));
#elif FACULA_DRAW == 2
      put(p, i, limited(exponential(w[k]) * static_cast<C>(p.a), static_cast<C>(p.least), static_cast<C>(p.most)));
#elif FACULA_DRAW == 3
      put(p, i, integer(p, (static_cast<uint64_t>(w[k]) * p.range) >> 32));
#elif FACULA_DRAW == 4
      put(p, i, integer(p, p.range == 0 ? w[k] : __umul64hi(w[k], p.range)));
#elif FACULA_DRAW == 5
      put(p, i, w[k] < p.range);
#elif FACULA_DRAW == 6
      if (i < p.iterator.count) {
        const double chance = p.chances[i];
        if (!(chance >= 0 && chance <= 1)) report(kBadProbability, 0, 0);
        put(p, i, w[k] * 0x1p-32 < chance);
      }
#elif FACULA_DRAW == 7
      put(p, i, limited(::ceil(exponential(w[k]) * p.a), 1.0, p.most));
#elif FACULA_DRAW == 8
      put(p, i, p.a + p.b * ::tan(3.14159265358979323846 * (unit(w[k], 53) + 0x1p-54 - 0.5)));
#elif FACULA_DRAW == 9
      put(p, i, math::exp(scaled_normal(n[k], static_cast<C>(p.b), static_cast<C>(p.a))));
#endif
    }
  }
#endif
}
