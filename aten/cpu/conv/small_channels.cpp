// Convolution of NHWC images of few channels: what a window has in one row of the image is one run of memory,
// so products take the windows where they lie.
#include "aten/cpu/conv/small_channels.h"

#include "aten/cpu/common/tuning.h"
#include "aten/cpu/gemm/loops.h"

namespace facula::cpu {

using conv::Geometry;

bool small_channels_pays(const Geometry& g) {
  return g.channels < tuning::kSmallChannelsEnd && g.out_channels % tuning::kSmallChannelsMultiple == 0 &&
         g.kernel[1] * g.kernel[2] * g.channels <= tuning::kSmallChannelsMaxWindow;
}

template <typename T>
void small_channels_forward(const Geometry& g, const Images<const T>& x, const T* weight, const T* bias,
                            const Images<T>& y) {
  const ConvTile<T>& loops = conv_tile<T>();
  const int64_t channels = g.channels, taps = g.kernel[1] * g.kernel[2], depth = taps * channels, nr = loops.nr;
  const int64_t panels = ceil_div(g.out_channels, nr), panel = depth * nr;
  const TypedBuffer<T> packed(panels * panel);
  for (int64_t f = 0; f < g.out_channels; ++f) {  // by tap, then by channel, as the images lie
    T* to = packed.get() + f / nr * panel + f % nr;
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = 0; c < channels; ++c) to[(t * channels + c) * nr] = weight[(f * channels + c) * taps + t];
    }
  }
  const int64_t columns = (g.out[2] - 1) * g.stride[2] + g.kernel[2], row = columns * channels;
  const int64_t run = g.kernel[2] * channels, step = g.stride[2] * channels, mr = even_panel(g.out[2], loops.mr);
  const bool stream = streams_lines(y.data, y.pixel, g.batch * g.out[1] * g.out[2] * g.out_channels);
  std::vector<int64_t> at;
  for (int64_t k = 0; k < g.kernel[1]; ++k) at.push_back(k * g.dilation[1] * row);
  constexpr int64_t kRows = tuning::kSmallChannelsRows;  // of results, whose input tile is copied at a time
  const int64_t tiles = ceil_div(g.out[1], kRows), reach = (g.kernel[1] - 1) * g.dilation[1] + 1;
  parallel_for(
      0, g.batch * tiles, grain_for(kRows * g.out[2] * g.out_channels * depth, tuning::kConvTileWork),
      [&](int64_t begin, int64_t end) {
        const TypedBuffer<T> input_tile(((kRows - 1) * g.stride[1] + reach) * row);
        std::vector<int64_t> places;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t image = i / tiles, first = i % tiles * kRows, count = std::min(kRows, g.out[1] - first);
          load_nhwc<T>(x, image, g.in[1], g.in[2], channels, first * g.stride[1] - g.padding[1],
                       (count - 1) * g.stride[1] + reach, -g.padding[2], columns, input_tile.get(), channels, places);
          T* to = y.data + image * y.image + first * g.out[2] * y.pixel;
          for (int64_t r = 0; r < count; ++r, to += g.out[2] * y.pixel) {
            const T* rows = input_tile.get() + r * g.stride[1] * row;
            for (int64_t w = 0; w < g.out[2]; w += mr) {
              for (int64_t f = 0; f < g.out_channels; f += nr) {
                loops.windows(g.kernel[1], at.data(), run, rows + w * step, step, packed.get() + f / nr * panel,
                              bias != nullptr ? bias + f : nullptr, to + w * y.pixel + f, y.pixel,
                              std::min(mr, g.out[2] - w), std::min(nr, g.out_channels - f), {}, stream);
              }
            }
          }
        }
        if (stream) stream_done();
      });
}

template void small_channels_forward<float>(const Geometry&, const Images<const float>&, const float*, const float*,
                                            const Images<float>&);
template void small_channels_forward<double>(const Geometry&, const Images<const double>&, const double*, const double*,
                                             const Images<double>&);

}  // namespace facula::cpu
