// Element types as they lie in memory, and their conversions, which are C's as the CPU has them.
#pragma once

#include "facula/math.h"

namespace facula {

#define FD __device__ __forceinline__

// a / b rounded up; b > 0.
FD int64_t ceil_div(int64_t a, int64_t b) { return a / b + (a % b > 0); }

struct Bool {
  uint8_t bits;
};
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

// The value of an element: bool for Bool, float for the 16-bit types.
template <typename S>
FD S value(S x) {
  return x;
}
FD bool value(Bool x) { return x.bits != 0; }
FD float value(Half x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
  return f;
}
FD float value(BFloat16 x) { return __uint_as_float(static_cast<uint32_t>(x.bits) << 16); }

template <typename To, typename From>
FD To float_to_int(From x) {
  using Wide = std::conditional_t<sizeof(To) == 8, int64_t, int32_t>;
  constexpr From limit = sizeof(To) == 8 ? From(9223372036854775808.0) : From(2147483648.0);
  const Wide wide = x >= -limit && x < limit ? static_cast<Wide>(x) : std::numeric_limits<Wide>::min();
  return static_cast<To>(wide);
}

// Between values: bool, integers, float, double, complex.
template <typename To, typename From>
FD To convert(From x) {
  if constexpr (std::is_same_v<To, From>) {
    return x;
  } else if constexpr (std::is_same_v<To, bool>) {
    return x != From(0);
  } else if constexpr (math::is_complex_number<From>) {
    if constexpr (math::is_complex_number<To>) {
      return To(x);
    } else {
      return convert<To>(x.real());
    }
  } else if constexpr (math::is_complex_number<To>) {
    return To(static_cast<math::real_t<To>>(x));
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return float_to_int<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <typename T, typename S>
FD T load(S x) {
  return convert<T>(value(x));
}
// An element of type S from a value.
template <typename S, typename T>
FD S element(T x) {
  if constexpr (std::is_same_v<S, Bool>) {
    return Bool{static_cast<uint8_t>(convert<bool>(x))};
  } else if constexpr (std::is_same_v<S, Half>) {
    Half h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(convert<float>(x)));
    return h;
  } else if constexpr (std::is_same_v<S, BFloat16>) {
    BFloat16 h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(convert<float>(x)));
    return h;
  } else {
    return convert<S>(x);
  }
}

// The type that sums and formulas of S are computed in.
template <typename S>
struct compute_of {
  using type = S;
};
template <>
struct compute_of<Bool> {
  using type = bool;
};
template <>
struct compute_of<Half> {
  using type = float;
};
template <>
struct compute_of<BFloat16> {
  using type = float;
};
template <typename S>
using compute_t = typename compute_of<S>::type;

// V elements side by side, moved by accesses of up to 16 bytes.
template <typename S, int V>
union Vector {
  static constexpr int kBytes = V * static_cast<int>(sizeof(S));
  using Word = std::conditional_t<
      kBytes % 16 == 0, uint4,
      std::conditional_t<
          kBytes % 8 == 0, uint2,
          std::conditional_t<kBytes % 4 == 0, uint32_t, std::conditional_t<kBytes % 2 == 0, uint16_t, uint8_t>>>>;
  static constexpr int kWords = kBytes / static_cast<int>(sizeof(Word));
  S at[V];
  Word words[kWords];
  uint32_t pairs[(kBytes + 3) / 4];
  FD Vector() {}
  FD void load(const S* from) {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = reinterpret_cast<const Word*>(from)[i];
  }
  FD void store(S* to) const {
#pragma unroll
    for (int i = 0; i < kWords; ++i) reinterpret_cast<Word*>(to)[i] = words[i];
  }
  // Element k as a value; of two bfloat16 in a word, each takes one instruction.
  template <typename T>
  FD T get(int k) const {
    if constexpr (std::is_same_v<S, BFloat16> && V % 2 == 0) {
      return convert<T>(__uint_as_float(k % 2 != 0 ? pairs[k / 2] & 0xffff0000u : pairs[k / 2] << 16));
    } else {
      return facula::load<T>(at[k]);
    }
  }
  // From V values, two at a time where the machine has that.
  template <typename T>
  FD void set(const T (&x)[V]) {
    if constexpr ((std::is_same_v<S, Half> || std::is_same_v<S, BFloat16>) && V % 2 == 0) {
#pragma unroll
      for (int i = 0; i < V / 2; ++i) {
        const float a = convert<float>(x[2 * i]), b = convert<float>(x[2 * i + 1]);
        if constexpr (std::is_same_v<S, Half>) {
          asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pairs[i]) : "f"(b), "f"(a));
        } else {
          asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pairs[i]) : "f"(b), "f"(a));
        }
      }
    } else {
#pragma unroll
      for (int i = 0; i < V; ++i) at[i] = element<S>(x[i]);
    }
  }
};

// What memory of elements S would give back of values written to it.
template <typename S, typename T, typename Y, int V>
FD void rounded(const T (&x)[V], Y (&y)[V]) {
  if constexpr (std::is_same_v<T, Y> && (std::is_same_v<S, T> || std::is_same_v<S, Bool>)) {
#pragma unroll
    for (int k = 0; k < V; ++k) y[k] = x[k];
  } else {
    Vector<S, V> v;
    v.set(x);
#pragma unroll
    for (int k = 0; k < V; ++k) y[k] = v.template get<Y>(k);
  }
}

// Division of numbers below 2^31 by a fixed one: n / d = (umulhi(n, m) + n) >> s.
struct Divisor {
  uint32_t d, m, s;
  FD uint32_t divide(uint32_t n) const { return (__umulhi(n, m) + n) >> s; }
};

// A number among the arguments, already of the type that it is used as.
struct alignas(16) Slot {
  unsigned char bytes[16];
  template <typename T>
  FD T get() const {
    return *reinterpret_cast<const T*>(bytes);
  }
};

constexpr int kMaxDims = 8;

}  // namespace facula
