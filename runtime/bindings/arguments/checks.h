// What the binder and the converters share: type tests and the encoding of variadic ints.
#pragma once

#include <string>

#include "runtime/bindings/arguments/arguments.h"

namespace facula::python {

// f(2, 3) for int[*]: the slot points into the call's argument array, told by its low bit, so that
// no tuple is made. The count is in the FunctionSpec.
inline PyObject* mark_varargs(PyObject* const* first) {
  return reinterpret_cast<PyObject*>(reinterpret_cast<uintptr_t>(first) | 1);
}
inline bool is_varargs(PyObject* o) { return (reinterpret_cast<uintptr_t>(o) & 1) != 0; }
inline std::span<PyObject* const> varargs(const FunctionSpec& f, PyObject* o) {
  return {reinterpret_cast<PyObject* const*>(reinterpret_cast<uintptr_t>(o) & ~uintptr_t{1}),
          static_cast<size_t>(f.varargs_count)};
}

// Would the converter for parameter i take `o`? Looks at types only.
bool fits(const FunctionSpec& f, size_t i, PyObject* o);
// "Tensor", "list of str", ...
std::string type_text(PyObject* o);

}  // namespace facula::python
