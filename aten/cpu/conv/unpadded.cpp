#include "aten/cpu/conv/unpadded.h"

#include <algorithm>

#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/tuning.h"
#include "aten/cpu/conv/direct.h"
#include "aten/cpu/conv/loops.h"
#include "aten/cpu/conv/meetings.h"
#include "aten/cpu/nn/loops.h"
#include "runtime/core/checked.h"

namespace facula::cpu {
namespace {

using conv::direct_pays;
using conv::Geometry;
using conv::Meeting;
using conv::meetings_of;
using conv::merged;
using conv::product;
using conv::Rows;

// sum over i < n of a[i] b[i * step]
template <typename T>
double dot(int64_t n, const T* a, const T* b, int64_t step) {
  if (step == 1) return static_cast<double>(dot_loops<T>().dot(n, a, b));
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i * step]);
  return sum;
}

double size_of(const conv::Three& v) {
  return static_cast<double>(v[0]) * static_cast<double>(v[1]) * static_cast<double>(v[2]);
}

int64_t grain(const Geometry& g, int64_t planes) {
  return grain_for(saturated_mul(planes, product(g.in) + product(g.out)));
}

}  // namespace

bool mostly_padding(const Geometry& g, bool back) {
  bool wide = false;  // a margin beyond the image: else the others serve, and nothing more is asked
  for (size_t d = 0; d < 3; ++d) wide |= g.padding[d] > g.in[d] / 2 + 8 || (back && g.stride[d] > 64);
  if (!wide) return false;
  constexpr double kTimes = tuning::kPaddingTimes, kElements = tuning::kPaddingElements;
  double extent = 1, met = 1;
  for (size_t d = 0; d < 3; ++d) {
    const double reach = static_cast<double>(g.out[d] - 1) * static_cast<double>(g.stride[d]) +
                         static_cast<double>(g.kernel[d] - 1) * static_cast<double>(g.dilation[d]) + 1;
    extent *= std::max(reach, static_cast<double>(g.padding[d]) + static_cast<double>(g.in[d]));
    double pairs = 0;  // of outputs and taps that meet the image
    for (const Meeting& m : meetings_of(g, d, false)) pairs += static_cast<double>(m.last - m.first);
    met *= pairs;
    const auto residues = static_cast<double>(std::min(g.stride[d], g.in[d]));
    if (back && residues * static_cast<double>(g.kernel[d]) > kTimes * pairs + kElements) return true;
  }
  const double channels = static_cast<double>(g.channels), out_channels = static_cast<double>(g.out_channels);
  const double real = channels * size_of(g.in) + out_channels * size_of(g.out);
  if (extent * channels > kTimes * real + kElements * channels ||
      extent * out_channels > kTimes * real + kElements * out_channels) {
    return true;
  }
  return size_of(g.out) * size_of(g.kernel) > kTimes * met + kElements;
}

bool small_results_pay(const Geometry& given, Result result) {
  const Geometry g = merged(given, result == Result::Forward);
  const int64_t terms = g.channels * product(g.kernel), least = tuning::kSmallResultsRow;
  if (result == Result::BackwardInput) {
    if (gather_excess(given) <= tuning::kScatterExcess) return false;
    // A row at a time of one channel leaves out what meets no result.
    return given.channels > 1 || g.out[2] < least / 2;
  }
  const bool few_channels = result == Result::BackwardWeight
                                ? direct_pays(given.groups, given.out_channels)
                                : given.out_channels <= tuning::kSmallResultsChannels ||
                                      (product(g.out) <= tuning::kSmallResultsChannels && terms > tuning::kLongConv);
  return few_channels && g.kernel[2] >= least && g.out[2] < least / 2 && g.dilation[2] == 1;
}

double gather_excess(const Geometry& g) {
  if (product(g.in) == 0 || product(g.out) == 0) return 0;
  double excess = 1;
  for (size_t d = 0; d < 3; ++d) {
    excess *= static_cast<double>(g.in[d]) / static_cast<double>(std::min(g.stride[d], g.in[d])) /
              static_cast<double>(g.out[d]);
  }
  return excess;
}

template <typename T>
void unpadded_forward(const Geometry& given, const T* input, const T* weight, const T* bias, T* out) {
  const Geometry g = merged(given, true);
  const Rows rows(g);
  const int64_t places = product(g.in), positions = product(g.out), taps = product(g.kernel);
  const int64_t out_channels = g.groups * g.out_channels, results = g.batch * out_channels;
  // Results of a plane are each by itself where rows go along the taps: threads share it by columns of results, of
  // which those that meet nothing are the bias. The images of a channel come one after the other, so that its weight
  // stays in the cache.
  const auto columns = static_cast<int64_t>(rows.columns().size());
  const int64_t pieces = rows.along_taps() ? std::max<int64_t>(columns, 1) : 1;
  const int64_t apart = pieces > 1 ? g.out[2] : 1, own = positions / apart;
  const auto start_of = [&](int64_t f) { return bias != nullptr ? static_cast<double>(bias[f]) : 0.0; };
  if (columns < apart) {
    parallel_for(0, results, grain_for(positions), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::fill_n(out + i * positions, positions, static_cast<T>(start_of(i % out_channels)));
      }
    });
  }
  parallel_for(0, results * pieces, grain(g, ceil_div(g.channels, pieces)), [&](int64_t begin, int64_t end) {
    const TypedBuffer<double> memory(own);
    double* const sums = memory.get();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t f = i / pieces / g.batch, n = i / pieces % g.batch, group = f / g.out_channels;
      const auto part = pieces > 1 ? rows.columns().subspan(static_cast<size_t>(i % pieces), 1) : rows.columns();
      T* const to = out + (n * out_channels + f) * positions + (pieces > 1 ? part.front().at : 0);
      std::fill_n(sums, own, start_of(f));
      for (int64_t c = 0; c < g.channels; ++c) {
        const T* from = input + ((n * g.groups + group) * g.channels + c) * places;
        const T* w = weight + (f * g.channels + c) * taps;
        rows.each(part, [&](int64_t tap, int64_t place, int64_t position, int64_t count) {
          if (rows.along_taps()) {
            sums[position / apart] += dot(count, w + tap, from + place, rows.step());
          } else {
            conv_loops<T>().add_times(count, w[tap], from + place, rows.step(), sums + position, 1);
          }
        });
      }
      for (int64_t k = 0; k < own; ++k) to[k * apart] = static_cast<T>(sums[k]);
    }
  });
}

template <typename T>
void unpadded_backward_input(const Geometry& given, const T* grad, const T* weight, const T* bias, T* out) {
  const Geometry g = merged(given, false);  // channels have a bias and a piece each
  const Rows rows(g);
  const int64_t places = product(g.in), positions = product(g.out), taps = product(g.kernel);
  const int64_t channels = g.groups * g.channels;
  parallel_for(0, g.batch * channels, grain(g, g.out_channels), [&](int64_t begin, int64_t end) {
    const TypedBuffer<double> sums(places);
    double* const to = sums.get();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t c = i % channels, group = c / g.channels;
      std::fill(to, to + places, bias != nullptr ? static_cast<double>(bias[c]) : 0.0);
      for (int64_t f = 0; f < g.out_channels; ++f) {
        const T* from = grad + ((i / channels * g.groups + group) * g.out_channels + f) * positions;
        const T* w = weight + ((group * g.out_channels + f) * g.channels + c % g.channels) * taps;
        rows.each([&](int64_t tap, int64_t place, int64_t position, int64_t count) {
          if (rows.along_taps()) {
            conv_loops<T>().add_times(count, from[position], w + tap, 1, to + place, rows.step());
          } else {
            conv_loops<T>().add_times(count, w[tap], from + position, 1, to + place, rows.step());
          }
        });
      }
      std::transform(to, to + places, out + i * places, [](double sum) { return static_cast<T>(sum); });
    }
  });
}

template <typename T>
void unpadded_backward_weight(const Geometry& given, const T* input, const T* grad, T* out) {
  const Geometry g = merged(given, false);
  const Rows rows(g);
  const int64_t places = product(g.in), positions = product(g.out), taps = product(g.kernel);
  parallel_for(0, g.groups * g.out_channels * g.channels, grain(g, g.batch), [&](int64_t begin, int64_t end) {
    const TypedBuffer<double> sums(taps);
    double* const to = sums.get();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t f = i / g.channels, group = f / g.out_channels, c = group * g.channels + i % g.channels;
      std::fill(to, to + taps, 0.0);
      for (int64_t n = 0; n < g.batch; ++n) {
        const T* x = input + (n * g.groups * g.channels + c) * places;
        const T* dy = grad + (n * g.groups * g.out_channels + f) * positions;
        rows.each([&](int64_t tap, int64_t place, int64_t position, int64_t count) {
          if (rows.along_taps()) {
            conv_loops<T>().add_times(count, dy[position], x + place, rows.step(), to + tap, 1);
          } else {
            to[tap] += dot(count, dy + position, x + place, rows.step());
          }
        });
      }
      std::transform(to, to + taps, out + i * taps, [](double sum) { return static_cast<T>(sum); });
    }
  });
}

#define FACULA_UNPADDED_FOR(T)                                                                 \
  template void unpadded_forward<T>(const Geometry&, const T*, const T*, const T*, T*);        \
  template void unpadded_backward_input<T>(const Geometry&, const T*, const T*, const T*, T*); \
  template void unpadded_backward_weight<T>(const Geometry&, const T*, const T*, T*);
FACULA_UNPADDED_FOR(float)
FACULA_UNPADDED_FOR(double)
#undef FACULA_UNPADDED_FOR

}  // namespace facula::cpu
