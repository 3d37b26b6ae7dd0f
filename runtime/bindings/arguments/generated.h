// What generated binding functions share.
#pragma once

#include "runtime/autograd/meta.h"
#include "runtime/bindings/arguments/arguments.h"
#include "runtime/bindings/devices/default_device.h"
#include "runtime/dispatch/formula.h"

namespace facula::python {

inline int64_t size_hint(const Tensor& t) { return t.defined() ? t.numel_hint() : 0; }
inline int64_t size_hint(const std::vector<Tensor>& list) {
  int64_t n = 0;
  for (const Tensor& t : list) n += size_hint(t);
  return n;
}
inline int64_t size_hint(IntList sizes) {
  int64_t n = 1;
  for (const int64_t s : sizes) n = s > 0 && n < kReleaseGilNumel ? n * std::min(s, kReleaseGilNumel) : n;
  return n;
}
// Of a factory's arguments `requires_grad`, `layout`, `pin_memory` the latter two.
inline void check_creation(const FunctionSpec& f, int grad_slot, PyObject** slots) {
  if (PyObject* layout = slots[grad_slot + 1]; layout != nullptr) to_strided(f, grad_slot + 1, layout);
  if (PyObject* pin = slots[grad_slot + 2]; pin != nullptr) to_bool(f, grad_slot + 2, pin);
}
template <typename... Parts>
PyObject* wrap_tuple(std::tuple<Parts...>& result) {
  PyObject* tuple = PyTuple_New(sizeof...(Parts));
  if (tuple == nullptr) return nullptr;
  Py_ssize_t i = 0;
  std::apply([&](auto&... parts) { ((PyTuple_SET_ITEM(tuple, i++, wrap(std::move(parts)))), ...); }, result);
  return tuple;
}
template <typename... Parts>
PyObject* wrap_result(PyTypeObject* type, std::tuple<Parts...>& result) {
  if constexpr ((std::is_same_v<Parts, Tensor> && ...)) {
    return std::apply(
        [&](auto&... parts) {
          Tensor fields[] = {std::move(parts)...};
          return wrap_named(type, fields);
        },
        result);
  } else {
    return wrap_tuple(result);
  }
}

}  // namespace facula::python
