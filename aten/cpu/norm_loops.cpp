// Rows and columns of layer, group and batch normalisation. Sums are taken in blocks, whose totals
// add up in double.
#include "aten/cpu/nn_loops.h"

namespace facula {
namespace {

constexpr int64_t kBlock = 2048, kRows = 64;

inline int64_t length(int64_t n, int64_t i, int64_t block) { return n - i < block ? n - i : block; }

template <typename T>
double mean(int64_t n, const T* x) {
  double total = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = length(n, i, kBlock);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < m; ++j) sum += x[i + j];
    total += static_cast<double>(sum);
  }
  return total / static_cast<double>(n);
}

template <typename T>
double mean_square(int64_t n, const T* x, double center) {
  const T c = static_cast<T>(center);
  double total = 0;
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = length(n, i, kBlock);
    T sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = 0; j < m; ++j) sum += (x[i + j] - c) * (x[i + j] - c);
    total += static_cast<double>(sum);
  }
  // The rounding of `center` to T shifts every difference alike.
  const double shift = center - static_cast<double>(c);
  return total / static_cast<double>(n) - shift * shift;
}

template <typename T>
void affine(int64_t n, const T* __restrict x, T scale, T shift, T* __restrict out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale + shift;
}

template <typename T>
void normalize(int64_t n, const T* __restrict x, T mean, T rstd, const T* __restrict w, const T* __restrict b,
               T* __restrict out) {
  if (w != nullptr && b != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd * w[i] + b[i];
  } else if (w != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd * w[i];
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - mean) * rstd;
    if (b != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) out[i] += b[i];
    }
  }
}

template <typename T>
GradSums grad_sums(int64_t n, const T* dy, const T* x, double mean, const T* w) {
  const T c = static_cast<T>(mean);
  GradSums total{0, 0};
  for (int64_t i = 0; i < n; i += kBlock) {
    const int64_t m = length(n, i, kBlock);
    T s1 = 0, s2 = 0;
    if (w != nullptr) {
#pragma omp simd reduction(+ : s1, s2)
      for (int64_t j = i; j < i + m; ++j) {
        const T g = dy[j] * w[j];
        s1 += g;
        s2 += g * (x[j] - c);
      }
    } else {
#pragma omp simd reduction(+ : s1, s2)
      for (int64_t j = i; j < i + m; ++j) {
        s1 += dy[j];
        s2 += dy[j] * (x[j] - c);
      }
    }
    total.grad += static_cast<double>(s1);
    total.scaled += static_cast<double>(s2);
  }
  return total;
}

template <typename T>
void norm_backward(int64_t n, const T* __restrict dy, const T* __restrict x, const T* __restrict w, T a, T b, T c,
                   T* __restrict gi) {
  if (w != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gi[i] = dy[i] * w[i] * a + (x[i] * b + c);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gi[i] = dy[i] * a + (x[i] * b + c);
  }
}

template <typename T>
void weight_grads(int64_t n, const T* __restrict dy, const T* __restrict x, T mean, T rstd, T* __restrict gw,
                  T* __restrict gb) {
  if (gw != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gw[i] += dy[i] * ((x[i] - mean) * rstd);
  }
  if (gb != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) gb[i] += dy[i];
  }
}

// Columns are taken in blocks whose values stay in registers, rows in blocks that stay in the cache; T
// sums are emptied into double ones after each block. `width` is a constant where the block is whole.
constexpr int64_t kColumns = 64;
#define FACULA_INLINE inline __attribute__((always_inline))

template <typename T>
FACULA_INLINE void add_moments(int64_t height, int64_t n, int64_t width, const T* __restrict x, double count,
                               double* __restrict mean, double* __restrict squares) {
  T sum[kColumns] = {}, center[kColumns], square[kColumns] = {};
  for (int64_t i = 0; i < height; ++i) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) sum[j] += x[i * n + j];
  }
  const T part = T(1) / static_cast<T>(height);
#pragma omp simd
  for (int64_t j = 0; j < width; ++j) center[j] = sum[j] * part;
  for (int64_t i = 0; i < height; ++i) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const T d = x[i * n + j] - center[j];
      square[j] += d * d;
    }
  }
  const double share = static_cast<double>(height) / (count + static_cast<double>(height));
  for (int64_t j = 0; j < width; ++j) {
    const double m = static_cast<double>(sum[j]) / static_cast<double>(height);
    const double off = m - static_cast<double>(center[j]), d = m - mean[j];
    mean[j] += d * share;
    squares[j] += static_cast<double>(square[j]) - off * off * static_cast<double>(height) + d * d * count * share;
  }
}

template <typename T>
void column_moments(int64_t rows, int64_t n, const T* x, double* mean, double* squares) {
  for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
    const int64_t width = length(n, j0, kColumns);
    for (int64_t j = j0; j < j0 + width; ++j) mean[j] = squares[j] = 0;
    for (int64_t i0 = 0; i0 < rows; i0 += kRows) {
      const int64_t height = length(rows, i0, kRows);
      const T* from = x + i0 * n + j0;
      const double count = static_cast<double>(i0);
      if (width == kColumns) {
        add_moments(height, n, kColumns, from, count, mean + j0, squares + j0);
      } else {
        add_moments(height, n, width, from, count, mean + j0, squares + j0);
      }
    }
  }
}

template <typename T>
FACULA_INLINE void add_grads(int64_t height, int64_t stride, int64_t width, const T* __restrict dy,
                             const T* __restrict x, const double* __restrict center, double* __restrict grad,
                             double* __restrict scaled) {
  T sum[kColumns] = {}, product[kColumns] = {}, c[kColumns];
  for (int64_t j = 0; j < width; ++j) c[j] = static_cast<T>(center[j]);
  for (int64_t i = 0; i < height; ++i) {
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const T g = dy[i * stride + j];
      sum[j] += g;
      product[j] += g * (x[i * stride + j] - c[j]);
    }
  }
  for (int64_t j = 0; j < width; ++j) {
    grad[j] += static_cast<double>(sum[j]);
    scaled[j] += static_cast<double>(product[j]);
  }
}

template <typename T>
void column_grads(int64_t rows, int64_t n, int64_t stride, const T* dy, const T* x, const double* center, double* grad,
                  double* scaled) {
  for (int64_t j = 0; j < n; j += kColumns) {
    const int64_t width = length(n, j, kColumns);
    for (int64_t i = 0; i < rows; i += kRows) {
      const int64_t height = length(rows, i, kRows), at = i * stride + j;
      if (width == kColumns) {
        add_grads(height, stride, kColumns, dy + at, x + at, center + j, grad + j, scaled + j);
      } else {
        add_grads(height, stride, width, dy + at, x + at, center + j, grad + j, scaled + j);
      }
    }
  }
}

template <typename T>
void column_affine(int64_t rows, int64_t n, const T* __restrict x, const T* __restrict scale, const T* __restrict shift,
                   T* __restrict out) {
  for (int64_t i = 0; i < rows; ++i, x += n, out += n) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) out[j] = x[j] * scale[j] + shift[j];
  }
}

template <typename T>
void column_backward(int64_t rows, int64_t n, const T* __restrict dy, const T* __restrict x, const T* __restrict a,
                     const T* __restrict b, const T* __restrict c, T* __restrict gi) {
  for (int64_t i = 0; i < rows; ++i, dy += n, x += n, gi += n) {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) gi[j] = dy[j] * a[j] + (x[j] * b[j] + c[j]);
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(NormLoops<float>, norm_loops_float,
                     {mean<float>, mean_square<float>, affine<float>, normalize<float>, grad_sums<float>,
                      norm_backward<float>, weight_grads<float>, column_moments<float>, column_grads<float>,
                      column_affine<float>, column_backward<float>})
FACULA_DEFINE_BY_ISA(NormLoops<double>, norm_loops_double,
                     {mean<double>, mean_square<double>, affine<double>, normalize<double>, grad_sums<double>,
                      norm_backward<double>, weight_grads<double>, column_moments<double>, column_grads<double>,
                      column_affine<double>, column_backward<double>})

}  // namespace facula
