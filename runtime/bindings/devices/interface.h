// The device interface in Python.
#pragma once

#include <Python.h>

namespace facula::python {

void init_interface();
// Registers an object with the methods of facula.backends.Backend.
void register_python_backend(PyObject* backend);

}  // namespace facula::python
