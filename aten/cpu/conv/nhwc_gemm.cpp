#include "aten/cpu/conv/nhwc_gemm.h"

#include "aten/cpu/common/tuning.h"
#include "aten/cpu/gemm/loops.h"

namespace facula::cpu {
namespace {

using conv::Geometry;
using conv::Phase;
using conv::phases_of;

// Lowest and highest place that any of the phases reads for their first result.
std::pair<int64_t, int64_t> reach_of(const std::vector<Phase>& phases) {
  std::pair<int64_t, int64_t> r{0, 0};
  bool any = false;
  for (const Phase& p : phases) {
    for (const int64_t o : p.offsets) {
      r = any ? std::pair{std::min(r.first, o), std::max(r.second, o)} : std::pair{o, o};
      any = true;
    }
  }
  return r;
}

template <typename T>
void run(const Geometry& g, bool back, const Images<const T>& x, const T* weight, const T* bias, const Images<T>& y) {
  const ConvTile<T>& loops = conv_tile<T>();
  const int64_t taps = g.kernel[1] * g.kernel[2], nr = loops.nr;
  const int64_t channels = back ? g.out_channels : g.channels, out_channels = back ? g.channels : g.out_channels;
  const conv::Three& in = back ? g.out : g.in;
  const conv::Three& out = back ? g.in : g.out;
  const int64_t out_channel = back ? taps : g.channels * taps, channel = back ? g.channels * taps : taps;
  const int64_t sy = back ? 1 : g.stride[1], sx = back ? 1 : g.stride[2];  // of what is read
  const int64_t dy = back ? g.stride[1] : 1, dx = back ? g.stride[2] : 1;  // of the results
  const std::vector<Phase> down = phases_of(g, 1, back), across = phases_of(g, 2, back);
  // Not bindings: clang 16 with OpenMP lets no lambda capture those.
  const auto vertical = reach_of(down), horizontal = reach_of(across);
  const int64_t top = vertical.first, bottom = vertical.second, left = horizontal.first, right = horizontal.second;
  const int64_t width = across[0].count, columns = round_up((width - 1) * sx + right - left + 1, sx);

  // Panels of weights: by panel of out_channels, tap and channel.
  const int64_t panels = ceil_div(out_channels, nr), panel = taps * channels * nr;
  const TypedBuffer<T> packed(panels * panel);
  parallel_for(0, panels, grain_for(panel), [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> turned(panel);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t f = i * nr, n = std::min(nr, out_channels - f);
      // By channel and tap first, as the weights lie.
      if (back) {
        for (int64_t c = 0; c < channels; ++c) {
          gemm_loops<T>().pack(taps, n, nr, weight + f * out_channel + c * channel, out_channel, 1,
                               turned.get() + c * taps * nr);
        }
      } else {
        gemm_loops<T>().pack(channels * taps, n, nr, weight + f * out_channel, out_channel, 1, turned.get());
      }
      for (int64_t t = 0; t < taps; ++t) {
        for (int64_t c = 0; c < channels; ++c) {
          std::copy_n(turned.get() + (c * taps + t) * nr, nr, packed.get() + i * panel + (t * channels + c) * nr);
        }
      }
    }
  });
  // The taps of a phase are gathered from these.
  const int64_t tile_rows = std::clamp<int64_t>(tuning::kNhwcTilePixels / width, 1, down[0].count);
  const int64_t tiles = ceil_div(down[0].count, tile_rows);
  const int64_t rows = (tile_rows - 1) * sy + bottom - top + 1, blocks = ceil_div(channels, kPitch);
  const int64_t block = rows * columns * kPitch, pitch = round_up(out_channels, loops.lanes);
  parallel_for(0, g.batch * tiles, 1, [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> input_tile(blocks * block), result(tile_rows * dy * out[2] * pitch);
    std::vector<int64_t> places, at;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / tiles, first = i % tiles * tile_rows,
                    count = std::min(tile_rows, down[0].count - first);
      for (int64_t c = 0; c < blocks; ++c) {
        load_nhwc<T>({x.data + c * kPitch * x.channel, x.image, x.channel, x.pixel}, image, in[1], in[2],
                     std::min(kPitch, channels - c * kPitch), first * sy + top, rows, left, columns,
                     input_tile.get() + c * block, kPitch, places, sx);
      }
      const int64_t start = first * dy, end_row = std::min((first + count) * dy, out[1]);
      for (const Phase& py : down) {
        for (const Phase& px : across) {
          at.clear();
          for (const int64_t oy : py.offsets) {
            for (const int64_t ox : px.offsets) {
              const int64_t c = ox - left;
              at.push_back(((oy - top) * columns + c % sx * (columns / sx) + c / sx) * kPitch);
            }
          }
          const bool all = at.size() == static_cast<size_t>(taps);
          for (int64_t f = 0; f < out_channels; f += nr) {
            const T* b = packed.get() + f / nr * panel;
            const int64_t cols = std::min(nr, pitch - f);
            for (int64_t r = 0; r < std::min(count, py.count - first); ++r) {
              T* row = result.get() + ((r * dy + py.first) * out[2] + px.first) * pitch + f;
              for (int64_t w = 0; w < px.count && at.empty(); ++w) std::fill_n(row + w * dx * pitch, cols, T(0));
              const int64_t mr = even_panel(px.count, loops.mr);
              for (int64_t w = 0; w < px.count && !at.empty(); w += mr) {
                const T* a = input_tile.get() + (r * sy * columns + w) * kPitch;
                T* to = row + w * dx * pitch;
                const int64_t height = std::min(mr, px.count - w);
                if (all) {
                  loops.rows(taps, at.data(), channels, a, block, b, to, dx * pitch, height, cols, false);
                  continue;
                }
                size_t k = 0;
                for (const int64_t ty : py.taps) {
                  for (const int64_t tx : px.taps) {
                    loops.rows(1, &at[k], channels, a, block, b + (ty * g.kernel[2] + tx) * channels * nr, to,
                               dx * pitch, height, cols, k > 0);
                    ++k;
                  }
                }
              }
            }
          }
        }
      }
      const int64_t pixels = (end_row - start) * out[2];
      if (bias != nullptr) {
        for (int64_t p = 0; p < pixels; ++p) {
          for (int64_t f = 0; f < out_channels; ++f) result.get()[p * pitch + f] += bias[f];
        }
      }
      T* to = y.data + image * y.image + start * out[2] * y.pixel;
      if (y.channel != 1) {
        loops.nhwc_to_nchw(pixels, out_channels, result.get(), pitch, to, y.channel);
        continue;
      }
      for (int64_t p = 0; p < pixels; ++p) {
        std::copy(result.get() + p * pitch, result.get() + p * pitch + out_channels, to + p * y.pixel);
      }
    }
  });
}

}  // namespace

bool nhwc_gemm_pays(const Geometry& g, bool back) {
  return g.channels >= tuning::kNhwcMinChannels && g.out_channels >= tuning::kNhwcMinChannels &&
         g.out[2] >= tuning::kNhwcMinWidth && g.out[2] <= tuning::kNhwcMaxWidth &&
         (!back || g.in[2] >= tuning::kNhwcMinWidth);
}

template <typename T>
void nhwc_gemm_forward(const Geometry& g, const Images<const T>& x, const T* weight, const T* bias,
                       const Images<T>& y) {
  run(g, false, x, weight, bias, y);
}

template <typename T>
void nhwc_gemm_backward_input(const Geometry& g, const Images<const T>& grad, const T* weight, const T* bias,
                              const Images<T>& out) {
  run(g, true, grad, weight, bias, out);
}

#define FACULA_NHWC_GEMM_FOR(T)                                                                                      \
  template void nhwc_gemm_forward<T>(const Geometry&, const Images<const T>&, const T*, const T*, const Images<T>&); \
  template void nhwc_gemm_backward_input<T>(const Geometry&, const Images<const T>&, const T*, const T*,             \
                                            const Images<T>&);
FACULA_NHWC_GEMM_FOR(float)
FACULA_NHWC_GEMM_FOR(double)
#undef FACULA_NHWC_GEMM_FOR

}  // namespace facula::cpu
