// Least squares, and the LDL factorisation of symmetric matrices with its systems.
#include <cmath>

#include "aten/cpu/linalg/matrices.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

// B (max(m, n), k) becomes the solution; answers the rank where the method finds it, else -1.
template <typename T>
int solve_least(std::string_view driver, int64_t m, int64_t n, int64_t k, T* a, T* b, int64_t ldb, double rcond,
                real_t<T>* singular, int32_t* order, int32_t& info) {
  const auto limit = static_cast<real_t<T>>(rcond);
  const Work<int32_t> rank(1);  // not on the stack, which work that nobody waits for would outlive
  *rank.get() = -1;
  if (driver == "gels") {
    info = lapack<"gels", T>(kColumnMajor, 'N', m, n, k, a, m, b, ldb);
  } else if (driver == "gelsy") {
    std::fill_n(order, n, 0);
    info = lapack<"gelsy", T>(kColumnMajor, m, n, k, a, m, b, ldb, order, limit, rank.get());
  } else if (driver == "gelsd") {
    info = lapack<"gelsd", T>(kColumnMajor, m, n, k, a, m, b, ldb, singular, limit, rank.get());
  } else {
    info = lapack<"gelss", T>(kColumnMajor, m, n, k, a, m, b, ldb, singular, limit, rank.get());
  }
  return *rank.get();
}

template <typename T>
bool all_finite(const T* a, int64_t n) {
  return std::all_of(a, a + n, [](const T& x) { return std::isfinite(std::real(x)) && std::isfinite(std::imag(x)); });
}

}  // namespace

void least_squares(const Tensor& A, const Tensor& B, double rcond, std::string_view driver, const Tensor& X,
                   const Tensor& rank, const Tensor& singular_values, const Tensor& info) {
  const int64_t m = A.size(-2), n = A.size(-1), k = B.size(-1), rows = std::max(m, n), size = std::min(m, n);
  int32_t* failed = info.data<int32_t>();
  std::fill_n(failed, info.numel(), 0);
  std::fill_n(rank.data<int64_t>(), rank.numel(), 0);
  visit_lapack(A.dtype(), [&]<typename T>(std::type_identity<T>) {
    if (size == 0) {
      std::fill_n(X.data<T>(), X.numel(), T(0));
      return;
    }
    const IntList batch = batch_sizes(X);
    const Matrices<T> from(A, batch), right(B, batch);
    share_matrices(numel_of(batch), saturated_mul(cubic(m, n + k), 16), [&](int64_t begin, int64_t end) {
      const Work<T> work(m, n);
      const Work<real_t<T>> singular(size);
      const Work<int32_t> order(n);
      for (int64_t i = begin; i < end; ++i) {
        T* x = X.data<T>() + i * rows * k;
        copy_matrix<T>(m, n, from[i], column_major(work.get(), m));
        copy_matrix<T>(m, k, right[i], column_major(x, rows));
        for (int64_t j = 0; j < k; ++j) std::fill_n(x + j * rows + m, rows - m, T(0));
        if (all_finite(work.get(), m * n)) {
          rank.data<int64_t>()[i] = solve_least<T>(driver, m, n, k, work, x, rows, rcond, singular, order, failed[i]);
        } else {
          failed[i] = -1;
        }
        if (singular_values.numel() > 0)
          std::copy_n(singular.get(), size, singular_values.data<real_t<T>>() + i * size);
      }
    });
  });
}

void ldl_factor(const Tensor& self, bool hermitian, const Tensor& LD, const Tensor& pivots, const Tensor& info) {
  const int64_t n = self.size(-1);
  std::fill_n(info.data<int32_t>(), info.numel(), 0);
  if (n == 0) return;
  visit_lapack(self.dtype(), [&]<typename T>(std::type_identity<T>) {
    const Matrices<T> from(self, batch_sizes(self));
    share_matrices(info.numel(), cubic(n, n), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        T* a = LD.data<T>() + k * n * n;
        int32_t* rows = pivots.data<int32_t>() + k * n;
        copy_matrix<T>(n, n, from[k], column_major(a, n));
        int answer = 0;
        if constexpr (is_complex_v<T>) {
          answer = hermitian ? lapack<"hetrf", T>(kColumnMajor, 'L', n, a, n, rows)
                             : lapack<"sytrf", T>(kColumnMajor, 'L', n, a, n, rows);
        } else {
          answer = lapack<"sytrf", T>(kColumnMajor, 'L', n, a, n, rows);
        }
        info.data<int32_t>()[k] = answer;
        for (int64_t j = 1; j < n; ++j) std::fill_n(a + j * n, j, T(0));
      }
    });
  });
}

void linalg_ldl_solve(const Tensor& LD, const Tensor& pivots, const Tensor& B, bool hermitian, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t n = LD.size(-1), k = out.size(-1);
  const IntList batch = batch_sizes(out);
  const Tensor numbers = dense_as(pivots, ScalarType::Int32);
  visit_lapack(out.dtype(), [&]<typename T>(std::type_identity<T>) {
    const Matrices<T> factors(LD, batch), right(B, batch), into(out, batch);
    const Matrices<int32_t> given(numbers, batch, true);
    share_matrices(numel_of(batch), saturated_mul(saturated_mul(n, n), k), [&](int64_t begin, int64_t end) {
      const Work<T> work(n, n), x(n, k);
      const Work<int32_t> rows(n);
      for (int64_t i = begin; i < end; ++i) {
        copy_matrix<T>(n, n, factors[i], column_major(work.get(), n));
        copy_matrix<T>(n, k, right[i], column_major(x.get(), n));
        copy_matrix<int32_t>(n, 1, given[i], column_major(rows.get(), n));
        for (int64_t j = 0; j < n; ++j) {  // a block of two rows has the same negative number twice
          const int64_t row = std::abs(int64_t{rows[j]});
          const bool pair = rows[j] < 0 && j + 1 < n && rows[j + 1] == rows[j];
          FACULA_CHECK(row >= 1 && row <= n && (rows[j] > 0 || pair), Index, Argument{"pivots"},
                       " are not those of ldl_factor: one of a matrix of ", n, " rows is ", rows[j]);
          j += rows[j] < 0;
        }
        if constexpr (is_complex_v<T>) {
          if (hermitian) {
            lapack<"hetrs", T>(kColumnMajor, 'L', n, k, work.get(), n, rows.get(), x.get(), n);
          } else {
            lapack<"sytrs", T>(kColumnMajor, 'L', n, k, work.get(), n, rows.get(), x.get(), n);
          }
        } else {
          lapack<"sytrs", T>(kColumnMajor, 'L', n, k, work.get(), n, rows.get(), x.get(), n);
        }
        copy_matrix<T>(n, k, column_major(x.get(), n), into[i]);
      }
    });
  });
}

}  // namespace facula::cpu
