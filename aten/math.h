// The scalar vocabulary in facula's own loops. Include "aten/math_simd.h" first.
#pragma once

#include "runtime/core/dtype.h"
#include "runtime/iterate/loop_faults.h"

#ifdef __clang__
#define FACULA_VECTORIZE _Pragma("clang loop vectorize(assume_safety)")
#else
#define FACULA_VECTORIZE _Pragma("GCC ivdep")
#endif
#define FACULA_NOTE_ZERO_DIVISION() tls_loop_fault.kind = LoopFault::kZeroDivision
#define FACULA_NOTE_NEGATIVE_POWER() tls_loop_fault.kind = LoopFault::kNegativePower
#define FACULA_NOTE_OUTSIDE(low, high) tls_loop_fault = {LoopFault::kOutside, float(low), float(high)}

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
