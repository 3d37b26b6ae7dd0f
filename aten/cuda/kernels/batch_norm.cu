// Normalisation of channels and its gradient. Before it stand: I (elements), W (of weight and bias), M (of given
// statistics), T, FACULA_VEC, FACULA_KIND (0 forward, 1 backward), FACULA_LANES (threads side by side in a row of
// channels; 0: channels are planes).
//
// Sums of a channel are made in parts, which are joined in a fixed order in double precision. Squares are of the
// distance from the channel's first value, or from the mean that is known, so that they do not cancel.
#include "facula/cuda/strided_iterator.h"

namespace facula {

struct BatchParams {
  const char *in, *grad, *weight, *bias, *mean, *var;  // mean, var: given; null where they are computed
  char *out, *out_mean, *out_var, *out_weight, *out_bias;
  T* sums;     // (part, kSums, channel)
  T* factors;  // (kFactors, channel)
  int64_t outer, channels, inner, parts, training;
  double eps;
};

FD T center_of(const BatchParams& p, int64_t channel, int64_t first) {
#if FACULA_KIND == 0
  return load<T>(reinterpret_cast<const I*>(p.in)[first]);
#else
  return load<T>(reinterpret_cast<const T*>(p.mean)[channel]);
#endif
}

// Forward: the distances and their squares; backward: the slopes, those times the distances, and the distances, as a
// mean kept in T misses by much where it is far beyond the spread.
constexpr int kSums = 2 + FACULA_KIND, kFactors = 3 + FACULA_KIND;
FD void take(T x, T g, T center, T (&sums)[kSums]) {
#if FACULA_KIND == 0
  sums[0] += x - center;
  sums[1] += (x - center) * (x - center);
#else
  sums[0] += g;
  sums[1] += g * (x - center);
  sums[2] += x - center;
#endif
}
// Factors: the slope, the shift, the center; backward also the slope of the gradient.
FD T applied(T x, T g, const T (&f)[kFactors]) {
#if FACULA_KIND == 0
  return (x - f[2]) * f[0] + f[1];
#else
  // By given statistics no input has a part in it, a NaN among them neither.
  return g * f[3] + (f[0] == 0 ? f[1] : (x - f[2]) * f[0] + f[1]);
#endif
}

FD void read(const char* from, int64_t at, T (&x)[FACULA_VEC]) {
  Vector<I, FACULA_VEC> v;
  v.load(reinterpret_cast<const I*>(from) + at);
#pragma unroll
  for (int k = 0; k < FACULA_VEC; ++k) x[k] = v.template get<T>(k);
}

constexpr int kThreads = 256;

}  // namespace facula

using namespace facula;

#if FACULA_LANES > 0
// Channels side by side: blockIdx.x has FACULA_LANES * FACULA_VEC of them, blockIdx.y a part of the rows.
extern "C" __global__ void __launch_bounds__(kThreads) facula_batch_sums(const __grid_constant__ BatchParams p) {
  constexpr int kRows = kThreads / FACULA_LANES, kColumns = FACULA_LANES * FACULA_VEC;
  __shared__ T shared[kSums][kRows][kColumns];
  const int lane = threadIdx.x % FACULA_LANES, y = threadIdx.x / FACULA_LANES;
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kColumns + lane * FACULA_VEC;
  T sums[FACULA_VEC][kSums] = {}, center[FACULA_VEC];
  if (channel < p.channels) {
#pragma unroll
    for (int k = 0; k < FACULA_VEC; ++k) center[k] = center_of(p, channel + k, channel + k);
    const int64_t stride = static_cast<int64_t>(gridDim.y) * kRows;
#pragma unroll 4
    for (int64_t row = static_cast<int64_t>(blockIdx.y) * kRows + y; row < p.outer; row += stride) {
      T x[FACULA_VEC], g[FACULA_VEC] = {};
      read(p.in, row * p.channels + channel, x);
#if FACULA_KIND == 1
      read(p.grad, row * p.channels + channel, g);
#endif
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) take(x[k], g[k], center[k], sums[k]);
    }
  }
#pragma unroll
  for (int k = 0; k < FACULA_VEC; ++k) {
#pragma unroll
    for (int j = 0; j < kSums; ++j) shared[j][y][lane * FACULA_VEC + k] = sums[k][j];
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kSums * kColumns; i += kThreads) {
    const int which = i / kColumns, column = i % kColumns;
    const int64_t at = static_cast<int64_t>(blockIdx.x) * kColumns + column;
    if (at >= p.channels) continue;
    T sum = T(0);
#pragma unroll 8
    for (int r = 0; r < kRows; ++r) sum += shared[which][r][column];
    p.sums[(blockIdx.y * kSums + which) * p.channels + at] = sum;
  }
}

extern "C" __global__ void __launch_bounds__(kThreads) facula_batch_apply(const __grid_constant__ BatchParams p) {
  constexpr int kRows = kThreads / FACULA_LANES, kColumns = FACULA_LANES * FACULA_VEC;
  const int lane = threadIdx.x % FACULA_LANES, y = threadIdx.x / FACULA_LANES;
  const int64_t channel = static_cast<int64_t>(blockIdx.x) * kColumns + lane * FACULA_VEC;
  if (channel >= p.channels) return;
  T f[FACULA_VEC][kFactors];
#pragma unroll
  for (int k = 0; k < FACULA_VEC; ++k) {
#pragma unroll
    for (int j = 0; j < kFactors; ++j) f[k][j] = p.factors[j * p.channels + channel + k];
  }
  const int64_t stride = static_cast<int64_t>(gridDim.y) * kRows;
#pragma unroll 4
  for (int64_t row = static_cast<int64_t>(blockIdx.y) * kRows + y; row < p.outer; row += stride) {
    const int64_t at = row * p.channels + channel;
    T x[FACULA_VEC], g[FACULA_VEC] = {};
    read(p.in, at, x);
#if FACULA_KIND == 1
    read(p.grad, at, g);
#endif
#pragma unroll
    for (int k = 0; k < FACULA_VEC; ++k) x[k] = applied(x[k], g[k], f[k]);
    Vector<I, FACULA_VEC> v;
    v.set(x);
    v.store(reinterpret_cast<I*>(p.out) + at);
  }
}

#else
// Channels as planes: blockIdx.x is the channel, blockIdx.y a part of the images.
extern "C" __global__ void __launch_bounds__(kThreads) facula_batch_sums(const __grid_constant__ BatchParams p) {
  __shared__ T shared[kSums][kThreads];
  const int64_t channel = blockIdx.x;
  const T center = center_of(p, channel, channel * p.inner);
  T sums[kSums] = {};
  const int64_t vectors = p.inner / FACULA_VEC;
  for (int64_t i = static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x; i < p.outer * vectors;
       i += static_cast<int64_t>(gridDim.y) * kThreads) {
    const int64_t image = i / vectors, at = (image * p.channels + channel) * p.inner + (i - image * vectors) * FACULA_VEC;
    T x[FACULA_VEC], g[FACULA_VEC] = {};
    read(p.in, at, x);
#if FACULA_KIND == 1
    read(p.grad, at, g);
#endif
#pragma unroll
    for (int k = 0; k < FACULA_VEC; ++k) take(x[k], g[k], center, sums);
  }
#pragma unroll
  for (int j = 0; j < kSums; ++j) shared[j][threadIdx.x] = sums[j];
  for (int step = kThreads / 2; step > 0; step /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < step) {
#pragma unroll
      for (int j = 0; j < kSums; ++j) shared[j][threadIdx.x] += shared[j][threadIdx.x + step];
    }
  }
  if (threadIdx.x < kSums) p.sums[(blockIdx.y * kSums + threadIdx.x) * p.channels + channel] = shared[threadIdx.x][0];
}

extern "C" __global__ void __launch_bounds__(kThreads) facula_batch_apply(const __grid_constant__ BatchParams p) {
  const int64_t vectors = p.inner / FACULA_VEC, total = p.outer * p.channels * vectors;
  for (int64_t i = thread_index(); i < total; i += thread_count()) {
    const int64_t plane = total >> 32 == 0 ? static_cast<uint32_t>(i) / static_cast<uint32_t>(vectors) : i / vectors;
    const int64_t channel = plane % p.channels, at = i * FACULA_VEC;
    T x[FACULA_VEC], g[FACULA_VEC] = {}, f[kFactors];
    read(p.in, at, x);
#pragma unroll
    for (int j = 0; j < kFactors; ++j) f[j] = p.factors[j * p.channels + channel];
#if FACULA_KIND == 1
    read(p.grad, at, g);
#endif
#pragma unroll
    for (int k = 0; k < FACULA_VEC; ++k) x[k] = applied(x[k], g[k], f);
    Vector<I, FACULA_VEC> v;
    v.set(x);
    v.store(reinterpret_cast<I*>(p.out) + at);
  }
}
#endif

// A block a channel: joins the parts, and makes of them what facula_batch_apply multiplies and adds.
extern "C" __global__ void __launch_bounds__(64) facula_batch_finish(const __grid_constant__ BatchParams p) {
  __shared__ double shared[kSums][64];
  const int64_t channel = blockIdx.x;
  double sums[kSums] = {};
  for (int64_t i = threadIdx.x; i < p.parts; i += 64) {
#pragma unroll
    for (int j = 0; j < kSums; ++j) sums[j] += p.sums[(i * kSums + j) * p.channels + channel];
  }
#pragma unroll
  for (int j = 0; j < kSums; ++j) shared[j][threadIdx.x] = sums[j];
  for (int step = 32; step > 0; step /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) < step) {
#pragma unroll
      for (int j = 0; j < kSums; ++j) shared[j][threadIdx.x] += shared[j][threadIdx.x + step];
    }
  }
  if (threadIdx.x != 0) return;
  const double a = shared[0][0];
  const double count = static_cast<double>(p.outer) * static_cast<double>(p.inner);
  const double weight = p.weight != nullptr ? load<double>(reinterpret_cast<const W*>(p.weight)[channel]) : 1;
#if FACULA_KIND == 0
  double mean, var;
  if (p.training != 0) {
    const int64_t first = channel * (FACULA_LANES > 0 ? 1 : p.inner);
    mean = a / count;
    var = shared[1][0] / count - mean * mean;
    if (var < 0) var = 0;
    mean += load<double>(reinterpret_cast<const I*>(p.in)[first]);
  } else {
    mean = load<double>(reinterpret_cast<const M*>(p.mean)[channel]);
    var = load<double>(reinterpret_cast<const M*>(p.var)[channel]);
  }
  const double scale = weight / ::sqrt(var + p.eps), center = static_cast<double>(static_cast<T>(mean));
  const double bias = p.bias != nullptr ? load<double>(reinterpret_cast<const W*>(p.bias)[channel]) : 0;
  p.factors[channel] = static_cast<T>(scale);
  p.factors[p.channels + channel] = static_cast<T>(bias + (center - mean) * scale);
  p.factors[2 * p.channels + channel] = static_cast<T>(center);
  reinterpret_cast<T*>(p.out_mean)[channel] = static_cast<T>(mean);
  reinterpret_cast<T*>(p.out_var)[channel] = static_cast<T>(var);
#else
  const double mean = load<double>(reinterpret_cast<const T*>(p.mean)[channel]);
  const double off = p.training != 0 ? shared[2][0] / count : 0;  // of the true mean from that
  const double b = shared[1][0] - off * a;
  const double r = 1 / ::sqrt(load<double>(reinterpret_cast<const T*>(p.var)[channel]) + p.eps);
  const double scale = weight * r, slope = p.training != 0 ? -scale * r * r * b / count : 0;
  p.factors[channel] = static_cast<T>(slope);
  p.factors[p.channels + channel] = static_cast<T>(p.training != 0 ? -scale * a / count - slope * off : 0);
  p.factors[2 * p.channels + channel] = static_cast<T>(mean);
  p.factors[3 * p.channels + channel] = static_cast<T>(scale);
  if (p.out_weight != nullptr) reinterpret_cast<W*>(p.out_weight)[channel] = element<W>(b * r);
  if (p.out_bias != nullptr) reinterpret_cast<W*>(p.out_bias)[channel] = element<W>(a);
#endif
}
