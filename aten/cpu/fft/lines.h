// Transforms of many lines of a tensor, compiled for each instruction set.
#pragma once

#include <complex>
#include <cstdint>

#include "runtime/iterate/isa.h"

namespace facula {

// Where lines begin, numbered over `sizes`, and how far apart their elements are, in elements.
struct FftLines {
  int64_t dims;
  const int64_t *sizes, *in, *out;  // strides from line to line along each dim
  int64_t step_in, step_out;
};

template <typename T>
struct FftLoops {
  using C = std::complex<T>;
  // What a length needs, or null where there is no memory.
  void* (*make_complex)(int64_t length);
  void* (*make_real)(int64_t length);
  void* (*make_roots)(int64_t length);  // of exp(2 pi i k / length), 0 <= k < length
  void (*drop_complex)(void* plan);
  void (*drop_real)(void* plan);
  void (*drop_roots)(void* roots);
  int64_t (*good_length)(int64_t least);  // of no other factors than 2, 3, 5, 7 and 11
  int64_t lanes;                          // lines that are transformed at once
  // Lines begin to end, which may lie where they came from. `work` holds 2 * lanes * length numbers, `position`
  // `dims`. With `roots` (of its length) element k of line j is multiplied by the root's power j k, or its conjugate
  // forward. False where there is no memory.
  bool (*c2c)(const void* plan, const void* roots, const FftLines& lines, int64_t begin, int64_t end, const C* in,
              C* out, T* work, int64_t* position, T scale, bool forward);
  bool (*r2c)(void* plan, const FftLines& lines, int64_t begin, int64_t end, const T* in, C* out, T* work,
              int64_t* position, T scale, bool forward);
  bool (*c2r)(void* plan, const FftLines& lines, int64_t begin, int64_t end, const C* in, T* out, T* work,
              int64_t* position, T scale, bool forward);
  // to[i] = root begin + i of a table.
  void (*root)(const void* roots, int64_t begin, int64_t count, C* to);
};
FACULA_DECLARE_BY_ISA(FftLoops<float>, fft_loops_float)
FACULA_DECLARE_BY_ISA(FftLoops<double>, fft_loops_double)

}  // namespace facula
