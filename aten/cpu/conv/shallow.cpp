// Convolution of channels_last images of few channels: what a window has in one row of the image is one run of memory,
// so products take the windows where they lie.
#include "aten/cpu/conv/shallow.h"

#include "aten/cpu/gemm/loops.h"

namespace facula::cpu {

using conv::Geometry;

bool shallow_pays(const Geometry& g) {
  return g.groups == 1 && g.in[0] == 1 && g.kernel[0] == 1 && g.padding[0] == 0 && g.channels < 16 &&
         g.features % 16 == 0 && g.dilation[2] == 1 && g.kernel[1] * g.kernel[2] * g.channels <= 1024;
}

template <typename T>
void shallow_forward(const Geometry& g, const Pixels<const T>& x, const T* weight, const T* bias, const Pixels<T>& y) {
  const ConvTile<T>& loops = conv_tile<T>();
  const int64_t channels = g.channels, taps = g.kernel[1] * g.kernel[2], depth = taps * channels, nr = loops.nr;
  const int64_t panels = (g.features + nr - 1) / nr, panel = depth * nr;
  const TypedBuffer<T> packed(panels * panel);
  for (int64_t f = 0; f < g.features; ++f) {  // by tap, then by channel, as the images lie
    T* to = packed.get() + f / nr * panel + f % nr;
    for (int64_t t = 0; t < taps; ++t) {
      for (int64_t c = 0; c < channels; ++c) to[(t * channels + c) * nr] = weight[(f * channels + c) * taps + t];
    }
  }
  const int64_t columns = (g.out[2] - 1) * g.stride[2] + g.kernel[2], row = columns * channels;
  const int64_t run = g.kernel[2] * channels, step = g.stride[2] * channels, mr = even_panel(g.out[2], loops.mr);
  const bool stream = streams_lines(y.data, y.pixel, g.batch * g.out[1] * g.out[2] * g.features);
  std::vector<int64_t> at;
  for (int64_t k = 0; k < g.kernel[1]; ++k) at.push_back(k * g.dilation[1] * row);
  constexpr int64_t kBand = 8;  // rows of results whose rows of the image are copied at a time
  const int64_t bands = (g.out[1] + kBand - 1) / kBand, reach = (g.kernel[1] - 1) * g.dilation[1] + 1;
  parallel_for(
      0, g.batch * bands, grain_for(kBand * g.out[2] * g.features * depth, 1 << 20), [&](int64_t begin, int64_t end) {
        const TypedBuffer<T> patch(((kBand - 1) * g.stride[1] + reach) * row);
        std::vector<int64_t> places;
        for (int64_t i = begin; i < end; ++i) {
          const int64_t image = i / bands, first = i % bands * kBand, count = std::min(kBand, g.out[1] - first);
          load_pixels<T>(x, image, g.in[1], g.in[2], channels, first * g.stride[1] - g.padding[1],
                         (count - 1) * g.stride[1] + reach, -g.padding[2], columns, patch.get(), channels, places);
          T* to = y.data + image * y.image + first * g.out[2] * y.pixel;
          for (int64_t r = 0; r < count; ++r, to += g.out[2] * y.pixel) {
            const T* rows = patch.get() + r * g.stride[1] * row;
            for (int64_t w = 0; w < g.out[2]; w += mr) {
              for (int64_t f = 0; f < g.features; f += nr) {
                loops.windows(g.kernel[1], at.data(), run, rows + w * step, step, packed.get() + f / nr * panel,
                              bias != nullptr ? bias + f : nullptr, to + w * y.pixel + f, y.pixel,
                              std::min(mr, g.out[2] - w), std::min(nr, g.features - f), nullptr, 0, stream);
              }
            }
          }
        }
        if (stream) stream_done();
      });
}

template void shallow_forward<float>(const Geometry&, const Pixels<const float>&, const float*, const float*,
                                     const Pixels<float>&);
template void shallow_forward<double>(const Geometry&, const Pixels<const double>&, const double*, const double*,
                                      const Pixels<double>&);

}  // namespace facula::cpu
