// Inner parts of convolution in NHWC: products are taken between rows of pixels and panels of output channels.
// Winograd's transforms (Lavin & Gray, Fast algorithms for convolutional neural networks, 2015) are those of F(2x2,
// 3x3).
#pragma once

#include <cstdint>
#include <type_traits>

#include "aten/cpu/common/fetch_ahead.h"
#include "runtime/iterate/isa.h"

namespace facula {

// Channels are kept in blocks of this many: element p of row i of a block lies at i * kPitch + p.
inline constexpr int64_t kPitch = 64;

template <typename T>
struct ConvTile {
  int64_t lanes, mr, nr;
  // C (rows <= mr, cols: nr or lanes; row stride ldc) = or += sum over taps of A (rows, channels) at a + at[tap]
  // times B panel (taps, channels, nr). Blocks of A are `block` apart, its rows kPitch.
  void (*rows)(int64_t taps, const int64_t* at, int64_t channels, const T* a, int64_t block, const T* b, T* c,
               int64_t ldc, int64_t rows, int64_t cols, bool accumulate);
  // C (rows <= mr, cols: nr or lanes) = bias (or 0) + sum over taps of A (rows, run) times B panel (taps, run, nr), A
  // at a + at[tap], its rows `step` apart. Meanwhile `ahead` is fetched, whose shift is 0. With `stream`, which wants C
  // in whole lines, it is written by streaming stores.
  void (*windows)(int64_t taps, const int64_t* at, int64_t run, const T* a, int64_t step, const T* b, const T* bias,
                  T* c, int64_t ldc, int64_t rows, int64_t cols, const Ahead<T>& ahead, bool stream);
  // C (rows <= mr, cols: nr or lanes) = or += sum over t < depth of a[t * kPitch + row] b[at[t] + col]
  void (*outer)(int64_t depth, const T* a, const T* b, const int64_t* at, T* c, int64_t ldc, int64_t rows, int64_t cols,
                bool accumulate);
  // v[k * plane + c / kPitch * block + c % kPitch] = (B' d B)[k], d the 4 x 4 pixels at `in`, k < 16.
  void (*winograd_input)(int64_t channels, const T* in, int64_t row, int64_t pixel, T* v, int64_t block, int64_t plane);
  // The same with A g A', g the 2 x 2 pixels at `in`.
  void (*winograd_grad)(int64_t channels, const T* in, int64_t row, int64_t pixel, T* v, int64_t block, int64_t plane);
  // The 2 x 2 pixels A' m A + bias, m[k] at m[k * plane + c]; `check` (lanes) takes up what is not finite.
  void (*winograd_output)(int64_t channels, const T* m, int64_t plane, const T* bias, T* const* out, T* check);
  // u[k * plane + i] = (G g G')[k] for `count` filters g of 9 places, `step` apart, turned by half a turn
  // where `turned`; zero for the lanes from `count` on.
  void (*winograd_filters)(int64_t count, const T* g, int64_t step, bool turned, T* u, int64_t plane);
  // g = G' u G for u the sum over pieces of u[piece * size + k * plane + i].
  void (*winograd_filter_grads)(int64_t count, const T* u, int64_t plane, int64_t pieces, int64_t size, T* g,
                                int64_t step);
  // out[at[p] + c] = in[c * channel + p]
  void (*nchw_to_nhwc)(int64_t count, int64_t channels, const T* in, int64_t channel, const int64_t* at, T* out);
  // out[c * channel + p] = in[p * pitch + c]
  void (*nhwc_to_nchw)(int64_t count, int64_t channels, const T* in, int64_t pitch, T* out, int64_t channel);
};
FACULA_DECLARE_BY_ISA(ConvTile<float>, conv_tile_float)
FACULA_DECLARE_BY_ISA(ConvTile<double>, conv_tile_double)

template <typename T>
const ConvTile<T>& conv_tile() {
  if constexpr (std::is_same_v<T, float>) {
    return FACULA_BY_ISA(conv_tile_float);
  } else {
    return FACULA_BY_ISA(conv_tile_double);
  }
}

}  // namespace facula
