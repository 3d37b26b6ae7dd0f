// Boxed calls: one template turns any typed operator function into one over a stack of values.
#pragma once

#include <tuple>
#include <type_traits>

#include "runtime/dispatch/value.h"

namespace facula {

template <typename T>
struct Unbox {
  static T get(const Value& v) { return std::get<T>(v); }
};
template <>
struct Unbox<Tensor> {
  static Tensor get(const Value& v) {
    return std::holds_alternative<std::monostate>(v) ? Tensor() : std::get<Tensor>(v);
  }
};
template <>
struct Unbox<Generator> {
  static Generator get(const Value& v) {
    return std::holds_alternative<std::monostate>(v) ? Generator() : std::get<Generator>(v);
  }
};
template <>
struct Unbox<double> {
  static double get(const Value& v) {
    if (const int64_t* i = std::get_if<int64_t>(&v)) return static_cast<double>(*i);
    return std::get<double>(v);
  }
};
template <>
struct Unbox<Scalar> {
  static Scalar get(const Value& v) {
    if (const int64_t* i = std::get_if<int64_t>(&v)) return Scalar(*i);
    if (const double* d = std::get_if<double>(&v)) return Scalar(*d);
    if (const bool* b = std::get_if<bool>(&v)) return Scalar(*b);
    return std::get<Scalar>(v);
  }
};
template <>
struct Unbox<IntList> {
  static IntList get(const Value& v) { return IntList(std::get<std::vector<int64_t>>(v)); }
};
template <>
struct Unbox<TensorList> {
  static TensorList get(const Value& v) {
    if (std::holds_alternative<std::monostate>(v)) return {};
    return std::get<std::vector<Tensor>>(v);
  }
};
template <>
struct Unbox<std::string_view> {
  static std::string_view get(const Value& v) { return std::get<std::string>(v); }
};
template <typename T>
struct Unbox<std::optional<T>> {
  static std::optional<T> get(const Value& v) {
    if (std::holds_alternative<std::monostate>(v)) return std::nullopt;
    return Unbox<T>::get(v);
  }
};

template <typename T>
Value box(T&& value) {
  using Plain = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<Plain, DimVector>) {
    return std::vector<int64_t>(value.begin(), value.end());
  } else {
    return Value(std::in_place_type<Plain>, std::forward<T>(value));
  }
}

namespace detail {
template <auto Fn, typename Result, typename... Args, size_t... I>
void boxed_call(Stack& stack, Result (*)(Args...), std::index_sequence<I...>) {
  // Values stay on the stack while views into them (lists, strings) are in use. The result is a value
  // even where Fn returns a reference: that may be to an argument, which ends with the call.
  auto call = [&]() -> std::remove_cvref_t<Result> { return Fn(Unbox<std::remove_cvref_t<Args>>::get(stack[I])...); };
  if constexpr (std::is_void_v<Result>) {
    call();
    stack.clear();
  } else {
    std::remove_cvref_t<Result> result = call();
    stack.clear();
    if constexpr (requires { std::tuple_size<std::remove_cvref_t<Result>>::value; }) {
      std::apply([&](auto&... parts) { (stack.push_back(box(std::move(parts))), ...); }, result);
    } else {
      stack.push_back(box(std::move(result)));
    }
  }
}
template <typename Result, typename... Args>
constexpr auto index_of_args(Result (*)(Args...)) {
  return std::index_sequence_for<Args...>{};
}
}  // namespace detail

// `boxed<&ops::name>`: arguments in schema order on the stack, results in their place.
template <auto Fn>
void boxed(Stack& stack) {
  detail::boxed_call<Fn>(stack, Fn, detail::index_of_args(Fn));
}

}  // namespace facula
