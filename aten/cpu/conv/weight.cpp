#include "aten/cpu/conv/weight.h"

#include "aten/cpu/gemm/loops.h"
#include "aten/cpu/gemm/gemv_loops.h"

namespace facula::cpu {
namespace {

constexpr int64_t kFeatures = 2 * kPitch;  // of a unit of work
constexpr int64_t kPixels = 384;           // whose products are summed at a time
constexpr int64_t kBiasPixels = 256;       // whose gradients are summed in T

}  // namespace

bool weight_grad_by_pixels_pays(const conv::Geometry& g) {
  return g.groups == 1 && g.in[0] == 1 && g.kernel[0] == 1 && g.padding[0] == 0 && g.channels >= 16 &&
         g.features >= 16 && g.kernel[1] * g.kernel[2] <= 32 && g.out[2] <= 1024;
}

template <typename T>
void weight_grad_by_pixels(const conv::Geometry& g, const Pixels<const T>& x, const Pixels<const T>& grad, T* out) {
  const ConvTile<T>& loops = conv_tile<T>();
  const int64_t taps = g.kernel[1] * g.kernel[2], width = g.out[2], all = g.batch * g.out[1];
  // A unit of work has few taps for many channels, so that its gradients are loaded once for all of these.
  const int64_t most_blocks = taps <= 2 ? 4 : 1, span = std::min(most_blocks * kPitch, round_up(g.channels, kPitch));
  const int64_t wide = (g.channels + span - 1) / span, tall = (g.features + kFeatures - 1) / kFeatures;
  const int64_t units = wide * tall;
  // Whatever the number of threads; few where there is little to sum.
  const int64_t pieces =
      std::min(all, std::clamp(all * width / 256, (8 + units - 1) / units, (16 + units - 1) / units));
  const int64_t rows = std::clamp<int64_t>(kPixels / width, 1, all);
  const int64_t reach = (g.kernel[1] - 1) * g.dilation[1] + 1;
  const int64_t columns = (width - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1;
  const int64_t height = std::min(kFeatures, g.features), sum = height * kPitch, unit_sums = span / kPitch * taps * sum;
  const TypedBuffer<T> sums(pieces * units * unit_sums);
  parallel_for(0, pieces * units, 1, [&](int64_t begin, int64_t end) {
    const int64_t block = rows * width * kPitch, most = rows * std::max(g.stride[1], reach) * columns * kPitch;
    const int64_t size = 2 * block + span / kPitch * most + loops.nr;
    const TypedBuffer<T> buffer(size);
    T *d = buffer.get(), *patch = d + 2 * block;
    std::fill(d, d + size, T(0));
    std::vector<Part> parts;
    std::vector<int64_t> places, at;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t piece = i / units, c = i % units % wide * span, f = i % units / wide * kFeatures;
      const int64_t channels = std::min(span, g.channels - c), features = std::min(kFeatures, g.features - f);
      T* to = sums.get() + i * unit_sums;
      bool accumulate = false;
      const int64_t from = piece * all / pieces, until = (piece + 1) * all / pieces;
      for (int64_t row = from; row < until; row += rows) {
        parts_of(row, std::min(row + rows, until), g.out[1], parts);
        at.clear();
        int64_t start = 0;
        for (const Part& p : parts) {
          const int64_t needed = (p.count - 1) * g.stride[1] + reach;
          for (int64_t q = 0; q < channels; q += kPitch) {
            load_pixels<T>({x.data + (c + q) * x.channel, x.image, x.channel, x.pixel}, p.image, g.in[1], g.in[2],
                           std::min(kPitch, channels - q), p.first * g.stride[1] - g.padding[1], needed, -g.padding[2],
                           columns, patch + q / kPitch * most + start * columns * kPitch, kPitch, places);
          }
          for (int64_t q = 0; q < features; q += kPitch) {
            load_pixels<T>({grad.data + (f + q) * grad.channel, grad.image, grad.channel, grad.pixel}, p.image,
                           g.out[1], width, std::min(kPitch, features - q), p.first, p.count, 0, width,
                           d + q / kPitch * block + static_cast<int64_t>(at.size()) * kPitch, kPitch, places);
          }
          for (int64_t y = 0; y < p.count; ++y) {
            for (int64_t w = 0; w < width; ++w) {
              at.push_back(((start + y * g.stride[1]) * columns + w * g.stride[2]) * kPitch);
            }
          }
          start += needed;
        }
        const auto depth = static_cast<int64_t>(at.size());
        for (int64_t k = 0; k < channels; k += kPitch) {
          for (int64_t t = 0; t < taps; ++t) {
            const T* b = patch + k / kPitch * most +
                         (t / g.kernel[2] * g.dilation[1] * columns + t % g.kernel[2] * g.dilation[2]) * kPitch;
            T* sum_of = to + (k / kPitch * taps + t) * sum;
            for (int64_t q = 0; q < features; q += kPitch) {
              const int64_t count = std::min(kPitch, features - q), mr = even_panel(count, loops.mr);
              for (int64_t j = 0; j < std::min(kPitch, channels - k); j += loops.nr) {
                for (int64_t r = 0; r < count; r += mr) {
                  loops.outer(depth, d + q / kPitch * block + r, b + j, at.data(), sum_of + (q + r) * kPitch + j,
                              kPitch, std::min(mr, count - r),
                              std::min(loops.nr, round_up(channels - k - j, loops.lanes)), accumulate);
                }
              }
            }
          }
        }
        accumulate = true;
      }
    }
  });
  parallel_for(0, g.features, grain_for(g.channels * taps * pieces), [&](int64_t begin, int64_t end) {
    for (int64_t f = begin; f < end; ++f) {
      for (int64_t c = 0; c < g.channels; c += kPitch) {
        const int64_t unit = f / kFeatures * wide + c / span, n = std::min(kPitch, g.channels - c);
        T* from = sums.get() + unit * unit_sums + c % span / kPitch * taps * sum + f % kFeatures * kPitch;
        for (int64_t piece = 1; piece < pieces; ++piece) {
          const T* more = from + piece * units * unit_sums;
          for (int64_t t = 0; t < taps; ++t) {
            for (int64_t k = 0; k < n; ++k) from[t * sum + k] += more[t * sum + k];
          }
        }
        loops.from_pixels(taps, n, from, sum, out + (f * g.channels + c) * taps, taps);
      }
    }
  });
}

template <typename T>
void bias_grad_by_pixels(int64_t pixels, int64_t channels, const T* grad, T* out) {
  const auto* loops = [] {
    if constexpr (std::is_same_v<T, float>) {
      return &FACULA_BY_ISA(gemv_float);
    } else {
      return &FACULA_BY_ISA(gemv_double);
    }
  }();
  const int64_t blocks = (pixels + kBiasPixels - 1) / kBiasPixels;
  const int64_t pieces = std::min<int64_t>(blocks, 64);  // whatever the number of threads
  const TypedBuffer<double> sums(pieces * channels);
  parallel_for(0, pieces, grain_for(channels * kBiasPixels * blocks / std::max<int64_t>(1, pieces)),
               [&](int64_t begin, int64_t end) {
                 const TypedBuffer<T> buffer(kBiasPixels + channels);
                 T *ones = buffer.get(), *part = ones + kBiasPixels;
                 std::fill_n(ones, kBiasPixels, T(1));
                 for (int64_t piece = begin; piece < end; ++piece) {
                   double* to = sums.get() + piece * channels;
                   std::fill_n(to, channels, 0.0);
                   for (int64_t b = piece * blocks / pieces; b < (piece + 1) * blocks / pieces; ++b) {
                     const int64_t first = b * kBiasPixels, n = std::min(kBiasPixels, pixels - first);
                     loops->sums(n, channels, grad + first * channels, channels, ones, part);
                     for (int64_t c = 0; c < channels; ++c) to[c] += static_cast<double>(part[c]);
                   }
                 }
               });
  for (int64_t c = 0; c < channels; ++c) {
    double sum = 0;
    for (int64_t piece = 0; piece < pieces; ++piece) sum += sums.get()[piece * channels + c];
    out[c] = static_cast<T>(sum);
  }
}

template void bias_grad_by_pixels<float>(int64_t, int64_t, const float*, float*);
template void bias_grad_by_pixels<double>(int64_t, int64_t, const double*, double*);
template void weight_grad_by_pixels<float>(const conv::Geometry&, const Pixels<const float>&,
                                           const Pixels<const float>&, float*);
template void weight_grad_by_pixels<double>(const conv::Geometry&, const Pixels<const double>&,
                                            const Pixels<const double>&, double*);

}  // namespace facula::cpu
