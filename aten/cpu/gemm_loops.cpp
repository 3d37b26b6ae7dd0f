#include "aten/cpu/gemm_loops.h"

#include <utility>

namespace facula {
namespace {

#if defined(__AVX512F__)
constexpr int kBytes = 64, kRows = 14, kVectors = 2;
#elif defined(__AVX__)
constexpr int kBytes = 32, kRows = 6, kVectors = 2;
#else
constexpr int kBytes = 16, kRows = 6, kVectors = 2;
#endif

template <typename T>
struct VectorOf {
  typedef T type __attribute__((vector_size(kBytes)));
};
template <typename T>
constexpr int kLanes = kBytes / static_cast<int>(sizeof(T));
template <typename T>
constexpr int kColumns = kVectors * kLanes<T>;

// One tile of R rows and V vectors of columns; the accumulators stay in registers over the depth.
template <typename T, int R, int V>
void kernel(int64_t depth, const T* __restrict a, int64_t width, const T* __restrict b, T* __restrict c, int64_t ldc,
            int64_t cols, bool accumulate) {
  using Vector = typename VectorOf<T>::type;
  Vector acc[R][V] = {};
  for (int64_t p = 0; p < depth; ++p) {
    Vector v[V];
#pragma GCC unroll 8
    for (int j = 0; j < V; ++j) __builtin_memcpy(&v[j], b + j * kLanes<T>, kBytes);
#pragma GCC unroll 16
    for (int i = 0; i < R; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < V; ++j) acc[i][j] += a[i] * v[j];
    }
    a += width;
    b += kColumns<T>;
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
using Kernel = void (*)(int64_t, const T*, int64_t, const T*, T*, int64_t, int64_t, bool);

template <typename T, int V, int... R>
constexpr Kernel<T> pick(int64_t rows, std::integer_sequence<int, R...>) {
  constexpr Kernel<T> kernels[] = {kernel<T, R + 1, V>...};
  return kernels[rows - 1];
}

template <typename T>
void tile(int64_t depth, const T* a, int64_t width, const T* b, T* c, int64_t ldc, int64_t rows, int64_t cols,
          bool accumulate) {
  constexpr std::make_integer_sequence<int, kRows> all;
  const Kernel<T> run = cols <= kLanes<T> ? pick<T, 1>(rows, all) : pick<T, kVectors>(rows, all);
  run(depth, a, width, b, c, ldc, cols, accumulate);
}

template <typename T>
void pack(int64_t depth, int64_t count, int64_t width, const T* __restrict in, int64_t step, int64_t along,
          T* __restrict out) {
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
  for (int64_t i = 0; i < count; ++i) {
    const T* row = in + i * step;
    if (along == 1) {
      for (int64_t p = 0; p < depth; ++p) out[p * width + i] = row[p];
    } else {
      for (int64_t p = 0; p < depth; ++p) out[p * width + i] = row[p * along];
    }
  }
  for (int64_t i = count; i < width; ++i) {
    for (int64_t p = 0; p < depth; ++p) out[p * width + i] = T(0);
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(GemmLoops<float>, gemm_loops_float, {kRows, kColumns<float>, tile<float>, pack<float>})
FACULA_DEFINE_BY_ISA(GemmLoops<double>, gemm_loops_double, {kRows, kColumns<double>, tile<double>, pack<double>})

}  // namespace facula
