// The Cholesky factorisation and systems with triangular matrices. Matrices stay row after row: read by columns, as
// LAPACK does, they are transposed, so that what is below the diagonal is above it.
#include <cmath>

#include "aten/cpu/linalg/matrices.h"
#include "facula/kernels.h"

namespace facula::cpu {
namespace {

constexpr int64_t kPanel = 192;   // columns that one thread factors at a time
constexpr int64_t kShared = 512;  // sizes from which a matrix is worth several threads

// B (m, n) becomes the X of A X = B, or of X A = B.
template <typename T>
void solve_rows(int side, bool upper, int trans, bool unit, int64_t m, int64_t n, const T* a, int64_t lda, T* b,
                int64_t ldb) {
  blas<"trsm", T>(kRowMajor, side, upper ? kUpper : kLower, trans, unit ? kUnit : kNonUnit, m, n, blas_factor(T(1)),
                  static_cast<const void*>(a), lda, static_cast<void*>(b), ldb);
}

// The lower triangle of `a` (n, n), rows of `ld`, becomes L. Returns the order of the leading minor that is not
// positive, or 0.
template <typename T>
int64_t factor_block(T* a, int64_t n, int64_t ld) {
  return lapack<"potrf", T>(kColumnMajor, 'U', n, a, ld);
}

// The same by panels, whose updates are products that threads share.
template <typename T>
int64_t factor_shared(T* a, int64_t n) {
  for (int64_t k = 0; k < n; k += kPanel) {
    const int64_t width = std::min(kPanel, n - k), next = k + width, below = n - next;
    T* diagonal = a + k * n + k;
    if (const int64_t minor = factor_block(diagonal, width, n); minor != 0) return k + minor;
    if (below == 0) break;
    T* panel = a + next * n + k;
    parallel_for(0, below, grain_for(width * width), [&](int64_t begin, int64_t end) {
      solve_rows<T>(kRight, false, kTrans, false, end - begin, width, diagonal, n, panel + begin * n, n);
    });
    for (int64_t j = 0; j < below; j += kPanel) {
      const int64_t columns = std::min(kPanel, below - j);
      T* rows = panel + j * n;
      gemm<T>(below - j, columns, width, T(-1), Matrix<const T>{rows, n, 1}, Matrix<const T>{rows, 1, n}, T(1),
              Matrix<T>{a + (next + j) * n + next + j, n, 1});
    }
  }
  return 0;
}

template <typename T>
int64_t factor(T* a, int64_t n) {
  int64_t minor = 0;
  bool shared = false;
  if constexpr (!is_complex_v<T>) shared = n >= kShared && get_num_threads() > 1 && !in_parallel_region();
  if constexpr (!is_complex_v<T>) {
    if (shared) minor = factor_shared(a, n);
  }
  if (!shared) minor = factor_block(a, n, n);
  for (int64_t i = 0; i < n && minor == 0; ++i) {  // what is no number is not positive
    if (std::isnan(std::real(a[i * n + i]))) minor = i + 1;
  }
  return minor;
}

}  // namespace

void cholesky(const Tensor& A, const Tensor& L, const Tensor& info) {
  const int64_t n = A.size(-1), count = info.numel();
  int32_t* failed = info.data<int32_t>();
  if (n == 0) {
    std::fill_n(failed, count, 0);
    return;
  }
  visit_lapack(A.dtype(), [&]<typename T>(std::type_identity<T>) {
    const Matrices<T> from(A, batch_sizes(A));
    T* out = L.data<T>();
    share_matrices(count, cubic(n, n) / 2, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        T* a = out + k * n * n;
        copy_matrix<T>(n, n, from[k], row_major(a, n));
        failed[k] = static_cast<int32_t>(factor(a, n));
        for (int64_t i = 0; i < n; ++i) std::fill_n(a + i * n + i + 1, n - i - 1, T(0));
      }
    });
  });
}

void linalg_solve_triangular(const Tensor& A, const Tensor& B, bool upper, bool left, bool unitriangular,
                             const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t m = out.size(-2), n = out.size(-1), size = A.size(-1);
  const IntList batch = batch_sizes(out);
  into_dense(out, out.dtype(), [&](const Tensor& result) {
    visit_lapack(out.dtype(), [&]<typename T>(std::type_identity<T>) {
      const Matrices<T> triangles(A, batch), from(B, batch);
      const int64_t count = numel_of(batch);
      const bool alone = count < get_num_threads() && !in_parallel_region();  // then its lines are shared
      const auto solve = [&](int64_t k, T* work) {
        T* x = result.data<T>() + k * m * n;
        copy_matrix<T>(m, n, from[k], row_major(x, n));
        Matrix<T> a = triangles[k];
        bool above = upper;
        int trans = kNoTrans;
        if (a.row == 1 && a.col >= size) {  // stored by columns
          a = a.t();
          above = !above;
          trans = kTrans;
        } else if (a.col != 1 || a.row < size) {
          copy_matrix<T>(size, size, a, row_major(work, size));
          a = row_major(work, size);
        }
        const int64_t lines = left ? n : m;
        parallel_for(0, lines, alone ? grain_for(size * size, 1 << 18) : lines, [&](int64_t begin, int64_t end) {
          if (left) {
            solve_rows<T>(kLeft, above, trans, unitriangular, m, end - begin, a.data, a.row, x + begin, n);
          } else {
            solve_rows<T>(kRight, above, trans, unitriangular, end - begin, n, a.data, a.row, x + begin * n, n);
          }
        });
      };
      const auto part = [&](int64_t begin, int64_t end) {
        const Work<T> work(size, size);
        for (int64_t k = begin; k < end; ++k) solve(k, work);
      };
      if (alone) {
        part(0, count);
      } else {
        share_matrices(count, saturated_mul(saturated_mul(size, size), (left ? n : m) + 1) / 4, part);
      }
    });
  });
}

}  // namespace facula::cpu
