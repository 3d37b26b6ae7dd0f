#include "aten/cpu/conv_loops.h"

namespace facula {
namespace {

// Elements that are copied at a time: a run of few positions is one move, what it writes too far is
// overwritten by the next.
template <typename T>
constexpr int64_t kStep = sizeof(T) == 4 ? 16 : 8;

template <typename T>
void pack_windows(int64_t depth, const int64_t* __restrict taps, const Run* __restrict runs, int64_t run_count,
                  int64_t width, const T* __restrict image, T* __restrict out) {
  int64_t total = 0;
  for (int64_t r = 0; r < run_count; ++r) total += runs[r].count;
  for (int64_t p = 0; p < depth; ++p) {
    const T* base = image + taps[p];
    T* to = out + p * width;
    for (int64_t r = 0; r < run_count; ++r) {
      const T* from = base + runs[r].offset;
      const int64_t n = runs[r].count;
      // A panel is at most two steps wide; a loop would become a call of memcpy.
      __builtin_memcpy(to, from, kStep<T> * sizeof(T));
      if (n > kStep<T>) __builtin_memcpy(to + kStep<T>, from + kStep<T>, kStep<T> * sizeof(T));
      to += n;
    }
    for (int64_t i = total; i < width; ++i) *to++ = T(0);
  }
}

template <typename T>
void gather_rows(int64_t count, const int64_t* __restrict taps, const Run* __restrict runs, int64_t run_count,
                 int64_t stride, const T* __restrict image, T* __restrict out) {
  for (int64_t p = 0; p < count; ++p) {
    const T* base = image + taps[p];
    T* to = out + p * stride;
    for (int64_t r = 0; r < run_count; ++r) {
      const T* from = base + runs[r].offset;
      const int64_t n = runs[r].count;
      for (int64_t i = 0; i < n; i += kStep<T>) {
        __builtin_memcpy(to + i, from + i, kStep<T> * sizeof(T));
        asm volatile("");  // else the loop becomes a call of memcpy
      }
      to += n;
    }
  }
}

template <typename T>
void pack_weights(int64_t depth, const int64_t* __restrict offsets, int64_t count, int64_t step, int64_t width,
                  const T* __restrict in, T* __restrict out) {
  for (int64_t p = 0; p < depth; ++p) {
    const T* from = in + offsets[p];
    T* to = out + p * width;
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
    for (int64_t i = count; i < width; ++i) to[i] = T(0);
  }
}

constexpr int64_t kTile = 64;

template <typename T>
void row(int64_t depth, const int64_t* __restrict taps, const T* __restrict weight, T bias, int64_t n,
         const T* __restrict image, T* __restrict out) {
  for (int64_t i0 = 0; i0 < n; i0 += kTile) {
    const int64_t m = n - i0 < kTile ? n - i0 : kTile;
    T acc[kTile];
    for (int64_t i = 0; i < kTile; ++i) acc[i] = bias;
    for (int64_t p = 0; p < depth; ++p) {
      const T w = weight[p];
      const T* from = image + taps[p] + i0;
#pragma omp simd
      for (int64_t i = 0; i < m; ++i) acc[i] += w * from[i];
    }
    for (int64_t i = 0; i < m; ++i) out[i0 + i] = acc[i];
  }
}

template <typename T>
T correlate(int64_t n, const T* __restrict a, const T* __restrict b) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

FACULA_DEFINE_BY_ISA(ConvLoops<float>, conv_loops_float,
                     {pack_windows<float>, gather_rows<float>, pack_weights<float>, row<float>, correlate<float>})
FACULA_DEFINE_BY_ISA(ConvLoops<double>, conv_loops_double,
                     {pack_windows<double>, gather_rows<double>, pack_weights<double>, row<double>, correlate<double>})

}  // namespace facula
