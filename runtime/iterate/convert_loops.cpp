// build: levels
#include <cstring>
#include <limits>

#include "runtime/iterate/convert.h"
#include "runtime/iterate/stream.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // gcc 12 says so of its own intrinsics
#endif

namespace facula {

namespace FACULA_ISA {

namespace {

template <typename To, typename From>
inline To float_to_int(From x) {
  constexpr bool kLong = sizeof(To) == 8 || std::is_same_v<To, uint32_t>;
  using Wide = std::conditional_t<kLong, int64_t, int32_t>;
  constexpr From kLimit = kLong ? static_cast<From>(9223372036854775808.0) : static_cast<From>(2147483648.0);
  if constexpr (std::is_same_v<To, uint64_t>) {  // what is above int64 too
    if (x >= kLimit && x < 2 * kLimit) return static_cast<To>(static_cast<int64_t>(x - kLimit)) + (To{1} << 63);
  }
  const bool fits = x >= -kLimit && x < kLimit;
  const Wide wide = fits ? static_cast<Wide>(x) : std::numeric_limits<Wide>::min();
  return static_cast<To>(wide);
}

template <typename To, typename From>
inline stored_t<To> convert_one(stored_t<From> x) {
  if constexpr (std::is_same_v<From, bool>) {
    const uint8_t b = x != 0;
    if constexpr (std::is_same_v<To, bool>) {
      return b;
    } else {
      return To(static_cast<opmath_t<To>>(b));
    }
  } else if constexpr (is_complex_v<From> && !is_complex_v<To>) {
    if constexpr (std::is_same_v<To, bool>) {
      return static_cast<int>(x.real() != 0) | static_cast<int>(x.imag() != 0);
    } else {
      return convert_one<To, typename From::value_type>(x.real());
    }
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<opmath_t<From>>(x) != opmath_t<From>(0);
  } else if constexpr (is_complex_v<To>) {
    using R = typename To::value_type;
    if constexpr (is_complex_v<From>) {
      return To(static_cast<R>(x.real()), static_cast<R>(x.imag()));
    } else {
      return To(static_cast<R>(static_cast<opmath_t<From>>(x)), R(0));
    }
  } else if constexpr (std::is_integral_v<To> && !std::is_integral_v<From>) {
    return float_to_int<To>(static_cast<opmath_t<From>>(x));
  } else if constexpr (is_reduced_float_v<To>) {
    return To(static_cast<float>(static_cast<opmath_t<From>>(x)));
  } else {
    return static_cast<To>(static_cast<opmath_t<From>>(x));
  }
}

template <typename To, typename From>
void convert_loop(void* dst, const void* src, int64_t n) {
  if constexpr (std::is_same_v<To, From> && !std::is_same_v<To, bool>) {
    if (n > 0) std::memcpy(dst, src, static_cast<size_t>(n) * sizeof(To));  // no elements may have no address
  } else {
    stored_t<To>* __restrict d = static_cast<stored_t<To>*>(dst);
    const stored_t<From>* __restrict s = static_cast<const stored_t<From>*>(src);
    int64_t i = 0;
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>) {
      for (; i + 16 <= n; i += 16) {
        _mm512_storeu_ps(d + i, _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(s + i))));
      }
    }
    if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Half>) {
      for (; i + 16 <= n; i += 16) {
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(d + i),
                            _mm512_cvtps_ph(_mm512_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
      }
    }
#endif
#if defined(__F16C__)
    if constexpr (std::is_same_v<From, Half> && std::is_same_v<To, float>) {
      for (; i + 8 <= n; i += 8) {
        _mm256_storeu_ps(d + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(s + i))));
      }
    }
    if constexpr (std::is_same_v<From, float> && std::is_same_v<To, Half>) {
      for (; i + 8 <= n; i += 8) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(d + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(s + i), _MM_FROUND_TO_NEAREST_INT));
      }
    }
#endif
    for (; i < n; ++i) d[i] = convert_one<To, From>(s[i]);
  }
}

template <size_t kSize>
struct Element {
  unsigned char bytes[kSize];
};
template <size_t kSize>
inline void move_one(char* dst, const char* src) {
  std::memcpy(dst, src, kSize);
}

template <size_t kSize>
void move_loop(char* __restrict dst, int64_t ds, const char* __restrict src, int64_t ss, int64_t n) {
  constexpr int64_t kItem = kSize;
  if (ds == kItem) {
    if (ss == kItem) {
      std::memcpy(dst, src, static_cast<size_t>(n) * kSize);
    } else if (ss == 0) {
      Element<kSize> value;
      std::memcpy(&value, src, kSize);
      for (int64_t i = 0; i < n; ++i) std::memcpy(dst + i * kItem, &value, kSize);
    } else if (ss == 2 * kItem) {
      for (int64_t i = 0; i < n; ++i) move_one<kSize>(dst + i * kItem, src + 2 * i * kItem);
    } else if (ss == -kItem) {
      for (int64_t i = 0; i < n; ++i) move_one<kSize>(dst + i * kItem, src - i * kItem);
    } else {
      for (int64_t i = 0; i < n; ++i) move_one<kSize>(dst + i * kItem, src + i * ss);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) move_one<kSize>(dst + i * ds, src + i * ss);
  }
}

// By whole vectors: what they write beyond a row is the next one's, which is written after it.
template <size_t kSize>
void spread_loop(char* __restrict dst, const char* __restrict src, int64_t ss, int64_t n, int64_t rows) {
  using Word =
      std::conditional_t<kSize == 1, uint8_t,
                         std::conditional_t<kSize == 2, uint16_t, std::conditional_t<kSize == 4, uint32_t, uint64_t>>>;
  typedef Word Words __attribute__((vector_size(32)));
  constexpr int64_t kItem = kSize, kVector = 32 / kItem;
  const int64_t row = n * kItem, whole = (n + kVector - 1) / kVector * 32;
  char* const end = dst + rows * row;
  for (; end - dst >= whole && dst < end; dst += row, src += ss) {
    Word word[kSize / sizeof(Word)];
    std::memcpy(word, src, kSize);
    Words words;
    if constexpr (kSize == 16) {
      words = Words{word[0], word[1], word[0], word[1]};
    } else {
      words = Words{} + word[0];
    }
    for (int64_t i = 0; i < whole; i += 32) std::memcpy(dst + i, &words, sizeof(words));
  }
  for (; dst < end; dst += row, src += ss) move_loop<kSize>(dst, kItem, src, 0, n);
}

#if defined(__AVX2__)
inline void transpose_8x8(char* dst, int64_t dp, const char* src, int64_t sp) {
  const auto load = [&](int i) {  // rows i and i + 4, halves side by side
    return [=](int half) {
      return _mm256_insertf128_ps(
          _mm256_castps128_ps256(_mm_loadu_ps(reinterpret_cast<const float*>(src + i * sp) + 4 * half)),
          _mm_loadu_ps(reinterpret_cast<const float*>(src + (i + 4) * sp) + 4 * half), 1);
    };
  };
  for (int half = 0; half < 2; ++half) {
    const __m256 r0 = load(0)(half), r1 = load(1)(half), r2 = load(2)(half), r3 = load(3)(half);
    const __m256 a = _mm256_unpacklo_ps(r0, r1), b = _mm256_unpackhi_ps(r0, r1);
    const __m256 c = _mm256_unpacklo_ps(r2, r3), d = _mm256_unpackhi_ps(r2, r3);
    char* out = dst + 4 * half * dp;
    _mm256_storeu_ps(reinterpret_cast<float*>(out), _mm256_shuffle_ps(a, c, 0x44));
    _mm256_storeu_ps(reinterpret_cast<float*>(out + dp), _mm256_shuffle_ps(a, c, 0xEE));
    _mm256_storeu_ps(reinterpret_cast<float*>(out + 2 * dp), _mm256_shuffle_ps(b, d, 0x44));
    _mm256_storeu_ps(reinterpret_cast<float*>(out + 3 * dp), _mm256_shuffle_ps(b, d, 0xEE));
  }
}
inline void transpose_4x4(char* dst, int64_t dp, const char* src, int64_t sp) {
  for (int half = 0; half < 2; ++half) {
    const auto load = [&](int i) {
      return _mm256_insertf128_pd(
          _mm256_castpd128_pd256(_mm_loadu_pd(reinterpret_cast<const double*>(src + i * sp) + 2 * half)),
          _mm_loadu_pd(reinterpret_cast<const double*>(src + (i + 2) * sp) + 2 * half), 1);
    };
    const __m256d r0 = load(0), r1 = load(1);
    char* out = dst + 2 * half * dp;
    _mm256_storeu_pd(reinterpret_cast<double*>(out), _mm256_unpacklo_pd(r0, r1));
    _mm256_storeu_pd(reinterpret_cast<double*>(out + dp), _mm256_unpackhi_pd(r0, r1));
  }
}
#endif

#if defined(__SSE2__)
// Eight rows of eight 2-byte elements.
inline void transpose_8x8_short(char* dst, int64_t dp, const char* src, int64_t sp) {
  __m128i r[8], t[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i * sp));
  for (int i = 0; i < 4; ++i) {
    t[2 * i] = _mm_unpacklo_epi16(r[i], r[i + 4]);
    t[2 * i + 1] = _mm_unpackhi_epi16(r[i], r[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    r[2 * i] = _mm_unpacklo_epi16(t[i], t[i + 4]);
    r[2 * i + 1] = _mm_unpackhi_epi16(t[i], t[i + 4]);
  }
  for (int i = 0; i < 4; ++i) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + 2 * i * dp), _mm_unpacklo_epi16(r[i], r[i + 4]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(dst + (2 * i + 1) * dp), _mm_unpackhi_epi16(r[i], r[i + 4]));
  }
}
// Eight rows of eight bytes.
inline void transpose_8x8_byte(char* dst, int64_t dp, const char* src, int64_t sp) {
  __m128i r[8];
  for (int i = 0; i < 8; ++i) r[i] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(src + i * sp));
  __m128i a[4], b[4];
  for (int i = 0; i < 4; ++i) a[i] = _mm_unpacklo_epi8(r[i], r[i + 4]);
  for (int i = 0; i < 2; ++i) {
    b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + 2]);
    b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + 2]);
  }
  for (int i = 0; i < 2; ++i) {
    a[2 * i] = _mm_unpacklo_epi8(b[i], b[i + 2]);
    a[2 * i + 1] = _mm_unpackhi_epi8(b[i], b[i + 2]);
  }
  for (int i = 0; i < 4; ++i) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(dst + 2 * i * dp), a[i]);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(dst + (2 * i + 1) * dp), _mm_unpackhi_epi64(a[i], a[i]));
  }
}
#endif

template <size_t kSize>
inline void transpose_scalar(char* dst, int64_t dp, const char* src, int64_t sp, int64_t rows, int64_t columns) {
  constexpr int64_t kItem = kSize;
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) move_one<kSize>(dst + j * dp + i * kItem, src + i * sp + j * kItem);
  }
}

template <size_t kSize>
void transpose_small(char* dst, int64_t dp, const char* src, int64_t sp, int64_t rows, int64_t columns) {
  constexpr int64_t kItem = kSize;
  constexpr int64_t kSide = kSize >= 8 ? 4 : 8;
  int64_t i = 0;
  for (; i + kSide <= rows; i += kSide) {
    int64_t j = 0;
    for (; j + kSide <= columns; j += kSide) {
      char* d = dst + j * dp + i * kItem;
      const char* s = src + i * sp + j * kItem;
#if defined(__SSE2__)
      if constexpr (kSize == 1) {
        transpose_8x8_byte(d, dp, s, sp);
        continue;
      } else if constexpr (kSize == 2) {
        transpose_8x8_short(d, dp, s, sp);
        continue;
      }
#endif
#if defined(__AVX2__)
      if constexpr (kSize == 4) {
        transpose_8x8(d, dp, s, sp);
        continue;
      } else if constexpr (kSize == 8) {
        transpose_4x4(d, dp, s, sp);
        continue;
      }
#endif
      transpose_scalar<kSize>(d, dp, s, sp, kSide, kSide);
    }
    if (j < columns) {
      transpose_scalar<kSize>(dst + j * dp + i * kItem, dp, src + i * sp + j * kItem, sp, kSide, columns - j);
    }
  }
  if (i < rows) transpose_scalar<kSize>(dst + i * kItem, dp, src + i * sp, sp, rows - i, columns);
}

void stream(char* dst, const char* src, int64_t bytes) { stream_bytes(dst, src, bytes); }

// Squares with a cache line a side, turned in a buffer: with row pitches that are powers of two, lines
// of the result that are written bit by bit would be evicted half full.
template <size_t kSize, bool kStream>
void transpose_loop(char* dst, int64_t dp, const char* src, int64_t sp, int64_t rows, int64_t columns) {
  constexpr int64_t kItem = kSize, kSide = 64 / kItem;
  if (!kStream && dp < 1024) {
    transpose_small<kSize>(dst, dp, src, sp, rows, columns);
    return;
  }
  alignas(64) char square[kSide * 64];
  for (int64_t j = 0; j < columns; j += kSide) {
    const int64_t nj = columns - j < kSide ? columns - j : kSide;
    int64_t i = 0;
    // Start where lines of the result do.
    const int64_t ahead = (64 - static_cast<int64_t>(reinterpret_cast<uintptr_t>(dst) & 63)) / kItem % kSide;
    if (ahead > 0 && rows > ahead) {
      transpose_small<kSize>(dst + j * dp, dp, src + j * kItem, sp, ahead, nj);
      i = ahead;
    }
    for (; i + kSide <= rows; i += kSide) {
      transpose_small<kSize>(square, 64, src + i * sp + j * kItem, sp, kSide, nj);
      for (int64_t k = 0; k < nj; ++k) {
        char* line = dst + (j + k) * dp + i * kItem;
        if constexpr (kStream) {
          stream_line(line, square + k * 64);
        } else {
          std::memcpy(line, square + k * 64, 64);
        }
      }
    }
    if (i < rows) {
      transpose_small<kSize>(dst + j * dp + i * kItem, dp, src + i * sp + j * kItem, sp, rows - i, nj);
    }
  }
  if constexpr (kStream) stream_done();
}

// From one type, to each.
template <typename From>
constexpr std::array<ConvertTable::Convert, kNumScalarTypes> conversions_of() {
#define TO(type, name, text) convert_loop<type, From>,
  return {FACULA_FORALL_TYPES(TO)};
#undef TO
}

}  // namespace

}  // namespace FACULA_ISA

#define ROW(From, name, text) conversions_of<From>(),
FACULA_DEFINE_BY_ISA(ConvertTable, convert_table,
                     {{{FACULA_FORALL_TYPES(ROW)}},
                      {move_loop<1>, move_loop<2>, move_loop<4>, move_loop<8>, move_loop<16>},
                      {spread_loop<1>, spread_loop<2>, spread_loop<4>, spread_loop<8>, spread_loop<16>},
                      {transpose_loop<1, false>, transpose_loop<2, false>, transpose_loop<4, false>,
                       transpose_loop<8, false>, transpose_loop<16, false>},
                      {transpose_loop<1, true>, transpose_loop<2, true>, transpose_loop<4, true>,
                       transpose_loop<8, true>, transpose_loop<16, true>},
                      stream})
#undef ROW

}  // namespace facula
