// Cycles that pass through C++: a tensor whose gradient's graph leads back to it, say. Python's collector knows neither
// the references nor the objects. So for each full collection those that may be part of a cycle are counted out before:
// an object of Python stands for each node and for each tensor that has none, with as many references as it has in C++,
// and each tensor's own object gets those that the tensor has. Then the collector sees all that there is.
#pragma once

#include "runtime/bindings/types/types.h"

namespace facula::python {

// Is a collection going on that knows this vertex, and has nothing changed since it began?
bool in_search(uint32_t vertex);
// The object that stands for it.
PyObject* object_of(uint32_t vertex);
// What the tensor or the node behind it holds.
int visit_vertex(uint32_t vertex, visitproc visit, void* arg);
// Has nobody taken hold of it since?
bool is_unchanged(uint32_t vertex);
void clear_vertex(uint32_t vertex);

}  // namespace facula::python
