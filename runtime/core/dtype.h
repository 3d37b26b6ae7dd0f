// Element types, their properties and the promotion lattice.
#pragma once

#include <array>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "runtime/core/error.h"
#include "runtime/core/half.h"

namespace facula {

using complex64 = std::complex<float>;
using complex128 = std::complex<double>;

// FACULA_FORALL_TYPES(X): X(C++ type, enum name, public name)
#define FACULA_FORALL_TYPES(X)                               \
  X(bool, Bool, "bool")                                      \
  X(uint8_t, UInt8, "uint8")                                 \
  X(int8_t, Int8, "int8")                                    \
  X(int16_t, Int16, "int16")                                 \
  X(int32_t, Int32, "int32")                                 \
  X(int64_t, Int64, "int64")                                 \
  X(::facula::Half, Float16, "float16")                      \
  X(::facula::BFloat16, BFloat16, "bfloat16")                \
  X(float, Float32, "float32")                               \
  X(double, Float64, "float64")                              \
  X(::facula::complex64, Complex64, "complex64")             \
  X(::facula::complex128, Complex128, "complex128")          \
  X(uint16_t, UInt16, "uint16")                              \
  X(uint32_t, UInt32, "uint32")                              \
  X(uint64_t, UInt64, "uint64")                              \
  X(::facula::Float8_e4m3fn, Float8_e4m3fn, "float8_e4m3fn") \
  X(::facula::Float8_e5m2, Float8_e5m2, "float8_e5m2")

enum class ScalarType : uint8_t {
#define X(type, name, text) name,
  FACULA_FORALL_TYPES(X)
#undef X
};
inline constexpr int kNumScalarTypes = 17;

// bool < integer < floating < complex: the first thing promotion compares.
enum class Category : uint8_t { Bool, Integral, Floating, Complex };

struct TypeInfo {
  std::string_view name;
  uint8_t itemsize;
  uint8_t alignment;
  Category category;
};

FACULA_API extern const std::array<TypeInfo, kNumScalarTypes> kTypeInfo;

inline const TypeInfo& type_info(ScalarType t) { return kTypeInfo[static_cast<size_t>(t)]; }
inline std::string_view dtype_name(ScalarType t) { return type_info(t).name; }
inline size_t itemsize(ScalarType t) { return type_info(t).itemsize; }
inline Category category(ScalarType t) { return type_info(t).category; }
inline bool is_floating(ScalarType t) { return category(t) == Category::Floating; }
inline bool is_complex(ScalarType t) { return category(t) == Category::Complex; }
inline bool is_integral(ScalarType t, bool include_bool = false) {
  return category(t) == Category::Integral || (include_bool && t == ScalarType::Bool);
}
inline bool is_differentiable(ScalarType t) { return category(t) >= Category::Floating; }
inline bool is_unsigned(ScalarType t) {
  return t == ScalarType::UInt8 || (t >= ScalarType::UInt16 && t <= ScalarType::UInt64);
}
inline bool is_float8(ScalarType t) { return t == ScalarType::Float8_e4m3fn || t == ScalarType::Float8_e5m2; }
inline bool is_reduced_float(ScalarType t) {
  return t == ScalarType::Float16 || t == ScalarType::BFloat16 || is_float8(t);
}

// Result type of two tensors of the same priority (both dimensioned, say). Raises where no type holds both: uint64 and
// a signed integer, a float of 8 bits and another float.
FACULA_API ScalarType promote_types(ScalarType a, ScalarType b);
// May a result of type `from` be stored in `to`? (not from a higher to a lower category)
FACULA_API bool can_cast(ScalarType from, ScalarType to);
// float32 -> complex64 and so on; complex types stay.
FACULA_API ScalarType to_complex(ScalarType t);
// complex64 -> float32 and so on; real types stay.
FACULA_API ScalarType to_real(ScalarType t);
// The type arithmetic is done in: float for the floats of 16 and 8 bits, the next signed one for uint16 and uint32,
// otherwise the type itself.
FACULA_API ScalarType compute_type(ScalarType t);

FACULA_API ScalarType get_default_dtype();
FACULA_API void set_default_dtype(ScalarType t);  // floating types only

template <typename T>
struct dtype_of;
#define X(type, enum_name, text)                               \
  template <>                                                  \
  struct dtype_of<type> {                                      \
    static constexpr ScalarType value = ScalarType::enum_name; \
  };
FACULA_FORALL_TYPES(X)
#undef X
template <typename T>
inline constexpr ScalarType dtype_of_v = dtype_of<T>::value;

template <typename T>
struct is_complex_t : std::false_type {};
template <typename T>
struct is_complex_t<std::complex<T>> : std::true_type {};
template <typename T>
inline constexpr bool is_complex_v = is_complex_t<T>::value;
template <typename T>
inline constexpr bool is_reduced_float_v = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> ||
                                           std::is_same_v<T, Float8_e4m3fn> || std::is_same_v<T, Float8_e5m2>;

// The C++ type a kernel accumulates in for element type T.
template <typename T>
using opmath_t = std::conditional_t<is_reduced_float_v<T>, float, T>;

// What long sums of T are made in where a sum in T would lose the digits that its terms are smaller by.
template <typename T>
using wide_t = std::conditional_t<std::is_same_v<T, float>, double,
                                  std::conditional_t<std::is_same_v<T, std::complex<float>>, std::complex<double>, T>>;

// How an element lies in memory: a bool is a byte that may hold any number where foreign memory came in or
// nothing was written yet, and compilers vectorise loops over bytes that they leave alone over bool.
template <typename T>
using stored_t = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

// Calls `fn(std::type_identity<T>{})` (or any functor template) for the C++ type of `t`.
template <typename F>
decltype(auto) visit_dtype(ScalarType t, F&& fn) {
  switch (t) {
#define X(type, enum_name, text) \
  case ScalarType::enum_name:    \
    return fn(std::type_identity<type>{});
    FACULA_FORALL_TYPES(X)
#undef X
  }
  __builtin_unreachable();
}

// The same for the floating types only (Half, BFloat16, float, double); others raise with `who`.
template <typename F>
decltype(auto) visit_floating(ScalarType t, const char* who, F&& fn) {
  switch (t) {
    case ScalarType::Float16:
      return fn(std::type_identity<Half>{});
    case ScalarType::BFloat16:
      return fn(std::type_identity<BFloat16>{});
    case ScalarType::Float32:
      return fn(std::type_identity<float>{});
    case ScalarType::Float64:
      return fn(std::type_identity<double>{});
    default:
      raise(ErrorKind::NotImplemented, Operator{who}, "not implemented for ", dtype_name(t),
            "; it takes floating-point tensors (float16, bfloat16, float32, float64)");
  }
}

}  // namespace facula
