// Largest values of windows in up to three dims, and their gradient. Before it stand: S (elements), T (their
// value), X (indices), FACULA_LAST (channels are the fastest dim), FACULA_VEC (how many of them a thread has: 1
// unless they lie side by side in all tensors), FACULA_WIDE (64-bit counts).
#include "facula/cuda/strided_iterator.h"

namespace facula {

#if FACULA_WIDE
using N = int64_t;
#else
using N = uint32_t;
#endif

struct PoolParams {
  const char* in;   // of the gradient's pass: the gradient of the output
  char* out;        // or null
  X* indices;       // places within the spatial dims as one, in the order of the results' threads; or null
  int64_t count;    // of threads
  int64_t channels;
  int32_t in_sizes[3], out_sizes[3], kernel[3], stride[3], padding[3], dilation[3];
  int64_t in_steps[5], out_steps[5], index_steps[5];  // elements: batch, channel, three dims
};

// The place of thread i among tensors of spatial sizes `sizes`.
FD void place_of(N i, const int32_t (&sizes)[3], int64_t channels, int (&at)[3], int& channel, int& image) {
  N rest = i;
#if FACULA_LAST
  channel = static_cast<int>(rest % static_cast<N>(channels / FACULA_VEC)) * FACULA_VEC;
  rest /= static_cast<N>(channels / FACULA_VEC);
#endif
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    at[d] = static_cast<int>(rest % static_cast<N>(sizes[d]));
    rest /= static_cast<N>(sizes[d]);
  }
#if !FACULA_LAST
  channel = static_cast<int>(rest % static_cast<N>(channels));
  rest /= static_cast<N>(channels);
#endif
  image = static_cast<int>(rest);
}

}  // namespace facula

using namespace facula;

extern "C" __global__ void __launch_bounds__(256) facula_max_pool(const __grid_constant__ PoolParams p) {
  for (int64_t i = thread_index(); i < p.count; i += thread_count()) {
    int o[3], channel, image;
    place_of(static_cast<N>(i), p.out_sizes, p.channels, o, channel, image);
    const S* const in = reinterpret_cast<const S*>(p.in) + image * p.in_steps[0] + channel * p.in_steps[1];
    T best[FACULA_VEC];
    X place[FACULA_VEC];
#pragma unroll
    for (int k = 0; k < FACULA_VEC; ++k) {
      best[k] = -math::infinity<T>;
      place[k] = static_cast<X>(-1);
    }
    for (int z = 0; z < p.kernel[0]; ++z) {
      const int a = o[0] * p.stride[0] - p.padding[0] + z * p.dilation[0];
      if (a < 0 || a >= p.in_sizes[0]) continue;
      for (int y = 0; y < p.kernel[1]; ++y) {
        const int b = o[1] * p.stride[1] - p.padding[1] + y * p.dilation[1];
        if (b < 0 || b >= p.in_sizes[1]) continue;
        const S* const line = in + a * p.in_steps[2] + b * p.in_steps[3];
        const int64_t row = (static_cast<int64_t>(a) * p.in_sizes[1] + b) * p.in_sizes[2];
        for (int x = 0; x < p.kernel[2]; ++x) {
          const int c = o[2] * p.stride[2] - p.padding[2] + x * p.dilation[2];
          if (c < 0 || c >= p.in_sizes[2]) continue;
          Vector<S, FACULA_VEC> v;
          v.load(line + c * p.in_steps[4]);
#pragma unroll
          for (int k = 0; k < FACULA_VEC; ++k) {
            const T t = v.template get<T>(k);
            // the first of equals; NaN is larger than all
            if (place[k] < 0 || t > best[k] || t != t) {
              best[k] = t;
              place[k] = static_cast<X>(row + c);
            }
          }
        }
      }
    }
    if (p.out != nullptr) {
      S* const out = reinterpret_cast<S*>(p.out) + image * p.out_steps[0] + channel * p.out_steps[1];
      Vector<S, FACULA_VEC> v;
      v.set(best);
      v.store(out + o[0] * p.out_steps[2] + o[1] * p.out_steps[3] + o[2] * p.out_steps[4]);
    }
    if (p.indices != nullptr) {
      X* const to = p.indices + image * p.index_steps[0] + channel * p.index_steps[1];
      Vector<X, FACULA_VEC> v;
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) v.at[k] = place[k];
      v.store(to + o[0] * p.index_steps[2] + o[1] * p.index_steps[3] + o[2] * p.index_steps[4]);
    }
  }
}

// A thread for each element of the input: the windows it lies in whose largest it is, in order.
extern "C" __global__ void __launch_bounds__(256) facula_max_pool_backward(const __grid_constant__ PoolParams p) {
  for (int64_t i = thread_index(); i < p.count; i += thread_count()) {
    int at[3], channel, image;
    place_of(static_cast<N>(i), p.in_sizes, p.channels, at, channel, image);
    const X mine = static_cast<X>((static_cast<int64_t>(at[0]) * p.in_sizes[1] + at[1]) * p.in_sizes[2] + at[2]);
    const S* const grad = reinterpret_cast<const S*>(p.in) + image * p.in_steps[0] + channel * p.in_steps[1];
    const X* const indices = p.indices + image * p.index_steps[0] + channel * p.index_steps[1];
    // the window in which tap k of dim d is here
    const auto window = [&](int d, int k, int& o) {
      const int t = at[d] + p.padding[d] - k * p.dilation[d];
      o = t / p.stride[d];
      return t >= 0 && o < p.out_sizes[d] && o * p.stride[d] == t;
    };
    T sum[FACULA_VEC] = {};
    int o[3];
    for (int z = p.kernel[0] - 1; z >= 0; --z) {
      if (!window(0, z, o[0])) continue;
      for (int y = p.kernel[1] - 1; y >= 0; --y) {
        if (!window(1, y, o[1])) continue;
        for (int x = p.kernel[2] - 1; x >= 0; --x) {
          if (!window(2, x, o[2])) continue;
          const int64_t from = o[0] * p.index_steps[2] + o[1] * p.index_steps[3] + o[2] * p.index_steps[4];
          Vector<X, FACULA_VEC> places;
          places.load(indices + from);
          Vector<S, FACULA_VEC> g;
          g.load(grad + o[0] * p.in_steps[2] + o[1] * p.in_steps[3] + o[2] * p.in_steps[4]);
#pragma unroll
          for (int k = 0; k < FACULA_VEC; ++k) {
            if (places.at[k] == mine) sum[k] += g.template get<T>(k);
          }
        }
      }
    }
    S* const out = reinterpret_cast<S*>(p.out) + image * p.out_steps[0] + channel * p.out_steps[1];
    Vector<S, FACULA_VEC> v;
    v.set(sum);
    v.store(out + at[0] * p.out_steps[2] + at[1] * p.out_steps[3] + at[2] * p.out_steps[4]);
  }
}
