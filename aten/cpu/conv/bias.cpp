#include "aten/cpu/conv/bias.h"

#include "aten/cpu/common/dense.h"
#include "aten/cpu/common/tuning.h"
#include "aten/cpu/gemm/gemv_loops.h"
#include "aten/cpu/nn/loops.h"
#include "runtime/core/rounding.h"

namespace facula::cpu::conv {

using tuning::kBiasPixels;

template <typename T>
void backward_bias_nchw(IntList sizes, const T* grad, T* out) {
  const int64_t channels = sizes[1], positions = numel_of(sizes.subspan(2));
  parallel_for(0, channels, grain_for(sizes[0] * positions), [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      double sum = 0;
      for (int64_t n = 0; n < sizes[0] && positions > 0; ++n) {
        sum += norm_loops<T>().sum(positions, grad + (n * channels + c) * positions);
      }
      out[c] = static_cast<T>(sum);
    }
  });
}

template <typename T>
void backward_bias_nhwc(int64_t pixels, int64_t channels, const T* grad, T* out) {
  const auto* loops = [] {
    if constexpr (std::is_same_v<T, float>) {
      return &FACULA_BY_ISA(gemv_float);
    } else {
      return &FACULA_BY_ISA(gemv_double);
    }
  }();
  const int64_t blocks = ceil_div(pixels, kBiasPixels);
  const int64_t pieces = std::min(blocks, tuning::kBiasPieces);  // whatever the number of threads
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

template void backward_bias_nchw<float>(IntList, const float*, float*);
template void backward_bias_nchw<double>(IntList, const double*, double*);
template void backward_bias_nhwc<float>(int64_t, int64_t, const float*, float*);
template void backward_bias_nhwc<double>(int64_t, int64_t, const double*, double*);

}  // namespace facula::cpu::conv
