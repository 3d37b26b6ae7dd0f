#include "aten/cpu/gemm_loops.h"

#include <type_traits>
#include <utility>

#include "aten/cpu/transpose.h"

namespace facula {
namespace {

// One tile of R rows and V vectors of columns; the accumulators stay in registers over the depth. The
// columns of depth p are at b + p * (panel width), or with Taps at b + taps[p].
template <typename T, int R, int V, bool Taps>
void kernel(int64_t depth, const T* __restrict a, int64_t width, const T* __restrict b, const int64_t* __restrict taps,
            T* __restrict c, int64_t ldc, int64_t cols, bool accumulate) {
  using Vector = Lanes<T>;
  Vector acc[R][V] = {};
  for (int64_t p = 0; p < depth; ++p) {
    Vector v[V];
    const T* from = Taps ? b + taps[p] : b + p * kColumns<T>;
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) __builtin_memcpy(&v[j], from + j * kLanes<T>, kBytes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) acc[i][j] += a[i] * v[j];
    }
    a += width;
  }
  if (cols == V * kLanes<T>) {
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) {
        T* at = c + i * ldc + j * kLanes<T>;
        Vector v = acc[i][j];
        if (accumulate) {
          Vector old;
          __builtin_memcpy(&old, at, kBytes);
          v += old;
        }
        __builtin_memcpy(at, &v, kBytes);
      }
    }
    return;
  }
  T full[R][V * kLanes<T>];
  __builtin_memcpy(full, acc, sizeof(full));
  for (int i = 0; i < R; ++i) {
    T* row = c + i * ldc;
    if (accumulate) {
      for (int64_t j = 0; j < cols; ++j) row[j] += full[i][j];
    } else {
      for (int64_t j = 0; j < cols; ++j) row[j] = full[i][j];
    }
  }
}

template <typename T>
using Kernel = void (*)(int64_t, const T*, int64_t, const T*, const int64_t*, T*, int64_t, int64_t, bool);

template <typename T, int V, bool Taps, int... R>
constexpr Kernel<T> pick(int64_t rows, std::integer_sequence<int, R...>) {
  constexpr Kernel<T> kernels[] = {kernel<T, R + 1, V, Taps>...};
  return kernels[rows - 1];
}

constexpr std::make_integer_sequence<int, kRows> kAllRows;

template <typename T>
void tile(int64_t depth, const T* a, int64_t width, const T* b, T* c, int64_t ldc, int64_t rows, int64_t cols,
          bool accumulate) {
  const Kernel<T> run =
      cols <= kLanes<T> ? pick<T, 1, false>(rows, kAllRows) : pick<T, kVectors, false>(rows, kAllRows);
  run(depth, a, width, b, nullptr, c, ldc, cols, accumulate);
}

template <typename T>
void tile_taps(int64_t depth, const T* a, int64_t width, const T* b, const int64_t* taps, T* c, int64_t ldc,
               int64_t rows, int64_t cols, bool accumulate) {
  pick<T, kVectors, true>(rows, kAllRows)(depth, a, width, b, taps, c, ldc, cols, accumulate);
}

// ---- packing ----

// Rows of `in` (count <= lanes, `step` apart) become columns of `out`, in blocks of lanes x lanes. Vectors are
// written whole, ascending: what is too much is overwritten by the next, and the last ends within `out`.
template <typename T>
void pack_rows(int64_t depth, int64_t count, int64_t width, const T* __restrict in, int64_t step, T* __restrict out) {
  constexpr int kN = kLanes<T>;
  int64_t p = 0;
  for (; p + kN <= depth && (p + kN - 1) * width + kN <= depth * width; p += kN) {
    Lanes<T> r[kN] = {};
    for (int64_t i = 0; i < count; ++i) __builtin_memcpy(&r[i], in + i * step + p, kBytes);
    transpose_block<T>(r);
#pragma GCC unroll 16
    for (int i = 0; i < kN; ++i) __builtin_memcpy(out + (p + i) * width, &r[i], kBytes);
  }
  for (; p < depth; ++p) {
    for (int64_t i = 0; i < count; ++i) out[p * width + i] = in[i * step + p];
    for (int64_t i = count; i < (width < kN ? width : kN); ++i) out[p * width + i] = T(0);
  }
}

template <typename T>
void pack(int64_t depth, int64_t count, int64_t width, const T* __restrict in, int64_t step, int64_t along,
          T* __restrict out) {
  constexpr int64_t kN = kLanes<T>;
  if (step == 1 && count == width) {
    if (width == kColumns<T>) {
      for (int64_t p = 0; p < depth; ++p) {
        __builtin_memcpy(out + p * kColumns<T>, in + p * along, sizeof(T) * kColumns<T>);
      }
      return;
    }
    for (int64_t p = 0; p < depth; ++p) {
      for (int64_t i = 0; i < width; ++i) out[p * width + i] = in[p * along + i];
    }
    return;
  }
  if (along == 1 && (width <= kN || width % kN == 0)) {
    for (int64_t i = 0; i < width; i += kN) {
      const int64_t rest = count - i;
      pack_rows(depth, rest < 0 ? 0 : rest < kN ? rest : kN, width, in + i * step, step, out + i);
    }
    return;
  }
  for (int64_t i = 0; i < width; ++i) {
    for (int64_t p = 0; p < depth; ++p) out[p * width + i] = i < count ? in[i * step + p * along] : T(0);
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(GemmLoops<float>, gemm_loops_float,
                     {kRows, kColumns<float>, tile<float>, tile_taps<float>, pack<float>})
FACULA_DEFINE_BY_ISA(GemmLoops<double>, gemm_loops_double,
                     {kRows, kColumns<double>, tile<double>, tile_taps<double>, pack<double>})

}  // namespace facula
