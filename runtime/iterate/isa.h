// One source, several instruction sets. A file of vector loops is compiled up to three times with
// -DFACULA_ISA=baseline|v3|v4 and -march=x86-64-v3 / -v4 for the latter two. What it defines lies in
// `namespace facula::FACULA_ISA {` so that the copies have different names, and is
// reached through one table object:
//
//   struct SumTable { void (*run)(...); };
//   FACULA_DECLARE_BY_ISA(SumTable, sum_table)          // in a header, in namespace facula
//   FACULA_DEFINE_BY_ISA(SumTable, sum_table, {run})    // in namespace facula, compiled three times
//   FACULA_BY_ISA(sum_table).run(...)                   // anywhere
//
// The build defines FACULA_X86_LEVELS for all files when the copies for v3 and v4 exist. Files
// compiled for v3 or v4 must not emit shared inline functions (std::vector, std::string, ...): the
// linker may keep their copy for everyone. List the baseline objects first all the same.
#pragma once

#include <cstdint>

#include "runtime/core/error.h"

#ifndef FACULA_ISA
#define FACULA_ISA baseline
#endif
// Of the vectors of this copy.
#if defined(__AVX512F__)
#define FACULA_VECTOR_BYTES 64
#elif defined(__AVX2__)
#define FACULA_VECTOR_BYTES 32
#else
#define FACULA_VECTOR_BYTES 16
#endif

namespace facula {

namespace baseline {}
namespace v3 {}
namespace v4 {}
using namespace FACULA_ISA;  // NOLINT: names of this copy are used without the prefix

enum class Isa : uint8_t { Baseline, V3, V4 };
inline constexpr int kNumIsa = 3;
FACULA_API Isa active_isa();  // by cpuid once; the variable FACULA_ISA=baseline|v3|v4 lowers it

}  // namespace facula

#define FACULA_DECLARE_BY_ISA(Type, name) \
  namespace baseline {                    \
  extern const Type name;                 \
  }                                       \
  namespace v3 {                          \
  extern const Type name;                 \
  }                                       \
  namespace v4 {                          \
  extern const Type name;                 \
  }

#define FACULA_DEFINE_BY_ISA(Type, name, ...) const Type FACULA_ISA::name = __VA_ARGS__;

#ifdef FACULA_X86_LEVELS
#define FACULA_BY_ISA(name)                                           \
  (::facula::active_isa() == ::facula::Isa::V4   ? ::facula::v4::name \
   : ::facula::active_isa() == ::facula::Isa::V3 ? ::facula::v3::name \
                                                 : ::facula::baseline::name)
#else
#define FACULA_BY_ISA(name) (::facula::baseline::name)
#endif
