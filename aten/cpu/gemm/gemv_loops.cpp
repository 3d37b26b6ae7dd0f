// build: levels fused
#include "aten/cpu/gemm/gemv_loops.h"

#include "aten/cpu/common/tuning.h"
#include "aten/cpu/gemm/panel.h"

namespace facula {
namespace {

template <typename S>
inline __attribute__((always_inline)) void load(Lanes<S>& v, const S* p) {
  __builtin_memcpy(&v, p, kBytes);
}
inline __attribute__((always_inline)) void load(Lanes<float>& v, const uint16_t* p) {
  typedef uint16_t Narrow __attribute__((vector_size(kBytes / 2)));
  Narrow bits;
  __builtin_memcpy(&bits, p, sizeof(bits));
  v = (Lanes<float>)(__builtin_convertvector(bits, Lanes<uint32_t>) << 16);
}
template <typename S>
inline __attribute__((always_inline)) S number(const S* p) {
  return *p;
}
inline __attribute__((always_inline)) float number(const uint16_t* p) {
  const uint32_t bits = static_cast<uint32_t>(*p) << 16;
  float v;
  __builtin_memcpy(&v, &bits, sizeof(v));
  return v;
}

constexpr int kRowsAtOnce = 8;

// Terms that a lane adds up in S. Totals of such blocks add up in double, as long sums in S lose their digits one by
// one.
constexpr int64_t kTerms = 32;

// Whether a matrix comes from memory rather than the second-level cache.
template <typename T>
bool is_far(int64_t rows, int64_t cols) {
  return rows * cols * static_cast<int64_t>(sizeof(T)) > cpu::tuning::kGemvFarBytes;
}

// kFar: the rows come from memory, and are asked for ahead.
template <bool kFar, int R, typename T, typename S>
void dots_of(int64_t cols, const T* __restrict a, int64_t lda, const S* __restrict x, S* __restrict y) {
  constexpr int64_t kN = kLanes<S>, kAhead = cpu::tuning::kGemvAheadRows / static_cast<int64_t>(sizeof(T));
  const int64_t whole = cols / kN * kN;
  const bool blocks = whole > kTerms * kN;
  double totals[R][kN];
  for (int i = 0; i < R && blocks; ++i) {
    for (int l = 0; l < kN; ++l) totals[i][l] = 0;
  }
  S lanes[R][kN];
  for (int64_t j = 0; j < whole || j == 0;) {
    Lanes<S> acc[R] = {};
    const int64_t end = whole - j < kTerms * kN ? whole : j + kTerms * kN;
    for (; j < end; j += kN) {
      Lanes<S> xv;
      load(xv, x + j);
#pragma GCC unroll 8
      for (int i = 0; i < R; ++i) {
        Lanes<S> v;
        if constexpr (kFar) __builtin_prefetch(a + i * lda + j + kAhead);
        load(v, a + i * lda + j);
        acc[i] += v * xv;
      }
    }
    __builtin_memcpy(lanes, acc, sizeof(lanes));
    if (!blocks) break;
    for (int i = 0; i < R; ++i) {
#pragma omp simd
      for (int l = 0; l < kN; ++l) totals[i][l] += static_cast<double>(lanes[i][l]);
    }
  }
  for (int i = 0; i < R; ++i) {
    S sum = 0;
    for (int64_t l = whole; l < cols; ++l) sum += number(a + i * lda + l) * x[l];
    if (blocks) {
      double total = static_cast<double>(sum);
      for (int l = 0; l < kN; ++l) total += totals[i][l];
      sum = static_cast<S>(total);
    } else {
      for (int l = 0; l < kN; ++l) sum += lanes[i][l];
    }
    y[i] = sum;
  }
}

template <bool kFar, typename T, typename S>
void dots_from(int64_t rows, int64_t cols, const T* a, int64_t lda, const S* x, S* y) {
  int64_t i = 0;
  for (; i + kRowsAtOnce <= rows; i += kRowsAtOnce) dots_of<kFar, kRowsAtOnce>(cols, a + i * lda, lda, x, y + i);
  for (; i < rows; ++i) dots_of<kFar, 1>(cols, a + i * lda, lda, x, y + i);
}
template <typename T, typename S>
void dots(int64_t rows, int64_t cols, const T* a, int64_t lda, const S* x, S* y) {
  is_far<T>(rows, cols) ? dots_from<true>(rows, cols, a, lda, x, y) : dots_from<false>(rows, cols, a, lda, x, y);
}

template <bool kFar, int R, typename T, typename S>
void add_rows(int64_t cols, const T* __restrict a, int64_t lda, const S* __restrict x, S* __restrict y) {
  constexpr int64_t kN = kLanes<S>, kAhead = cpu::tuning::kGemvAheadColumns / static_cast<int64_t>(sizeof(T));
  int64_t j = 0;
  for (; j + kN <= cols; j += kN) {
    Lanes<S> sum{}, y_now;
#pragma GCC unroll 8
    for (int i = 0; i < R; ++i) {
      Lanes<S> v;
      if constexpr (kFar) __builtin_prefetch(a + i * lda + j + kAhead);
      load(v, a + i * lda + j);
      sum += x[i] * v;
    }
    load(y_now, y + j);
    sum += y_now;
    __builtin_memcpy(y + j, &sum, kBytes);
  }
  for (; j < cols; ++j) {
    S sum = 0;
    for (int i = 0; i < R; ++i) sum += x[i] * number(a + i * lda + j);
    y[j] += sum;
  }
}

// Columns in blocks whose sums stay in the first-level cache. Rows in blocks too, as above: eight at a time, so that a
// sum in S has some tens of terms.
template <bool kFar, typename T, typename S>
void sums_from(int64_t rows, int64_t cols, const T* a, int64_t lda, const S* x, S* y) {
  constexpr int64_t kBlock = cpu::tuning::kGemvColumns, kHeight = 16 * kRowsAtOnce;
  double totals[kBlock];
  const bool blocks = rows > kHeight;
  for (int64_t j = 0; j < cols; j += kBlock) {
    const int64_t nj = cols - j < kBlock ? cols - j : kBlock;
    S* const to = y + j;
    for (int64_t l = 0; l < nj && blocks; ++l) totals[l] = 0;
    for (int64_t i = 0; i < rows;) {
      const int64_t end = rows - i < kHeight ? rows : i + kHeight;
      for (int64_t l = 0; l < nj; ++l) to[l] = 0;
      for (; i + kRowsAtOnce <= end; i += kRowsAtOnce) add_rows<kFar, kRowsAtOnce>(nj, a + i * lda + j, lda, x + i, to);
      for (; i < end; ++i) add_rows<kFar, 1>(nj, a + i * lda + j, lda, x + i, to);
      if (!blocks) continue;
#pragma omp simd
      for (int64_t l = 0; l < nj; ++l) totals[l] += static_cast<double>(to[l]);
    }
    if (!blocks) continue;
#pragma omp simd
    for (int64_t l = 0; l < nj; ++l) to[l] = static_cast<S>(totals[l]);
  }
}
template <typename T, typename S>
void sums(int64_t rows, int64_t cols, const T* a, int64_t lda, const S* x, S* y) {
  is_far<T>(rows, cols) ? sums_from<true>(rows, cols, a, lda, x, y) : sums_from<false>(rows, cols, a, lda, x, y);
}

}  // namespace

FACULA_DEFINE_BY_ISA(GemvFloat, gemv_float, {dots<float, float>, sums<float, float>})
FACULA_DEFINE_BY_ISA(GemvDouble, gemv_double, {dots<double, double>, sums<double, double>})
FACULA_DEFINE_BY_ISA(GemvBFloat16, gemv_bfloat16, {dots<uint16_t, float>, sums<uint16_t, float>})

}  // namespace facula
