// Python callables as hooks of the backward graph.
#pragma once

#include "runtime/bindings/types.h"

namespace facula::python {

enum class HookKind : uint8_t { Tensor, PostAccumulate, NodePre, NodePost };

// Calls `function` with the GIL held; what it returns replaces the gradients.
std::shared_ptr<NodeHook> make_hook(HookKind kind, PyObject* function);
// The object with remove() that registering returns; a new reference.
PyObject* wrap_handle(std::shared_ptr<NodeHook> hook);
bool init_hook_type(PyObject* module);

}  // namespace facula::python
