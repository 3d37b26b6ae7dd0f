// LU factorisations, and the systems and determinants that are made of them.
#include <cmath>

#include "aten/cpu/common/bits.h"
#include "aten/cpu/linalg/matrices.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

constexpr int64_t kPanel = 96;    // columns that one thread factors at a time
constexpr int64_t kShared = 384;  // sizes from which a matrix is worth several threads

// Matrices lie column after column, `ld` apart. Each function answers the place of the first zero on the diagonal of U,
// from 1, or 0.

// Without an exchange of rows.
template <typename T>
int64_t factor_as_it_is(int64_t m, int64_t n, T* a, int64_t ld) {
  int64_t zero = 0;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    T* column = a + k * ld;
    const T pivot = column[k];
    if (pivot == T(0) && zero == 0) zero = k + 1;
    for (int64_t i = k + 1; i < m; ++i) column[i] = pivot == T(0) ? column[i] : column[i] / pivot;
    for (int64_t j = k + 1; j < n; ++j) {
      T* other = a + j * ld;
      const T factor = other[k];
      for (int64_t i = k + 1; i < m; ++i) other[i] -= column[i] * factor;
    }
  }
  return zero;
}

template <typename T>
int64_t factor_panel(bool pivot, int64_t m, int64_t n, T* a, int64_t ld, int32_t* pivots) {
  if (pivot) return lapack<"getrf", T>(kColumnMajor, m, n, a, ld, pivots);
  for (int64_t k = 0; k < std::min(m, n); ++k) pivots[k] = static_cast<int32_t>(k + 1);
  return factor_as_it_is(m, n, a, ld);
}

// Rows are exchanged in columns [begin, end) as pivots[first ... last) say, from `row` on.
template <typename T>
void exchange_rows(T* a, int64_t ld, int64_t begin, int64_t end, const int32_t* pivots, int64_t first, int64_t last) {
  parallel_for(begin, end, grain_for(4 * (last - first)), [&](int64_t b, int64_t e) {
    for (int64_t j = b; j < e; ++j) {
      for (int64_t k = first; k < last; ++k) std::swap(a[j * ld + k], a[j * ld + pivots[k] - 1]);
    }
  });
}

// By panels, whose updates are products that threads share.
template <typename T>
int64_t factor_in_panels(bool pivot, int64_t m, int64_t n, T* a, int32_t* pivots) {
  const int64_t size = std::min(m, n);
  int64_t zero = 0;
  for (int64_t k = 0; k < size; k += kPanel) {
    const int64_t width = std::min(kPanel, size - k), next = k + width, right = n - next, below = m - next;
    T* panel = a + k * m;
    const int64_t at = factor_panel(pivot, m - k, width, panel + k, m, pivots + k);
    if (at != 0 && zero == 0) zero = k + at;
    for (int64_t i = k; i < next; ++i) pivots[i] += static_cast<int32_t>(k);
    if (pivot) {
      exchange_rows(a, m, 0, k, pivots, k, next);
      exchange_rows(a, m, next, n, pivots, k, next);
    }
    if (right == 0) continue;
    T* beside = a + next * m + k;
    parallel_for(0, right, grain_for(width * width), [&](int64_t b, int64_t e) {
      blas<"trsm", T>(kColumnMajor, kLeft, kLower, kNoTrans, kUnit, width, e - b, blas_factor(T(1)),
                      static_cast<const void*>(panel + k), m, static_cast<void*>(beside + b * m), m);
    });
    if (below == 0) continue;
    gemm<T>(below, right, width, T(-1), column_major(panel + next, m), column_major(beside, m), T(1),
            column_major(a + next * m + next, m));
  }
  return zero;
}

template <typename T>
int64_t factor(bool pivot, int64_t m, int64_t n, T* a, int32_t* pivots) {
  const int64_t size = std::min(m, n);
  const bool shared = size >= kShared && get_num_threads() > 1 && !in_parallel_region();
  if (shared || (!pivot && size > kPanel)) return factor_in_panels(pivot, m, n, a, pivots);
  return factor_panel(pivot, m, n, a, std::max<int64_t>(m, 1), pivots);
}

template <typename T>
void factor_all(const Tensor& A, bool pivot, const Tensor& LU, const Tensor& pivots, int32_t* info) {
  const int64_t m = A.size(-2), n = A.size(-1), count = numel_of(batch_sizes(A)), size = std::min(m, n);
  if (size == 0) return;
  const Matrices<T> from(A, batch_sizes(A));
  T* out = LU.data<T>();
  int32_t* rows = pivots.data<int32_t>();
  share_matrices(count, cubic(m, n), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      T* a = out + k * m * n;
      copy_matrix<T>(m, n, from[k], column_major(a, m));
      const int64_t zero = factor(pivot, m, n, a, rows + k * size);
      if (info != nullptr) info[k] = static_cast<int32_t>(zero);
    }
  });
}

// fn(k, the diagonal of U as a function, whether rows were exchanged an odd number of times), for each matrix.
template <typename T, typename F>
void for_each_diagonal(const Tensor& LU, const Tensor& pivots, const F& fn) {
  const int64_t n = LU.size(-1), count = numel_of(batch_sizes(LU));
  const T* lu = LU.data<T>();
  const int32_t* rows = pivots.data<int32_t>();
  for (int64_t k = 0; k < count; ++k) {
    bool odd = false;
    for (int64_t i = 0; i < n; ++i) odd ^= rows[k * n + i] != i + 1;
    fn(k, [&](int64_t i) { return lu[k * n * n + i * n + i]; }, odd);
  }
}

// x times 2^exponent.
template <typename R>
R scaled(R x, int exponent) {
  return std::ldexp(x, exponent);
}
template <typename R>
std::complex<R> scaled(std::complex<R> x, int exponent) {
  return {std::ldexp(x.real(), exponent), std::ldexp(x.imag(), exponent)};
}

// x with a size from a half to 1, and the power of two that this takes; zeros and what is not finite as they are.
template <typename R, typename T>
T scaled_down(T x, int& exponent) {
  const R size = std::max(std::fabs(std::real(x)), std::fabs(std::imag(x)));
  exponent = 0;
  if (!(size > 0) || !std::isfinite(size)) return x;
  std::frexp(size, &exponent);
  return scaled(x, -exponent);
}

}  // namespace

// LU has columns one after the other: the shape rule says so.
void lu_factor(const Tensor& A, bool pivot, const Tensor& LU, const Tensor& pivots, const Tensor& info) {
  std::fill_n(info.data<int32_t>(), info.numel(), 0);
  visit_lapack(A.dtype(),
               [&]<typename T>(std::type_identity<T>) { factor_all<T>(A, pivot, LU, pivots, info.data<int32_t>()); });
}

void lu_solved(const Tensor& A, const Tensor& B, bool left, const Tensor& X, const Tensor& LU, const Tensor& pivots,
               const Tensor& info) {
  std::fill_n(info.data<int32_t>(), info.numel(), 0);
  const int64_t n = A.size(-1), others = left ? X.size(-1) : X.size(-2);
  const IntList batch = batch_sizes(X);
  visit_lapack(A.dtype(), [&]<typename T>(std::type_identity<T>) {
    factor_all<T>(A, true, LU, pivots, info.data<int32_t>());
    if (X.numel() == 0) return;
    // The factors of the matrix, and where its pivots are, by their number in the batch.
    const Matrices<T> factors(LU, batch), from(B, batch);
    const int64_t count = numel_of(batch);
    const bool alone = count < get_num_threads() && !in_parallel_region();
    const auto part = [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        T* x = X.data<T>() + k * n * others;
        const T* lu = factors[k].data;
        const int32_t* rows = pivots.data<int32_t>() + (lu - LU.data<T>()) / n;
        // Of X A = B the rows are columns of A^T X^T = B^T.
        copy_matrix<T>(n, others, left ? from[k] : from[k].t(), column_major(x, n));
        parallel_for(0, others, alone ? grain_for(n * n, 1 << 18) : others, [&](int64_t b, int64_t e) {
          lapack<"getrs", T>(kColumnMajor, left ? 'N' : 'T', n, e - b, lu, n, rows, x + b * n, n);
        });
      }
    };
    if (alone) {
      part(0, count);
    } else {
      share_matrices(count, saturated_mul(saturated_mul(n, n), others + 1), part);
    }
  });
}

void lu_determinant(const Tensor& A, const Tensor& result, const Tensor& LU, const Tensor& pivots) {
  visit_lapack(A.dtype(), [&]<typename T>(std::type_identity<T>) {
    factor_all<T>(A, true, LU, pivots, nullptr);
    T* out = result.data<T>();
    for_each_diagonal<T>(LU, pivots, [&](int64_t k, const auto& diagonal, bool odd) {
      // Mantissas and exponents apart: partial products may leave the range though the determinant does not.
      using R = real_t<T>;
      T product = odd ? T(-1) : T(1);
      int64_t exponent = 0;
      for (int64_t i = 0; i < LU.size(-1); ++i) {
        int e = 0;
        product *= scaled_down<R>(diagonal(i), e);
        exponent += e;
        product = scaled_down<R>(product, e);
        exponent += e;
      }
      constexpr int64_t kFar = 4 * std::numeric_limits<R>::max_exponent;
      out[k] = scaled(product, static_cast<int>(std::clamp(exponent, -kFar, kFar)));
    });
  });
}

void lu_logarithm(const Tensor& A, const Tensor& sign, const Tensor& logabsdet, const Tensor& LU,
                  const Tensor& pivots) {
  visit_lapack(A.dtype(), [&]<typename T>(std::type_identity<T>) {
    factor_all<T>(A, true, LU, pivots, nullptr);
    T* signs = sign.data<T>();
    auto* logs = logabsdet.data<real_t<T>>();
    for_each_diagonal<T>(LU, pivots, [&](int64_t k, const auto& diagonal, bool odd) {
      T product = odd ? T(-1) : T(1);
      real_t<T> sum = 0;
      for (int64_t i = 0; i < LU.size(-1); ++i) {
        const T d = diagonal(i);
        const real_t<T> size = std::abs(d);
        product = size == 0 ? T(0) : product * (d / size);
        sum += std::log(size);
      }
      signs[k] = product;
      logs[k] = sum;
    });
  });
}

// The order of the rows that the exchanges `pivots` lead to.
void pivots_to_rows(const Tensor& pivots, int64_t rows, const Tensor& out) {
  const int64_t exchanges = pivots.size(-1), count = numel_of(batch_sizes(out, 1));
  const Tensor given = dense_as(pivots, ScalarType::Int64);
  int64_t* order = out.data<int64_t>();
  const int64_t* from = given.data<int64_t>();
  for (int64_t k = 0; k < count; ++k, order += rows) {
    for (int64_t i = 0; i < rows; ++i) order[i] = i;
    for (int64_t i = 0; i < exchanges; ++i) {
      const int64_t other = read_once(from + k * exchanges + i);
      FACULA_CHECK(other >= 1 && other <= rows, Index, Argument{"pivots"}, " are numbers of rows from 1 to ", rows,
                   ", one is ", other);
      std::swap(order[i], order[other - 1]);
    }
  }
}

}  // namespace facula::cpu
