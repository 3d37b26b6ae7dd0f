#include "aten/cpu/conv/nhwc_weight.h"

#include "aten/cpu/common/step_sums.h"
#include "aten/cpu/common/tuning.h"
#include "aten/cpu/gemm/loops.h"

namespace facula::cpu {
namespace {

constexpr int64_t kOutChannels = 2 * kPitch;  // of a unit of work

}  // namespace

bool nhwc_weight_pays(const conv::Geometry& g) {
  return g.channels >= tuning::kNhwcMinChannels && g.out_channels >= tuning::kNhwcMinChannels &&
         g.kernel[1] * g.kernel[2] <= tuning::kNhwcMaxWeightTaps && g.out[2] <= tuning::kNhwcMaxWidth;
}

template <typename T>
void nhwc_gemm_backward_weight(const conv::Geometry& g, const Images<const T>& x, const Images<const T>& grad, T* out) {
  const ConvTile<T>& loops = conv_tile<T>();
  const int64_t taps = g.kernel[1] * g.kernel[2], width = g.out[2], all = g.batch * g.out[1];
  // A unit of work has few taps for many channels, so that its gradients are loaded once for all of these.
  const int64_t most_blocks = taps <= tuning::kNhwcWeightWideTaps ? tuning::kNhwcWeightWideBlocks : 1,
                span = std::min(most_blocks * kPitch, round_up(g.channels, kPitch));
  const int64_t wide = ceil_div(g.channels, span), tall = ceil_div(g.out_channels, kOutChannels);
  const int64_t units = wide * tall;
  // Whatever the number of threads; few where there is little to sum.
  const int64_t pieces =
      std::min(all, std::clamp(all * width / tuning::kNhwcWeightPiecePixels, ceil_div(tuning::kWeightMinUnits, units),
                               ceil_div(tuning::kWeightMaxUnits, units)));
  const int64_t rows = std::clamp<int64_t>(tuning::kNhwcWeightPixels / width, 1, all);
  const int64_t reach = (g.kernel[1] - 1) * g.dilation[1] + 1;
  const int64_t columns = (width - 1) * g.stride[2] + (g.kernel[2] - 1) * g.dilation[2] + 1;
  const int64_t height = std::min(kOutChannels, g.out_channels), sum = height * kPitch,
                unit_sums = span / kPitch * taps * sum;
  const TypedBuffer<T> sums(pieces * units * unit_sums);
  parallel_for(0, pieces * units, 1, [&](int64_t begin, int64_t end) {
    const int64_t block = rows * width * kPitch, most = rows * std::max(g.stride[1], reach) * columns * kPitch;
    const int64_t size = 2 * block + span / kPitch * most + loops.nr;
    const TypedBuffer<T> buffer(size);
    T *d = buffer.get(), *input_tile = d + 2 * block;
    std::fill(d, d + size, T(0));
    std::vector<Part> parts;
    std::vector<int64_t> places, at;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t piece = i / units, c = i % units % wide * span, f = i % units / wide * kOutChannels;
      const int64_t channels = std::min(span, g.channels - c),
                    out_channels = std::min(kOutChannels, g.out_channels - f);
      T* to = sums.get() + i * unit_sums;
      StepSums<T> steps(to, 1, unit_sums, unit_sums);
      const int64_t from = piece * all / pieces, until = (piece + 1) * all / pieces;
      for (int64_t row = from; row < until; row += rows) {
        parts_of(row, std::min(row + rows, until), g.out[1], parts);
        at.clear();
        int64_t start = 0;
        for (const Part& p : parts) {
          const int64_t needed = (p.count - 1) * g.stride[1] + reach;
          for (int64_t q = 0; q < channels; q += kPitch) {
            load_nhwc<T>({x.data + (c + q) * x.channel, x.image, x.channel, x.pixel}, p.image, g.in[1], g.in[2],
                         std::min(kPitch, channels - q), p.first * g.stride[1] - g.padding[1], needed, -g.padding[2],
                         columns, input_tile + q / kPitch * most + start * columns * kPitch, kPitch, places);
          }
          for (int64_t q = 0; q < out_channels; q += kPitch) {
            load_nhwc<T>({grad.data + (f + q) * grad.channel, grad.image, grad.channel, grad.pixel}, p.image, g.out[1],
                         width, std::min(kPitch, out_channels - q), p.first, p.count, 0, width,
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
        const bool accumulate = steps.step();
        for (int64_t k = 0; k < channels; k += kPitch) {
          for (int64_t t = 0; t < taps; ++t) {
            const T* b = input_tile + k / kPitch * most +
                         (t / g.kernel[2] * g.dilation[1] * columns + t % g.kernel[2] * g.dilation[2]) * kPitch;
            T* sum_of = to + (k / kPitch * taps + t) * sum;
            for (int64_t q = 0; q < out_channels; q += kPitch) {
              const int64_t count = std::min(kPitch, out_channels - q), mr = even_panel(count, loops.mr);
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
      }
      steps.finish();
    }
  });
  parallel_for(0, g.out_channels, grain_for(g.channels * taps * pieces), [&](int64_t begin, int64_t end) {
    for (int64_t f = begin; f < end; ++f) {
      for (int64_t c = 0; c < g.channels; c += kPitch) {
        const int64_t unit = f / kOutChannels * wide + c / span, n = std::min(kPitch, g.channels - c);
        T* from = sums.get() + unit * unit_sums + c % span / kPitch * taps * sum + f % kOutChannels * kPitch;
        for (int64_t piece = 1; piece < pieces; ++piece) {
          const T* more = from + piece * units * unit_sums;
          for (int64_t t = 0; t < taps; ++t) {
            for (int64_t k = 0; k < n; ++k) from[t * sum + k] += more[t * sum + k];
          }
        }
        loops.nhwc_to_nchw(taps, n, from, sum, out + (f * g.channels + c) * taps, taps);
      }
    }
  });
}

template void nhwc_gemm_backward_weight<float>(const conv::Geometry&, const Images<const float>&,
                                               const Images<const float>&, float*);
template void nhwc_gemm_backward_weight<double>(const conv::Geometry&, const Images<const double>&,
                                                const Images<const double>&, double*);

}  // namespace facula::cpu
