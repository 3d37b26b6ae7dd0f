// `__torch_function__`: objects whose class answers for the calls that they are given to.
#pragma once

#include <array>
#include <span>

#include "runtime/bindings/arguments/arguments.h"
#include "runtime/bindings/types/free_threading.h"

namespace facula::python {

// Was there a tensor of a class that answers for its calls, or a mode? Until then only calls that fail are asked about.
extern FACULA_API Flag overrides_in_use;

// A call from Python as it came in; `self` is null for a function.
struct PythonCall {
  const char* name;  // as errors have it
  PyObject* self;
  PyObject* const* args;
  Py_ssize_t nargs;
  PyObject* kwnames;
};

// Does an argument's class, or a mode, answer for the call? Then `result` is the answer, or null with the error set.
FACULA_API bool answered(const PythonCall& call, PyObject*& result) noexcept;
// In a handler: the answer for a call that failed, as foreign objects make it; else the failure as Python's error.
// `specs` are the signatures that the call may have had.
FACULA_API PyObject* answer_to_failure(const PythonCall& call, bool internal = false,
                                       std::span<const FunctionSpec* const> specs = {}) noexcept;

// Lets an error of `own` say `alias`, the name by which that was called.
FACULA_API void tell_alias(const char* own, const char* alias) noexcept;

// Does the class define `__torch_function__` otherwise than Tensor does? Then it answers for its calls.
bool is_overriding(PyTypeObject* type);
// Does it say that what is computed from its tensors is plain?
bool is_disabling(PyTypeObject* type);
// Are classes not asked now, in this thread?
bool overrides_are_off();

extern const PyMethodDef override_functions[];

inline std::array<const FunctionSpec*, 1> as_list(const FunctionSpec& spec) { return {&spec}; }
#define FACULA_PY_END_OF_CALL(specs, self, args, n, names)                                                     \
  }                                                                                                            \
  catch (...) {                                                                                                \
    return answer_to_failure({(specs)[0]->name, (self), (args), (n), (names)}, (specs)[0]->internal, (specs)); \
  }

}  // namespace facula::python
