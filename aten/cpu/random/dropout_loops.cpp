// build: levels
#include "aten/cpu/random/dropout_loops.h"
#include "runtime/iterate/stream.h"

#include <type_traits>

namespace facula {
namespace {

void mask(int64_t n, const uint32_t* __restrict words, uint64_t threshold, bool* __restrict keep) {
  for (int64_t i = 0; i < n; ++i) keep[i] = words[i] >= threshold;
}

template <typename T>
void apply(int64_t n, const T* __restrict x, const bool* __restrict keep, T factor, T* __restrict out, bool stream) {
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const auto* ones = reinterpret_cast<const uint8_t*>(keep);
  write_row(n, out, stream, [=](int64_t i) {
    // A mask of bits: a choice would become a branch, which random numbers defeat.
    const U bits = __builtin_bit_cast(U, x[i] * factor);
    return __builtin_bit_cast(T, bits & (U(0) - static_cast<U>(ones[i])));
  });
}

}  // namespace

FACULA_DEFINE_BY_ISA(DropoutLoops, dropout_loops, {mask, apply<float>, apply<double>})

}  // namespace facula
