// Autograd on Tensor: backward, hooks, detach, requires_grad_; and the engine's entry points.
#include "runtime/autograd/engine.h"
#include "runtime/bindings/autograd/hooks.h"
#include "runtime/core/compound.h"
#include "runtime/dispatch/levels.h"

namespace facula::python {

namespace {

// autograd.graph.GradientEdge: a tuple (node, output number, ...).
bool is_edge(PyObject* o) {
  return PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2 && PyObject_TypeCheck(PyTuple_GET_ITEM(o, 0), node_type);
}

// A tensor whose gradient goes along the edge, with the sizes of that gradient; nobody reads its elements.
Tensor tensor_of_edge(PyObject* o) {
  const intrusive_ptr<Node>& node = reinterpret_cast<NodeObject*>(PyTuple_GET_ITEM(o, 0))->node;
  const long number = PyLong_AsLong(PyTuple_GET_ITEM(o, 1));
  if (number == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  FACULA_CHECK(number >= 0 && static_cast<size_t>(number) < node->num_outputs(), Value, "a gradient edge has output ",
               number, ", and ", node->name(), " has ", node->num_outputs());
  if (const auto* leaf = dynamic_cast<const AccumulateGrad*>(node.get())) return leaf->leaf();
  const OutputMeta& meta = node->output(static_cast<size_t>(number));
  Tensor t = make_empty_strided(meta.sizes(), DimVector(meta.sizes().size(), 0), meta.dtype, meta.device);
  AutogradMeta& record = autograd_meta(t);
  record.grad_fn = node;
  record.output_nr = static_cast<uint32_t>(number);
  t.impl()->requires_grad = true;
  t.impl()->layers |= layer_bit(Layer::Autograd);
  return t;
}

// A tensor or a gradient edge, or a sequence of those and None.
std::vector<Tensor> tensor_sequence(PyObject* o, const char* who, const char* name, bool none_allowed) {
  std::vector<Tensor> list;
  if (o == nullptr || o == Py_None) return list;
  if (is_edge(o)) {
    list.push_back(tensor_of_edge(o));
    return list;
  }
  if (is_tensor(o)) {
    list.push_back(tensor_of(o));
    return list;
  }
  Ref items(PySequence_Check(o) ? PySequence_Tuple(o) : nullptr);
  PyErr_Clear();
  FACULA_CHECK(items, Type, Operator{who}, "argument '", Argument{name},
               "' must be a Tensor or a sequence of Tensors, not ", Py_TYPE(o)->tp_name);
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(items.get(), i);
    if (item == Py_None && none_allowed) {
      list.emplace_back();
      continue;
    }
    if (is_edge(item)) {
      list.push_back(tensor_of_edge(item));
      continue;
    }
    FACULA_CHECK(is_tensor(item), Type, Operator{who}, "argument '", Argument{name},
                 "' must hold Tensors, but element ", i, " is ", Py_TYPE(item)->tp_name);
    list.push_back(tensor_of(item));
  }
  return list;
}

void check_no_levels(const char* who) {
  FACULA_CHECK(level_depth() == 0, Runtime, Operator{who},
               "called within a function transform (vmap, grad, jvp, ...), whose tensors must not become .grad of "
               "others; use func.grad, func.vjp or autograd.grad there, or call it outside of the transform");
}

std::vector<Tensor> run_without_gil(TensorList roots, TensorList grads, TensorList inputs,
                                    const BackwardOptions& options) {
  ReleaseGil gil;
  return run_backward(roots, grads, inputs, options);
}

constexpr ParamSpec kBackwardParams[] = {
    {"self", ArgType::Tensor},
    {.name = "gradient", .type = ArgType::Tensor, .optional = true, .required = false},
    {.name = "retain_graph", .type = ArgType::Bool, .optional = true, .required = false},
    {.name = "create_graph", .type = ArgType::Bool, .required = false},
    {.name = "inputs", .type = ArgType::TensorList, .optional = true, .required = false}};
const FunctionSpec kBackward{"backward",
                             "backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None, bool "
                             "create_graph=False, Tensor[]? inputs=None)",
                             kBackwardParams};
PyObject* method_backward(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  FACULA_PY_TRY
  PyObject* slots[5];
  if (!bind(kBackward, self, args, n, names, slots)) return nullptr;
  BackwardOptions options;
  options.create_graph = slots[3] != nullptr && to_bool(kBackward, 3, slots[3]);
  options.keep_graph = slots[2] != nullptr ? to_bool(kBackward, 2, slots[2]) : options.create_graph;
  Tensor hold;
  const Tensor root = tensor_of(self);
  const Tensor grad = to_optional_tensor(kBackward, 1, slots[1], hold);
  std::vector<Tensor> inputs;
  if (slots[4] != nullptr) {
    inputs = tensor_sequence(slots[4], "backward", "inputs", false);
    FACULA_CHECK(!inputs.empty(), Value, Operator{"backward"}, "argument '", Argument{"inputs"}, "' is empty");
  }
  check_no_levels("backward");
  run_without_gil({&root, 1}, {&grad, grad.defined() ? 1u : 0u}, inputs, options);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

// _run_backward(tensors, grad_tensors, retain_graph, create_graph, inputs, allow_unused, accumulate)
PyObject* function_run_backward(PyObject*, PyObject* args) {
  PyObject *roots, *grads, *inputs;
  int keep = 0, create = 0, unused = 0, accumulate = 0;
  if (!PyArg_ParseTuple(args, "OOppOpp:_run_backward", &roots, &grads, &keep, &create, &inputs, &unused, &accumulate)) {
    return nullptr;
  }
  FACULA_PY_TRY
  const char* who = accumulate != 0 ? "backward" : "grad";
  const std::vector<Tensor> from = tensor_sequence(roots, who, accumulate != 0 ? "tensors" : "outputs", false);
  std::vector<Tensor> given = tensor_sequence(grads, who, accumulate != 0 ? "grad_tensors" : "grad_outputs", true);
  const std::vector<Tensor> to = tensor_sequence(inputs, who, "inputs", false);
  FACULA_CHECK(given.empty() || given.size() == from.size(), Runtime, Operator{who}, "got ", from.size(),
               " tensors to start from and ", given.size(), " gradients for them");
  FACULA_CHECK(accumulate != 0 || !to.empty(), Value, Operator{who}, "argument '", Argument{"inputs"}, "' is empty");
  if (accumulate != 0) check_no_levels(who);
  BackwardOptions options;
  options.keep_graph = keep != 0;
  options.create_graph = create != 0;
  options.allow_unused = unused != 0;
  options.accumulate = accumulate != 0;
  return wrap(run_without_gil(from, given, to, options));
  FACULA_PY_END(nullptr)
}

PyObject* method_detach_inplace(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  detach_(tensor_of(self));
  Py_INCREF(self);
  return self;
  FACULA_PY_END(nullptr)
}
// `x` becomes what a view of it is, with the view's place in the graph: for forms in place that move no element.
PyObject* method_become_view(PyObject* self, PyObject* o) {
  FACULA_PY_TRY
  FACULA_CHECK(is_tensor(o), Type, Operator{"_become_view"}, "takes a Tensor, not ", Py_TYPE(o)->tp_name);
  const Tensor& t = tensor_of(self);
  const Tensor& view = tensor_of(o);
  const bool recorded = needs_grad(t);
  check_not_inference(t, "a change of dims in place");
  if (recorded) {
    check_inplace(t, "a change of dims in place", true);
  }
  const InCall in_call(view);
  const Changing changing(t);
  TensorImpl* to = t.impl();
  const TensorImpl* from = view.impl();
  FACULA_CHECK(to->storage.get() == from->storage.get() && t.is_wrapped() == view.is_wrapped(), Runtime,
               Operator{"_become_view"}, "the tensor is no view of this one's memory");
  if (t.is_wrapped()) {
    FACULA_CHECK(to->wrapping->level == from->wrapping->level && !is_compound(t), Runtime, Operator{"_become_view"},
                 "the tensor is of another function transform than this one");
    *to->wrapping = *from->wrapping;
  }
  if (recorded && view.impl()->autograd) {
    AutogradMeta& meta = autograd_meta(t);
    const AutogradMeta& made = *view.impl()->autograd;
    if (t.is_view()) {
      meta.view_version = t.version() - 1;  // its history is made of its base's and its new dims when asked for
    } else {
      meta.grad_fn = made.grad_fn;
      meta.output_nr = made.output_nr;
    }
  }
  to->offset = from->offset;
  to->sizes = from->sizes;
  to->strides = from->strides;
  to->refresh();
  return Py_NewRef(self);
  FACULA_PY_END(nullptr)
}
PyObject* method_retain_grad(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  retain_grad(tensor_of(self));
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

constexpr ParamSpec kRequiresGradParams[] = {{"self", ArgType::Tensor},
                                             {.name = "requires_grad", .type = ArgType::Bool, .required = false}};
const FunctionSpec kRequiresGrad{"requires_grad_", "requires_grad_(Tensor self, bool requires_grad=True)",
                                 kRequiresGradParams};
PyObject* method_requires_grad(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  FACULA_PY_TRY
  PyObject* slots[2];
  if (!bind(kRequiresGrad, self, args, n, names, slots)) return nullptr;
  set_requires_grad(tensor_of(self), slots[1] == nullptr || to_bool(kRequiresGrad, 1, slots[1]));
  Py_INCREF(self);
  return self;
  FACULA_PY_END(nullptr)
}

PyObject* method_register_hook(PyObject* self, PyObject* function) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  FACULA_CHECK(t.requires_grad(), Runtime, Operator{"register_hook"},
               "the tensor does not require grad, so none will come");
  auto hook = make_hook(HookKind::Tensor, function);
  add_tensor_hook(t, hook);
  track(self);
  return wrap_handle(std::move(hook));
  FACULA_PY_END(nullptr)
}
PyObject* method_register_post_hook(PyObject* self, PyObject* function) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  FACULA_CHECK(t.requires_grad() && is_leaf(t), Runtime, Operator{"register_post_accumulate_grad_hook"},
               "gradients accumulate in leaves that require grad only");
  auto hook = make_hook(HookKind::PostAccumulate, function);
  add_post_accumulate_hook(t, hook);
  track(self);
  return wrap_handle(std::move(hook));
  FACULA_PY_END(nullptr)
}

#define FASTCALL(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL | METH_KEYWORDS

}  // namespace

const PyMethodDef tensor_autograd_methods[] = {
    {"backward", FASTCALL(method_backward),
     "backward($self, /, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
     "Add the gradients of this tensor to the .grad of the leaves it came from."},
    {"_become_view", method_become_view, METH_O, nullptr},
    {"detach_", method_detach_inplace, METH_NOARGS, "detach_($self, /)\n--\n\nForget the history, in place."},
    {"retain_grad", method_retain_grad, METH_NOARGS,
     "retain_grad($self, /)\n--\n\nLet backward() fill .grad although this is no leaf."},
    {"requires_grad_", FASTCALL(method_requires_grad),
     "requires_grad_($self, /, requires_grad=True)\n--\n\nSet requires_grad and return the tensor."},
    {"register_hook", method_register_hook, METH_O,
     "register_hook($self, hook, /)\n--\n\nCall hook(grad) with each gradient; it may return another. "
     "Returns a handle "
     "with remove()."},
    {"register_post_accumulate_grad_hook", method_register_post_hook, METH_O,
     "register_post_accumulate_grad_hook($self, hook, /)\n--\n\nCall hook(tensor) after .grad was added to."},
    {nullptr, nullptr, 0, nullptr},
};

// _drop_grads(tensors): sets .grad to None
PyObject* function_drop_grads(PyObject*, PyObject* tensors) try {
  const Ref list(PySequence_Tuple(tensors));  // dropping a gradient may run Python, which may change a list
  FACULA_CHECK(list || PyErr_ExceptionMatches(PyExc_TypeError) == 0, Type, Operator{"zero_grad"},
               "expected a sequence of tensors");
  check(list.get());
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(list.get(), i);
    FACULA_CHECK(PyObject_TypeCheck(item, tensor_type), Type, Operator{"zero_grad"}, "expected tensors, got ",
                 Py_TYPE(item)->tp_name);
    if (autograd_meta_or_null(tensor_of(item)) != nullptr) set_grad(tensor_of(item), Tensor());
  }
  Py_RETURN_NONE;
} catch (...) {
  set_python_error();
  return nullptr;
}

const PyMethodDef autograd_functions[] = {
    {"_drop_grads", function_drop_grads, METH_O, nullptr},
    {"_run_backward", function_run_backward, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
