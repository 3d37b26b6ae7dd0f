#include "aten/cpu/gemm/blas.h"

#include <climits>

#include "aten/cpu/common/openblas.h"

namespace facula::blas {
namespace {

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;

template <typename F>
F find(const char* name) {
  return reinterpret_cast<F>(openblas::find(std::string("cblas_") + name));
}

struct Routines {
  void (*gemm)(int, int, int, int, int, int, const void*, const void*, int, const void*, int, const void*, void*, int);
  void (*gemv)(int, int, int, int, const void*, const void*, int, const void*, int, const void*, void*, int);

  explicit Routines(bool wide)
      : gemm(find<decltype(gemm)>(wide ? "zgemm" : "cgemm")), gemv(find<decltype(gemv)>(wide ? "zgemv" : "cgemv")) {}
};

template <typename T>
const Routines& routines() {
  static const Routines found(std::is_same_v<T, complex128>);
  return found;
}

bool fits(int64_t a, int64_t b, int64_t c) { return a <= INT_MAX && b <= INT_MAX && c <= INT_MAX; }

}  // namespace

template <typename T>
bool gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b,
          int64_t ldb, T beta, T* c, int64_t ldc) {
  const auto gemm = routines<T>().gemm;
  if (gemm == nullptr || !fits(m, n, k) || !fits(lda, ldb, ldc)) return false;
  gemm(kRowMajor, trans_a ? kTrans : kNoTrans, trans_b ? kTrans : kNoTrans, static_cast<int>(m), static_cast<int>(n),
       static_cast<int>(k), &alpha, a, static_cast<int>(lda), b, static_cast<int>(ldb), &beta, c,
       static_cast<int>(ldc));
  return true;
}

template <typename T>
bool gemv(bool trans, int64_t rows, int64_t cols, T alpha, const T* a, int64_t lda, const T* x, int64_t incx, T beta,
          T* y, int64_t incy) {
  const auto gemv = routines<T>().gemv;
  if (gemv == nullptr || !fits(rows, cols, lda) || !fits(incx, incy, 0)) return false;
  gemv(kRowMajor, trans ? kTrans : kNoTrans, static_cast<int>(rows), static_cast<int>(cols), &alpha, a,
       static_cast<int>(lda), x, static_cast<int>(incx), &beta, y, static_cast<int>(incy));
  return true;
}

#define FACULA_BLAS_FOR(T)                                                                                     \
  template bool gemm<T>(bool, bool, int64_t, int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T, T*, \
                        int64_t);                                                                              \
  template bool gemv<T>(bool, int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T, T*, int64_t);
FACULA_BLAS_FOR(complex64)
FACULA_BLAS_FOR(complex128)
#undef FACULA_BLAS_FOR

}  // namespace facula::blas
