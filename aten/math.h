// The scalar vocabulary in facula's own loops. Include "aten/math_simd.h" first.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/iterate/int_division.h"

#ifdef __clang__
#define FACULA_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#else
#define FACULA_VECTORIZE _Pragma("GCC ivdep")
#endif
#define FACULA_NOTE_ZERO_DIVISION() tls_int_division_by_zero = true

// Functions with loops are called for each element, so that no loop over elements is made of them at one place
// and not at another.
#define FACULA_MATH_LARGE [[gnu::noinline]] inline

#ifdef __has_builtin
#if __has_builtin(__builtin_assoc_barrier)
#define FACULA_ROUNDED(x) __builtin_assoc_barrier(x)
#endif
#endif

#define FACULA_MATH_ELEMENTARY "aten/math_elementary.h"  // single precision of our own

#include "facula/math.h"
