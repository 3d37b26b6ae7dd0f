// Layer and RMS normalisation of dense rows, and the gradients. Before it stand: I (elements of the input,
// gradient and results), W (of weight and bias), M (of the statistics), T, FACULA_RMS, FACULA_KIND
// (0 forward, 1 gradient of the input, 2 of weight and bias), FACULA_SUMS (1: the gradient of the input is made
// together with parts of the sums for weight and bias, which a thread keeps for its columns).
#include "facula/cuda/rows.h"

namespace facula {

struct NormParams {
  const char *in, *grad, *weight, *bias;
  char *out, *grad_weight, *grad_bias;
  char *mean, *rstd;
  T* scratch;                  // parts of the sums for weight and bias: (part, 2, column)
  T* shifts;                   // of the rows, what their mean in M misses, in normalised numbers; or null
  int64_t rows, length, part;  // part: rows of one, or the number of parts when they are joined
  double eps;
};

// Whether a variance was computed without leaving the range of T.
FD bool is_ordinary(T variance) {
  constexpr T kFar = static_cast<T>(sizeof(T) == 4 ? 0x1p100 : 0x1p1000);
  return variance > 1 / kFar && variance < kFar;
}

}  // namespace facula

using namespace facula;

#if FACULA_KIND < 2
extern "C" __global__ void __launch_bounds__(kRowThreads) facula_norm(const __grid_constant__ NormParams p) {
  const int64_t blocks = ceil_div(p.rows, kRowsOfBlock);
  RowReduction reduction;
#if FACULA_KIND == 1
  RowsAhead<I, 2> ahead;
  const auto ask = [&](int64_t r) {
    const int64_t row = r * kRowsOfBlock + threadIdx.x / FACULA_LANES;
    const bool real = r < blocks && row < p.rows;
    const int64_t first = (real ? row * p.length : 0) * static_cast<int64_t>(sizeof(I));
    ahead.load({p.in + first, p.grad + first}, real ? p.length : 0);
  };
  ahead.start(ask);
#endif
#if FACULA_SUMS
  T weights[kHeld][FACULA_VEC] = {}, biases[kHeld][FACULA_VEC] = {};
#endif
  for (int64_t r = blockIdx.x; r < blocks; r += gridDim.x) {
    const int64_t row = r * kRowsOfBlock + threadIdx.x / FACULA_LANES;
    const bool real = row < p.rows;
    const int64_t length = real ? p.length : 0, first = real ? row * p.length : 0;
    const T count = static_cast<T>(p.length);
    constexpr int64_t kStep = sizeof(I);
    const char* const in = p.in + first * kStep;
#if FACULA_KIND == 0
    HeldRow<I> held;  // as they lie: of 16 bits they take half the registers of what they are computed in
    held.load(in, kStep, length);
    T mean, missed, variance, unit = T(1);  // of the row times unit; `missed` is what the mean's rounding took
    const auto statistics = [&] {
      mean = missed = T(0);
#if !FACULA_RMS
      each_vector(length, [&](int i, int64_t place) {
        T x[FACULA_VEC];
        held.get(i, in, place, kStep, x);
#pragma unroll
        for (int k = 0; k < FACULA_VEC; ++k) mean += x[k] * unit;
      });
      mean = reduction.over<Add>(mean) / count;
#endif
      T sums[2] = {};  // of the distances and their squares
      each_vector(length, [&](int i, int64_t place) {
        T x[FACULA_VEC];
        held.get(i, in, place, kStep, x);
#pragma unroll
        for (int k = 0; k < FACULA_VEC; ++k) {
          const T off = x[k] * unit - mean;
          sums[0] += off;
          sums[1] += off * off;
        }
      });
      reduction.over<Add>(sums);
      if (!FACULA_RMS) missed = sums[0] / count;
      variance = (sums[1] - missed * sums[0]) / count;
      if (variance < T(0)) variance = T(0);
      variance += static_cast<T>(p.eps * unit * unit);
    };
    statistics();
    // A row whose squares left the range is taken times a power of two.
    if (__syncthreads_or(real && !is_ordinary(variance)) != 0) {
      T top = T(0);
      each_vector(length, [&](int i, int64_t place) {
        T x[FACULA_VEC];
        held.get(i, in, place, kStep, x);
#pragma unroll
        for (int k = 0; k < FACULA_VEC; ++k) top = Largest::join(math::abs(x[k]), top);
      });
      top = reduction.over<Largest>(top);
      constexpr int kMaxExponent = sizeof(T) == 4 ? 126 : 1022;
      if (!is_ordinary(variance) && top > T(0) && math::isfinite(top)) {
        const int e = ::ilogb(top);
        unit = ::ldexp(T(1), e > kMaxExponent ? -kMaxExponent : e < -kMaxExponent ? kMaxExponent : -e);
      }
      statistics();
    }
    const T rstd = T(1) / math::sqrt(variance), shift = FACULA_RMS ? T(-0.0) : -missed * rstd;
    each_vector(length, [&](int i, int64_t place) {
      T x[FACULA_VEC], w[FACULA_VEC], b[FACULA_VEC];
      held.get(i, in, place, kStep, x);
      if (p.weight != nullptr) read_vector<W>(p.weight, place, sizeof(W), w);
      if (p.bias != nullptr) read_vector<W>(p.bias, place, sizeof(W), b);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) {
        x[k] = (x[k] * unit - mean) * rstd + shift;
        if (p.weight != nullptr) x[k] *= w[k];
        if (p.bias != nullptr) x[k] += b[k];
      }
      write_vector<I>(p.out + first * kStep, place, kStep, x);
    });
    if (real && threadIdx.x % FACULA_LANES == 0) {
      if (p.mean != nullptr) reinterpret_cast<M*>(p.mean)[row] = element<M>((mean + missed) / unit);
      reinterpret_cast<M*>(p.rstd)[row] = element<M>(rstd * unit);
    }
#else
    ahead.wait();
    T x[kHeld][FACULA_VEC], g[kHeld][FACULA_VEC];
    const T mean = FACULA_RMS || !real ? T(0) : load<T>(reinterpret_cast<const M*>(p.mean)[row]);
    const T rstd = real ? load<T>(reinterpret_cast<const M*>(p.rstd)[row]) : T(0);
    // A mean far beyond the spread has lost too much in M: the sum of the distances from it tells what.
    T shift = T(0);
#if !FACULA_RMS
    if (__syncthreads_or(math::abs(mean) * rstd > T(4)) != 0) {
      each_vector(length, [&](int i, int64_t place) {
        T v[FACULA_VEC];
        ahead.get(0, i, in, place, v);
#pragma unroll
        for (int k = 0; k < FACULA_VEC; ++k) shift += (v[k] - mean) * rstd;
      });
      shift = -reduction.over<Add>(shift) / count;
    }
    if (p.shifts != nullptr && real && threadIdx.x % FACULA_LANES == 0) p.shifts[row] = shift;
#endif
    const auto read = [&](int i, int64_t place) {
      ahead.get(0, i, in, place, x[i]);
      ahead.get(1, i, p.grad + first * kStep, place, g[i]);
      T w[FACULA_VEC];
      if (p.weight != nullptr) read_vector<W>(p.weight, place, sizeof(W), w);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) {
        x[i][k] = (x[i][k] - mean) * rstd + shift;
#if FACULA_SUMS
        weights[i][k] += g[i][k] * x[i][k];
        biases[i][k] += g[i][k];
#endif
        if (p.weight != nullptr) g[i][k] *= w[k];
      }
    };
    T sums[2] = {};  // of the slopes, and of the slopes times the normalised input
    each_vector(length, [&](int i, int64_t place) {
      read(i, place);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) {
        sums[0] += g[i][k];
        sums[1] += g[i][k] * x[i][k];
      }
    });
    ask(ahead.after(r));
    reduction.over<Add>(sums);
    const T sum = FACULA_RMS ? T(0) : sums[0] / count, product = sums[1] / count;
    each_vector(length, [&](int i, int64_t place) {
      if (FACULA_ITEMS == 0) read(i, place);
#pragma unroll
      for (int k = 0; k < FACULA_VEC; ++k) x[i][k] = rstd * (g[i][k] - sum - x[i][k] * product);
      write_vector<I>(p.out + first * kStep, place, kStep, x[i]);
    });
#endif
  }
#if FACULA_SUMS
  const int64_t part = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / FACULA_LANES;
  each_vector(p.length, [&](int i, int64_t place) {
#pragma unroll
    for (int k = 0; k < FACULA_VEC; ++k) {
      p.scratch[(part * 2) * p.length + place + k] = weights[i][k];
      p.scratch[(part * 2 + 1) * p.length + place + k] = biases[i][k];
    }
  });
#endif
}

#else
// Columns of 32 by 8 threads: blockIdx.y has its part of the rows.
extern "C" __global__ void __launch_bounds__(256) facula_norm_columns(const __grid_constant__ NormParams p) {
  __shared__ T weights[8][33], biases[8][33];
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + x;
  const int64_t begin = blockIdx.y * p.part, end = begin + p.part < p.rows ? begin + p.part : p.rows;
  T weight = T(0), bias = T(0);
  if (column < p.length) {
#pragma unroll 4
    for (int64_t row = begin + y; row < end; row += 8) {
      const T g = load<T>(reinterpret_cast<const I*>(p.grad)[row * p.length + column]);
      const T v = load<T>(reinterpret_cast<const I*>(p.in)[row * p.length + column]);
      const T mean = FACULA_RMS ? T(0) : load<T>(reinterpret_cast<const M*>(p.mean)[row]);
      bias += g;
      const T shift = p.shifts == nullptr ? T(0) : p.shifts[row];
      weight += g * ((v - mean) * load<T>(reinterpret_cast<const M*>(p.rstd)[row]) + shift);
    }
  }
  weights[y][x] = weight;
  biases[y][x] = bias;
  __syncthreads();
  if (y != 0 || column >= p.length) return;
#pragma unroll
  for (int i = 1; i < 8; ++i) {
    weight += weights[i][x];
    bias += biases[i][x];
  }
  p.scratch[(blockIdx.y * 2) * p.length + column] = weight;
  p.scratch[(blockIdx.y * 2 + 1) * p.length + column] = bias;
}
// Joins the parts: 32 columns by 16 threads.
extern "C" __global__ void __launch_bounds__(512) facula_norm_finish(const __grid_constant__ NormParams p) {
  __shared__ T weights[16][33], biases[16][33];
  const int x = threadIdx.x % 32, y = threadIdx.x / 32;
  const int64_t column = static_cast<int64_t>(blockIdx.x) * 32 + x;
  T weight = T(0), bias = T(0);
  if (column < p.length) {
#pragma unroll 8
    for (int64_t i = y; i < p.part; i += 16) {
      weight += p.scratch[(2 * i) * p.length + column];
      bias += p.scratch[(2 * i + 1) * p.length + column];
    }
  }
  weights[y][x] = weight;
  biases[y][x] = bias;
  __syncthreads();
  if (y != 0 || column >= p.length) return;
#pragma unroll
  for (int i = 1; i < 16; ++i) {
    weight += weights[i][x];
    bias += biases[i][x];
  }
  if (p.grad_weight != nullptr) reinterpret_cast<W*>(p.grad_weight)[column] = element<W>(weight);
  if (p.grad_bias != nullptr) reinterpret_cast<W*>(p.grad_bias)[column] = element<W>(bias);
}
#endif
