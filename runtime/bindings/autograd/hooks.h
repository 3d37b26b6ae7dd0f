// Python callables as hooks of the backward graph.
#pragma once

#include "runtime/bindings/types/types.h"

namespace facula::python {

enum class HookKind : uint8_t { Tensor, PostAccumulate, NodePre, NodePost };

// Calls `function` with the GIL held; what it returns replaces the gradients.
std::shared_ptr<NodeHook> make_hook(HookKind kind, PyObject* function);
// A node's dict for the user's notes, made when there is none; a new reference.
PyObject* notes_of(Node& node);
// On what a node keeps, for good; raises where that has hooks.
void register_saved_hooks(SavedTensor& saved, PyObject* pack, PyObject* unpack);
// The object with remove() that registering returns; a new reference.
PyObject* wrap_handle(std::shared_ptr<NodeHook> hook);
// For the garbage collector: what the hooks of a leaf hold, and what a node holds by its hooks and as a function of
// Python's.
int visit_hooks(const AutogradMeta& meta, visitproc visit, void* arg);
int visit_hooks(const Node& node, visitproc visit, void* arg);
void clear_hooks(const AutogradMeta& meta);
void clear_hooks(const Node& node);
// How many hooks, functions and owners of memory there are of Python's.
extern std::atomic<int64_t> python_links;
bool init_hook_type(PyObject* module);
bool init_level_types(PyObject* module);
bool init_capture_type(PyObject* module);
extern const PyMethodDef capture_functions[];

}  // namespace facula::python
