// Convolution and its transpose in up to three dims, a thread a result: for machines without cuDNN, and
// for what it does not take. Before it stand: S (elements), T (computed in), FACULA_TRANSPOSED.
#include "facula/cuda/types.h"

namespace facula {

struct Params {
  const char *in, *weight, *bias;
  char* out;
  int64_t count, in_channels, out_channels, groups;  // count: of results
  int64_t in_sizes[3], out_sizes[3], kernel[3], stride[3], padding[3], dilation[3];
  int64_t in_steps[5], weight_steps[5], out_steps[5];  // bytes: batch, channel, three dims
  int64_t bias_step;
};

FD T read(const char* p) { return load<T>(*reinterpret_cast<const S*>(p)); }

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(256) facula_conv(const __grid_constant__ Params p) {
  const int64_t total = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int in_group = static_cast<int>(p.in_channels / p.groups), out_group = static_cast<int>(p.out_channels / p.groups);
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < p.count; i += total) {
    int64_t rest = i, o[3];
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      o[d] = rest % p.out_sizes[d];
      rest /= p.out_sizes[d];
    }
    const int channel = static_cast<int>(rest % p.out_channels);
    const int64_t image = rest / p.out_channels;
    const int group = channel / out_group;
    const char* const in = p.in + image * p.in_steps[0] + static_cast<int64_t>(group) * in_group * p.in_steps[1];
#if FACULA_TRANSPOSED
    const char* const weight = p.weight + static_cast<int64_t>(group) * in_group * p.weight_steps[0] +
                               (channel - group * out_group) * p.weight_steps[1];
    const int64_t weight_step = p.weight_steps[0];
#else
    const char* const weight = p.weight + channel * p.weight_steps[0];
    const int64_t weight_step = p.weight_steps[1];
#endif
    T sum = p.bias != nullptr ? read(p.bias + channel * p.bias_step) : T(0);
    // where tap k of dim d reads; false outside
    const auto place = [&](int d, int64_t k, int64_t& at) {
#if FACULA_TRANSPOSED
      at = o[d] + (p.padding[d] - k * p.dilation[d]);
      if (at < 0 || at % p.stride[d] != 0) return false;
      at /= p.stride[d];
#else
      at = o[d] * p.stride[d] + (k * p.dilation[d] - p.padding[d]);
#endif
      return at >= 0 && at < p.in_sizes[d];
    };
    for (int64_t a = 0; a < p.kernel[0]; ++a) {
      int64_t x, y, z;
      if (!place(0, a, x)) continue;
      for (int64_t b = 0; b < p.kernel[1]; ++b) {
        if (!place(1, b, y)) continue;
        for (int64_t c = 0; c < p.kernel[2]; ++c) {
          if (!place(2, c, z)) continue;
          const char* from = in + x * p.in_steps[2] + y * p.in_steps[3] + z * p.in_steps[4];
          const char* by = weight + a * p.weight_steps[2] + b * p.weight_steps[3] + c * p.weight_steps[4];
          for (int k = 0; k < in_group; ++k) {
            sum = sum + read(from) * read(by);
            from += p.in_steps[1];
            by += weight_step;
          }
        }
      }
    }
    char* to = p.out + image * p.out_steps[0] + channel * p.out_steps[1];
#pragma unroll
    for (int d = 0; d < 3; ++d) to += o[d] * p.out_steps[2 + d];
    *reinterpret_cast<S*>(to) = element<S>(sum);
  }
}
