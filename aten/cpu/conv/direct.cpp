#include "aten/cpu/conv/direct.h"

#include "aten/cpu/conv/windows.h"
#include "aten/cpu/nn/loops.h"
#include "runtime/core/interrupt.h"

namespace facula::cpu::conv {
namespace {

// A row of results of one output channel at a time.
template <typename T>
void multiply_rows(const Windows& w, int64_t batch, int64_t groups, int64_t out_channels, const Weights<T>& weights,
                   const T* bias, const T* image, int64_t group_stride, T* out) {
  const auto depth = static_cast<int64_t>(w.taps.size());
  const TypedBuffer<T> gathered(groups * out_channels * depth);
  T* weight = gathered.get();
  for (int64_t c = 0; c < groups * out_channels; ++c) {
    const T* from = weights.data + c / out_channels * weights.group + c % out_channels * weights.row;
    for (int64_t p = 0; p < depth; ++p) weight[c * depth + p] = from[weights.offsets[static_cast<size_t>(p)]];
  }
  const int64_t rows = w.out[0] * w.out[1], positions = w.positions();
  // Long rows in pieces of whole vectors, with a look for signals between them.
  constexpr int64_t kVectors = 256, kWork = 1 << 22;
  const int64_t piece = std::max(kVectors, kWork / std::max<int64_t>(depth, 1) / kVectors * kVectors);
  const auto steps = static_cast<int32_t>(std::clamp<int64_t>(piece * depth >> 14, 1, 256));
  parallel_for(0, batch * groups * out_channels, grain_for(positions * depth, tuning::kConvWork / 4),
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   const int64_t channel = i % (groups * out_channels);
                   const T* source = image + i / out_channels * group_stride;
                   for (int64_t r = 0; r < rows; ++r) {
                     const T* from = source + r / w.out[1] * w.step[0] + r % w.out[1] * w.step[1];
                     for (int64_t x = 0; x < w.out[2]; x += piece) {
                       count_step(steps);
                       conv_loops<T>().row(depth, w.taps.data(), weight + channel * depth,
                                           bias != nullptr ? bias[channel] : T(0), std::min(piece, w.out[2] - x),
                                           from + x, out + i * positions + r * w.out[2] + x);
                     }
                   }
                 }
               });
}

}  // namespace

template <typename T>
void direct_forward(const Geometry& g, const T* input, const T* weight, const T* bias, T* out) {
  forward_by<T>(multiply_rows<T>, g, input, weight, bias, out);
}

template <typename T>
void direct_backward_input(const Geometry& g, const T* grad, const T* weight, const T* bias, T* out) {
  backward_input_by<T>(multiply_rows<T>, g, grad, weight, bias, out);
}

template <typename T>
void direct_backward_weight(const Geometry& g, const T* input, const T* grad, T* out) {
  const int64_t positions = product(g.out), depth = g.channels * product(g.kernel);
  std::fill(out, out + g.groups * g.out_channels * depth, T(0));
  if (g.batch * g.groups * g.out_channels * positions * depth == 0) return;
  const Padded<T> image(input, g.batch * g.groups * g.channels, g.in, input_margins(g));
  const Windows w = input_windows(g, image);
  const int64_t group_stride = g.channels * image.plane();
  const int64_t rows = g.out[0] * g.out[1];
  // What is quick for short rows is one sum, which would lose digits of long ones.
  const auto sum_row = w.out[2] <= 256 ? conv_loops<T>().correlate : dot_loops<T>().dot;
  parallel_for(0, g.groups * g.out_channels, grain_for(g.batch * positions * depth, tuning::kConvWork / 4),
               [&](int64_t begin, int64_t end) {
                 for (int64_t c = begin; c < end; ++c) {
                   for (int64_t p = 0; p < depth; ++p) {
                     count_step(16);
                     double sum = 0;
                     for (int64_t n = 0; n < g.batch; ++n) {
                       const T* dy = grad + (n * g.groups * g.out_channels + c) * positions;
                       const T* x = image.data() + (n * g.groups + c / g.out_channels) * group_stride +
                                    w.taps[static_cast<size_t>(p)];
                       for (int64_t r = 0; r < rows; ++r) {
                         const T* from = x + r / w.out[1] * w.step[0] + r % w.out[1] * w.step[1];
                         sum += static_cast<double>(sum_row(w.out[2], dy + r * w.out[2], from));
                       }
                     }
                     out[c * depth + p] = static_cast<T>(sum);
                   }
                 }
               });
}

#define FACULA_DIRECT_FOR(T)                                                                 \
  template void direct_forward<T>(const Geometry&, const T*, const T*, const T*, T*);        \
  template void direct_backward_input<T>(const Geometry&, const T*, const T*, const T*, T*); \
  template void direct_backward_weight<T>(const Geometry&, const T*, const T*, T*);
FACULA_DIRECT_FOR(float)
FACULA_DIRECT_FOR(double)
#undef FACULA_DIRECT_FOR

}  // namespace facula::cpu::conv
