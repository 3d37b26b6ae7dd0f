// build: levels fused
// Rows and columns of layer, group and batch normalisation. Sums are taken in blocks, whose totals
// add up in double.
#include "aten/cpu/common/blocked_sum.h"
#include "aten/cpu/nn/loops.h"

namespace facula {
namespace {

constexpr int64_t kRows = 64;

// Mean and squares about it, by blocks that are read once from memory (Chan, Golub & LeVeque 1983).
template <typename T>
Moments moments(int64_t n, const T* x, const T* ahead) {
  Moments all{0, 0};
  for (int64_t i = 0; i < n; i += kSumBlock) {
    const int64_t size = length(n, i, kSumBlock);
    const T *block = x + i, *next = ahead != nullptr ? ahead + i : nullptr;
    double sum = 0, off = 0, squares = 0, none = 0;
    add_in_blocks<T, false>(size, sum, none, nullptr, [&](int64_t j, T& a, T&) { a += block[j]; });
    const T c = static_cast<T>(sum / static_cast<double>(size));
    add_in_blocks<T, true>(size, off, squares, next, [&](int64_t j, T& a, T& b) {
      const T d = block[j] - c;
      a += d;
      b += d * d;
    });
    // Sums of T, and T itself, may miss the mean by much of the spread: the distances from c say how far.
    const double part = static_cast<double>(size), shift = off / part, mean = static_cast<double>(c) + shift;
    const double away = mean - all.mean, share = part / static_cast<double>(i + size);
    all.mean += away * share;
    all.squares += squares - shift * off + away * away * static_cast<double>(i) * share;
  }
  return all;
}

template <typename T>
double sum(int64_t n, const T* x) {
  double total = 0, none = 0;
  add_in_blocks<T, false>(n, total, none, nullptr, [&](int64_t i, T& a, T&) { a += x[i]; });
  return total;
}

template <typename T>
double sum_squares(int64_t n, const T* x) {
  double total = 0, none = 0;
  add_in_blocks<T, false>(n, total, none, nullptr, [&](int64_t i, T& sum, T&) { sum += x[i] * x[i]; });
  return total;
}

template <typename T>
void affine(int64_t n, const T* __restrict x, T center, T scale, T shift, T* __restrict out, bool stream) {
  write_row(n, out, stream, [&](int64_t i) { return (x[i] - center) * scale + shift; });
}

template <typename T>
void normalize(int64_t n, const T* __restrict x, T center, T rstd, T shift, const T* __restrict w,
               const T* __restrict b, T* __restrict out, const T* ahead, bool stream) {
  const auto next = [&](int64_t i, int64_t end) { fetch(ahead + i, ahead + end); };
  if (w != nullptr && b != nullptr) {
    write_row(n, out, stream, [&](int64_t i) { return ((x[i] - center) * rstd + shift) * w[i] + b[i]; }, next);
  } else if (w != nullptr) {
    write_row(n, out, stream, [&](int64_t i) { return ((x[i] - center) * rstd + shift) * w[i]; }, next);
  } else if (b != nullptr) {
    write_row(n, out, stream, [&](int64_t i) { return ((x[i] - center) * rstd + shift) + b[i]; }, next);
  } else {
    write_row(n, out, stream, [&](int64_t i) { return (x[i] - center) * rstd + shift; }, next);
  }
}

template <typename T>
GradSums grad_sums(int64_t n, const T* dy, const T* x, T c, const T* w) {
  GradSums total{0, 0};
  const auto add = [&](int64_t i, T g, T& grad, T& scaled) {
    grad += g;
    scaled += g * (x[i] - c);
  };
  if (w != nullptr) {
    add_in_blocks<T, true>(n, total.grad, total.scaled, nullptr,
                           [&](int64_t i, T& a, T& b) { add(i, dy[i] * w[i], a, b); });
  } else {
    add_in_blocks<T, true>(n, total.grad, total.scaled, nullptr, [&](int64_t i, T& a, T& b) { add(i, dy[i], a, b); });
  }
  return total;
}

template <typename T>
void norm_backward(int64_t n, const T* __restrict dy, const T* __restrict x, const T* __restrict w, T a, T center, T b,
                   T c, T* __restrict gi, int64_t ahead, bool stream) {
  const auto next = [&](int64_t i, int64_t end) {
    fetch(dy + ahead + i, dy + ahead + end);
    fetch(x + ahead + i, x + ahead + end);
  };
  if (w != nullptr) {
    write_row(n, gi, stream, [&](int64_t i) { return dy[i] * w[i] * a + ((x[i] - center) * b + c); }, next);
  } else {
    write_row(n, gi, stream, [&](int64_t i) { return dy[i] * a + ((x[i] - center) * b + c); }, next);
  }
}

// Four rows are added in registers, and then to what there is.
template <int64_t kHeight, typename T>
FACULA_INLINE void add_weight_grads(int64_t n, const T* __restrict dy, const T* __restrict x, const T* center,
                                    const T* rstd, const T* shift, T* __restrict gw, T* __restrict gb) {
  T m[kHeight], r[kHeight], s[kHeight];
  for (int64_t i = 0; i < kHeight; ++i) m[i] = center[i], r[i] = rstd[i], s[i] = shift[i];
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    T product = 0, sum = 0;
#pragma GCC unroll 8
    for (int64_t i = 0; i < kHeight; ++i) {
      const T g = dy[i * n + j];
      product += g * ((x[i * n + j] - m[i]) * r[i] + s[i]);
      sum += g;
    }
    gw[j] += product;
    gb[j] += sum;
  }
}

template <typename T>
void weight_grads(int64_t rows, int64_t n, const T* dy, const T* x, const T* center, const T* rstd, const T* shift,
                  T* gw, T* gb) {
  constexpr int64_t kHeight = 4;
  int64_t i = 0;
  for (; i + kHeight <= rows; i += kHeight) {
    add_weight_grads<kHeight>(n, dy + i * n, x + i * n, center + i, rstd + i, shift + i, gw, gb);
  }
  for (; i < rows; ++i) add_weight_grads<1>(n, dy + i * n, x + i * n, center + i, rstd + i, shift + i, gw, gb);
}

// Columns are taken in blocks whose values stay in registers, rows in blocks that stay in the cache; T
// sums are emptied into double ones after each block. `width` is a constant where the block is whole.
constexpr int64_t kColumns = 64;

template <typename T>
FACULA_INLINE void add_moments(int64_t height, int64_t n, int64_t width, const T* __restrict x, double count,
                               double* __restrict mean, double* __restrict squares) {
  T sum[kColumns] = {}, center[kColumns], off[kColumns] = {}, square[kColumns] = {};
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
      off[j] += d;
      square[j] += d * d;
    }
  }
  const double share = static_cast<double>(height) / (count + static_cast<double>(height));
  for (int64_t j = 0; j < width; ++j) {
    const double missed = static_cast<double>(off[j]), shift = missed / static_cast<double>(height);
    const double d = static_cast<double>(center[j]) + shift - mean[j];
    mean[j] += d * share;
    squares[j] += static_cast<double>(square[j]) - shift * missed + d * d * count * share;
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
void column_affine(int64_t rows, int64_t n, const T* __restrict x, const T* __restrict center,
                   const T* __restrict scale, const T* __restrict shift, T* __restrict out, bool stream) {
  for (int64_t i = 0; i < rows; ++i, x += n, out += n) {
    write_row(n, out, stream, [&](int64_t j) { return (x[j] - center[j]) * scale[j] + shift[j]; });
  }
}

template <typename T>
void column_backward(int64_t rows, int64_t n, const T* __restrict dy, const T* __restrict x, const T* __restrict a,
                     const T* __restrict center, const T* __restrict b, const T* __restrict c, T* __restrict gi,
                     bool stream) {
  for (int64_t i = 0; i < rows; ++i, dy += n, x += n, gi += n) {
    write_row(n, gi, stream, [&](int64_t j) { return dy[j] * a[j] + ((x[j] - center[j]) * b[j] + c[j]); });
  }
}

}  // namespace

FACULA_DEFINE_BY_ISA(NormLoops<float>, norm_loops_float,
                     {moments<float>, sum<float>, sum_squares<float>, affine<float>, normalize<float>, grad_sums<float>,
                      norm_backward<float>, weight_grads<float>, column_moments<float>, column_grads<float>,
                      column_affine<float>, column_backward<float>})
FACULA_DEFINE_BY_ISA(NormLoops<double>, norm_loops_double,
                     {moments<double>, sum<double>, sum_squares<double>, affine<double>, normalize<double>,
                      grad_sums<double>, norm_backward<double>, weight_grads<double>, column_moments<double>,
                      column_grads<double>, column_affine<double>, column_backward<double>})

}  // namespace facula
