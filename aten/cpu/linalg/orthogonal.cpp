// QR factorisations and products of Householder reflections. Matrices lie column after column in results, as their
// shape rules say.
#include "aten/cpu/linalg/matrices.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

template <typename T>
int multiply_by_reflections(bool left, bool adjoint, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
                            const T* tau, T* c) {
  const char side = left ? 'L' : 'R';
  if constexpr (is_complex_v<T>) {
    return lapack<"unmqr", T>(kColumnMajor, side, adjoint ? 'C' : 'N', m, n, k, a, lda, tau, c, m);
  } else {
    return lapack<"ormqr", T>(kColumnMajor, side, adjoint ? 'T' : 'N', m, n, k, a, lda, tau, c, m);
  }
}

// The first n columns of the product of k reflections, in the place of those.
template <typename T>
void form_product(int64_t m, int64_t n, int64_t k, T* a, const T* tau) {
  if constexpr (is_complex_v<T>) {
    lapack<"ungqr", T>(kColumnMajor, m, n, k, a, m, tau);
  } else {
    lapack<"orgqr", T>(kColumnMajor, m, n, k, a, m, tau);
  }
}

}  // namespace

void geqrf(const Tensor& self, const Tensor& a, const Tensor& tau) {
  const int64_t m = self.size(-2), n = self.size(-1), size = std::min(m, n);
  if (a.numel() == 0) return;
  visit_lapack(self.dtype(), [&]<typename T>(std::type_identity<T>) {
    const IntList batch = batch_sizes(self);
    const Matrices<T> from(self, batch), into(a, batch), factors(tau, batch, true);
    share_matrices(numel_of(batch), 2 * cubic(m, n), [&](int64_t begin, int64_t end) {
      const Work<T> work(m, n), scale(size);
      for (int64_t k = begin; k < end; ++k) {
        copy_matrix<T>(m, n, from[k], column_major(work.get(), m));
        lapack<"geqrf", T>(kColumnMajor, m, n, work.get(), m, scale.get());
        copy_matrix<T>(m, n, column_major(work.get(), m), into[k]);
        copy_matrix<T>(size, 1, column_major(scale.get(), size), factors[k]);
      }
    });
  });
}

void qr(const Tensor& A, bool complete, bool compute_q, const Tensor& Q, const Tensor& R) {
  const int64_t m = A.size(-2), n = A.size(-1), size = std::min(m, n), width = complete ? m : size;
  const int64_t count = numel_of(batch_sizes(A));
  if (m == 0) return;
  visit_lapack(A.dtype(), [&]<typename T>(std::type_identity<T>) {
    const Matrices<T> from(A, batch_sizes(A));
    share_matrices(count, 4 * cubic(m, std::max(n, width)), [&](int64_t begin, int64_t end) {
      const Work<T> work(m, std::max(n, compute_q ? width : n)), tau(size);
      for (int64_t k = begin; k < end; ++k) {
        copy_matrix<T>(m, n, from[k], column_major(work.get(), m));
        if (n > 0) lapack<"geqrf", T>(kColumnMajor, m, n, work.get(), m, tau.get());
        T* r = R.data<T>() + k * width * n;
        for (int64_t j = 0; j < n; ++j) {
          const int64_t top = std::min(j + 1, width);
          std::copy_n(work.get() + j * m, top, r + j * width);
          std::fill_n(r + j * width + top, width - top, T(0));
        }
        if (!compute_q || width == 0) continue;
        T* q = Q.data<T>() + k * m * width;
        std::copy_n(work.get(), m * size, q);
        if (width > size) std::fill_n(q + m * size, m * (width - size), T(0));
        form_product<T>(m, width, size, q, tau.get());
      }
    });
  });
}

void householder_product(const Tensor& input, const Tensor& tau, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t m = input.size(-2), n = input.size(-1), k = tau.size(-1);
  const IntList batch = batch_sizes(out);
  visit_lapack(out.dtype(), [&]<typename T>(std::type_identity<T>) {
    const Matrices<T> from(input, batch), factors(tau, batch, true), into(out, batch);
    share_matrices(numel_of(batch), 2 * cubic(m, n), [&](int64_t begin, int64_t end) {
      const Work<T> work(m, n), scale(k);
      for (int64_t i = begin; i < end; ++i) {
        copy_matrix<T>(m, n, from[i], column_major(work.get(), m));
        copy_matrix<T>(k, 1, factors[i], column_major(scale.get(), k));
        form_product<T>(m, n, k, work, scale);
        copy_matrix<T>(m, n, column_major(work.get(), m), into[i]);
      }
    });
  });
}

void ormqr(const Tensor& input, const Tensor& tau, const Tensor& other, bool left, bool transpose, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t m = out.size(-2), n = out.size(-1), k = tau.size(-1), rows = input.size(-2);
  const IntList batch = batch_sizes(out);
  visit_lapack(out.dtype(), [&]<typename T>(std::type_identity<T>) {
    const Matrices<T> from(input, batch), factors(tau, batch, true), multiplied(other, batch), into(out, batch);
    share_matrices(numel_of(batch), 4 * saturated_mul(saturated_mul(m, n), k), [&](int64_t begin, int64_t end) {
      const Work<T> work(rows, k), scale(k), product(m, n);
      for (int64_t i = begin; i < end; ++i) {
        copy_matrix<T>(rows, k, from[i], column_major(work.get(), rows));
        copy_matrix<T>(k, 1, factors[i], column_major(scale.get(), k));
        copy_matrix<T>(m, n, multiplied[i], column_major(product.get(), m));
        multiply_by_reflections<T>(left, transpose, m, n, k, work.get(), rows, scale.get(), product.get());
        copy_matrix<T>(m, n, column_major(product.get(), m), into[i]);
      }
    });
  });
}

}  // namespace facula::cpu
