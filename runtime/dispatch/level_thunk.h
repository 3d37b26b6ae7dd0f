// The layer of levels over a form of an operator: arguments become a list, which one function handles for all.
#pragma once

#include "runtime/dispatch/boxing.h"
#include "runtime/dispatch/decomposed.h"
#include "runtime/dispatch/levels.h"

namespace facula {

// Calls a function of a form's type with a list of arguments; written arguments are no results.
template <typename Fn>
struct ListInvoker;
template <typename R, typename... Args>
struct ListInvoker<R (*)(Args...)> {
  static void call(AnyFn fn, std::span<const KernelArg> args, Stack& results) {
    run(reinterpret_cast<R (*)(Args...)>(fn), args, results, std::index_sequence_for<Args...>{});
  }

 private:
  template <size_t... I>
  static void run(R (*fn)(Args...), [[maybe_unused]] std::span<const KernelArg> args, Stack& results,
                  std::index_sequence<I...>) {
    if constexpr (std::is_void_v<R> || std::is_reference_v<R>) {
      fn(detail::FromKernelArg<std::remove_cvref_t<Args>>::get(args[I])...);
    } else {
      R result = fn(detail::FromKernelArg<std::remove_cvref_t<Args>>::get(args[I])...);
      if constexpr (requires { std::tuple_size<R>::value; }) {
        std::apply([&](auto&... parts) { (results.push_back(box(std::move(parts))), ...); }, result);
      } else {
        results.push_back(box(std::move(result)));
      }
    }
  }
};

namespace detail {

template <typename T>
T unboxed(Value& v) {
  if constexpr (std::is_same_v<T, DimVector>) {
    const auto& list = std::get<std::vector<int64_t>>(v);
    return DimVector(list.begin(), list.end());
  } else {
    return std::get<T>(std::move(v));
  }
}

template <typename R, typename First, typename... Rest>
const Tensor& first_argument(const First& first, const Rest&...) {
  static_assert(std::is_same_v<First, Tensor>, "a form that returns what it writes to writes to its first argument");
  return first;
}

// What a form of type R answers, of a list of results.
template <typename R, typename... Args>
R answer(Stack& results, const Args&... args) {
  if constexpr (std::is_reference_v<R>) {
    return first_argument<R>(args...);
  } else if constexpr (requires { std::tuple_size<R>::value; }) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return R(unboxed<std::tuple_element_t<I, R>>(results[I])...);
    }(std::make_index_sequence<std::tuple_size_v<R>>{});
  } else if constexpr (!std::is_void_v<R>) {
    return unboxed<R>(results[0]);
  }
}

}  // namespace detail

template <OperatorEntry* Entry, Variant Form, typename Fn>
struct LevelThunk;
template <OperatorEntry* Entry, Variant Form, typename R, typename... Args>
struct LevelThunk<Entry, Form, R (*)(Args...)> {
  static R call(Args... args) {
    const KernelArg list[] = {detail::kernel_arg(args)..., KernelArg{}};
    Stack results;
    detail::call_in_level(*Entry, Form, std::span<const KernelArg>(list, sizeof...(Args)), results);
    return detail::answer<R>(results, args...);
  }
};

// For generated code.
template <OperatorEntry* Entry, Variant Form, typename Fn>
void set_levels(OperatorEntry& entry) {
  Fn call = &LevelThunk<Entry, Form, Fn>::call;
  entry.layers[static_cast<int>(Form)][static_cast<int>(Layer::Batching)] = reinterpret_cast<AnyFn>(call);
  entry.layer_mask[static_cast<int>(Form)] |= layer_bit(Layer::Batching);
  entry.invoke[static_cast<int>(Form)] = &ListInvoker<Fn>::call;
}

}  // namespace facula
