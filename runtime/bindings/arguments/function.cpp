#include "runtime/bindings/arguments/function.h"

#include "runtime/autograd/meta.h"
#include "runtime/bindings/autograd/hooks.h"

namespace facula::python {

namespace {

PyTypeObject* context_type = nullptr;

// The base of ctx. The node owns it; the way back is weak, and cut when the node goes.
struct ContextObject {
  PyObject_HEAD PythonFunctionNode* node;
  PyObject* requires_grad;  // tuple of bools, by argument of apply()
};
ContextObject* as_context(PyObject* o) { return reinterpret_cast<ContextObject*>(o); }

PythonFunctionNode& node_of(PyObject* self, const char* what) {
  PythonFunctionNode* node = as_context(self)->node;
  FACULA_CHECK(node != nullptr, Runtime, "ctx.", what,
               ": the context is used outside of the function's forward and "
               "backward");
  return *node;
}

void context_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(as_context(self)->requires_grad);
  type->tp_free(self);
  Py_DECREF(type);
}

std::vector<Tensor> tensors_of(PyObject* args, const char* what, bool none_allowed) {
  std::vector<Tensor> list;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    if (none_allowed && o == Py_None) {
      list.emplace_back();
      continue;
    }
    FACULA_CHECK(is_tensor(o), Type, Operator{concat("ctx.", what)}, "argument ", i, " must be a Tensor, not ",
                 Py_TYPE(o)->tp_name, none_allowed ? "; keep other values as attributes of ctx" : "");
    list.push_back(tensor_of(o));
  }
  return list;
}

PyObject* save_for_backward(PyObject* self, PyObject* args) {
  FACULA_PY_TRY
  node_of(self, "save_for_backward").to_save = tensors_of(args, "save_for_backward", true);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* mark_dirty(PyObject* self, PyObject* args) {
  FACULA_PY_TRY
  node_of(self, "mark_dirty").dirty = tensors_of(args, "mark_dirty", false);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* mark_non_differentiable(PyObject* self, PyObject* args) {
  FACULA_PY_TRY
  node_of(self, "mark_non_differentiable").non_differentiable = tensors_of(args, "mark_non_differentiable", false);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* set_materialize_grads(PyObject* self, PyObject* value) {
  FACULA_PY_TRY
  const int truth = PyObject_IsTrue(value);
  check(truth);
  node_of(self, "set_materialize_grads").materialize_grads = truth != 0;
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* get_saved(PyObject* self, void*) {
  FACULA_PY_TRY
  const PythonFunctionNode& node = node_of(self, "saved_tensors");
  return wrap(node.to_save.empty() ? node.saved_tensors() : node.to_save);
  FACULA_PY_END(nullptr)
}
PyObject* get_needs_input_grad(PyObject* self, void*) {
  FACULA_PY_TRY
  const ContextObject* c = as_context(self);
  if (c->node == nullptr || c->node->num_inputs() == 0) {
    PyObject* flags = c->requires_grad != nullptr ? c->requires_grad : Py_None;
    Py_INCREF(flags);
    return flags;
  }
  const auto n = static_cast<Py_ssize_t>(c->node->num_inputs());
  PyObject* flags = check(PyTuple_New(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyTuple_SET_ITEM(flags, i, wrap(c->node->needs_input_grad(static_cast<size_t>(i))));
  }
  return flags;
  FACULA_PY_END(nullptr)
}

PyMethodDef context_methods[] = {
    {"save_for_backward", save_for_backward, METH_VARARGS,
     "save_for_backward($self, /, *tensors)\n--\n\nKeep tensors for backward, as ctx.saved_tensors."},
    {"mark_dirty", mark_dirty, METH_VARARGS,
     "mark_dirty($self, /, *tensors)\n--\n\nSay that forward changed these inputs in place."},
    {"mark_non_differentiable", mark_non_differentiable, METH_VARARGS,
     "mark_non_differentiable($self, /, *tensors)\n--\n\nSay that these outputs have no gradient."},
    {"set_materialize_grads", set_materialize_grads, METH_O,
     "set_materialize_grads($self, value, /)\n--\n\nFalse: gradients that did not arrive are None, not "
     "zeros."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef context_properties[] = {
    {"saved_tensors", get_saved, nullptr, "What save_for_backward kept.", nullptr},
    {"needs_input_grad", get_needs_input_grad, nullptr, "By argument: is its gradient wanted?", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot context_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(context_dealloc)},
    {Py_tp_methods, context_methods},
    {Py_tp_getset, context_properties},
    {0, nullptr},
};
PyType_Spec context_spec = {"facula._C._FunctionCtx", sizeof(ContextObject), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, context_slots};

// What a function returned, as a tuple: a list may change while its items are used.
Ref items_of(PyObject* o) {
  return Ref(check(PyTuple_Check(o) || PyList_Check(o) ? PySequence_Tuple(o) : PyTuple_Pack(1, o)));
}
std::span<PyObject* const> span_of(PyObject* tuple) {
  return {PySequence_Fast_ITEMS(tuple), static_cast<size_t>(PyTuple_GET_SIZE(tuple))};
}

// Forward under no_grad; with setup_context, forward does not see ctx.
Ref run_forward(PyObject* function, PyObject* context, PyObject* args, PyObject* kwargs, bool separate) {
  const struct WithoutTangents {
    bool saved = std::exchange(tls_state.forward_mode, false);
    ~WithoutTangents() { tls_state.forward_mode = saved; }
  } without_tangents;
  GradMode off(false);
  if (separate) {
    Ref forward(check(PyObject_GetAttrString(function, "forward")));
    Ref output(check(PyObject_Call(forward.get(), args, nullptr)));
    Ref done(check(PyObject_CallMethod(function, "setup_context", "OOO", context, args, output.get())));
    return output;
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  Ref all(check(PyTuple_New(n + 1)));
  Py_INCREF(context);
  PyTuple_SET_ITEM(all.get(), 0, context);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    Py_INCREF(o);
    PyTuple_SET_ITEM(all.get(), i + 1, o);
  }
  Ref forward(check(PyObject_GetAttrString(function, "forward")));
  return Ref(check(PyObject_Call(forward.get(), all.get(), kwargs)));
}

// Forward mode: what jvp() says of the tangents.
void set_tangents(PyObject* function, PyObject* context, PyObject* args, const std::vector<Tensor>& inputs,
                  const std::vector<Tensor>& outputs) {
  Ref given(check(PyTuple_New(PyTuple_GET_SIZE(args) + 1)));
  PyTuple_SET_ITEM(given.get(), 0, Py_NewRef(context));
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor tangent = inputs[i].defined() ? tangent_of(inputs[i]) : Tensor();
    PyTuple_SET_ITEM(given.get(), static_cast<Py_ssize_t>(i) + 1, check(wrap(tangent)));
  }
  const Ref method(check(PyObject_GetAttrString(function, "_tangents")));
  const Ref found(check(PyObject_Call(method.get(), given.get(), nullptr)));
  const std::span<PyObject* const> items = span_of(found.get());
  FACULA_CHECK(items.size() == outputs.size(), Runtime, Operator{"jvp"}, "returned ", items.size(), " tangents for ",
               outputs.size(), " outputs of forward()");
  for (size_t i = 0; i < items.size(); ++i) {
    if (!outputs[i].defined() || items[i] == Py_None) continue;
    FACULA_CHECK(is_tensor(items[i]), Type, Operator{"jvp"}, "must return Tensors or None, and result ", i, " is ",
                 Py_TYPE(items[i])->tp_name);
    // An output that is cut off from its base is no change of that.
    (outputs[i].impl()->no_grad_view ? set_new_tangent : set_tangent_inplace)(outputs[i], tensor_of(items[i]));
  }
}

// What is given by name has no place among the gradients that backward() returns.
void check_named(PyObject* function, PyObject* kwargs) {
  PyObject *name, *value;
  for (Py_ssize_t at = 0; kwargs != nullptr && PyDict_Next(kwargs, &at, &name, &value) != 0;) {
    if (!is_tensor(value)) continue;
    const Tensor t = tensor_of(value);
    FACULA_CHECK(!needs_grad(t) && !has_tangent(t), Runtime, reinterpret_cast<PyTypeObject*>(function)->tp_name,
                 ".apply(): `", PyUnicode_AsUTF8(name),
                 "` has a gradient or tangent, and is given by name; only "
                 "arguments by position are differentiated by, so give it by position");
  }
}

// _function_apply(function, ctx, separate_context, args, kwargs=None)
PyObject* function_apply(PyObject*, PyObject* arguments) {
  PyObject *function, *context, *args, *kwargs = nullptr;
  int separate = 0;
  if (!PyArg_ParseTuple(arguments, "OO!pO!|O!:_function_apply", &function, context_type, &context, &separate,
                        &PyTuple_Type, &args, &PyDict_Type, &kwargs)) {
    return nullptr;
  }
  FACULA_PY_TRY
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  std::vector<Tensor> inputs(static_cast<size_t>(n));
  Ref flags(check(PyTuple_New(n)));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    if (is_tensor(o)) inputs[static_cast<size_t>(i)] = tensor_of(o);
    PyTuple_SET_ITEM(flags.get(), i, wrap(is_tensor(o) && tensor_of(o).requires_grad()));
  }
  check_named(function, kwargs);
  const bool record = needs_grad(TensorList(inputs));
  const auto node = intrusive_ptr<PythonFunctionNode>::adopt(new PythonFunctionNode(function, context));
  Py_XSETREF(as_context(context)->requires_grad, flags.release());
  as_context(context)->node = node.get();
  if (record) {
    for (const Tensor& t : inputs) node->add_edge(needs_grad(t) ? gradient_edge(t) : Edge{});
  }

  Ref output = run_forward(function, context, args, kwargs, separate != 0);
  const bool single = !PyTuple_Check(output.get()) && !PyList_Check(output.get());
  const Ref held = items_of(output.get());
  const std::span<PyObject* const> items = span_of(held.get());
  std::vector<Tensor> outputs;
  for (PyObject* o : items) outputs.push_back(is_tensor(o) ? tensor_of(o) : Tensor());
  finish_function(node, inputs, outputs, record);
  if (has_tangent(TensorList(inputs))) set_tangents(function, context, args, inputs, outputs);
  const auto wrap_output = [&](size_t i) {
    if (!outputs[i].defined()) return Ref::borrow(items[i]).release();
    PyObject* o = check(wrap(std::move(outputs[i])));
    if (record) track(o);  // its ctx may hold it
    return o;
  };
  if (single) return wrap_output(0);
  Ref result(check(PyTuple_New(static_cast<Py_ssize_t>(items.size()))));
  for (size_t i = 0; i < items.size(); ++i) {
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), wrap_output(i));
  }
  return result.release();
  FACULA_PY_END(nullptr)
}

}  // namespace

PythonFunctionNode::PythonFunctionNode(PyObject* function, PyObject* context) : function_(function), context_(context) {
  Ref name(check(PyObject_GetAttrString(function, "__name__")));
  const char* text = PyUnicode_AsUTF8(name.get());
  if (text == nullptr) throw PythonError();
  name_ = concat(text, "Backward");
  Py_INCREF(function);
  Py_INCREF(context);
  ++python_links;
}

PythonFunctionNode::~PythonFunctionNode() {
  --python_links;
  if (!interpreter_alive()) return;
  AcquireGil gil;
  as_context(context_)->node = nullptr;
  Py_DECREF(context_);
  Py_DECREF(function_);
}

void PythonFunctionNode::backward(std::span<const Tensor> grads, std::span<Tensor> results) {
  AcquireGil gil;
  Ref args(check(PyTuple_New(static_cast<Py_ssize_t>(grads.size()) + 1)));
  Py_INCREF(context_);
  PyTuple_SET_ITEM(args.get(), 0, context_);
  for (size_t i = 0; i < grads.size(); ++i) {
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i) + 1, check(wrap(Tensor(grads[i]))));
  }
  Ref function(check(PyObject_GetAttrString(function_, "backward")));
  Ref result(check(PyObject_Call(function.get(), args.get(), nullptr)));
  const Ref held = items_of(result.get());
  const std::span<PyObject* const> items = span_of(held.get());
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i] == Py_None) continue;
    FACULA_CHECK(is_tensor(items[i]), Type, name_, ": backward() must return Tensors or None, but result ", i, " is ",
                 Py_TYPE(items[i])->tp_name);
    FACULA_CHECK(i < results.size(), Runtime, name_, ": backward() returned ", items.size(),
                 " gradients, but forward() "
                 "has ",
                 results.size(), " inputs");
    results[i] = tensor_of(items[i]);
  }
  FACULA_CHECK(items.size() >= results.size(), Runtime, name_, ": backward() returned ", items.size(),
               " gradients, but forward() has ", results.size(), " inputs; return None for those without one");
}

bool init_function_type(PyObject* module) {
  context_type = add_type(module, &context_spec);
  return context_type != nullptr;
}

const PyMethodDef function_functions[] = {
    {"_function_apply", function_apply, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
