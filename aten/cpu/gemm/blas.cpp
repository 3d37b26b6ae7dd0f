#include "aten/cpu/gemm/blas.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <vector>

#include "runtime/core/facts.h"
#include "runtime/core/library.h"

namespace facula::blas {
namespace {

constexpr int kRowMajor = 101, kNoTrans = 111, kTrans = 112;

struct Routines {
  void (*gemm)(int, int, int, int, int, int, const void*, const void*, int, const void*, int, const void*, void*,
               int) = nullptr;
  void (*gemv)(int, int, int, int, const void*, const void*, int, const void*, int, const void*, void*, int) = nullptr;
};

struct Library {
  Routines c, z;
  std::string file;  // empty when none was found

  template <typename T>
  const Routines& get() const {
    return std::is_same_v<T, complex64> ? c : z;
  }
};

constexpr const char* kFile = "libscipy_openblas.so";

std::vector<std::string> candidates() {
  if (const char* path = std::getenv("FACULA_BLAS"); path != nullptr && *path != '\0') return {path};
  std::vector<std::string> found;
  for (const std::string& folder : package_folders()) {
    const std::string path = folder + "/scipy_openblas32/lib/" + kFile;
    if (access(path.c_str(), R_OK) == 0) found.push_back(path);
  }
  found.emplace_back(kFile);
  return found;
}

template <typename F>
bool find(void* handle, const char* name, F& slot) {
  slot = reinterpret_cast<F>(dlsym(handle, (std::string("scipy_cblas_") + name).c_str()));
  return slot != nullptr;
}

Library* load() {
  auto* library = new Library;  // lives as long as the process
  for (const std::string& path : candidates()) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) continue;
    Library& l = *library;
    if (!(find(handle, "cgemm", l.c.gemm) && find(handle, "zgemm", l.z.gemm) && find(handle, "cgemv", l.c.gemv) &&
          find(handle, "zgemv", l.z.gemv))) {
      continue;
    }
    // Work is split by our own pool, so that there is one team of threads and none that spins;
    // the library's own threads stay asleep.
    if (auto* set = reinterpret_cast<void (*)(int)>(dlsym(handle, "scipy_openblas_set_num_threads"))) set(1);
    l.file = path;
    return library;
  }
  return library;
}

const Library& library() {
  static const Library* const loaded = load();
  return *loaded;
}

bool fits(int64_t a, int64_t b, int64_t c) { return a <= INT_MAX && b <= INT_MAX && c <= INT_MAX; }

[[maybe_unused]] const bool told = (add_fact("blas", [] { return library().file; }), true);

}  // namespace

const std::string& file() { return library().file; }

template <typename T>
bool gemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, const T* b,
          int64_t ldb, T beta, T* c, int64_t ldc) {
  const Library& l = library();
  if (l.file.empty() || !fits(m, n, k) || !fits(lda, ldb, ldc)) return false;
  l.get<T>().gemm(kRowMajor, trans_a ? kTrans : kNoTrans, trans_b ? kTrans : kNoTrans, static_cast<int>(m),
                  static_cast<int>(n), static_cast<int>(k), &alpha, a, static_cast<int>(lda), b, static_cast<int>(ldb),
                  &beta, c, static_cast<int>(ldc));
  return true;
}

template <typename T>
bool gemv(bool trans, int64_t rows, int64_t cols, T alpha, const T* a, int64_t lda, const T* x, int64_t incx, T beta,
          T* y, int64_t incy) {
  const Library& l = library();
  if (l.file.empty() || !fits(rows, cols, lda) || !fits(incx, incy, 0)) return false;
  l.get<T>().gemv(kRowMajor, trans ? kTrans : kNoTrans, static_cast<int>(rows), static_cast<int>(cols), &alpha, a,
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
