// Machine vectors for files that are compiled per instruction set (runtime/iterate/isa.h), through the
// vector extension that gcc and clang share: arithmetic, comparison and selection are operators.
#pragma once

#include "runtime/iterate/isa.h"

#define FACULA_INLINE inline __attribute__((always_inline))

namespace facula::cpu {

template <typename T, int Bytes>
struct VectorOf {
  typedef T type __attribute__((vector_size(Bytes)));
};
template <typename T, int Bytes>
using Vector = typename VectorOf<T, Bytes>::type;

// Unaligned. By reference, so that no vector crosses a call.
template <int Bytes, typename T>
FACULA_INLINE void load(const T* p, Vector<T, Bytes>& v) {
  __builtin_memcpy(&v, p, Bytes);
}
template <int Bytes, typename T>
FACULA_INLINE void store(T* p, const Vector<T, Bytes>& v) {
  __builtin_memcpy(p, &v, Bytes);
}

}  // namespace facula::cpu
