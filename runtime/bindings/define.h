// Functions that are off the path of operators, through pybind11: each fills the module with those of its file.
#pragma once

#include <Python.h>

namespace pybind11 {
class module_;
}

namespace facula::python {

void define_compounds(pybind11::module_& m);
void define_graph(pybind11::module_& m);
void define_interface(pybind11::module_& m);
void define_introspection(pybind11::module_& m);
void define_observe(pybind11::module_& m);
void define_saved_hooks(pybind11::module_& m);

// All of them; false with the Python error set.
bool define_functions(PyObject* module);

}  // namespace facula::python
