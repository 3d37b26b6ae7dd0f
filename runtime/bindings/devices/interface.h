// The device interface in Python.
#pragma once

#include <Python.h>

namespace facula::python {

inline constexpr const char* kEvent = "facula.event";  // of a capsule with a DeviceEvent

void init_interface();
// Registers an object with the methods of facula.backends.Backend.
void register_python_backend(PyObject* backend);

}  // namespace facula::python
