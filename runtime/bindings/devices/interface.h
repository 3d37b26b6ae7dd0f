// The device interface in Python.
#pragma once

#include <Python.h>

namespace facula::python {

extern const PyMethodDef interface_functions[];
void init_interface();
// Registers an object with the methods of facula.backends.Backend.
PyObject* register_python_backend(PyObject*, PyObject* backend);

}  // namespace facula::python
