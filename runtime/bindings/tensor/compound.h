// Compounds in Python: the class that answers for calls with them.
#pragma once

#include "runtime/bindings/types/types.h"
#include "runtime/core/compound.h"

namespace facula::python {

extern PyTypeObject* compound_type;              // null until a class says that it is the one
PyObject* memory_format_object(MemoryFormat f);  // borrowed

}  // namespace facula::python
