#include "aten/cpu/conv_loops.h"

namespace facula {
namespace {

template <typename T>
void pack_windows(int64_t depth, const int64_t* __restrict taps, const Run* __restrict runs, int64_t run_count,
                  int64_t stride, int64_t width, const T* __restrict image, T* __restrict out) {
  if (stride == 1 && run_count == 1 && runs[0].count == width) {
    const T* base = image + runs[0].offset;
    for (int64_t p = 0; p < depth; ++p) {
      const T* row = base + taps[p];
      T* to = out + p * width;
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) to[i] = row[i];
    }
    return;
  }
  for (int64_t p = 0; p < depth; ++p) {
    const T* base = image + taps[p];
    T* to = out + p * width;
    int64_t at = 0;
    for (int64_t r = 0; r < run_count; ++r) {
      const T* row = base + runs[r].offset;
      const int64_t n = runs[r].count;
      if (stride == 1) {
        for (int64_t i = 0; i < n; ++i) to[at + i] = row[i];
      } else {
        for (int64_t i = 0; i < n; ++i) to[at + i] = row[i * stride];
      }
      at += n;
    }
    for (; at < width; ++at) to[at] = T(0);
  }
}

template <typename T>
void pack_taps(int64_t count, const int64_t* __restrict taps, const Run* __restrict runs, int64_t run_count,
               int64_t stride, int64_t width, const T* __restrict image, T* __restrict out) {
  int64_t total = 0;
  for (int64_t r = 0; r < run_count; ++r) total += runs[r].count;
  for (int64_t p = 0; p < width; ++p) {
    T* to = out + p;
    if (p >= count) {
      for (int64_t i = 0; i < total; ++i) to[i * width] = T(0);
      continue;
    }
    const T* base = image + taps[p];
    for (int64_t r = 0; r < run_count; ++r) {
      const T* row = base + runs[r].offset;
      for (int64_t i = 0; i < runs[r].count; ++i, to += width) *to = row[i * stride];
    }
  }
}

constexpr int64_t kTile = 64;

template <typename T>
void row(int64_t depth, const int64_t* __restrict taps, const T* __restrict weight, T bias, int64_t n, int64_t stride,
         const T* __restrict image, T* __restrict out) {
  for (int64_t i0 = 0; i0 < n; i0 += kTile) {
    const int64_t m = n - i0 < kTile ? n - i0 : kTile;
    T acc[kTile];
    for (int64_t i = 0; i < kTile; ++i) acc[i] = bias;
    for (int64_t p = 0; p < depth; ++p) {
      const T w = weight[p];
      const T* from = image + taps[p] + i0 * stride;
      if (stride == 1) {
#pragma omp simd
        for (int64_t i = 0; i < m; ++i) acc[i] += w * from[i];
      } else if (stride == 2) {
#pragma omp simd
        for (int64_t i = 0; i < m; ++i) acc[i] += w * from[2 * i];
      } else {
        for (int64_t i = 0; i < m; ++i) acc[i] += w * from[i * stride];
      }
    }
    for (int64_t i = 0; i < m; ++i) out[i0 + i] = acc[i];
  }
}

template <typename T>
T correlate(int64_t n, int64_t stride, const T* __restrict grad, const T* __restrict image) {
  T sum = 0;
  if (stride == 1) {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += grad[i] * image[i];
  } else {
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; ++i) sum += grad[i] * image[i * stride];
  }
  return sum;
}

}  // namespace

FACULA_DEFINE_BY_ISA(ConvLoops<float>, conv_loops_float,
                     {pack_windows<float>, pack_taps<float>, row<float>, correlate<float>})
FACULA_DEFINE_BY_ISA(ConvLoops<double>, conv_loops_double,
                     {pack_windows<double>, pack_taps<double>, row<double>, correlate<double>})

}  // namespace facula
