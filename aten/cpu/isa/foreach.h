// Compiles the file FACULA_LOOPS once per instruction set, in a namespace of its own. No guard:
// define FACULA_LOOPS, then include this, at file scope.
//
// The target is switched by pragma around the loops alone, so that functions of shared headers keep
// the baseline: the linker may pick any copy of those.
#include "aten/cpu/isa/isa.h"

#if FACULA_MULTI_ISA
#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx2,bmi,bmi2,f16c,fma,lzcnt,movbe,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2,f16c,fma,lzcnt,movbe,popcnt")
#endif
#define FACULA_ISA v3
#define FACULA_VECTOR_BYTES 32
#include FACULA_LOOPS
#undef FACULA_ISA
#undef FACULA_VECTOR_BYTES
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi,bmi2,f16c,fma,"    \
                          "lzcnt,movbe,popcnt"))),                                                 \
    apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target( \
    "avx512f,avx512bw,avx512cd,avx512dq,avx512vl,avx2,bmi,bmi2,f16c,fma,lzcnt,movbe,popcnt,prefer-vector-width=512")
#endif
#define FACULA_ISA v4
#define FACULA_VECTOR_BYTES 64
#include FACULA_LOOPS
#undef FACULA_ISA
#undef FACULA_VECTOR_BYTES
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif  // FACULA_MULTI_ISA

#define FACULA_ISA baseline
#define FACULA_VECTOR_BYTES 16
#include FACULA_LOOPS
#undef FACULA_ISA
#undef FACULA_VECTOR_BYTES
#undef FACULA_LOOPS
