// Kernels that do not know the operator: a function of the operator's own kernel type, generated for
// each, hands its arguments on as a list.
#pragma once

#include <optional>

#include "runtime/dispatch/registry.h"

namespace facula {

// One argument of a kernel, where it lies; `at` is null when an optional one is absent.
struct KernelArg {
  enum class Kind : uint8_t {
    Tensor,
    Tensors,
    Int,
    Float,
    Bool,
    String,
    Scalar,
    Type,
    Device,
    Format,
    Generator,
    Ints,
    Bools
  };
  Kind kind;
  const void* at;
  size_t count = 0;  // of lists and strings
};

namespace detail {

#define FACULA_KERNEL_ARG(type, name) \
  inline KernelArg kernel_arg(const type& v) { return {KernelArg::Kind::name, &v, 0}; }
FACULA_KERNEL_ARG(int64_t, Int)
FACULA_KERNEL_ARG(double, Float)
FACULA_KERNEL_ARG(bool, Bool)
FACULA_KERNEL_ARG(Scalar, Scalar)
FACULA_KERNEL_ARG(ScalarType, Type)
FACULA_KERNEL_ARG(Device, Device)
FACULA_KERNEL_ARG(MemoryFormat, Format)
FACULA_KERNEL_ARG(Generator, Generator)
FACULA_KERNEL_ARG(std::vector<bool>, Bools)
#undef FACULA_KERNEL_ARG
inline KernelArg kernel_arg(const Tensor& t) { return {KernelArg::Kind::Tensor, t.defined() ? &t : nullptr, 0}; }
inline KernelArg kernel_arg(const TensorList& l) { return {KernelArg::Kind::Tensors, &l, l.size()}; }
inline KernelArg kernel_arg(const IntList& l) { return {KernelArg::Kind::Ints, &l, l.size()}; }
inline KernelArg kernel_arg(const std::string_view& s) { return {KernelArg::Kind::String, &s, s.size()}; }
template <typename T>
KernelArg kernel_arg(const std::optional<T>& v) {
  if (v) return kernel_arg(*v);
  KernelArg absent = kernel_arg(T());
  absent.at = nullptr;
  return absent;
}

}  // namespace detail

template <OperatorEntry* Entry, typename Fn>
struct InterfaceThunk;
template <OperatorEntry* Entry, typename R, typename... Args>
struct InterfaceThunk<Entry, R (*)(Args...)> {
  static R call(Args... args) {
    const KernelArg list[] = {detail::kernel_arg(args)..., KernelArg{}};
    const std::span<const KernelArg> given(list, sizeof...(Args));
    if constexpr (std::is_void_v<R>) {
      device_operators.call(*Entry, given, KernelArg{});
    } else {
      R result{};
      device_operators.call(*Entry, given, detail::kernel_arg(result));
      return result;
    }
  }
};

}  // namespace facula
