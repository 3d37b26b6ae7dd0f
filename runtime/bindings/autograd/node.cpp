// Nodes of the backward graph as Python sees them: tensor.grad_fn and what hangs off it.
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/autograd/validate.h"
#include "runtime/bindings/autograd/cycles.h"
#include "runtime/bindings/arguments/function.h"
#include "runtime/bindings/autograd/hooks.h"

namespace facula::python {

PyTypeObject* node_type = nullptr;

namespace {

Node& node_of(PyObject* o) { return *reinterpret_cast<NodeObject*>(o)->node; }

// ---- one object a node, of one type a name ----

class Objects {
 public:
  // The node's object if it has one that lives; a new reference.
  PyObject* find(const Node* node) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(node);
    return found != objects_.end() && take(found->second) ? found->second : nullptr;
  }
  // Makes `o` the node's object, unless another is that meanwhile: then that, a new reference, and null else.
  PyObject* add(const Node* node, PyObject* o) {
    std::lock_guard lock(mutex_);
    PyObject*& place = objects_[node];
    if (place != nullptr && take(place)) return place;
    place = o;
    return nullptr;
  }
  void forget(const Node* node, PyObject* o) {
    std::lock_guard lock(mutex_);
    const auto found = objects_.find(node);
    if (found != objects_.end() && found->second == o) objects_.erase(found);
  }
  PyTypeObject* find_type(const char* name) {
    std::lock_guard lock(mutex_);
    const auto found = types_.find(name);
    return found != types_.end() ? found->second : nullptr;
  }
  PyTypeObject* add_type(std::string name, PyTypeObject* type) {  // they live as long as the process
    std::lock_guard lock(mutex_);
    return types_.emplace(std::move(name), type).first->second;
  }

 private:
  static bool take(PyObject* o) {
#ifdef Py_GIL_DISABLED
    return try_reference(o);
#else
    return Py_NewRef(o) != nullptr;
#endif
  }
  std::mutex mutex_;  // no Python runs while it is held
  std::unordered_map<const Node*, PyObject*> objects_;
  std::unordered_map<std::string, PyTypeObject*> types_;
};
Objects& objects() {
  static auto* const made = new Objects;  // outlives every node
  return *made;
}

int node_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const auto* o = reinterpret_cast<const NodeObject*>(self);
  if (in_search(o->vertex)) {
    Py_VISIT(object_of(o->vertex));  // the node's, which visits on
    return 0;
  }
  return o->node && o->node->use_count() == 1 ? visit_hooks(*o->node, visit, arg) : 0;
}
int node_clear(PyObject* self) {
  auto* o = reinterpret_cast<NodeObject*>(self);
  if (o->node && o->node->use_count() == 1) clear_hooks(*o->node);
  return 0;
}
void node_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  auto* o = reinterpret_cast<NodeObject*>(self);
  objects().forget(o->node.get(), self);
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
  if (!PyObject_TypeCheck(b, node_type) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
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
  FACULA_PY_TRY
  return notes_of(node_of(self));
  FACULA_PY_END(nullptr)
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
    const DimVector dims = o.sizes();
    Ref sizes(check(PyTuple_New(static_cast<Py_ssize_t>(dims.size()))));
    for (size_t d = 0; d < dims.size(); ++d) {
      PyTuple_SET_ITEM(sizes.get(), static_cast<Py_ssize_t>(d), check(PyLong_FromLongLong(dims[d])));
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

// ---- what the node keeps: _saved_NAME, and _raw_saved_NAME for hooks ----

struct RawSavedObject {
  PyObject_HEAD intrusive_ptr<Node> node;
  SavedTensor* saved;  // of the node
};
PyTypeObject* raw_saved_type = nullptr;
RawSavedObject* as_raw_saved(PyObject* o) { return reinterpret_cast<RawSavedObject*>(o); }

void raw_saved_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  as_raw_saved(self)->node.~intrusive_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}
PyObject* raw_saved_register_hooks(PyObject* self, PyObject* args) {
  PyObject *pack, *unpack;
  if (!PyArg_ParseTuple(args, "OO:register_hooks", &pack, &unpack)) return nullptr;
  FACULA_PY_TRY
  register_saved_hooks(*as_raw_saved(self)->saved, pack, unpack);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyMethodDef raw_saved_methods[] = {
    {"register_hooks", raw_saved_register_hooks, METH_VARARGS,
     "register_hooks($self, pack_hook, unpack_hook, /)\n--\n\nKeep what pack_hook makes of the tensor; unpack_hook "
     "gives the tensor for backward."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot raw_saved_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(raw_saved_dealloc)},
    {Py_tp_methods, raw_saved_methods},
    {Py_tp_doc, const_cast<char*>("A tensor that a node keeps for backward.")},
    {0, nullptr},
};
PyType_Spec raw_saved_spec = {"facula.autograd.SavedTensor", sizeof(RawSavedObject), 0,
                              Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, raw_saved_slots};

PyObject* wrap_raw(PyObject* node, const SavedTensor& saved) {
  PyObject* o = check(raw_saved_type->tp_alloc(raw_saved_type, 0));
  new (&as_raw_saved(o)->node) intrusive_ptr<Node>(reinterpret_cast<NodeObject*>(node)->node);
  as_raw_saved(o)->saved = const_cast<SavedTensor*>(&saved);
  return o;
}

// As Python sees it: the elements themselves or what hooks may be registered on.
PyObject* wrap_saved(PyObject* self, const SavedFields::Field& field, bool raw) {
  const Node& node = node_of(self);
  const auto one = [&](const SavedTensor& t) {
    return raw ? wrap_raw(self, t) : check(wrap(t.unpack(node, field.name)));
  };
  const auto wrapped = [&](const auto& v) -> PyObject* {
    using T = std::remove_cvref_t<decltype(v)>;
    if constexpr (std::is_same_v<T, std::monostate>) {
      Py_RETURN_NONE;
    } else if constexpr (std::is_same_v<T, const SavedTensor*>) {
      return one(*v);
    } else if constexpr (std::is_same_v<T, const std::vector<SavedTensor>*>) {
      Ref tuple(check(PyTuple_New(static_cast<Py_ssize_t>(v->size()))));
      for (size_t i = 0; i < v->size(); ++i) PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), one((*v)[i]));
      return tuple.release();
    } else if constexpr (std::is_same_v<T, DimVector>) {
      Ref tuple(check(PyTuple_New(static_cast<Py_ssize_t>(v.size()))));
      for (size_t i = 0; i < v.size(); ++i) PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), wrap(v[i]));
      return tuple.release();
    } else if constexpr (std::is_same_v<T, std::string>) {
      return PyUnicode_FromStringAndSize(v.data(), static_cast<Py_ssize_t>(v.size()));
    } else if constexpr (std::is_same_v<T, ScalarType>) {
      return Py_NewRef(dtype_object(v));
    } else {
      return wrap(v);
    }
  };
  return check(std::visit(wrapped, field.value));
}

bool is_tensors(const SavedFields::Value& v) {
  return std::holds_alternative<const SavedTensor*>(v) || std::holds_alternative<const std::vector<SavedTensor>*>(v);
}

constexpr std::string_view kSaved = "_saved_", kRaw = "_raw_saved_";

// Also the attributes of a Python function's ctx.
PyObject* node_getattr(PyObject* self, PyObject* name) {
  PyObject* found = PyObject_GenericGetAttr(self, name);
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  FACULA_PY_TRY
  const PythonError missing;
  const char* utf8 = PyUnicode_AsUTF8(name);
  if (utf8 == nullptr) throw PythonError();
  const std::string_view text = utf8;
  const Node& node = node_of(self);
  const bool raw = text.starts_with(kRaw);
  if (raw || text.starts_with(kSaved)) {
    SavedFields fields;
    node.saved(fields);
    for (const SavedFields::Field& field : fields.list()) {
      if (text.substr(raw ? kRaw.size() : kSaved.size()) != field.name || (raw && !is_tensors(field.value))) continue;
      return wrap_saved(self, field, raw);
    }
  }
  if (const auto* function = dynamic_cast<const PythonFunctionNode*>(&node)) {
    return check(PyObject_GetAttr(function->context(), name));
  }
  throw missing;
  FACULA_PY_END(nullptr)
}

PyObject* node_dir(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  const Ref object_dir = import_attribute("builtins", "object");
  const Ref list(check(PyObject_CallMethod(object_dir.get(), "__dir__", "O", self)));
  SavedFields fields;
  node_of(self).saved(fields);
  for (const SavedFields::Field& field : fields.list()) {
    for (const std::string_view prefix : {kSaved, kRaw}) {
      if (prefix == kRaw && !is_tensors(field.value)) continue;
      const std::string whole = concat(prefix, field.name);
      const Ref name(check(PyUnicode_FromStringAndSize(whole.data(), static_cast<Py_ssize_t>(whole.size()))));
      check(PyList_Append(list.get(), name.get()));
    }
  }
  return Py_NewRef(list.get());
  FACULA_PY_END(nullptr)
}

// node(*grads): the gradients of its inputs. Recorded where gradients are on.
PyObject* node_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  FACULA_PY_TRY
  Node& node = node_of(self);
  FACULA_CHECK(kwargs == nullptr || PyDict_Size(kwargs) == 0, Type, node.name(), "() takes no keyword arguments");
  const auto n = static_cast<size_t>(PyTuple_GET_SIZE(args));
  FACULA_CHECK(n == node.num_outputs(), Type, node.name(), "() takes the gradients of its ", node.num_outputs(),
               " outputs, but got ", n);
  std::vector<Tensor> grads(n), results(node.num_inputs());
  for (size_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i));
    FACULA_CHECK(is_tensor(o) || o == Py_None, Type, node.name(), "(): argument ", i, " must be a Tensor or None, not ",
                 Py_TYPE(o)->tp_name);
    if (o != Py_None) grads[i] = tensor_of(o);
    if (n == 1) grads[i] = node.materialize(grads[i], i);
    if (grads[i].defined()) detail::validate_gradient(grads[i], node.output(i), node, i);
  }
  {
    ReleaseGil gil;
    node.enter();
    const struct Leave {
      Node& node;
      ~Leave() { node.leave(false); }
    } leave{node};
    node.apply(grads, results);
  }
  return results.size() == 1 ? wrap(std::move(results[0])) : wrap(results);
  FACULA_PY_END(nullptr)
}

PyMethodDef node_methods[] = {
    {"name", node_name, METH_NOARGS, "name($self, /)\n--\n\nIts name, such as MulBackward0."},
    {"register_hook", node_register_hook, METH_O,
     "register_hook($self, fn, /)\n--\n\nCall fn(grad_inputs, grad_outputs) after the node ran; it may "
     "return new "
     "grad_inputs."},
    {"register_prehook", node_register_prehook, METH_O,
     "register_prehook($self, fn, /)\n--\n\nCall fn(grad_outputs) before the node runs; it may return new "
     "ones."},
    {"__dir__", node_dir, METH_NOARGS, nullptr},
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
    {Py_tp_call, reinterpret_cast<void*>(node_call)},
    {Py_tp_methods, node_methods},
    {Py_tp_getset, node_properties},
    {Py_tp_doc, const_cast<char*>("A node of the backward graph.")},
    {0, nullptr},
};
PyType_Spec node_spec = {
    "facula.autograd.graph.Node", sizeof(NodeObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION, node_slots};

Ref make_type(const Node& node) {
  PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(node_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(node_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(node_clear)},
      {0, nullptr},
  };
  const Ref name(check(PyUnicode_FromFormat("facula.autograd.graph.%s", node.name())));
  PyType_Spec spec = {PyUnicode_AsUTF8(name.get()), sizeof(NodeObject), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
  if (spec.name == nullptr) throw PythonError();
  const Ref bases(check(PyTuple_Pack(1, node_type)));
  Ref made(check(PyType_FromSpecWithBases(&spec, bases.get())));
  check(PyObject_SetAttrString(made.get(), "_full_name", name.get()));  // Python 3.10 does not copy it
  return made;
}

// The type of the objects of such nodes, named as they are: of an operator's for good, of a Function's as long as that.
Ref type_of(const Node& node) {
  if (const auto* of_python = dynamic_cast<const PythonFunctionNode*>(&node)) {
    Ref known(check(PyObject_GetAttrString(of_python->function(), "_node_type")));
    if (PyType_Check(known.get())) return known;
    Ref made = make_type(node);
    check(PyObject_SetAttrString(of_python->function(), "_node_type", made.get()));
    return made;
  }
  if (PyTypeObject* known = objects().find_type(node.name())) {
    return Ref::borrow(reinterpret_cast<PyObject*>(known));
  }
  Ref made = make_type(node);
  auto* const type = reinterpret_cast<PyTypeObject*>(made.get());
  PyTypeObject* const kept = objects().add_type(node.name(), type);
  if (kept == type) Py_INCREF(made.get());
  return Ref::borrow(reinterpret_cast<PyObject*>(kept));
}

}  // namespace

PyObject* wrap(const intrusive_ptr<Node>& node) {
  if (!node) Py_RETURN_NONE;
  if (PyObject* known = objects().find(node.get())) return known;
  const Ref type = type_of(*node);
  auto* const of = reinterpret_cast<PyTypeObject*>(type.get());
  Ref made(check(of->tp_alloc(of, 0)));
  new (&reinterpret_cast<NodeObject*>(made.get())->node) intrusive_ptr<Node>(node);
  allow_try_reference(made.get());
  PyObject* other = objects().add(node.get(), made.get());
  return other != nullptr ? other : made.release();
}

bool init_node_type(PyObject* module) {
  node_type = add_type(module, &node_spec);
  raw_saved_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&raw_saved_spec));
  return node_type != nullptr && raw_saved_type != nullptr;
}

}  // namespace facula::python
