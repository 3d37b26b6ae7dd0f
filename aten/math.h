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

#define FACULA_MATH_ELEMENTARY "aten/math_elementary.h"  // single precision of our own

#include "facula/math.h"
