// Sorting by keys: every element becomes an unsigned integer that orders as the element does (NaN
// last), packed with its position, so that one comparison is exact and stable.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>

#include "runtime/core/tensor.h"

namespace facula::cpu {

using uint128 = unsigned __int128;

// Key in the upper half, position in the lower.
template <typename P>
inline constexpr int kHalfBits = sizeof(P) * 4;
template <typename P>
inline int64_t position_of(P p) {
  return static_cast<int64_t>(p & ((P(1) << kHalfBits<P>)-1));
}

template <typename T>
using KeyOf = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint8_t>>>;

// Elements whose bits a key does not give back: NaNs and negative zeros.
template <typename T>
inline bool loses_bits(T v) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    const auto f = static_cast<opmath_t<T>>(v);
    return f != f || (f == 0 && std::bit_cast<KeyOf<T>>(v) != 0);
  }
}

template <typename T>
inline KeyOf<T> to_key(T v) {
  using K = KeyOf<T>;
  constexpr K top = static_cast<K>(K(1) << (sizeof(T) * 8 - 1));
  if constexpr (std::is_same_v<T, bool>) {
    return v ? 1 : 0;
  } else if constexpr (std::is_integral_v<T>) {
    return std::is_signed_v<T> ? static_cast<K>(static_cast<K>(v) ^ top) : static_cast<K>(v);
  } else {
    const auto f = static_cast<opmath_t<T>>(v);
    if (f != f) return static_cast<K>(~K(0));
    const K bits = f == 0 ? K(0) : std::bit_cast<K>(v);
    return static_cast<K>((bits & top) != 0 ? ~bits : bits | top);
  }
}

template <typename T>
inline T from_key(KeyOf<T> key) {
  using K = KeyOf<T>;
  constexpr K top = static_cast<K>(K(1) << (sizeof(T) * 8 - 1));
  if constexpr (std::is_same_v<T, bool>) {
    return key != 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(std::is_signed_v<T> ? static_cast<K>(key ^ top) : key);
  } else {
    return std::bit_cast<T>(static_cast<K>((key & top) != 0 ? key ^ top : ~key));
  }
}

// Sorts n packed elements; `scratch` has room for as many. `shared`: among threads.
void sort_packed(uint64_t* data, uint64_t* scratch, int64_t n, bool shared);
void sort_packed(uint128* data, uint128* scratch, int64_t n, bool shared);

// visit_dtype without the complex types.
template <typename F>
decltype(auto) visit_ordered(ScalarType t, const char* who, F&& fn) {
  FACULA_CHECK(!is_complex(t), Type, who, "(): complex numbers have no order, got ", dtype_name(t));
  return visit_dtype(t, [&]<typename T>(std::type_identity<T> id) {
    if constexpr (is_complex_v<T>) {
      return fn(std::type_identity<float>{});  // not reached
    } else {
      return fn(id);
    }
  });
}

// Calls fn with the packed type for lines of n elements of type T.
template <typename T, typename F>
decltype(auto) with_packed(int64_t n, F&& fn) {
  if constexpr (sizeof(T) <= 4) {
    if (n <= (int64_t{1} << 32)) return fn(std::type_identity<uint64_t>{});
  }
  return fn(std::type_identity<uint128>{});
}

// data[i] = packed element i of a line; true when keys give the elements back.
template <typename T, typename P>
bool pack_line(const T* x, int64_t stride, int64_t n, bool descending, P* data) {
  bool lossless = true;
  for (int64_t i = 0; i < n; ++i) {
    const T v = x[i * stride];
    lossless &= !loses_bits(v);
    KeyOf<T> key = to_key(v);
    if (descending) key = static_cast<KeyOf<T>>(~key);
    data[i] = static_cast<P>(key) << kHalfBits<P> | static_cast<P>(static_cast<uint64_t>(i));
  }
  return lossless;
}

// Writes sorted elements and their positions.
template <typename T, typename P>
void unpack_line(const P* data, int64_t n, const T* x, int64_t stride, bool descending, bool lossless, T* values,
                 int64_t value_stride, int64_t* indices, int64_t index_stride) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = position_of(data[i]);
    if (indices != nullptr) indices[i * index_stride] = at;
    if (values == nullptr) continue;
    if (lossless) {
      KeyOf<T> key = static_cast<KeyOf<T>>(data[i] >> kHalfBits<P>);
      if (descending) key = static_cast<KeyOf<T>>(~key);
      values[i * value_stride] = from_key<T>(key);
    } else {
      values[i * value_stride] = x[at * stride];
    }
  }
}

}  // namespace facula::cpu
