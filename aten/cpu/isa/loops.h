// Loops that are compiled once per instruction set (baseline, x86-64-v3, x86-64-v4): the files of
// this folder, on plain pointers. They must not use inline functions of other headers that are
// emitted out of line, since the linker keeps one copy of those, whatever it was compiled for.
#pragma once

#include <cstdint>

#include "runtime/iterate/pointwise.h"

#if defined(__x86_64__)
#define FACULA_ISA_CALL(name, ...)                                               \
  (::facula::active_isa() == ::facula::Isa::V4   ? ::facula::cpu::v4::name       \
   : ::facula::active_isa() == ::facula::Isa::V3 ? ::facula::cpu::v3::name       \
                                                 : ::facula::cpu::baseline::name)(__VA_ARGS__)
#define FACULA_FORALL_ISA(X) X(baseline) X(v3) X(v4)
#else
#define FACULA_ISA_CALL(name, ...) ::facula::cpu::baseline::name(__VA_ARGS__)
#define FACULA_FORALL_ISA(X) X(baseline)
#endif

namespace facula::cpu {

#define FACULA_DECLARE_LOOPS(ns)                                        \
  namespace ns {                                                        \
  float dot_f32(int64_t n, const float* a, const float* b);             \
  double dot_f64(int64_t n, const double* a, const double* b);          \
  }
FACULA_FORALL_ISA(FACULA_DECLARE_LOOPS)
#undef FACULA_DECLARE_LOOPS

}  // namespace facula::cpu
