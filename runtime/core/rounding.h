// Division rounded up or down, and the multiple that it leads to. No sum is made on the way, which could overflow.
#pragma once

#include <type_traits>

namespace facula {

// Always in place: what is compiled for several instruction sets must not share functions.
#define FACULA_ROUNDING [[gnu::always_inline]] constexpr std::common_type_t<A, B>

// a / b of whole numbers, b > 0, rounded towards plus infinity.
template <typename A, typename B>
FACULA_ROUNDING ceil_div(A a, B b) {
  return a / b + (a % b > 0 ? 1 : 0);
}
// The same rounded towards minus infinity.
template <typename A, typename B>
FACULA_ROUNDING floor_div(A a, B b) {
  return a / b - (a % b < 0 ? 1 : 0);
}
template <typename A, typename B>
FACULA_ROUNDING round_up(A n, B unit) {
  return ceil_div(n, unit) * unit;
}

#undef FACULA_ROUNDING

}  // namespace facula
