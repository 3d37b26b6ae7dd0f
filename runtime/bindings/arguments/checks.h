// What the binder and the converters share: type tests and the encoding of variadic ints.
#pragma once

#include <string>

#include "runtime/bindings/arguments/arguments.h"

namespace facula::python {

// f(2, 3) for int[*]: the slot points to two more behind those of the parameters, told by its low bit, so that no tuple
// is made: where they are in the call's arguments, and how many.
inline PyObject* mark_varargs(PyObject** behind, PyObject* const* first, Py_ssize_t count) {
  behind[0] = reinterpret_cast<PyObject*>(reinterpret_cast<uintptr_t>(first));
  behind[1] = reinterpret_cast<PyObject*>(static_cast<uintptr_t>(count));
  return reinterpret_cast<PyObject*>(reinterpret_cast<uintptr_t>(behind) | 1);
}
inline bool is_varargs(PyObject* o) { return (reinterpret_cast<uintptr_t>(o) & 1) != 0; }
inline std::span<PyObject* const> varargs(PyObject* o) {
  auto* const* behind = reinterpret_cast<PyObject* const*>(reinterpret_cast<uintptr_t>(o) & ~uintptr_t{1});
  return {reinterpret_cast<PyObject* const*>(behind[0]), reinterpret_cast<uintptr_t>(behind[1])};
}

// Would the converter for parameter i take `o`? Looks at types only.
bool fits(const FunctionSpec& f, size_t i, PyObject* o);
// "Tensor", "list of str", ...
std::string type_text(PyObject* o);

}  // namespace facula::python
