// build: levels
#include "aten/cpu/index/move_loops.h"

#include <cstring>

#include "runtime/iterate/stream.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // gcc 12 says so of its own intrinsics
#endif

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

inline int64_t read_once(const char* p) {
  return __atomic_load_n(reinterpret_cast<const int64_t*>(p), __ATOMIC_RELAXED);
}

bool checked(int64_t* out, const char* index, int64_t stride, int64_t n, int64_t wrap, int64_t size) {
  const uint64_t last = static_cast<uint64_t>(size) - 1;
  uint64_t bad = 0;  // its top bit
  int64_t* __restrict to = out;
  const auto take = [&](int64_t i, int64_t value) __attribute__((always_inline)) {
    value += value < 0 ? wrap : 0;
    to[i] = value;
    const uint64_t v = static_cast<uint64_t>(value);
    bad |= v | (last - v);
  };
  if (stride == static_cast<int64_t>(sizeof(int64_t))) {
    const int64_t* __restrict from = reinterpret_cast<const int64_t*>(index);
#pragma omp simd reduction(| : bad)
    for (int64_t i = 0; i < n; ++i) take(i, from[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) take(i, read_once(index + i * stride));
  }
  return (bad >> 63) == 0;
}

template <typename T>
bool gather(void* out, const void* table, int64_t size, const int64_t* index, int64_t n) {
  T* o = static_cast<T*>(out);
  const T* t = static_cast<const T*>(table);
  int64_t i = 0;
#ifdef __AVX512VL__
  if constexpr (sizeof(T) == 4) {
    // Indices are fetched so far ahead: what is gathered is written by streaming stores between two calls, and the
    // memory's own foresight starts anew at each.
    constexpr int64_t kGathered = 512;
    const __m512i sizes = _mm512_set1_epi64(size);
    for (; i + 16 <= n && size <= INT32_MAX; i += 16) {
      fetch(index + i + kGathered, index + i + kGathered + 16);
      __m512i a = _mm512_loadu_si512(index + i), b = _mm512_loadu_si512(index + i + 8);
      asm("" : "+v"(a), "+v"(b));  // neither is read a second time
      if ((_mm512_cmpge_epu64_mask(a, sizes) | _mm512_cmpge_epu64_mask(b, sizes)) != 0) return false;
      const __m512i at =
          _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(a)), _mm512_cvtepi64_epi32(b), 1);
      _mm512_storeu_si512(o + i, _mm512_i32gather_epi32(at, t, 4));
    }
  }
#endif
  int64_t at[kCompactRun];
  while (i < n) {
    const int64_t m = n - i < kCompactRun ? n - i : kCompactRun;
    if (!checked(at, reinterpret_cast<const char*>(index + i), sizeof(int64_t), m, 0, size)) return false;
    const int64_t* __restrict from = at;
    T* __restrict to = o + i;
    for (int64_t k = 0; k < m; ++k) to[k] = t[from[k]];
    i += m;
  }
  return true;
}

template <typename T>
void select(void* out, const void* self, const uint8_t* mask, const void* value, int64_t n) {
  T* o = static_cast<T*>(out);
  const T* s = static_cast<const T*>(self);
  T v;
  std::memcpy(&v, value, sizeof(T));
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) o[i] = mask[i] != 0 ? v : s[i];
}

// Behind the first k of the buffer, value(i) for the set masks of [i, n): every value is stored, and the place
// moves on behind those that stay.
template <typename T, typename Value>
inline int64_t append(T* buffer, int64_t k, const uint8_t* mask, int64_t i, int64_t n, const Value& value) {
  for (; i + 8 <= n; i += 8) {
    uint64_t word;
    std::memcpy(&word, mask + i, 8);
    if (word == 0) continue;
    for (int64_t j = i; j < i + 8; ++j) {
      buffer[k] = value(j);
      k += mask[j] != 0;
    }
  }
  for (; i < n; ++i) {
    buffer[k] = value(i);
    k += mask[i] != 0;
  }
  return k;
}

template <typename T>
int64_t compact(void* out, const void* from, const uint8_t* mask, int64_t n, int64_t room) {
  T buffer[kCompactRun + 16];
  const T* s = static_cast<const T*>(from);
  int64_t k = 0, i = 0;
#ifdef __AVX512VL__
  if constexpr (sizeof(T) == 4) {
    for (; i + 16 <= n; i += 16) {
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(mask + i));
      const __mmask16 hit = _mm_test_epi8_mask(bytes, bytes);
      _mm512_storeu_si512(buffer + k, _mm512_maskz_compress_epi32(hit, _mm512_loadu_si512(s + i)));
      k += __builtin_popcount(hit);
    }
  } else if constexpr (sizeof(T) == 8) {
    for (; i + 8 <= n; i += 8) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(mask + i));
      const __mmask8 hit = static_cast<__mmask8>(_mm_test_epi8_mask(bytes, bytes));
      _mm512_storeu_si512(buffer + k, _mm512_maskz_compress_epi64(hit, _mm512_loadu_si512(s + i)));
      k += __builtin_popcount(hit);
    }
  }
#endif
  k = append(buffer, k, mask, i, n, [s](int64_t j) { return s[j]; });
  std::memcpy(out, buffer, static_cast<size_t>(k < room ? k : room) * sizeof(T));
  return k;
}

int64_t positions(int64_t* out, int64_t first, const uint8_t* mask, int64_t n, int64_t room) {
  int64_t buffer[kCompactRun + 16];
  int64_t k = 0, i = 0;
#ifdef __AVX512VL__
  __m512i at = _mm512_add_epi64(_mm512_set1_epi64(first), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
  for (; i + 8 <= n; i += 8) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(mask + i));
    const __mmask8 hit = static_cast<__mmask8>(_mm_test_epi8_mask(bytes, bytes));
    _mm512_storeu_si512(buffer + k, _mm512_maskz_compress_epi64(hit, at));
    k += __builtin_popcount(hit);
    at = _mm512_add_epi64(at, _mm512_set1_epi64(8));
  }
#endif
  k = append(buffer, k, mask, i, n, [first](int64_t j) { return first + j; });
  std::memcpy(out, buffer, static_cast<size_t>(k < room ? k : room) * sizeof(int64_t));
  return k;
}

int64_t within(int32_t* at, int64_t* value, const char* index, int64_t stride, int64_t n, int64_t wrap, int64_t low,
               int64_t high) {
  const uint64_t width = static_cast<uint64_t>(high - low);
  int64_t k = 0, i = 0;
#ifdef __AVX512VL__
  if (stride == 8) {
    const __m512i wraps = _mm512_set1_epi64(wrap), lows = _mm512_set1_epi64(low);
    const __m512i widths = _mm512_set1_epi64(static_cast<int64_t>(width));
    __m256i place = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    for (; i + 8 <= n; i += 8, index += 64) {
      __m512i v = _mm512_loadu_si512(index);
      asm("" : "+v"(v));  // it is not read a second time
      v = _mm512_mask_add_epi64(v, _mm512_movepi64_mask(v), v, wraps);
      const __mmask8 hit = _mm512_cmplt_epu64_mask(_mm512_sub_epi64(v, lows), widths);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + k), _mm256_maskz_compress_epi32(hit, place));
      _mm512_storeu_si512(value + k, _mm512_maskz_compress_epi64(hit, v));
      k += __builtin_popcount(hit);
      place = _mm256_add_epi32(place, _mm256_set1_epi32(8));
    }
  }
#endif
  for (; i < n; ++i, index += stride) {
    int64_t v = read_once(index);
    v += (v >> 63) & wrap;
    at[k] = static_cast<int32_t>(i);
    value[k] = v;
    const int64_t inside = static_cast<uint64_t>(v - low) < width;
    k += inside;
  }
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

constexpr int64_t kAhead = 8;  // rows of side lie anywhere: so many terms ahead they are fetched

template <typename T>
inline T sum(T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return static_cast<int>(a) | static_cast<int>(b);
  } else if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}

// Columns [j, j + width) of the rows of side at order[i] to order[end].
template <typename T>
inline __attribute__((always_inline)) void add_columns(const RowTerms& s, int64_t i, int64_t end, int64_t j,
                                                       int64_t width, T* __restrict total) {
  for (; i < end; ++i) {
    const T* x = reinterpret_cast<const T*>(s.side + s.order[i] * s.step) + j;
    if (i + kAhead < s.count) {
      const T* next = reinterpret_cast<const T*>(s.side + s.order[i + kAhead] * s.step) + j;
      fetch(next, next + width);
    }
#pragma omp simd
    for (int64_t k = 0; k < width; ++k) total[k] = sum(total[k], x[k]);
  }
}

// Many of them: so many are added up in float before their sum is, in double, or long sums would lose digits.
constexpr int64_t kTerms = 32;

__attribute__((noinline)) void add_many_columns(const RowTerms& s, int64_t i, int64_t end, int64_t j, int64_t width,
                                                float* total) {
  double sums[256 / sizeof(float)] = {};
  for (; i < end; i += kTerms) {
    add_columns(s, i, end - i < kTerms ? end : i + kTerms, j, width, total);
#pragma omp simd
    for (int64_t k = 0; k < width; ++k) sums[k] += static_cast<double>(total[k]), total[k] = 0;
  }
#pragma omp simd
  for (int64_t k = 0; k < width; ++k) total[k] = static_cast<float>(sums[k]);
}

// Columns [j, j + width) of a row.
template <typename T>
inline __attribute__((always_inline)) void sum_columns(const RowTerms& s, int64_t r, int64_t i, int64_t end, int64_t j,
                                                       int64_t width) {
  alignas(64) T total[256 / sizeof(T)] = {};
  const size_t bytes = static_cast<size_t>(width) * sizeof(T);
  const int64_t at = r * s.n + j;
  if (s.origin != nullptr) std::memcpy(total, static_cast<const T*>(s.origin) + at, bytes);
  bool many = false;
  if constexpr (std::is_same_v<T, float>) {
    many = end - i > kTerms;
    if (many) [[unlikely]]
      add_many_columns(s, i, end, j, width, total);
  }
  if (!many) add_columns(s, i, end, j, width, total);
  T* const out = static_cast<T*>(s.out) + at;
  if (s.stream) {
    stream_bytes(out, total, static_cast<int64_t>(bytes));
  } else {
    std::memcpy(out, total, bytes);
  }
}

template <typename T>
void sum_rows(const RowTerms& s, int64_t begin, int64_t end) {
  if constexpr (is_complex_v<T>) {
    RowTerms parts = s;
    parts.n *= 2;
    sum_rows<typename T::value_type>(parts, begin, end);
  } else if constexpr (!is_reduced_float_v<T>) {
    constexpr int64_t kColumns = 256 / sizeof(T);
    int64_t i = begin == 0 ? 0 : s.ends[begin - 1];
    for (int64_t r = begin; r < end; ++r) {
      const int64_t last = s.ends[r];
      if (i == last && s.origin == s.out) continue;
      int64_t j = 0;
      for (; j + kColumns <= s.n; j += kColumns) sum_columns<T>(s, r, i, last, j, kColumns);
      if (j < s.n) sum_columns<T>(s, r, i, last, j, s.n - j);
      i = last;
    }
    if (s.stream) stream_done();
  }
}

void last_rows(const RowTerms& s, int64_t begin, int64_t end) {
  int64_t i = begin == 0 ? 0 : s.ends[begin - 1];
  for (int64_t r = begin; r < end; ++r) {
    const int64_t last = s.ends[r];
    const char* from = static_cast<const char*>(s.origin) + r * s.n;
    if (i < last) {
      from = s.side + s.order[last - 1] * s.step;
      if (last + kAhead < s.count) {
        const char* next = s.side + s.order[last + kAhead] * s.step;
        fetch(next, next + (s.n < 512 ? s.n : 512));
      }
    }
    i = last;
    char* const to = static_cast<char*>(s.out) + r * s.n;
    if (from == to) continue;
    if (s.stream) {
      stream_bytes(to, from, s.n);
    } else {
      std::memcpy(to, from, static_cast<size_t>(s.n));
    }
  }
  if (s.stream) stream_done();
}

}  // namespace

#define ROW(T, name, text) sum_rows<T>,
FACULA_DEFINE_BY_ISA(MoveLoops, move_loops,
                     {range,
                      {gather<uint8_t>, gather<uint16_t>, gather<uint32_t>, gather<uint64_t>, gather<Wide>},
                      {select<uint8_t>, select<uint16_t>, select<uint32_t>, select<uint64_t>, select<Wide>},
                      {compact<uint8_t>, compact<uint16_t>, compact<uint32_t>, compact<uint64_t>, compact<Wide>},
                      positions,
                      checked,
                      within,
                      count,
                      {FACULA_FORALL_TYPES(ROW)},
                      last_rows})
#undef ROW

}  // namespace facula
