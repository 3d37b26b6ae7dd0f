// Python callables as hooks of the backward graph.
#pragma once

#include "runtime/bindings/types.h"

namespace facula::python {

enum class HookKind : uint8_t { Tensor, PostAccumulate, NodePre, NodePost };

// Calls `function` with the GIL held; what it returns replaces the gradients.
std::shared_ptr<NodeHook> make_hook(HookKind kind, PyObject* function);
// The object with remove() that registering returns; a new reference.
PyObject* wrap_handle(std::shared_ptr<NodeHook> hook);
// For the garbage collector: hooks that are Python callables, of a leaf or of a node that only `t` holds, and
// that node's ctx.
int traverse_hooks(const Tensor& t, visitproc visit, void* arg);
void clear_hooks(const Tensor& t);
bool init_hook_type(PyObject* module);

}  // namespace facula::python
