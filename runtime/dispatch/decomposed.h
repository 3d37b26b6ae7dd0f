// A decomposition in the place of a kernel of a package's device that has declined a call: it gets the kernel's
// arguments, and its results go where the kernel's would.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>

#include "runtime/dispatch/core_operators.h"
#include "runtime/dispatch/thunk.h"

namespace facula {

// For the handler of an error of a decomposition: raises it again, unless it says that these are not its arguments.
// Then the call goes the way of an operator without one.
inline void pass_refusal(const Error& e) {
  if (e.kind() != ErrorKind::NotImplemented || dynamic_cast<const MissingKernel*>(&e) != nullptr) throw;
}

namespace detail {

template <typename T>
struct FromKernelArg {
  static const T& get(const KernelArg& a) { return *static_cast<const T*>(a.at); }
};
template <>
struct FromKernelArg<Tensor> {
  static Tensor get(const KernelArg& a) { return a.at != nullptr ? *static_cast<const Tensor*>(a.at) : Tensor(); }
};
template <typename T>
struct FromKernelArg<std::optional<T>> {
  static std::optional<T> get(const KernelArg& a) {
    return a.at != nullptr ? std::optional<T>(*static_cast<const T*>(a.at)) : std::nullopt;
  }
};

inline void put_decomposed(const KernelArg& out, const Tensor& value) {
  const Tensor& to = *static_cast<const Tensor*>(out.at);
  // what a mask leaves out is empty here, and anything in a decomposition
  if (to.numel() != 0) core_operators().copy_into(to, value);
}

}  // namespace detail

template <auto Fn, typename = decltype(Fn)>
struct Decomposed;
template <auto Fn, typename R, typename... Args>
struct Decomposed<Fn, R (*)(Args...)> {
  static void call(std::span<const KernelArg> args, const KernelArg& result) {
    // a kernel records nothing and is not cast
    ExcludeLayers below(static_cast<LayerSet>(layer_bit(Layer::Autograd) | layer_bit(Layer::Autocast)));
    run(args, result, std::index_sequence_for<Args...>{});
  }

 private:
  template <size_t... I>
  static void run(std::span<const KernelArg> args, const KernelArg& result, std::index_sequence<I...>) {
    const auto call = [&]() -> R { return Fn(detail::FromKernelArg<std::remove_cvref_t<Args>>::get(args[I])...); };
    const std::span<const KernelArg> outs = args.subspan(sizeof...(Args));
    if constexpr (std::is_void_v<R> || std::is_reference_v<R>) {
      call();
    } else if constexpr (std::is_same_v<R, Tensor>) {
      detail::put_decomposed(outs[0], call());
    } else if constexpr (requires { std::tuple_size<R>::value; }) {
      const R values = call();
      [&]<size_t... K>(std::index_sequence<K...>) {
        (detail::put_decomposed(outs[K], std::get<K>(values)), ...);
      }(std::make_index_sequence<std::tuple_size_v<R>>{});
    } else {
      *static_cast<R*>(const_cast<void*>(result.at)) = call();
    }
  }
};

}  // namespace facula
