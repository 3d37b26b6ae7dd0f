// Lets GCC vectorise calls of the C math functions with glibc's libmvec, without -ffast-math.
//
// A redeclaration with the `simd` attribute says that libmvec's vector variants exist, which glibc
// itself only says under -ffast-math. It must come before <cmath>. Elsewhere (musl, macOS, other
// compilers or processors) nothing is declared and the scalar functions serve.
#pragma once

#include <limits.h>  // defines __GLIBC__ where there is one

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__) && \
    (__GLIBC__ > 2 || (__GLIBC__ == 2 && __GLIBC_MINOR__ >= 35)) && !defined(FACULA_NO_LIBMVEC)
#define FACULA_LIBMVEC 1

#define FACULA_SIMD __attribute__((simd("notinbranch"), const))
#define FACULA_SIMD_1(name)                  \
  FACULA_SIMD float name##f(float) noexcept; \
  FACULA_SIMD double name(double) noexcept;
#define FACULA_SIMD_2(name)                         \
  FACULA_SIMD float name##f(float, float) noexcept; \
  FACULA_SIMD double name(double, double) noexcept;

extern "C" {
FACULA_SIMD_1(exp)
FACULA_SIMD_1(exp2)
FACULA_SIMD_1(expm1)
FACULA_SIMD_1(log)
FACULA_SIMD_1(log2)
FACULA_SIMD_1(log10)
FACULA_SIMD_1(log1p)
FACULA_SIMD_1(sin)
FACULA_SIMD_1(cos)
FACULA_SIMD_1(tan)
FACULA_SIMD_1(asin)
FACULA_SIMD_1(acos)
FACULA_SIMD_1(atan)
FACULA_SIMD_1(sinh)
FACULA_SIMD_1(cosh)
FACULA_SIMD_1(tanh)
FACULA_SIMD_1(asinh)
FACULA_SIMD_1(acosh)
FACULA_SIMD_1(atanh)
FACULA_SIMD_1(erf)
FACULA_SIMD_1(erfc)
FACULA_SIMD_2(pow)
FACULA_SIMD_2(atan2)
FACULA_SIMD_2(hypot)
}

#undef FACULA_SIMD
#undef FACULA_SIMD_1
#undef FACULA_SIMD_2
#endif
