// Convolution by 1 x 1 kernels: a product of the weights with all pixels.
#include "aten/cpu/conv/pointwise.h"

#include <numeric>

#include "aten/cpu/common/tuning.h"
#include "aten/cpu/conv/starts.h"
#include "aten/cpu/gemm/blocked.h"
#include "aten/cpu/gemm/loops.h"

namespace facula::cpu {
namespace {

// Weights by slice of the depth, then by panel of output channels.
template <typename T>
void pack_out_channels(const Conv1x1& g, const Filters<T>& w, int64_t mr, T* packed) {
  const int64_t padded = round_up(g.out_channels, mr);
  for (int64_t p = 0; p < g.channels; p += kPanelDepth) {
    const int64_t np = std::min(kPanelDepth, g.channels - p);
    parallel_for(0, padded / mr, grain_for(mr * np), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        gemm_loops<T>().pack(np, std::min(mr, g.out_channels - i * mr), mr,
                             w.data + i * mr * w.out_channel + p * w.channel, w.out_channel, w.channel,
                             packed + p * padded + i * mr * np);
      }
    });
  }
}

// Whether a panel of columns of an NCHW image is worth reading where it lies: its rows do not meet in few sets of the
// second-level cache, and planes end in few panels that are not whole.
template <typename T>
bool in_place_pays(const Conv1x1& g, const Images<const T>& x) {
  constexpr int64_t kLine = 64;
  const int64_t lines = std::max<int64_t>(1, x.channel * static_cast<int64_t>(sizeof(T)) / kLine);
  return g.positions >= tuning::kPointwiseMinPanels * gemm_loops<T>().nr &&
         std::min(kPanelDepth, g.channels) * std::gcd(lines, tuning::kPointwiseSets) <=
             tuning::kPointwiseWays * tuning::kPointwiseSets;
}

// Panels of weights times columns of NCHW images where they lie.
template <typename T>
void nchw_in_place(const Conv1x1& g, const Images<const T>& x, const Filters<T>& w, const T* bias, const Images<T>& y) {
  const GemmLoops<T>& loops = gemm_loops<T>();
  const int64_t mr = even_panel(g.out_channels, loops.mr), nr = loops.nr, padded = round_up(g.out_channels, mr);
  const TypedBuffer<T> packed(padded * g.channels);
  pack_out_channels(g, w, mr, packed.get());
  const Starts<T> starts(g.out_channels, padded, nr, bias);
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));
  const int64_t tall = padded / mr, lines = std::max<int64_t>(1, nr / kLine), lanes = conv_tile<T>().lanes;
  // Each panel of output channels fetches a line of one in `shares` rows of the columns that come next.
  int64_t shift = 0;
  while (lines << (shift + 1) <= tall) ++shift;
  const int64_t shares = int64_t{1} << shift;
  // Few output channels: a panel of columns stays in the first-level cache; else results are written in long runs.
  const int64_t fit = tuning::kPointwiseBytes / (static_cast<int64_t>(sizeof(T)) * g.channels * nr);
  const int64_t width =
      nr * (tall < tuning::kPointwiseTallPanels ? 1 : std::clamp(fit, int64_t{1}, tuning::kPointwiseMaxPanels));
  std::vector<int64_t> taps;
  for (int64_t p = 0; p < std::min(kPanelDepth, g.channels); ++p) taps.push_back(p * x.channel);
  const int64_t parts = ceil_div(g.positions, width), work = std::max<int64_t>(1, g.out_channels * g.channels * width);
  parallel_for(0, g.batch * parts, grain_for(work, tuning::kConvTileWork), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = i % parts * width, count = std::min(width, g.positions - at), broad = ceil_div(count, nr);
      const T* from = x.data + i / parts * x.image + at;
      // What comes next is fetched during the products.
      const T* next = i + 1 < end ? x.data + (i + 1) / parts * x.image + (i + 1) % parts * width : nullptr;
      T* to = y.data + i / parts * y.image + at;
      for (int64_t p = 0; p < g.channels; p += kPanelDepth) {
        const int64_t np = std::min(kPanelDepth, g.channels - p);
        for (int64_t call = 0; call < tall * broad; ++call) {
          const int64_t f = call / broad * mr, j = call % broad * nr, cols = std::min(nr, count - j);
          const T *a = packed.get() + p * padded + f * np, *b = from + p * x.channel + j;
          T* c = to + f * y.channel + j;
          const T* d = p > 0 ? c : starts.at(f);
          const int64_t height = std::min(mr, g.out_channels - f), d_row = p > 0 ? y.channel : nr;
          if (cols % lanes != 0) {
            loops.tile_onto(np, a, 1, mr, b, x.channel, d, d_row, c, y.channel, height, cols);
          } else {
            const int64_t line = call / broad / shares, share = call / broad % shares;
            Ahead<T> ahead{nullptr, x.channel, shift};
            if (next != nullptr && line < lines) {
              ahead.base = next + (p + share * (np / shares)) * x.channel + j + line * kLine;
            }
            loops.tile_taps(np, a, mr, b, taps.data(), ahead, d, d_row, c, y.channel, height, cols, false);
          }
        }
      }
    }
  });
}

// The same with parts of planes copied first, as neighbouring rows then lie near and a part is read in long runs.
template <typename T>
void nchw_copied(const Conv1x1& g, const Images<const T>& x, const Filters<T>& w, const T* bias, const Images<T>& y) {
  const GemmLoops<T>& loops = gemm_loops<T>();
  const int64_t mr = even_panel(g.out_channels, loops.mr), nr = loops.nr, padded = round_up(g.out_channels, mr);
  const TypedBuffer<T> packed(padded * g.channels);
  pack_out_channels(g, w, mr, packed.get());
  const Starts<T> starts(g.out_channels, padded, nr, bias);
  const int64_t columns = g.batch * g.positions;
  const int64_t fit = tuning::kPointwiseBytes / (static_cast<int64_t>(sizeof(T)) * g.channels) / nr * nr;
  const int64_t width = std::min(std::clamp(fit, nr, tuning::kPointwiseMaxPanels * nr), round_up(columns, nr));
  const int64_t row = width + loops.nr / 2;  // rows do not compete for the same places in the cache
  std::vector<int64_t> taps;
  for (int64_t p = 0; p < std::min(kPanelDepth, g.channels); ++p) taps.push_back(p * row);
  const int64_t work = std::max<int64_t>(1, g.out_channels * g.channels * width);
  parallel_for(0, ceil_div(columns, width), grain_for(work, tuning::kConvTileWork), [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> buffer(row * g.channels + nr + mr * nr);
    T *rows = buffer.get(), *apart = rows + row * g.channels + nr;
    std::fill(rows, apart, T(0));
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i * width, count = std::min(width, columns - first);
      const auto for_images = [&](int64_t from, int64_t n, const auto& fn) {
        for (int64_t done = 0; done < n;) {
          const int64_t at = (from + done) % g.positions, part = std::min(n - done, g.positions - at);
          fn((from + done) / g.positions, at, done, part);
          done += part;
        }
      };
      for_images(first, count, [&](int64_t image, int64_t at, int64_t done, int64_t n) {
        const T* from = x.data + image * x.image + at;
        for (int64_t c = 0; c < g.channels; ++c) {
          std::copy(from + c * x.channel, from + c * x.channel + n, rows + c * row + done);
        }
      });
      // What comes next is fetched during the products.
      const int64_t after = first + width;
      FetchAhead ahead;
      if (after + width <= columns && after % g.positions + width <= g.positions) {
        ahead.add(x.data + after / g.positions * x.image + after % g.positions, g.channels, width, x.channel);
      }
      for (int64_t p = 0; p < g.channels; p += kPanelDepth) {
        const int64_t np = std::min(kPanelDepth, g.channels - p);
        const int64_t tall = padded / mr, broad = ceil_div(count, nr), calls = tall * broad;
        if (p == 0) ahead.spread(calls);
        for (int64_t call = 0; call < calls; ++call) {
          // Few output channels: each panel of columns stays in the first-level cache; else results are written in long
          // runs.
          const int64_t f = (tall < tuning::kPointwiseTallPanels ? call % tall : call / broad) * mr,
                        j = (tall < tuning::kPointwiseTallPanels ? call / tall : call % broad) * nr;
          const T *a = packed.get() + p * padded + f * np, *b = rows + p * row + j;
          const int64_t height = std::min(mr, g.out_channels - f);
          const int64_t cols = std::min(nr, count - j), image = (first + j) / g.positions,
                        at = (first + j) % g.positions;
          ahead.step();
          if (at + cols <= g.positions) {
            T* c = y.data + image * y.image + f * y.channel + at;
            loops.tile_taps(np, a, mr, b, taps.data(), {}, p > 0 ? c : starts.at(f), p > 0 ? y.channel : nr, c,
                            y.channel, height, cols, false);
            continue;
          }
          loops.tile_taps(np, a, mr, b, taps.data(), {}, p > 0 ? nullptr : starts.at(f), nr, apart, nr, height, cols,
                          false);
          for_images(first + j, cols, [&](int64_t im, int64_t place, int64_t done, int64_t n) {
            for (int64_t r = 0; r < height; ++r) {
              T* to = y.data + im * y.image + (f + r) * y.channel + place;
              for (int64_t k = 0; k < n; ++k) to[k] = (p > 0 ? to[k] : T(0)) + apart[r * nr + done + k];
            }
          });
        }
      }
    }
  });
}

// Where one of the images is NHWC: rows of pixels times panels of weights.
template <typename T>
void nhwc(const Conv1x1& all, const Images<const T>& x, const Filters<T>& w, const T* bias, const Images<T>& y) {
  const ConvTile<T>& loops = conv_tile<T>();
  constexpr int64_t kPixels = tuning::kPointwisePixels;
  Conv1x1 g = all;
  if (x.channel == 1 && y.channel == 1) g = {1, g.channels, g.out_channels, g.batch * g.positions};  // all one run
  const int64_t nr = loops.nr, panels = ceil_div(g.out_channels, nr), pitch = round_up(g.out_channels, loops.lanes);
  const TypedBuffer<T> packed(panels * nr * g.channels);
  parallel_for(0, panels, grain_for(nr * g.channels), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      gemm_loops<T>().pack(g.channels, std::min(nr, g.out_channels - i * nr), nr, w.data + i * nr * w.out_channel,
                           w.out_channel, w.channel, packed.get() + i * nr * g.channels);
    }
  });
  const int64_t none = 0;
  const bool direct = y.channel == 1 && g.out_channels % loops.lanes == 0;
  // Rows that do not meet in few sets of the first-level cache are read where they lie.
  const bool in_place =
      direct && x.channel == 1 && stays_cached(loops.mr, 1, x.pixel * static_cast<int64_t>(sizeof(T)));
  const bool stream = in_place && streams_lines(y.data, y.pixel, g.batch * g.positions * g.out_channels);
  const int64_t blocks = ceil_div(g.channels, kPitch), parts = ceil_div(g.positions, kPixels);
  const int64_t work = std::max<int64_t>(1, g.out_channels * g.channels * std::min(kPixels, g.positions));
  parallel_for(0, g.batch * parts, grain_for(work, tuning::kConvTileWork), [&](int64_t begin, int64_t end) {
    const TypedBuffer<T> buffer((in_place ? 0 : blocks * kPixels * kPitch) + (direct ? 0 : kPixels * pitch));
    T *v = buffer.get(), *result = v + blocks * kPixels * kPitch;
    std::vector<int64_t> places;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t image = i / parts, first = i % parts * kPixels, count = std::min(kPixels, g.positions - first);
      const int64_t mr = even_panel(count, loops.mr);
      if (in_place) {
        const T* from = x.data + image * x.image + first * x.pixel;
        T* to = y.data + image * y.image + first * y.pixel;
        // The pixels that come next are fetched during the products.
        const int64_t later = i + 1 < end ? (i + 1) % parts * kPixels : g.positions;
        FetchByDepth<T> ahead(x.data + (i + 1) / parts * x.image + later * x.pixel,
                              std::min(kPixels, g.positions - later) * x.pixel,
                              panels * ceil_div(count, mr) * g.channels);
        for (int64_t f = 0; f < g.out_channels; f += nr) {
          for (int64_t r = 0; r < count; r += mr) {
            loops.windows(1, &none, g.channels, from + r * x.pixel, x.pixel, packed.get() + f * g.channels,
                          bias != nullptr ? bias + f : nullptr, to + r * y.pixel + f, y.pixel, std::min(mr, count - r),
                          std::min(nr, g.out_channels - f), ahead.take(g.channels), stream);
          }
        }
        continue;
      }
      for (int64_t c = 0; c < g.channels; c += kPitch) {
        load_nhwc<T>({x.data + c * x.channel, x.image, x.channel, x.pixel}, image, 1, g.positions,
                     std::min(kPitch, g.channels - c), 0, 1, first, count, v + c * kPixels, kPitch, places);
      }
      T* to = direct ? y.data + image * y.image + first * y.pixel : result;
      const int64_t step = direct ? y.pixel : pitch;
      for (int64_t p = 0; p < count && bias != nullptr; ++p) std::copy(bias, bias + g.out_channels, to + p * step);
      for (int64_t f = 0; f < g.out_channels; f += nr) {
        for (int64_t r = 0; r < count; r += mr) {
          loops.rows(1, &none, g.channels, v + r * kPitch, kPixels * kPitch, packed.get() + f * g.channels,
                     to + r * step + f, step, std::min(mr, count - r), std::min(nr, pitch - f), bias != nullptr);
        }
      }
      if (direct) continue;
      T* out = y.data + image * y.image + first * y.pixel;
      if (y.channel != 1) {
        loops.nhwc_to_nchw(count, g.out_channels, result, pitch, out, y.channel);
        continue;
      }
      for (int64_t p = 0; p < count; ++p)
        std::copy(result + p * pitch, result + p * pitch + g.out_channels, out + p * y.pixel);
    }
    if (stream) stream_done();
  });
}

}  // namespace

template <typename T>
void pointwise(const Conv1x1& g, const Images<const T>& x, const Filters<T>& w, const T* bias, const Images<T>& y) {
  if (x.channel == 1 || y.channel == 1) {
    nhwc(g, x, w, bias, y);
  } else if (in_place_pays(g, x)) {
    nchw_in_place(g, x, w, bias, y);
  } else {
    nchw_copied(g, x, w, bias, y);
  }
}

template void pointwise<float>(const Conv1x1&, const Images<const float>&, const Filters<float>&, const float*,
                               const Images<float>&);
template void pointwise<double>(const Conv1x1&, const Images<const double>&, const Filters<double>&, const double*,
                                const Images<double>&);

}  // namespace facula::cpu
