// Convolution of each channel by itself in NHWC images: vectors run over the channels.
#include <vector>

#include "aten/cpu/conv/depthwise.h"
#include "aten/cpu/conv/loops.h"
#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/step_sums.h"
#include "aten/cpu/common/tuning.h"

namespace facula::cpu {

using conv::Geometry;
using conv::product;

namespace {

// By place along one dim: the taps that meet it, and the place they read there.
struct Reads {
  std::vector<int64_t> tap, place;
};
std::vector<Reads> reads_of(const Geometry& g, size_t d, bool back) {
  std::vector<Reads> all(static_cast<size_t>(back ? g.in[d] : g.out[d]));
  for (int64_t o = 0; o < g.out[d]; ++o) {
    for (int64_t k = 0; k < g.kernel[d]; ++k) {
      const int64_t i = o * g.stride[d] - g.padding[d] + k * g.dilation[d];
      if (i < 0 || i >= g.in[d]) continue;
      Reads& r = all[static_cast<size_t>(back ? i : o)];
      r.tap.push_back(k);
      r.place.push_back(back ? o : i);
    }
  }
  return all;
}

// How many neighbours from `first` on meet the same taps, `step` places on.
int64_t run_of(const std::vector<Reads>& all, int64_t first, int64_t step) {
  const Reads& one = all[static_cast<size_t>(first)];
  int64_t n = 1;
  for (; first + n < static_cast<int64_t>(all.size()); ++n) {
    const Reads& next = all[static_cast<size_t>(first + n)];
    if (next.tap != one.tap || (!one.tap.empty() && next.place[0] != one.place[0] + n * step)) break;
  }
  return n;
}

// Weights by tap, then by channel.
template <typename T>
void turn(int64_t channels, int64_t taps, const T* weight, T* out) {
  for (int64_t t = 0; t < taps; ++t) {
    for (int64_t c = 0; c < channels; ++c) out[t * channels + c] = weight[c * taps + t];
  }
}

template <typename T>
void apply(const Geometry& g, bool back, const T* from, const T* weight, const T* bias, T* out) {
  const int64_t channels = g.groups, taps = product(g.kernel);
  const TypedBuffer<T> turned(channels * taps);
  turn(channels, taps, weight, turned.get());
  const std::vector<Reads> rows = reads_of(g, 1, back), columns = reads_of(g, 2, back);
  const auto height = static_cast<int64_t>(rows.size()), width = static_cast<int64_t>(columns.size());
  const int64_t source_width = back ? g.out[2] : g.in[2], source = product(back ? g.out : g.in) * channels;
  parallel_for(0, g.batch * height, grain_for(width * channels * taps, tuning::kDepthwiseRowWork),
               [&](int64_t begin, int64_t end) {
                 std::vector<int64_t> at(static_cast<size_t>(taps)), place(static_cast<size_t>(taps));
                 for (int64_t r = begin; r < end; ++r) {
                   const Reads& row = rows[static_cast<size_t>(r % height)];
                   for (int64_t x = 0; x < width;) {
                     const Reads& column = columns[static_cast<size_t>(x)];
                     const int64_t run = run_of(columns, x, back ? 1 : g.stride[2]);
                     size_t n = 0;
                     for (size_t i = 0; i < row.tap.size(); ++i) {
                       for (size_t j = 0; j < column.tap.size(); ++j, ++n) {
                         at[n] = (row.place[i] * source_width + column.place[j]) * channels;
                         place[n] = (row.tap[i] * g.kernel[2] + column.tap[j]) * channels;
                       }
                     }
                     conv_loops<T>().depthwise_nhwc(channels, run, (back ? 1 : g.stride[2]) * channels,
                                                    static_cast<int64_t>(n), at.data(), place.data(),
                                                    from + r / height * source, turned.get(), bias,
                                                    out + (r * width + x) * channels);
                     x += run;
                   }
                 }
               });
}

}  // namespace

template <typename T>
void depthwise_nhwc_forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out) {
  apply(g, false, input, weight, bias, out);
}

template <typename T>
void depthwise_nhwc_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out) {
  apply(g, true, grad, weight, bias, out);
}

template <typename T>
void depthwise_nhwc_backward_weight(const Geometry& g, const T* input, const T* grad, T* out) {
  const int64_t channels = g.groups, taps = product(g.kernel), rows = g.batch * g.out[1];
  const std::vector<Reads> down = reads_of(g, 1, false), across = reads_of(g, 2, false);
  constexpr int64_t kLongestSum = 256;                          // positions whose products are summed in registers
  const int64_t pieces = std::clamp<int64_t>(rows / 8, 1, 32);  // whatever the number of threads
  const TypedBuffer<T> sums(pieces * taps * channels);
  parallel_for(0, pieces, 1, [&](int64_t begin, int64_t end) {
    std::vector<int64_t> at, place;
    for (int64_t piece = begin; piece < end; ++piece) {
      T* to = sums.get() + piece * taps * channels;
      std::fill(to, to + taps * channels, T(0));
      StepSums<T> steps(to, 1, taps * channels, taps * channels);
      for (int64_t r = piece * rows / pieces; r < (piece + 1) * rows / pieces; ++r) {
        const Reads& row = down[static_cast<size_t>(r % g.out[1])];
        const T* image = input + r / g.out[1] * product(g.in) * channels;
        for (int64_t x = 0; x < g.out[2];) {
          const Reads& column = across[static_cast<size_t>(x)];
          const int64_t n = std::min(kLongestSum, run_of(across, x, g.stride[2]));
          at.clear();
          place.clear();
          for (size_t i = 0; i < row.tap.size(); ++i) {
            for (size_t j = 0; j < column.tap.size(); ++j) {
              at.push_back((row.place[i] * g.in[2] + column.place[j]) * channels);
              place.push_back((row.tap[i] * g.kernel[2] + column.tap[j]) * channels);
            }
          }
          steps.step();
          for (size_t k = 0; k < at.size(); k += kTapsTogether) {
            conv_loops<T>().depthwise_nhwc_grads(channels, n, g.stride[2] * channels,
                                                 std::min<int64_t>(kTapsTogether, static_cast<int64_t>(at.size() - k)),
                                                 at.data() + k, place.data() + k, image,
                                                 grad + (r * g.out[2] + x) * channels, to);
          }
          x += n;
        }
      }
      steps.finish();
    }
  });
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t t = 0; t < taps; ++t) {
      double sum = 0;
      for (int64_t p = 0; p < pieces; ++p) sum += static_cast<double>(sums.get()[(p * taps + t) * channels + c]);
      out[c * taps + t] = static_cast<T>(sum);
    }
  }
}

#define FACULA_DEPTHWISE_FOR(T)                                                                      \
  template void depthwise_nhwc_forward<T>(const Geometry&, const T*, const T*, const T*, T*);        \
  template void depthwise_nhwc_backward_input<T>(const Geometry&, const T*, const T*, const T*, T*); \
  template void depthwise_nhwc_backward_weight<T>(const Geometry&, const T*, const T*, T*);
FACULA_DEPTHWISE_FOR(float)
FACULA_DEPTHWISE_FOR(double)
#undef FACULA_DEPTHWISE_FOR

}  // namespace facula::cpu
