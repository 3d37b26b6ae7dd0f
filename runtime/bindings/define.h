// Functions that are off the path of operators, through pybind11: each define_... fills the module with those of its
// file.
#pragma once

#include "runtime/bindings/types/casters.h"

namespace facula::python {

// As module_::def for a name that the module does not have yet: that asks it first, and a miss costs more than the
// rest.
template <typename F, typename... Extra>
void define(pybind11::module_& m, const char* name, F&& function, const Extra&... extra) {
  m.add_object(name,
               pybind11::cpp_function(std::forward<F>(function), pybind11::name(name), pybind11::scope(m), extra...),
               true);
}

void define_collectives(pybind11::module_& m);
void define_compounds(pybind11::module_& m);
void define_graph(pybind11::module_& m);
void define_interface(pybind11::module_& m);
void define_introspection(pybind11::module_& m);
void define_observe(pybind11::module_& m);
void define_saved_hooks(pybind11::module_& m);

// All of them; false with the Python error set.
bool define_functions(PyObject* module);

}  // namespace facula::python
