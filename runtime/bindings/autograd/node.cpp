// Nodes of the backward graph as Python sees them: tensor.grad_fn and what hangs off it.
#include <cstring>

#include "runtime/bindings/autograd/cycles.h"
#include "runtime/bindings/arguments/function.h"
#include "runtime/bindings/autograd/hooks.h"

namespace facula::python {

PyTypeObject* node_type = nullptr;

namespace {

Node& node_of(PyObject* o) { return *reinterpret_cast<NodeObject*>(o)->node; }

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const auto* o = reinterpret_cast<const NodeObject*>(self);
  Py_VISIT(o->metadata);
  if (in_search(o->vertex)) {
    Py_VISIT(object_of(o->vertex));  // the node's, which visits on
    return 0;
  }
  return o->node && o->node->use_count() == 1 ? visit_hooks(*o->node, visit, arg) : 0;
}
int node_clear(PyObject* self) {
  auto* o = reinterpret_cast<NodeObject*>(self);
  Py_CLEAR(o->metadata);
  if (o->node && o->node->use_count() == 1) clear_hooks(*o->node);
  return 0;
}
void node_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  auto* o = reinterpret_cast<NodeObject*>(self);
  Py_XDECREF(o->metadata);
  o->node.~intrusive_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* node_name(PyObject* self, PyObject*) { return PyUnicode_FromString(node_of(self).name()); }
PyObject* node_repr(PyObject* self) {
  return PyUnicode_FromFormat("<%s object at %p>", node_of(self).name(), static_cast<void*>(&node_of(self)));
}
Py_hash_t node_hash(PyObject* self) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(&node_of(self)) >> 4); }
PyObject* node_compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != node_type || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong((&node_of(a) == &node_of(b)) == (op == Py_EQ));
}

PyObject* get_next(PyObject* self, void*) {
  FACULA_PY_TRY
  const Node& node = node_of(self);
  Ref tuple(check(PyTuple_New(static_cast<Py_ssize_t>(node.num_inputs()))));
  for (size_t i = 0; i < node.num_inputs(); ++i) {
    const Edge& edge = node.edge(i);
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                     check(Py_BuildValue("(Nk)", check(wrap(edge.node)), static_cast<unsigned long>(edge.output_nr))));
  }
  return tuple.release();
  FACULA_PY_END(nullptr)
}
PyObject* get_metadata(PyObject* self, void*) {
  auto* o = reinterpret_cast<NodeObject*>(self);
  PyObject* found;
  Py_BEGIN_CRITICAL_SECTION(self);
  if (o->metadata == nullptr) o->metadata = PyDict_New();
  found = Py_XNewRef(o->metadata);
  Py_END_CRITICAL_SECTION();
  return found;
}
// Where the forward operation was called; None outside of anomaly mode.
PyObject* get_made_at(PyObject* self, void*) {
  const Node::Hooks* hooks = node_of(self).hooks_or_null();
  if (hooks == nullptr || hooks->made_at.empty()) Py_RETURN_NONE;
  return PyUnicode_FromString(hooks->made_at.c_str());
}
// (shape, dtype) of each output of the forward operation.
PyObject* get_output_shapes(PyObject* self, void*) {
  FACULA_PY_TRY
  const Node& node = node_of(self);
  Ref list(check(PyTuple_New(static_cast<Py_ssize_t>(node.num_outputs()))));
  for (size_t i = 0; i < node.num_outputs(); ++i) {
    const OutputMeta& o = node.output(i);
    Ref sizes(check(PyTuple_New(static_cast<Py_ssize_t>(o.sizes.size()))));
    for (size_t d = 0; d < o.sizes.size(); ++d) {
      PyTuple_SET_ITEM(sizes.get(), static_cast<Py_ssize_t>(d), check(PyLong_FromLongLong(o.sizes[d])));
    }
    const std::string dtype(dtype_name(o.dtype));
    PyTuple_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), check(Py_BuildValue("(Os)", sizes.get(), dtype.c_str())));
  }
  return list.release();
  FACULA_PY_END(nullptr)
}
PyObject* get_variable(PyObject* self, void*) {
  FACULA_PY_TRY
  if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(&node_of(self))) return wrap(Tensor(leaf->leaf()));
  PyErr_SetString(PyExc_AttributeError, "only AccumulateGrad nodes have a variable");
  return nullptr;
  FACULA_PY_END(nullptr)
}
PyObject* node_address(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(&node_of(self)); }
PyObject* node_sequence(PyObject* self, PyObject*) { return PyLong_FromUnsignedLongLong(node_of(self).sequence()); }

PyObject* node_register_hook(PyObject* self, PyObject* function) {
  FACULA_PY_TRY
  auto hook = make_hook(HookKind::NodePost, function);
  node_of(self).add_post_hook(hook);
  return wrap_handle(std::move(hook));
  FACULA_PY_END(nullptr)
}
PyObject* node_register_prehook(PyObject* self, PyObject* function) {
  FACULA_PY_TRY
  auto hook = make_hook(HookKind::NodePre, function);
  node_of(self).add_pre_hook(hook);
  return wrap_handle(std::move(hook));
  FACULA_PY_END(nullptr)
}

// _saved_NAME, and the attributes of a Python function's ctx.
PyObject* node_getattr(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  FACULA_PY_TRY
  const PythonError missing;
  const char* text = PyUnicode_AsUTF8(name);
  if (text == nullptr) throw PythonError();
  const Node& node = node_of(self);
  constexpr size_t kPrefix = sizeof("_saved_") - 1;
  if (std::strncmp(text, "_saved_", kPrefix) == 0) {
    for (const auto& [saved_name, tensor] : node.saved()) {
      if (std::strcmp(saved_name, text + kPrefix) == 0) return wrap(tensor->unpack(node, saved_name));
    }
  }
  if (const auto* function = dynamic_cast<const PythonFunctionNode*>(&node)) {
    return check(PyObject_GetAttr(function->context(), name));
  }
  throw missing;
  FACULA_PY_END(nullptr)
}

PyMethodDef node_methods[] = {
    {"name", node_name, METH_NOARGS, "name($self, /)\n--\n\nIts name, such as MulBackward."},
    {"register_hook", node_register_hook, METH_O,
     "register_hook($self, fn, /)\n--\n\nCall fn(grad_inputs, grad_outputs) after the node ran; it may "
     "return new "
     "grad_inputs."},
    {"register_prehook", node_register_prehook, METH_O,
     "register_prehook($self, fn, /)\n--\n\nCall fn(grad_outputs) before the node runs; it may return new "
     "ones."},
    {"_sequence_nr", node_sequence, METH_NOARGS, nullptr},
    {"_address", node_address, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef node_properties[] = {
    {"_made_at", get_made_at, nullptr, nullptr, nullptr},
    {"_output_shapes", get_output_shapes, nullptr, nullptr, nullptr},
    {"next_functions", get_next, nullptr, "The nodes that its gradients go to, with output numbers.", nullptr},
    {"metadata", get_metadata, nullptr, "A dict for the user's notes.", nullptr},
    {"variable", get_variable, nullptr, "The leaf of an AccumulateGrad node.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot node_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
    {Py_tp_repr, reinterpret_cast<void*>(node_repr)},
    {Py_tp_hash, reinterpret_cast<void*>(node_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(node_compare)},
    {Py_tp_getattro, reinterpret_cast<void*>(node_getattr)},
    {Py_tp_methods, node_methods},
    {Py_tp_getset, node_properties},
    {Py_tp_doc, const_cast<char*>("A node of the backward graph.")},
    {0, nullptr},
};
PyType_Spec node_spec = {"facula.autograd.graph.Node", sizeof(NodeObject), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots};

}  // namespace

PyObject* wrap(const intrusive_ptr<Node>& node) {
  if (!node) Py_RETURN_NONE;
  PyObject* o = node_type->tp_alloc(node_type, 0);
  if (o != nullptr) new (&reinterpret_cast<NodeObject*>(o)->node) intrusive_ptr<Node>(node);
  return o;
}

bool init_node_type(PyObject* module) {
  node_type = add_type(module, &node_spec);
  return node_type != nullptr;
}

}  // namespace facula::python
