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

// Walks (rows, n) in blocks of rows and of columns that stay in registers and cache; `step` adds
// one row's values to T accumulators, which are emptied into double ones after each block.
constexpr int64_t kColumns = 64;

template <typename T, int N, typename Step>
inline __attribute__((always_inline)) void columns(int64_t rows, int64_t n, double* const (&sums)[N],
                                                   const Step& step) {
  for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
    const int64_t width = length(n, j0, kColumns);
    for (int64_t i0 = 0; i0 < rows; i0 += kRows) {
      const int64_t height = length(rows, i0, kRows);
      T acc[N][kColumns] = {};
      for (int64_t i = i0; i < i0 + height; ++i) step(i, j0, width, acc);
      for (int k = 0; k < N; ++k) {
        for (int64_t j = 0; j < width; ++j) sums[k][j0 + j] += static_cast<double>(acc[k][j]);
      }
    }
  }
}

template <typename T>
void column_sums(int64_t rows, int64_t n, int64_t stride, const T* x, double* sum) {
  columns<T, 1>(rows, n, {sum}, [&](int64_t i, int64_t j0, int64_t width, T(&acc)[1][kColumns]) {
    const T* row = x + i * stride + j0;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) acc[0][j] += row[j];
  });
}

template <typename T>
void column_squares(int64_t rows, int64_t n, int64_t stride, const T* x, const double* center, double* sum) {
  columns<T, 1>(rows, n, {sum}, [&](int64_t i, int64_t j0, int64_t width, T(&acc)[1][kColumns]) {
    const T* row = x + i * stride + j0;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      const T d = row[j] - static_cast<T>(center[j0 + j]);
      acc[0][j] += d * d;
    }
  });
}

template <typename T>
void column_grads(int64_t rows, int64_t n, int64_t stride, const T* dy, const T* x, const double* center, double* grad,
                  double* scaled) {
  columns<T, 2>(rows, n, {grad, scaled}, [&](int64_t i, int64_t j0, int64_t width, T(&acc)[2][kColumns]) {
    const T* g = dy + i * stride + j0;
    const T* row = x + i * stride + j0;
#pragma omp simd
    for (int64_t j = 0; j < width; ++j) {
      acc[0][j] += g[j];
      acc[1][j] += g[j] * (row[j] - static_cast<T>(center[j0 + j]));
    }
  });
}

template <typename T>
void column_affine(int64_t n, const T* __restrict x, const T* __restrict scale, const T* __restrict shift,
                   T* __restrict out) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = x[i] * scale[i] + shift[i];
}

template <typename T>
void column_backward(int64_t n, const T* __restrict dy, const T* __restrict x, const T* __restrict a,
                     const T* __restrict b, const T* __restrict c, T* __restrict gi) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) gi[i] = dy[i] * a[i] + (x[i] * b[i] + c[i]);
}

}  // namespace

FACULA_DEFINE_BY_ISA(NormLoops<float>, norm_loops_float,
                     {mean<float>, mean_square<float>, affine<float>, normalize<float>, grad_sums<float>,
                      norm_backward<float>, weight_grads<float>, column_sums<float>, column_squares<float>,
                      column_grads<float>, column_affine<float>, column_backward<float>})
FACULA_DEFINE_BY_ISA(NormLoops<double>, norm_loops_double,
                     {mean<double>, mean_square<double>, affine<double>, normalize<double>, grad_sums<double>,
                      norm_backward<double>, weight_grads<double>, column_sums<double>, column_squares<double>,
                      column_grads<double>, column_affine<double>, column_backward<double>})

}  // namespace facula
