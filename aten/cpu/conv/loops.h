// Inner parts of convolution on zero-padded images, compiled for each instruction set.
#pragma once

#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

// `count` neighbouring output positions; position i reads at offset + i.
struct Run {
  int64_t offset, count;
};

// Images are followed by this many readable elements, since runs are copied in whole vectors.
inline constexpr int64_t kSlack = 48;

// The loops over depthwise NCHW images read up to so many elements more, and sum so many taps at a time.
inline constexpr int64_t kWideSlack = 128;
inline constexpr int64_t kTapsTogether = 9;

template <typename T>
struct ConvLoops {
  // Panel (depth, width) of windows: out[p * width + column] = image[taps[p] + position of column], the
  // columns being those of the runs one after the other; the rest is zero. `out` has room for kSlack
  // elements more.
  void (*pack_windows)(int64_t depth, const int64_t* taps, const Run* runs, int64_t run_count, int64_t width,
                       const T* image, T* out);
  // Rows of windows: out[p * stride + position] = image[taps[p] + position], p < count, with room for
  // kSlack elements more in each row.
  void (*gather_rows)(int64_t count, const int64_t* taps, const Run* runs, int64_t run_count, int64_t stride,
                      const T* image, T* out);
  // Panel (depth, width) of weights: out[p * width + i] = in[offsets[p] + i * step], i < count; the rest is zero.
  void (*pack_weights)(int64_t depth, const int64_t* offsets, int64_t count, int64_t step, int64_t width, const T* in,
                       T* out);
  // out[i] = in[i * step], i < n
  void (*every)(int64_t n, int64_t step, const T* in, T* out);
  // out[i] = bias + sum over p of weight[p] image[taps[p] + i], i < n
  void (*row)(int64_t depth, const int64_t* taps, const T* weight, T bias, int64_t n, const T* image, T* out);
  // sum over i of a[i] b[i], of short rows: the blocked sum takes 2.4 times as long at 7 to 56 elements
  T (*correlate)(int64_t n, const T* a, const T* b);
  // The same as `row` for `rows` rows, those of the image `step` apart.
  void (*depthwise_nchw)(int64_t rows, int64_t n, int64_t depth, const int64_t* taps, const T* weight, T bias,
                         const T* image, int64_t step, T* out);
  // out[i * channels + c] = bias[c] + sum over k < count of weight[place[k] + c] x[at[k] + i * step + c], i < n;
  // bias may be null.
  void (*depthwise_nhwc)(int64_t channels, int64_t n, int64_t step, int64_t count, const int64_t* at,
                         const int64_t* place, const T* x, const T* weight, const T* bias, T* out);
  // sums[place[k] + c] += sum over i < n of grad[i * channels + c] x[at[k] + i * step + c], k < count <= kTapsTogether
  void (*depthwise_nhwc_grads)(int64_t channels, int64_t n, int64_t step, int64_t count, const int64_t* at,
                               const int64_t* place, const T* x, const T* grad, T* sums);
  // sums[p] += sum over rows and columns of grad and image at taps[p], p < kTapsTogether
  void (*depthwise_nchw_grads)(int64_t rows, int64_t n, const int64_t* taps, const T* image, int64_t step,
                               const T* grad, double* sums);
  // out[i * out_step] += by in[i * step], i < n, products and sums in double
  void (*add_times)(int64_t n, T by, const T* in, int64_t step, double* out, int64_t out_step);
};
FACULA_DECLARE_BY_ISA(ConvLoops<float>, conv_loops_float)
FACULA_DECLARE_BY_ISA(ConvLoops<double>, conv_loops_double)

template <typename T>
const ConvLoops<T>& conv_loops() {
  if constexpr (std::is_same_v<T, float>) {
    return FACULA_BY_ISA(conv_loops_float);
  } else {
    return FACULA_BY_ISA(conv_loops_double);
  }
}

}  // namespace facula
