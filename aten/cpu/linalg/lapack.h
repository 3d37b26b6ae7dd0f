// LAPACK by one call from a kernel, through its C interface (LAPACKE), as OpenBLAS brings it:
//
//   const int info = lapack<"potrf", T>(kRowMajor, 'L', n, a, n);
//
// is LAPACKE_spotrf, dpotrf, cpotrf or zpotrf, by T; what a routine takes and returns is in its documentation
// (netlib.org/lapack). It runs on the calling thread alone: share a batch out with parallel_for.
#pragma once

#include <algorithm>
#include <climits>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>

#include "aten/cpu/common/openblas.h"
#include "runtime/core/apart.h"
#include "runtime/core/dtype.h"
#include "runtime/core/error.h"

namespace facula {

inline constexpr int kRowMajor = 101, kColumnMajor = 102;
// Words of BLAS.
inline constexpr int kNoTrans = 111, kTrans = 112, kUpper = 121, kLower = 122, kNonUnit = 131, kUnit = 132, kLeft = 141,
                     kRight = 142;
inline constexpr int kLapackMemory = -1010;  // what LAPACKE answers without memory, or -1011

namespace detail {

template <size_t N>
struct Routine {
  char name[N];
  consteval Routine(const char (&text)[N]) { std::copy_n(text, N, name); }  // NOLINT: a literal is what is given
};

template <typename T>
constexpr char lapack_letter() {
  if constexpr (std::is_same_v<T, float>) return 's';
  if constexpr (std::is_same_v<T, double>) return 'd';
  if constexpr (std::is_same_v<T, complex64>) return 'c';
  if constexpr (std::is_same_v<T, complex128>) return 'z';
}

// Sizes are of 32 bits there.
template <typename A>
auto lapack_argument(const A& a) {
  if constexpr (std::is_same_v<A, int64_t>) {
    FACULA_CHECK(a <= INT_MAX, Value, "LAPACK takes sizes up to ", INT_MAX, ", not ", a);
    return static_cast<int>(a);
  } else {
    return a;
  }
}

}  // namespace detail

// The function `prefix` + letter of T + name of the library.
template <detail::Routine kName, typename T, typename Function>
Function linalg_routine(const char* prefix) {
  const auto function =
      reinterpret_cast<Function>(openblas::find(std::string(prefix) + detail::lapack_letter<T>() + kName.name));
  FACULA_CHECK(function != nullptr, NotImplemented,
               "needs LAPACK, which OpenBLAS brings: pip install scipy-openblas32, or name its file in FACULA_BLAS");
  return function;
}

namespace detail {

constexpr int64_t kLongWork = 384;  // sizes from which a call may take a tenth of a second

template <typename... Args>
bool is_long(const Args&... args) {
  const auto large = []<typename A>(const A& a) {
    if constexpr (std::is_same_v<A, int64_t>) return a >= kLongWork;
    return false;
  };
  return (large(args) || ...);
}

}  // namespace detail

// The routine's result: 0, the place of what made it fail, or minus the place of a bad argument.
template <detail::Routine kName, typename T, typename... Args>
int lapack(const Args&... args) {
  using Function = int (*)(decltype(detail::lapack_argument(args))...);
  static const auto function = linalg_routine<kName, T, Function>("LAPACKE_");
  int result = 0;
  if (detail::is_long(args...)) {
    const auto answer = std::make_shared<int>(0);
    run_apart(
        [answer, call = std::make_tuple(detail::lapack_argument(args)...)] { *answer = std::apply(function, call); });
    result = *answer;
  } else {
    result = function(detail::lapack_argument(args)...);
  }
  FACULA_CHECK(result > kLapackMemory, OutOfMemory, "LAPACK has no memory for its work");
  return result;
}

// A routine of BLAS, by its C interface: blas<"trsm", T>(kRowMajor, ...).
template <detail::Routine kName, typename T, typename... Args>
void blas(const Args&... args) {
  using Function = void (*)(decltype(detail::lapack_argument(args))...);
  static const auto function = linalg_routine<kName, T, Function>("cblas_");
  function(detail::lapack_argument(args)...);
}

// A factor as BLAS takes it: numbers by value, complex ones by their address.
template <typename T>
auto blas_factor(const T& value) {
  if constexpr (is_complex_v<T>) {
    return static_cast<const void*>(&value);
  } else {
    return value;
  }
}

}  // namespace facula
