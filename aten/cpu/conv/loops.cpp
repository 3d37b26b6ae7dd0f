// build: levels fused
#include "aten/cpu/conv/loops.h"

#include <type_traits>

#include "aten/cpu/gemm/panel.h"

namespace facula {
namespace {

// Elements that are copied at a time: a run of few positions is one move, what it writes too far is
// overwritten by the next.
template <typename T>
constexpr int64_t kStep = sizeof(T) == 4 ? 16 : 8;

template <typename T>
void pack_windows(int64_t depth, const int64_t* __restrict taps, const Run* __restrict runs, int64_t run_count,
                  int64_t width, const T* __restrict image, T* __restrict out) {
  int64_t total = 0;
  for (int64_t r = 0; r < run_count; ++r) total += runs[r].count;
  for (int64_t p = 0; p < depth; ++p) {
    const T* base = image + taps[p];
    T* to = out + p * width;
    for (int64_t r = 0; r < run_count; ++r) {
      const T* from = base + runs[r].offset;
      const int64_t n = runs[r].count;
      // A panel is at most two steps wide; a loop would become a call of memcpy.
      __builtin_memcpy(to, from, kStep<T> * sizeof(T));
      if (n > kStep<T>) __builtin_memcpy(to + kStep<T>, from + kStep<T>, kStep<T> * sizeof(T));
      to += n;
    }
    for (int64_t i = total; i < width; ++i) *to++ = T(0);
  }
}

template <typename T>
void gather_rows(int64_t count, const int64_t* __restrict taps, const Run* __restrict runs, int64_t run_count,
                 int64_t stride, const T* __restrict image, T* __restrict out) {
  for (int64_t p = 0; p < count; ++p) {
    const T* base = image + taps[p];
    T* to = out + p * stride;
    for (int64_t r = 0; r < run_count; ++r) {
      const T* from = base + runs[r].offset;
      const int64_t n = runs[r].count;
      for (int64_t i = 0; i < n; i += kStep<T>) {
        __builtin_memcpy(to + i, from + i, kStep<T> * sizeof(T));
        asm volatile("");  // else the loop becomes a call of memcpy
      }
      to += n;
    }
  }
}

template <typename T>
void pack_weights(int64_t depth, const int64_t* __restrict offsets, int64_t count, int64_t step, int64_t width,
                  const T* __restrict in, T* __restrict out) {
  for (int64_t p = 0; p < depth; ++p) {
    const T* from = in + offsets[p];
    T* to = out + p * width;
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * step];
    for (int64_t i = count; i < width; ++i) to[i] = T(0);
  }
}

template <typename T>
void every(int64_t n, int64_t step, const T* __restrict in, T* __restrict out) {
  if (step == 2) {  // a step that the compiler knows is done in vectors
    for (int64_t i = 0; i < n; ++i) out[i] = in[2 * i];
  } else {
    for (int64_t i = 0; i < n; ++i) out[i] = in[step * i];
  }
}

constexpr int64_t kTile = 64, kTaps = 128;
constexpr int kPixelsTogether = 8;
constexpr int64_t kPixelBlock = 16;

template <typename T>
void row(int64_t depth, const int64_t* __restrict taps, const T* __restrict weight, T bias, int64_t n,
         const T* __restrict image, T* __restrict out) {
  for (int64_t i0 = 0; i0 < n; i0 += kTile) {
    const int64_t m = n - i0 < kTile ? n - i0 : kTile;
    T acc[kTile];
    double totals[kTile];  // of several runs of taps, as a long sum in T loses digits
    for (int64_t i = 0; i < kTile; ++i) acc[i] = bias;
    for (int64_t p = 0; p < depth;) {
      for (const int64_t last = depth - p < kTaps ? depth : p + kTaps; p < last; ++p) {
        const T w = weight[p];
        const T* from = image + taps[p] + i0;
#pragma omp simd
        for (int64_t i = 0; i < m; ++i) acc[i] += w * from[i];
      }
      for (int64_t i = 0; i < m && depth > kTaps; ++i) {
        totals[i] = (p > kTaps ? totals[i] : 0) + static_cast<double>(acc[i]);
        acc[i] = p < depth ? 0 : static_cast<T>(totals[i]);
      }
    }
    for (int64_t i = 0; i < m; ++i) out[i0 + i] = acc[i];
  }
}

template <typename T>
T correlate(int64_t n, const T* __restrict a, const T* __restrict b) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

// V vectors of one row. They are written whole where what is too much lies in rows that follow.
template <typename T, int V>
inline __attribute__((always_inline)) void part_of_row(int64_t depth, const int64_t* __restrict taps,
                                                       const T* __restrict weight, T bias, const T* __restrict image,
                                                       int64_t n, int64_t room, T* __restrict out) {
  Lanes<T> acc[V];
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) acc[v] = Lanes<T>{} + bias;
  for (int64_t p = 0; p < depth; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      Lanes<T> x;
      __builtin_memcpy(&x, image + taps[p] + v * kLanes<T>, kBytes);
      acc[v] += x * weight[p];
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < V; ++v) {
    const int64_t at = v * kLanes<T>;
    if (at >= n) break;
    if (at + kLanes<T> <= room) {
      __builtin_memcpy(out + at, &acc[v], kBytes);
    } else {
      for (int64_t i = 0; at + i < n && i < kLanes<T>; ++i) out[at + i] = acc[v][i];
    }
  }
}

template <typename T>
void depthwise_nchw(int64_t rows, int64_t n, int64_t depth, const int64_t* taps, const T* weight, T bias,
                    const T* image, int64_t step, T* out) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < n; i += 4 * kLanes<T>) {
      const T* from = image + r * step + i;
      T* to = out + r * n + i;
      const int64_t rest = n - i, room = (rows - r) * n - i;
      if (rest > 2 * kLanes<T>) {
        part_of_row<T, 4>(depth, taps, weight, bias, from, rest, room, to);
      } else if (rest > kLanes<T>) {
        part_of_row<T, 2>(depth, taps, weight, bias, from, rest, room, to);
      } else {
        part_of_row<T, 1>(depth, taps, weight, bias, from, rest, room, to);
      }
    }
  }
}

// The last vector of a row reaches back over lanes that were summed before; these are left out. Rows of the gradient
// are `grad_step` apart.
template <typename T>
void strip_grads(int64_t rows, int64_t n, const int64_t* __restrict taps, const T* __restrict image, int64_t step,
                 const T* __restrict grad, int64_t grad_step, double* __restrict sums) {
  using Bits = Lanes<std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>;
  constexpr int64_t kN = kLanes<T>;
  if (n < kN) {
    for (int p = 0; p < kTapsTogether; ++p) {
      T sum = 0;
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < n; ++i) sum += grad[r * grad_step + i] * image[r * step + taps[p] + i];
      }
      sums[p] += static_cast<double>(sum);
    }
    return;
  }
  const int64_t rest = n % kN;
  Bits keep{};
  for (int64_t i = 0; i < kN; ++i) keep[i] = i >= kN - rest ? -1 : 0;
  Lanes<T> acc[kTapsTogether] = {};
  for (int64_t r = 0; r < rows; ++r) {
    const T* g = grad + r * grad_step;
    const T* x = image + r * step;
    for (int64_t i = 0; i + kN <= n; i += kN) {
      Lanes<T> dy;
      __builtin_memcpy(&dy, g + i, kBytes);
#pragma GCC unroll 9
      for (int p = 0; p < kTapsTogether; ++p) {
        Lanes<T> v;
        __builtin_memcpy(&v, x + taps[p] + i, kBytes);
        acc[p] += dy * v;
      }
    }
    if (rest == 0) continue;
    Bits dy;
    __builtin_memcpy(&dy, g + n - kN, kBytes);
    dy &= keep;
#pragma GCC unroll 9
    for (int p = 0; p < kTapsTogether; ++p) {
      Bits v;
      __builtin_memcpy(&v, x + taps[p] + n - kN, kBytes);
      v &= keep;
      acc[p] += __builtin_bit_cast(Lanes<T>, dy) * __builtin_bit_cast(Lanes<T>, v);
    }
  }
  for (int p = 0; p < kTapsTogether; ++p) {
    T sum = 0;
    for (int64_t i = 0; i < kN; ++i) sum += acc[p][i];
    sums[p] += static_cast<double>(sum);
  }
}

// In strips of which a lane adds up some hundred terms in T: of more the sums are made in double, or they would lose
// digits.
template <typename T>
void depthwise_nchw_grads(int64_t rows, int64_t n, const int64_t* taps, const T* image, int64_t step, const T* grad,
                          double* sums) {
  constexpr int64_t kTerms = 128, kWidest = kTerms * kLanes<T>;
  for (int64_t x = 0; x < n;) {
    const int64_t width = n - x < 2 * kWidest ? n - x : kWidest, vectors = width / kLanes<T> + 1;
    const int64_t strip = vectors < kTerms ? kTerms / vectors : 1;
    for (int64_t r = 0; r < rows; r += strip) {
      strip_grads(rows - r < strip ? rows - r : strip, width, taps, image + r * step + x, step, grad + r * n + x, n,
                  sums);
    }
    x += width;
  }
}

// All channels of `P` neighbouring pixels, so that memory is read and written line by line; the pixels that follow
// are fetched meanwhile.
template <typename T, int P>
inline __attribute__((always_inline)) void nhwc_together(int64_t channels, int64_t step, int64_t count,
                                                         const int64_t* __restrict at, const int64_t* __restrict place,
                                                         const T* __restrict x, const T* __restrict weight,
                                                         const T* __restrict bias, T* __restrict out) {
  const T* ahead = x + (count > 0 ? at[count - 1] : 0) + kPixelsTogether * step;
  int64_t c = 0;
  for (; c + kLanes<T> <= channels; c += kLanes<T>) {
    Lanes<T> acc[P] = {};
    if (bias != nullptr) {
      Lanes<T> b;
      __builtin_memcpy(&b, bias + c, kBytes);
#pragma GCC unroll 8
      for (int i = 0; i < P; ++i) acc[i] = b;
    }
    for (int64_t k = 0; k < count; ++k) {
      Lanes<T> w;
      __builtin_memcpy(&w, weight + place[k] + c, kBytes);
      const T* from = x + at[k] + c;
#pragma GCC unroll 8
      for (int i = 0; i < P; ++i, from += step) {
        Lanes<T> a;
        __builtin_memcpy(&a, from, kBytes);
        acc[i] += a * w;
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < P; ++i) {
      __builtin_prefetch(ahead + i * step + c);
      __builtin_prefetch(out + (kPixelsTogether + i) * channels + c, 1);
      __builtin_memcpy(out + i * channels + c, &acc[i], kBytes);
    }
  }
  for (; c < channels; ++c) {
    for (int i = 0; i < P; ++i) {
      T sum = bias != nullptr ? bias[c] : T(0);
      for (int64_t k = 0; k < count; ++k) sum += weight[place[k] + c] * x[at[k] + i * step + c];
      out[i * channels + c] = sum;
    }
  }
}

template <typename T>
void depthwise_nhwc(int64_t channels, int64_t n, int64_t step, int64_t count, const int64_t* at, const int64_t* place,
                    const T* x, const T* weight, const T* bias, T* out) {
  int64_t i = 0;
  for (; i + kPixelsTogether <= n; i += kPixelsTogether) {
    nhwc_together<T, kPixelsTogether>(channels, step, count, at, place, x + i * step, weight, bias, out + i * channels);
  }
  for (; i + 3 <= n; i += 3) {
    nhwc_together<T, 3>(channels, step, count, at, place, x + i * step, weight, bias, out + i * channels);
  }
  for (; i < n; ++i) {
    nhwc_together<T, 1>(channels, step, count, at, place, x + i * step, weight, bias, out + i * channels);
  }
}

// Sums of `N` taps stay in registers over the pixels.
template <typename T, int N, int V>
inline __attribute__((always_inline)) void nhwc_grads_part(int64_t channels, int64_t n, int64_t step,
                                                           const int64_t* __restrict at,
                                                           const int64_t* __restrict place, const T* __restrict x,
                                                           const T* __restrict grad, T* __restrict sums) {
  Lanes<T> acc[N][V] = {};
  for (int64_t i = 0; i < n; ++i) {
    Lanes<T> g[V];
    __builtin_memcpy(g, grad + i * channels, sizeof(g));
    __builtin_prefetch(grad + (i + kPixelBlock) * channels);
    __builtin_prefetch(x + at[N - 1] + (i + kPixelBlock) * step);
#pragma GCC unroll 9
    for (int k = 0; k < N; ++k) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) {
        Lanes<T> a;
        __builtin_memcpy(&a, x + at[k] + i * step + v * kLanes<T>, kBytes);
        acc[k][v] += g[v] * a;
      }
    }
  }
  for (int k = 0; k < N; ++k) {
    Lanes<T> sum[V];
    __builtin_memcpy(sum, sums + place[k], sizeof(sum));
    for (int v = 0; v < V; ++v) sum[v] += acc[k][v];
    __builtin_memcpy(sums + place[k], sum, sizeof(sum));
  }
}

template <typename T>
void nhwc_grads_block(int64_t channels, int64_t n, int64_t step, int64_t count, const int64_t* at, const int64_t* place,
                      const T* x, const T* grad, T* sums) {
  int64_t c = 0;
  if (count == kTapsTogether) {
    for (; c + 2 * kLanes<T> <= channels; c += 2 * kLanes<T>) {
      nhwc_grads_part<T, kTapsTogether, 2>(channels, n, step, at, place, x + c, grad + c, sums + c);
    }
  }
  for (; c + kLanes<T> <= channels; c += kLanes<T>) {
    int64_t k = 0;
    for (; k + 3 <= count; k += 3) {
      nhwc_grads_part<T, 3, 1>(channels, n, step, at + k, place + k, x + c, grad + c, sums + c);
    }
    for (; k < count; ++k) nhwc_grads_part<T, 1, 1>(channels, n, step, at + k, place + k, x + c, grad + c, sums + c);
  }
  for (; c < channels; ++c) {
    for (int64_t k = 0; k < count; ++k) {
      T sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += grad[i * channels + c] * x[at[k] + i * step + c];
      sums[place[k] + c] += sum;
    }
  }
}

// By blocks of pixels that stay in the first-level cache over all their channels.
template <typename T>
void depthwise_nhwc_grads(int64_t channels, int64_t n, int64_t step, int64_t count, const int64_t* at,
                          const int64_t* place, const T* x, const T* grad, T* sums) {
  for (int64_t i = 0; i < n; i += kPixelBlock) {
    nhwc_grads_block(channels, n - i < kPixelBlock ? n - i : kPixelBlock, step, count, at, place, x + i * step,
                     grad + i * channels, sums);
  }
}

template <typename T>
void add_times(int64_t n, T by, const T* __restrict in, int64_t step, double* __restrict out, int64_t out_step) {
  const auto factor = static_cast<double>(by);
  if (step == 1 && out_step == 1) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] += factor * static_cast<double>(in[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) out[i * out_step] += factor * static_cast<double>(in[i * step]);
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(ConvLoops<float>, conv_loops_float,
                     {pack_windows<float>, gather_rows<float>, pack_weights<float>, every<float>, row<float>,
                      correlate<float>, depthwise_nchw<float>, depthwise_nhwc<float>, depthwise_nhwc_grads<float>,
                      depthwise_nchw_grads<float>, add_times<float>})
FACULA_DEFINE_BY_ISA(ConvLoops<double>, conv_loops_double,
                     {pack_windows<double>, gather_rows<double>, pack_weights<double>, every<double>, row<double>,
                      correlate<double>, depthwise_nchw<double>, depthwise_nhwc<double>, depthwise_nhwc_grads<double>,
                      depthwise_nchw_grads<double>, add_times<double>})

}  // namespace facula
