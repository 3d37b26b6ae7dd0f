// build: levels fused
#include "aten/cpu/conv/tile.h"

#include "aten/cpu/common/transpose.h"
#include "runtime/core/rounding.h"
#include "runtime/iterate/stream.h"

namespace facula {
namespace {

template <typename T>
FACULA_INLINE Lanes<T> at(const T* p) {
  Lanes<T> v;
  __builtin_memcpy(&v, p, kBytes);
  return v;
}
template <typename T>
FACULA_INLINE void put(T* p, const Lanes<T>& v) {
  __builtin_memcpy(p, &v, kBytes);
}

// ---- products ----

template <typename T, int R, int V>
FACULA_INLINE void finish(const Lanes<T> (&acc)[R][V], T* c, int64_t ldc, bool accumulate) {
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) {
      T* to = c + i * ldc + j * kLanes<T>;
      put<T>(to, accumulate ? acc[i][j] + at<T>(to) : acc[i][j]);
    }
  }
}

template <typename T, int R, int V>
void rows_kernel(int64_t taps, const int64_t* __restrict places, int64_t channels, const T* __restrict from,
                 int64_t block, const T* __restrict b, T* __restrict c, int64_t ldc, bool accumulate) {
  Lanes<T> acc[R][V] = {};
  for (int64_t t = 0; t < taps; ++t) {
    const T* a = from + places[t];
    for (int64_t depth = channels; depth > 0; depth -= kPitch, a += block) {
      const int64_t n = depth < kPitch ? depth : kPitch;
      for (int64_t p = 0; p < n; ++p) {
        Lanes<T> v[V];
#pragma GCC unroll 8
        for (int j = 0; j < V; ++j) v[j] = at<T>(b + j * kLanes<T>);
#pragma GCC unroll 16
        for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
          for (int j = 0; j < V; ++j) acc[i][j] += a[i * kPitch + p] * v[j];
        }
        b += kColumns<T>;
      }
    }
  }
  finish<T, R, V>(acc, c, ldc, accumulate);
}

// Rows of A are reached from every fifth, as machines scale an index by 1, 2, 4, 8.
template <typename T, int R, int V, bool Fetch>
void windows_kernel(int64_t taps, const int64_t* __restrict places, int64_t run, const T* __restrict from, int64_t step,
                    const T* __restrict b, const T* __restrict bias, T* __restrict c, int64_t ldc,
                    const Ahead<T>& ahead, bool stream) {
  const T* next = ahead.base;
  const int64_t pace = ahead.step;
  constexpr int kStep = 5, kBases = ceil_div(R, kStep);
  Lanes<T> acc[R][V] = {};
  if (bias != nullptr) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) acc[i][j] = at<T>(bias + j * kLanes<T>);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < R && !stream; ++i) {
    for (int j = 0; j < V; ++j) __builtin_prefetch(c + i * ldc + j * kLanes<T>, 1);
  }
  for (int64_t t = 0; t < taps; ++t) {
    const T* base[kBases];
    for (int i = 0; i < kBases; ++i) base[i] = from + places[t] + i * kStep * step;
    for (int64_t p = 0; p < run; ++p) {
      Lanes<T> v[V];
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) v[j] = at<T>(b + j * kLanes<T>);
#pragma GCC unroll 16
      for (int i = 0; i < R; ++i) {
        const T x = base[i / kStep][i % kStep * step];
#pragma GCC unroll 8
        for (int j = 0; j < V; ++j) acc[i][j] += x * v[j];
      }
#pragma GCC unroll 8
      for (int i = 0; i < kBases; ++i) ++base[i];
      b += kColumns<T>;
      if (Fetch) {
        __builtin_prefetch(next, 0, 2);
        next += pace;
      }
    }
  }
  if (kColumns<T> * sizeof(T) < 64 || !stream) return finish<T, R, V>(acc, c, ldc, false);
#pragma GCC unroll 16
  for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) stream_vector(c + i * ldc + j * kLanes<T>, acc[i][j]);
  }
}

template <typename T, int R, int V>
void outer_kernel(int64_t depth, const T* __restrict a, const T* __restrict b, const int64_t* __restrict places,
                  T* __restrict c, int64_t ldc, bool accumulate) {
  Lanes<T> acc[R][V] = {};
  for (int64_t t = 0; t < depth; ++t) {
    Lanes<T> v[V];
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) v[j] = at<T>(b + places[t] + j * kLanes<T>);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) acc[i][j] += a[i] * v[j];
    }
    a += kPitch;
  }
  finish<T, R, V>(acc, c, ldc, accumulate);
}

template <typename T>
using Kernel = void (*)(int64_t, const int64_t*, int64_t, const T*, int64_t, const T*, T*, int64_t, bool);

template <typename T>
using OuterKernel = void (*)(int64_t, const T*, const T*, const int64_t*, T*, int64_t, bool);

template <typename T>
using WindowsKernel = void (*)(int64_t, const int64_t*, int64_t, const T*, int64_t, const T*, const T*, T*, int64_t,
                               const Ahead<T>&, bool);

constexpr std::make_integer_sequence<int, kRows> kAllRows;

template <typename T, int V, int... R>
Kernel<T> rows_kernel_of(int64_t rows, std::integer_sequence<int, R...>) {
  static constexpr Kernel<T> kernels[] = {rows_kernel<T, R + 1, V>...};
  return kernels[rows - 1];
}
template <typename T, int V, int... R>
OuterKernel<T> outer_kernel_of(int64_t rows, std::integer_sequence<int, R...>) {
  static constexpr OuterKernel<T> kernels[] = {outer_kernel<T, R + 1, V>...};
  return kernels[rows - 1];
}
template <typename T, int V, bool Fetch, int... R>
WindowsKernel<T> windows_kernel_of(int64_t rows, std::integer_sequence<int, R...>) {
  static constexpr WindowsKernel<T> kernels[] = {windows_kernel<T, R + 1, V, Fetch>...};
  return kernels[rows - 1];
}

template <typename T>
void multiply_rows(int64_t taps, const int64_t* places, int64_t channels, const T* a, int64_t block, const T* b, T* c,
                   int64_t ldc, int64_t rows, int64_t cols, bool accumulate) {
  const Kernel<T> run =
      cols <= kLanes<T> ? rows_kernel_of<T, 1>(rows, kAllRows) : rows_kernel_of<T, kVectors>(rows, kAllRows);
  run(taps, places, channels, a, block, b, c, ldc, accumulate);
}

template <typename T>
void multiply_outer(int64_t depth, const T* a, const T* b, const int64_t* places, T* c, int64_t ldc, int64_t rows,
                    int64_t cols, bool accumulate) {
  const OuterKernel<T> run =
      cols <= kLanes<T> ? outer_kernel_of<T, 1>(rows, kAllRows) : outer_kernel_of<T, kVectors>(rows, kAllRows);
  run(depth, a, b, places, c, ldc, accumulate);
}

template <typename T, bool Fetch>
WindowsKernel<T> windows_kernel_of(int64_t rows, int64_t cols) {
  return cols <= kLanes<T> ? windows_kernel_of<T, 1, Fetch>(rows, kAllRows)
                           : windows_kernel_of<T, kVectors, Fetch>(rows, kAllRows);
}

template <typename T>
void multiply_windows(int64_t taps, const int64_t* places, int64_t run, const T* a, int64_t step, const T* b,
                      const T* bias, T* c, int64_t ldc, int64_t rows, int64_t cols, const Ahead<T>& ahead,
                      bool stream) {
  const WindowsKernel<T> kernel =
      ahead.base != nullptr ? windows_kernel_of<T, true>(rows, cols) : windows_kernel_of<T, false>(rows, cols);
  kernel(taps, places, run, a, step, b, bias, c, ldc, ahead, stream);
}

// ---- Winograd's transforms ----

// B' x, A x, A' x, G x and G' x of four, two or three values, `S` apart.
template <typename V, int S>
FACULA_INLINE void input_step(const V* x, V* y) {
  y[0] = x[0] - x[2 * S];
  y[S] = x[S] + x[2 * S];
  y[2 * S] = x[2 * S] - x[S];
  y[3 * S] = x[S] - x[3 * S];
}

template <typename T>
void winograd_input(int64_t channels, const T* __restrict in, int64_t row, int64_t pixel, T* __restrict out,
                    int64_t block, int64_t plane) {
  for (int64_t c = 0; c < channels; c += kLanes<T>) {
    Lanes<T> d[16], e[16], f[16];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) d[4 * i + j] = at<T>(in + i * row + j * pixel + c);
    }
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) input_step<Lanes<T>, 4>(d + j, e + j);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) input_step<Lanes<T>, 1>(e + 4 * i, f + 4 * i);
    T* to = out + c / kPitch * block + c % kPitch;
#pragma GCC unroll 16
    for (int k = 0; k < 16; ++k) put<T>(to + k * plane, f[k]);
  }
}

template <typename T>
void winograd_grad(int64_t channels, const T* __restrict in, int64_t row, int64_t pixel, T* __restrict out,
                   int64_t block, int64_t plane) {
  for (int64_t c = 0; c < channels; c += kLanes<T>) {
    const T* from = in + c;
    T* to = out + c / kPitch * block + c % kPitch;
    const Lanes<T> g[2][2] = {{at<T>(from), at<T>(from + pixel)}, {at<T>(from + row), at<T>(from + row + pixel)}};
    const Lanes<T> rows[4][2] = {{g[0][0], g[0][1]},
                                 {g[0][0] + g[1][0], g[0][1] + g[1][1]},
                                 {g[0][0] - g[1][0], g[0][1] - g[1][1]},
                                 {-g[1][0], -g[1][1]}};
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      put<T>(to + (4 * i) * plane, rows[i][0]);
      put<T>(to + (4 * i + 1) * plane, rows[i][0] + rows[i][1]);
      put<T>(to + (4 * i + 2) * plane, rows[i][0] - rows[i][1]);
      put<T>(to + (4 * i + 3) * plane, -rows[i][1]);
    }
  }
}

template <typename T>
void winograd_output(int64_t channels, const T* __restrict m, int64_t plane, const T* __restrict bias, T* const* out,
                     T* __restrict check) {
  Lanes<T> odd = at<T>(check);
  for (int64_t c = 0; c < channels; c += kLanes<T>) {
    Lanes<T> s[2][4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
      const T* from = m + c + j * plane;
      const Lanes<T> m0 = at<T>(from), m1 = at<T>(from + 4 * plane), m2 = at<T>(from + 8 * plane),
                     m3 = at<T>(from + 12 * plane);
      s[0][j] = m0 + m1 + m2;
      s[1][j] = m1 - m2 - m3;
    }
    const Lanes<T> b = at<T>(bias + c);
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const Lanes<T> y0 = s[i][0] + s[i][1] + s[i][2] + b, y1 = s[i][1] - s[i][2] - s[i][3] + b;
      put<T>(out[2 * i] + c, y0);
      put<T>(out[2 * i + 1] + c, y1);
      odd += y0 * T(0) + y1 * T(0);
    }
  }
  put<T>(check, odd);
}

template <typename T>
void winograd_filters(int64_t count, const T* __restrict g, int64_t step, bool turned, T* __restrict u, int64_t plane) {
  T places[9][kLanes<T>] = {};
  for (int64_t i = 0; i < count; ++i) {
    for (int t = 0; t < 9; ++t) places[turned ? 8 - t : t][i] = g[i * step + t];
  }
  Lanes<T> rows[4][3];
  const T half = T(0.5);
  for (int j = 0; j < 3; ++j) {
    const Lanes<T> g0 = at<T>(places[j]), g1 = at<T>(places[3 + j]), g2 = at<T>(places[6 + j]);
    rows[0][j] = g0;
    rows[1][j] = (g0 + g1 + g2) * half;
    rows[2][j] = (g0 - g1 + g2) * half;
    rows[3][j] = g2;
  }
  for (int i = 0; i < 4; ++i) {
    put<T>(u + (4 * i) * plane, rows[i][0]);
    put<T>(u + (4 * i + 1) * plane, (rows[i][0] + rows[i][1] + rows[i][2]) * half);
    put<T>(u + (4 * i + 2) * plane, (rows[i][0] - rows[i][1] + rows[i][2]) * half);
    put<T>(u + (4 * i + 3) * plane, rows[i][2]);
  }
}

template <typename T>
void winograd_filter_grads(int64_t count, const T* __restrict u, int64_t plane, int64_t pieces, int64_t size,
                           T* __restrict g, int64_t step) {
  Lanes<T> rows[3][4];
  const T half = T(0.5);
  for (int j = 0; j < 4; ++j) {
    Lanes<T> x[4];
    for (int i = 0; i < 4; ++i) {
      const T* from = u + (4 * i + j) * plane;
      x[i] = at<T>(from);
      for (int64_t p = 1; p < pieces; ++p) x[i] += at<T>(from + p * size);
    }
    const Lanes<T> sum = (x[1] + x[2]) * half;
    rows[0][j] = x[0] + sum;
    rows[1][j] = (x[1] - x[2]) * half;
    rows[2][j] = sum + x[3];
  }
  T places[9][kLanes<T>];
  for (int i = 0; i < 3; ++i) {
    const Lanes<T> sum = (rows[i][1] + rows[i][2]) * half;
    put<T>(places[3 * i], rows[i][0] + sum);
    put<T>(places[3 * i + 1], (rows[i][1] - rows[i][2]) * half);
    put<T>(places[3 * i + 2], sum + rows[i][3]);
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int t = 0; t < 9; ++t) g[i * step + t] = places[t][i];
  }
}

// ---- between NCHW and NHWC ----

// row(i)[j] becomes column(j)[i]: by blocks of lanes x lanes, of which the last of a dim reaches back, so that
// all are whole.
template <typename T, typename Row, typename Column>
FACULA_INLINE void transpose(int64_t rows, int64_t columns, const Row& row, const Column& column) {
  constexpr int64_t kN = kLanes<T>;
  if (rows < kN || columns < kN) {
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = 0; j < columns; ++j) column(j)[i] = row(i)[j];
    }
    return;
  }
  for (int64_t i0 = 0; i0 < rows; i0 += kN) {
    const int64_t i = i0 + kN <= rows ? i0 : rows - kN;
    for (int64_t j0 = 0; j0 < columns; j0 += kN) {
      const int64_t j = j0 + kN <= columns ? j0 : columns - kN;
      Lanes<T> r[kN];
#pragma GCC unroll 16
      for (int k = 0; k < kN; ++k) r[k] = at<T>(row(i + k) + j);
      transpose_block<T>(r);
#pragma GCC unroll 16
      for (int k = 0; k < kN; ++k) put<T>(column(j + k) + i, r[k]);
    }
  }
}

template <typename T>
void nchw_to_nhwc(int64_t count, int64_t channels, const T* __restrict in, int64_t channel,
                  const int64_t* __restrict places, T* __restrict out) {
  transpose<T>(
      channels, count, [=](int64_t c) { return in + c * channel; }, [=](int64_t p) { return out + places[p]; });
}

template <typename T>
void nhwc_to_nchw(int64_t count, int64_t channels, const T* __restrict in, int64_t pitch, T* __restrict out,
                  int64_t channel) {
  transpose<T>(
      count, channels, [=](int64_t p) { return in + p * pitch; }, [=](int64_t c) { return out + c * channel; });
}

}  // namespace

#define FACULA_CONV_TILE(T)  \
  {kLanes<T>,                \
   kRows,                    \
   kColumns<T>,              \
   multiply_rows<T>,         \
   multiply_windows<T>,      \
   multiply_outer<T>,        \
   winograd_input<T>,        \
   winograd_grad<T>,         \
   winograd_output<T>,       \
   winograd_filters<T>,      \
   winograd_filter_grads<T>, \
   nchw_to_nhwc<T>,          \
   nhwc_to_nchw<T>}
FACULA_DEFINE_BY_ISA(ConvTile<float>, conv_tile_float, FACULA_CONV_TILE(float))
FACULA_DEFINE_BY_ISA(ConvTile<double>, conv_tile_double, FACULA_CONV_TILE(double))
#undef FACULA_CONV_TILE

}  // namespace facula
