// The device door in Python.
#pragma once

#include <Python.h>

namespace facula::python {

extern const PyMethodDef door_functions[];
void init_door();
// Registers an object with the methods of facula.backends.Backend.
PyObject* register_python_backend(PyObject*, PyObject* backend);

}  // namespace facula::python
