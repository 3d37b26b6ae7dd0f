// Eigenvalues and singular values. Results have the layouts that their shape rules say; `info` is 0, the answer of a
// method that did not converge, or kNotFinite.
#include <cmath>
#include <limits>

#include "aten/cpu/linalg/matrices.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

constexpr int32_t kNotFinite = -1;

// Iterations need not end where there is a NaN.
template <typename T>
bool is_finite(const T* a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if (!std::isfinite(std::real(a[i])) || !std::isfinite(std::imag(a[i]))) return false;
  }
  return true;
}

template <typename T>
void fill_unknown(T* data, int64_t n) {
  std::fill_n(data, n, T(std::numeric_limits<real_t<T>>::quiet_NaN()));
}

template <typename T>
int eigh_of(bool vectors, char triangle, int64_t n, T* a, real_t<T>* values) {
  const char job = vectors ? 'V' : 'N';
  if constexpr (is_complex_v<T>) {
    return lapack<"heevd", T>(kColumnMajor, job, triangle, n, a, n, values);
  } else {
    return lapack<"syevd", T>(kColumnMajor, job, triangle, n, a, n, values);
  }
}

template <typename T>
int svd_of(char job, bool divide, int64_t m, int64_t n, T* a, real_t<T>* s, T* u, T* vh, int64_t rows_vh) {
  const int64_t ldv = std::max<int64_t>(rows_vh, 1);
  if (divide) return lapack<"gesdd", T>(kColumnMajor, job, m, n, a, m, s, u, m, vh, ldv);
  const Work<real_t<T>> rest(std::min(m, n));
  return lapack<"gesvd", T>(kColumnMajor, job, job, m, n, a, m, s, u, m, vh, ldv, rest.get());
}

// Eigenvalues, and eigenvectors in the columns of `vectors` unless that is null.
template <typename T>
int eig_of(int64_t n, T* a, std::complex<real_t<T>>* values, std::complex<real_t<T>>* vectors) {
  const char job = vectors != nullptr ? 'V' : 'N';
  using R = real_t<T>;
  if constexpr (is_complex_v<T>) {
    return lapack<"geev", T>(kColumnMajor, 'N', job, n, a, n, values, static_cast<T*>(nullptr), n, vectors, n);
  } else {
    const Work<R> re(n), im(n), found(vectors != nullptr ? n : 0, n);
    const int info = lapack<"geev", T>(kColumnMajor, 'N', job, n, a, n, re.get(), im.get(), static_cast<R*>(nullptr), n,
                                       found.get(), n);
    for (int64_t j = 0; j < n; ++j) values[j] = {re[j], im[j]};
    // A pair of conjugates has real and imaginary part side by side.
    for (int64_t j = 0; vectors != nullptr && j < n; ++j) {
      const R* x = found.get() + j * n;
      const bool pair = im[j] > 0 && j + 1 < n;
      for (int64_t i = 0; i < n; ++i) {
        vectors[j * n + i] = {x[i], pair ? x[n + i] : R(0)};
        if (pair) vectors[(j + 1) * n + i] = {x[i], -x[n + i]};
      }
      j += pair;
    }
    return info;
  }
}

}  // namespace

void eigh(const Tensor& A, std::string_view uplo, bool vectors, const Tensor& L, const Tensor& V, const Tensor& info) {
  const int64_t n = A.size(-1), count = info.numel();
  const bool upper = uplo == "U" || uplo == "u";
  int32_t* failed = info.data<int32_t>();
  std::fill_n(failed, count, 0);
  if (n == 0) return;
  visit_lapack(A.dtype(), [&]<typename T>(std::type_identity<T>) {
    const Matrices<T> from(A, batch_sizes(A));
    auto* values = L.data<real_t<T>>();
    share_matrices(count, saturated_mul(cubic(n, n), vectors ? 16 : 6), [&](int64_t begin, int64_t end) {
      const Work<T> work(vectors ? 0 : n, n);
      for (int64_t k = begin; k < end; ++k) {
        T* a = vectors ? V.data<T>() + k * n * n : work.get();
        copy_matrix<T>(n, n, from[k], column_major(a, n));
        for (int64_t j = 0; j < n; ++j) {  // what is not read may be anything
          std::fill(a + j * n + (upper ? j + 1 : 0), a + j * n + (upper ? n : j), T(0));
        }
        failed[k] = is_finite(a, n * n) ? eigh_of<T>(vectors, upper ? 'U' : 'L', n, a, values + k * n) : kNotFinite;
        if (failed[k] != 0) fill_unknown(values + k * n, n);
      }
    });
  });
}

void svd(const Tensor& A, bool full_matrices, bool vectors, std::optional<std::string_view> driver, const Tensor& U,
         const Tensor& S, const Tensor& Vh, const Tensor& info) {
  const int64_t m = A.size(-2), n = A.size(-1), size = std::min(m, n), count = info.numel();
  int32_t* failed = info.data<int32_t>();
  std::fill_n(failed, count, 0);
  visit_lapack(A.dtype(), [&]<typename T>(std::type_identity<T>) {
    T *u = vectors ? U.data<T>() : nullptr, *vh = vectors ? Vh.data<T>() : nullptr;
    const int64_t width = full_matrices ? m : size, rows = full_matrices ? n : size;
    const auto unit = [](T* q, int64_t r, int64_t c) {
      for (int64_t j = 0; j < c; ++j) {
        std::fill_n(q + j * r, r, T(0));
        if (j < r) q[j * r + j] = T(1);
      }
    };
    if (size == 0) {  // any orthogonal matrices will do
      for (int64_t k = 0; vectors && k < count; ++k) {
        if (m > 0) unit(u + k * m * width, m, width);
        if (n > 0) unit(vh + k * rows * n, rows, n);
        count_step();
      }
      return;
    }
    const Matrices<T> from(A, batch_sizes(A));
    auto* values = S.data<real_t<T>>();
    const char job = vectors ? (full_matrices ? 'A' : 'S') : 'N';
    share_matrices(count, saturated_mul(cubic(m, n), vectors ? 32 : 8), [&](int64_t begin, int64_t end) {
      const Work<T> work(m, n);
      for (int64_t k = begin; k < end; ++k) {
        T *left = vectors ? u + k * m * width : nullptr, *right = vectors ? vh + k * rows * n : nullptr;
        real_t<T>* s = values + k * size;
        const auto run = [&](bool divide) {
          copy_matrix<T>(m, n, from[k], column_major(work.get(), m));
          if (!is_finite(work.get(), m * n)) return int{kNotFinite};
          return svd_of<T>(job, divide, m, n, work.get(), s, left, right, vectors ? rows : 1);
        };
        failed[k] = run(driver != "gesvd");
        if (failed[k] > 0 && !driver) failed[k] = run(false);  // which converges where the faster one does not
        if (failed[k] == 0) continue;
        fill_unknown(s, size);
        if (vectors) {
          fill_unknown(left, m * width);
          fill_unknown(right, rows * n);
        }
      }
    });
  });
}

void eig(const Tensor& A, bool vectors, const Tensor& L, const Tensor& V, const Tensor& info) {
  const int64_t n = A.size(-1), count = info.numel();
  int32_t* failed = info.data<int32_t>();
  std::fill_n(failed, count, 0);
  if (n == 0) return;
  visit_lapack(A.dtype(), [&]<typename T>(std::type_identity<T>) {
    using C = std::complex<real_t<T>>;
    const Matrices<T> from(A, batch_sizes(A));
    share_matrices(count, saturated_mul(cubic(n, n), 64), [&](int64_t begin, int64_t end) {
      const Work<T> work(n, n);
      for (int64_t k = begin; k < end; ++k) {
        C *values = L.data<C>() + k * n, *found = vectors ? V.data<C>() + k * n * n : nullptr;
        copy_matrix<T>(n, n, from[k], column_major(work.get(), n));
        failed[k] = is_finite(work.get(), n * n) ? eig_of<T>(n, work.get(), values, found) : kNotFinite;
        if (failed[k] == 0) continue;
        fill_unknown(values, n);
        if (vectors) fill_unknown(found, n * n);
      }
    });
  });
}

}  // namespace facula::cpu
