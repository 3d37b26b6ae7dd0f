#include "aten/cpu/gemm_loops.h"

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

// The accumulators of a tile stay in registers over the whole depth.
template <typename T>
inline __attribute__((always_inline)) void multiply(int64_t depth, const T* __restrict a, const T* __restrict b,
                                                    typename VectorOf<T>::type (&acc)[kRows][kVectors]) {
  using Vector = typename VectorOf<T>::type;
  for (int64_t p = 0; p < depth; ++p) {
    Vector v[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) __builtin_memcpy(&v[j], b + j * kLanes<T>, kBytes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) acc[i][j] += a[i] * v[j];
    }
    a += kRows;
    b += kColumns<T>;
  }
}

template <typename T>
void tile(int64_t depth, const T* a, const T* b, T* c, int64_t ldc, int64_t rows, int64_t cols, bool accumulate) {
  using Vector = typename VectorOf<T>::type;
  Vector acc[kRows][kVectors] = {};
  multiply(depth, a, b, acc);
  if (rows == kRows && cols == kColumns<T>) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      T* row = c + i * ldc;
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) {
        T* at = row + j * kLanes<T>;
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
  T full[kRows][kColumns<T>];
  __builtin_memcpy(full, acc, sizeof(full));
  for (int64_t i = 0; i < rows; ++i) {
    T* row = c + i * ldc;
    if (accumulate) {
      for (int64_t j = 0; j < cols; ++j) row[j] += full[i][j];
    } else {
      for (int64_t j = 0; j < cols; ++j) row[j] = full[i][j];
    }
  }
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
