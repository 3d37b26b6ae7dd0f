// Streaming stores, which pass by the cache, for results too large to stay in it: lines that are written whole need not
// be read first.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#elif defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace facula {

// Results from here on are written by streaming stores.
inline constexpr int64_t kStreamBytes = int64_t{8} << 20;
// They are made in pieces that lie in the first-level cache.
inline constexpr int64_t kStreamPiece = 2048;

// In files that are compiled for several instruction sets these must not be shared.
namespace {

#define FACULA_STREAM inline __attribute__((always_inline))

FACULA_STREAM bool whole_lines(const void* p) { return reinterpret_cast<uintptr_t>(p) % 64 == 0; }

FACULA_STREAM void stream_line(char* dst, const char* src) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(dst), _mm512_loadu_si512(src));
#elif defined(__AVX2__)
  for (int i = 0; i < 64; i += 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(dst + i),
                        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i)));
  }
#elif defined(__SSE2__)
  for (int i = 0; i < 64; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(dst + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i)));
  }
#else
  std::memcpy(dst, src, 64);
#endif
}

// A vector of the widest registers, to a multiple of its size. Vectors of a line should follow one another.
template <typename V>
FACULA_STREAM void stream_vector(void* dst, const V& v) {
#if defined(__AVX512F__)
  if constexpr (sizeof(V) == 64) return _mm512_stream_si512(static_cast<__m512i*>(dst), __builtin_bit_cast(__m512i, v));
#elif defined(__AVX2__)
  if constexpr (sizeof(V) == 32) {
    return _mm256_stream_si256(static_cast<__m256i*>(dst), __builtin_bit_cast(__m256i, v));
  }
#elif defined(__SSE2__)
  if constexpr (sizeof(V) == 16) return _mm_stream_si128(static_cast<__m128i*>(dst), __builtin_bit_cast(__m128i, v));
#endif
  std::memcpy(dst, &v, sizeof(V));
}

// Before another thread may read what was streamed.
FACULA_STREAM void stream_done() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// `dst` is the begin of a line.
FACULA_STREAM void stream_bytes(void* dst, const void* src, int64_t n) {
  char* d = static_cast<char*>(dst);
  const char* s = static_cast<const char*>(src);
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) stream_line(d + i, s + i);
  if (i < n) std::memcpy(d + i, s + i, static_cast<size_t>(n - i));
}

// out[i] = value(i); `piece(i, end)` is called before each part of the row.
template <typename T, typename F, typename P>
FACULA_STREAM void write_row(int64_t n, T* __restrict out, bool stream, const F& value, const P& piece) {
  constexpr int64_t kPart = kStreamPiece / static_cast<int64_t>(sizeof(T));
  if (stream && whole_lines(out)) {
    alignas(64) T part[kPart];
    for (int64_t i = 0; i < n; i += kPart) {
      const int64_t m = n - i < kPart ? n - i : kPart;
      piece(i, i + m);
#pragma omp simd
      for (int64_t j = 0; j < m; ++j) part[j] = value(i + j);
      stream_bytes(out + i, part, m * static_cast<int64_t>(sizeof(T)));
    }
    return;
  }
  for (int64_t i = 0; i < n; i += kPart) {
    const int64_t end = n - i < kPart ? n : i + kPart;
    piece(i, end);
#pragma omp simd
    for (int64_t j = i; j < end; ++j) out[j] = value(j);
  }
}
template <typename T, typename F>
FACULA_STREAM void write_row(int64_t n, T* __restrict out, bool stream, const F& value) {
  write_row(n, out, stream, value, [](int64_t, int64_t) {});
}

// Fetches what lies from `p` to `end`, or beyond any array, and is going to be read next.
FACULA_STREAM void fetch(const void* p, const void* end) {
  for (const char* at = static_cast<const char*>(p); at < static_cast<const char*>(end); at += 64) {
#if defined(__x86_64__)
    asm volatile("prefetcht0 (%0)" : : "r"(at));  // gcc drops loops of nothing but __builtin_prefetch
#else
    __builtin_prefetch(at);
#endif
  }
}

// The same into the second-level cache, for what is read later.
FACULA_STREAM void fetch_later(const void* p, const void* end) {
  for (const char* at = static_cast<const char*>(p); at < static_cast<const char*>(end); at += 64) {
#if defined(__x86_64__)
    asm volatile("prefetcht1 (%0)" : : "r"(at));
#else
    __builtin_prefetch(at, 0, 2);
#endif
  }
}

#undef FACULA_STREAM

}  // namespace

}  // namespace facula
