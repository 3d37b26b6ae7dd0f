// Loops written once and compiled for several instruction sets; see foreach.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "runtime/iterate/pointwise.h"

#if defined(__x86_64__)
#define FACULA_MULTI_ISA 1
#else
#define FACULA_MULTI_ISA 0
#endif

// Inlines into the loops of each instruction set.
#define FACULA_INLINE inline __attribute__((always_inline))
// The loops are written for the vectoriser, which gcc's -O2 keeps on a short lead.
#if defined(__GNUC__) && !defined(__clang__)
#define FACULA_O3 __attribute__((optimize("O3")))
#else
#define FACULA_O3
#endif

#if FACULA_MULTI_ISA
// The build of `name` for this machine, `name` being an object or function in each namespace.
#define FACULA_PICK_ISA(name)                          \
  (::facula::active_isa() == ::facula::Isa::V4   ? v4::name \
   : ::facula::active_isa() == ::facula::Isa::V3 ? v3::name \
                                                 : baseline::name)
#else
#define FACULA_PICK_ISA(name) baseline::name
#endif

namespace facula::cpu::isa {

// A machine vector of `Bytes` bytes; arithmetic, comparison and selection are the compiler's.
template <typename T, int Bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(Bytes)));
};
template <typename T, int Bytes>
using Vector = typename VectorOf<T, Bytes>::type;

template <int Bytes, typename T>
FACULA_INLINE void load(const T* p, Vector<T, Bytes>& v) {
  __builtin_memcpy(&v, p, Bytes);
}
template <int Bytes, typename T>
FACULA_INLINE void store(T* p, const Vector<T, Bytes>& v) {
  __builtin_memcpy(p, &v, Bytes);
}

}  // namespace facula::cpu::isa
