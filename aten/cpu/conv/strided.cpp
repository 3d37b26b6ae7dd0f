#include "aten/cpu/conv/strided.h"

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
void run(const Geometry& g, bool back, const Pixels<const T>& x, const T* weight, const T* bias, const Pixels<T>& y) {
  const ConvTile<T>& loops = conv_tile<T>();
  const int64_t taps = g.kernel[1] * g.kernel[2], nr = loops.nr;
  const int64_t channels = back ? g.features : g.channels, features = back ? g.channels : g.features;
  const conv::Three& in = back ? g.out : g.in;
  const conv::Three& out = back ? g.in : g.out;
  const int64_t feature = back ? taps : g.channels * taps, channel = back ? g.channels * taps : taps;
  const int64_t sy = back ? 1 : g.stride[1], sx = back ? 1 : g.stride[2];  // of what is read
  const int64_t dy = back ? g.stride[1] : 1, dx = back ? g.stride[2] : 1;  // of the results
  const std::vector<Phase> down = phases_of(g, 1, back), across = phases_of(g, 2, back);
  // Not bindings: clang 16 with OpenMP lets no lambda capture those.
  const auto vertical = reach_of(down), horizontal = reach_of(across);
  const int64_t top = vertical.first, bottom = vertical.second, left = horizontal.first, right = horizontal.second;
  const int64_t width = across[0].count, columns = round_up((width - 1) * sx + right - left + 1, sx);

  // Panels of weights: by panel of features, tap and channel.
  const int64_t panels = (features + nr - 1) / nr, panel = taps * channels * nr;
  const TypedBuffer<T> packed(panels * panel);
  parallel_for(0, panels, grain_for(panel), [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> turned(panel);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t f = i * nr, n = std::min(nr, features - f);
      // By channel and tap first, as the weights lie.
      if (back) {
        for (int64_t c = 0; c < channels; ++c) {
          gemm_loops<T>().pack(taps, n, nr, weight + f * feature + c * channel, feature, 1,
                               turned.get() + c * taps * nr);
        }
      } else {
        gemm_loops<T>().pack(channels * taps, n, nr, weight + f * feature, feature, 1, turned.get());
      }
      for (int64_t t = 0; t < taps; ++t) {
        for (int64_t c = 0; c < channels; ++c) {
          std::copy_n(turned.get() + (c * taps + t) * nr, nr, packed.get() + i * panel + (t * channels + c) * nr);
        }
      }
    }
  });
  // The taps of a phase are gathered from these.
  const int64_t band = std::clamp<int64_t>(96 / width, 1, down[0].count), bands = (down[0].count + band - 1) / band;
  const int64_t rows = (band - 1) * sy + bottom - top + 1, blocks = (channels + kPitch - 1) / kPitch;
  const int64_t block = rows * columns * kPitch, pitch = round_up(features, loops.lanes);
  parallel_for(0, g.batch * bands, 1, [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> patch(blocks * block), result(band * dy * out[2] * pitch);
    std::vector<int64_t> places, at;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / bands, first = i % bands * band, count = std::min(band, down[0].count - first);
      for (int64_t c = 0; c < blocks; ++c) {
        load_pixels<T>({x.data + c * kPitch * x.channel, x.image, x.channel, x.pixel}, image, in[1], in[2],
                       std::min(kPitch, channels - c * kPitch), first * sy + top, rows, left, columns,
                       patch.get() + c * block, kPitch, places, sx);
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
          for (int64_t f = 0; f < features; f += nr) {
            const T* b = packed.get() + f / nr * panel;
            const int64_t cols = std::min(nr, pitch - f);
            for (int64_t r = 0; r < std::min(count, py.count - first); ++r) {
              T* row = result.get() + ((r * dy + py.first) * out[2] + px.first) * pitch + f;
              for (int64_t w = 0; w < px.count && at.empty(); ++w) std::fill_n(row + w * dx * pitch, cols, T(0));
              const int64_t mr = even_panel(px.count, loops.mr);
              for (int64_t w = 0; w < px.count && !at.empty(); w += mr) {
                const T* a = patch.get() + (r * sy * columns + w) * kPitch;
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
          for (int64_t f = 0; f < features; ++f) result.get()[p * pitch + f] += bias[f];
        }
      }
      T* to = y.data + image * y.image + start * out[2] * y.pixel;
      if (y.channel != 1) {
        loops.from_pixels(pixels, features, result.get(), pitch, to, y.channel);
        continue;
      }
      for (int64_t p = 0; p < pixels; ++p) {
        std::copy(result.get() + p * pitch, result.get() + p * pitch + features, to + p * y.pixel);
      }
    }
  });
}

}  // namespace

bool strided_pays(const Geometry& g, bool back) {
  return g.groups == 1 && g.in[0] == 1 && g.kernel[0] == 1 && g.padding[0] == 0 && g.channels >= 16 &&
         g.features >= 16 && g.out[2] >= 4 && g.out[2] <= 1024 && (!back || g.in[2] >= 4);
}

template <typename T>
void strided_forward(const Geometry& g, const Pixels<const T>& x, const T* weight, const T* bias, const Pixels<T>& y) {
  run(g, false, x, weight, bias, y);
}

template <typename T>
void strided_backward_input(const Geometry& g, const Pixels<const T>& grad, const T* weight, const T* bias,
                            const Pixels<T>& out) {
  run(g, true, grad, weight, bias, out);
}

#define FACULA_STRIDED_FOR(T)                                                                                      \
  template void strided_forward<T>(const Geometry&, const Pixels<const T>&, const T*, const T*, const Pixels<T>&); \
  template void strided_backward_input<T>(const Geometry&, const Pixels<const T>&, const T*, const T*,             \
                                          const Pixels<T>&);
FACULA_STRIDED_FOR(float)
FACULA_STRIDED_FOR(double)
#undef FACULA_STRIDED_FOR

}  // namespace facula::cpu
