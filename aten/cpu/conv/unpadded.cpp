#include "aten/cpu/conv/unpadded.h"

#include <algorithm>

#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/tuning.h"
#include "runtime/core/checked.h"

namespace facula::cpu {
namespace {

using conv::Geometry;
using conv::product;

// Along one dim: for outputs [first, last) tap `tap` meets the image, at `place` for the first of them.
struct Meeting {
  int64_t tap, first, last, place;
};
using Meetings = std::vector<Meeting>;

Meetings meetings_of(const Geometry& g, size_t d) {
  Meetings all;
  for (int64_t k = 0; k < g.kernel[d]; ++k) {
    const int64_t at = k * g.dilation[d] - g.padding[d];  // of output 0
    if (at >= g.in[d]) break;
    const int64_t first = at < 0 ? ceil_div(-at, g.stride[d]) : 0;
    const int64_t last = std::min(g.out[d], floor_div(g.in[d] - 1 - at, g.stride[d]) + 1);
    if (first < last) all.push_back({k, first, last, first * g.stride[d] + at});
  }
  return all;
}

std::array<Meetings, 3> meetings(const Geometry& g) {
  return {meetings_of(g, 0), meetings_of(g, 1), meetings_of(g, 2)};
}

// fn(tap in the kernel, place in the image, place in the output, count) for the rows of one plane; neighbours lie
// stride[2] apart in the image and 1 in the output.
template <typename F>
void for_rows(const Geometry& g, const std::array<Meetings, 3>& all, const F& fn) {
  for (const Meeting& z : all[0]) {
    for (const Meeting& y : all[1]) {
      for (const Meeting& x : all[2]) {
        const int64_t tap = (z.tap * g.kernel[1] + y.tap) * g.kernel[2] + x.tap;
        for (int64_t a = z.first; a < z.last; ++a) {
          const int64_t plane = (z.place + (a - z.first) * g.stride[0]) * g.in[1];
          for (int64_t b = y.first; b < y.last; ++b) {
            const int64_t row = plane + y.place + (b - y.first) * g.stride[1];
            fn(tap, row * g.in[2] + x.place, (a * g.out[1] + b) * g.out[2] + x.first, x.last - x.first);
          }
        }
      }
    }
  }
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
    for (const Meeting& m : meetings_of(g, d)) pairs += static_cast<double>(m.last - m.first);
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

template <typename T>
void unpadded_forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out) {
  const std::array<Meetings, 3> all = meetings(g);
  const int64_t places = product(g.in), positions = product(g.out), taps = product(g.kernel);
  const int64_t out_channels = g.groups * g.out_channels;
  parallel_for(0, g.batch * out_channels, grain(g, g.channels), [&](int64_t begin, int64_t end) {
    const TypedBuffer<double> sums(positions);
    double* const to = sums.get();
    for (int64_t i = begin; i < end; ++i) {
      const int64_t f = i % out_channels, group = f / g.out_channels;
      std::fill(to, to + positions, bias != nullptr ? static_cast<double>(bias[f]) : 0.0);
      for (int64_t c = 0; c < g.channels; ++c) {
        const T* from = input + ((i / out_channels * g.groups + group) * g.channels + c) * places;
        const T* w = weight + (f * g.channels + c) * taps;
        for_rows(g, all, [&](int64_t tap, int64_t place, int64_t position, int64_t n) {
          const auto by = static_cast<double>(w[tap]);
          for (int64_t k = 0; k < n; ++k) to[position + k] += by * static_cast<double>(from[place + k * g.stride[2]]);
        });
      }
      std::transform(to, to + positions, out + i * positions, [](double sum) { return static_cast<T>(sum); });
    }
  });
}

template <typename T>
void unpadded_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out) {
  const std::array<Meetings, 3> all = meetings(g);
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
        for_rows(g, all, [&](int64_t tap, int64_t place, int64_t position, int64_t n) {
          const auto by = static_cast<double>(w[tap]);
          for (int64_t k = 0; k < n; ++k) to[place + k * g.stride[2]] += by * static_cast<double>(from[position + k]);
        });
      }
      std::transform(to, to + places, out + i * places, [](double sum) { return static_cast<T>(sum); });
    }
  });
}

template <typename T>
void unpadded_backward_weight(const Geometry& g, const T* input, const T* grad, T* out) {
  const std::array<Meetings, 3> all = meetings(g);
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
        for_rows(g, all, [&](int64_t tap, int64_t place, int64_t position, int64_t count) {
          double sum = 0;
          for (int64_t k = 0; k < count; ++k) {
            sum += static_cast<double>(x[place + k * g.stride[2]]) * static_cast<double>(dy[position + k]);
          }
          to[tap] += sum;
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
