#include "runtime/bindings/hooks.h"

#include "runtime/autograd/meta.h"

namespace facula::python {

namespace {

PyTypeObject* handle_type = nullptr;

class PythonHook final : public NodeHook {
 public:
  PythonHook(HookKind kind, PyObject* function) : kind_(kind), function_(function) { Py_INCREF(function); }
  ~PythonHook() override {
    if (function_ == nullptr || !interpreter_alive()) return;
    AcquireGil gil;
    Py_CLEAR(function_);
  }

  void run(std::vector<Tensor>& grads) override { run_post(grads, {}); }

  void run_post(std::vector<Tensor>& grads, std::span<const Tensor> entered) override {
    AcquireGil gil;
    if (removed || function_ == nullptr) return;
    Ref function = Ref::borrow(function_);  // the hook may remove itself
    Ref result;
    switch (kind_) {
      case HookKind::Tensor:
      case HookKind::PostAccumulate: {
        Ref grad(check(wrap(Tensor(grads[0]))));
        result = Ref(check(PyObject_CallOneArg(function.get(), grad.get())));
        break;
      }
      case HookKind::NodePre: {
        Ref all(check(wrap(grads)));
        result = Ref(check(PyObject_CallOneArg(function.get(), all.get())));
        break;
      }
      case HookKind::NodePost: {
        Ref all(check(wrap(grads)));
        Ref before(check(wrap(std::vector<Tensor>(entered.begin(), entered.end()))));
        result = Ref(check(PyObject_CallFunctionObjArgs(function.get(), all.get(), before.get(), nullptr)));
        break;
      }
    }
    if (kind_ != HookKind::PostAccumulate) replace(grads, result.get());
  }

  void remove() {
    removed = true;
    Py_CLEAR(function_);
  }
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function_);
    return 0;
  }

 private:
  static void replace(std::vector<Tensor>& grads, PyObject* result) {
    if (result == Py_None) return;
    PyObject* const* items = &result;
    size_t n = 1;
    if (PyTuple_Check(result) || PyList_Check(result)) {
      items = PySequence_Fast_ITEMS(result);
      n = static_cast<size_t>(PySequence_Fast_GET_SIZE(result));
    }
    FACULA_CHECK(n == grads.size(), Runtime, "a hook returned ", n, " gradients, but it was given ", grads.size());
    for (size_t i = 0; i < n; ++i) {
      if (items[i] == Py_None) continue;
      FACULA_CHECK(is_tensor(items[i]), Type, "a hook must return Tensors or None, not ", Py_TYPE(items[i])->tp_name);
      grads[i] = tensor_of(items[i]);
    }
  }

  HookKind kind_;
  PyObject* function_;
};

struct HandleObject {
  PyObject_HEAD std::shared_ptr<NodeHook> hook;
};

std::shared_ptr<NodeHook>& hook_of(PyObject* self) { return reinterpret_cast<HandleObject*>(self)->hook; }

void handle_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  hook_of(self).~shared_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}
PyObject* handle_remove(PyObject* self, PyObject*) {
  if (auto* hook = static_cast<PythonHook*>(hook_of(self).get())) hook->remove();
  Py_RETURN_NONE;
}
PyObject* handle_enter(PyObject* self, PyObject*) {
  Py_INCREF(self);
  return self;
}
PyObject* handle_exit(PyObject* self, PyObject*) { return handle_remove(self, nullptr); }
PyObject* handle_id(PyObject* self, void*) { return PyLong_FromVoidPtr(hook_of(self).get()); }

PyMethodDef handle_methods[] = {
    {"remove", handle_remove, METH_NOARGS, "remove($self, /)\n--\n\nThe hook is not called any more."},
    {"__enter__", handle_enter, METH_NOARGS, nullptr},
    {"__exit__", handle_exit, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef handle_properties[] = {
    {"id", handle_id, nullptr, "A number that tells hooks apart.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot handle_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(handle_dealloc)},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_properties},
    {Py_tp_doc, const_cast<char*>("Removes the hook that was registered.")},
    {0, nullptr},
};
PyType_Spec handle_spec = {"facula.autograd.graph.HookHandle", sizeof(HandleObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, handle_slots};

}  // namespace

std::shared_ptr<NodeHook> make_hook(HookKind kind, PyObject* function) {
  FACULA_CHECK(PyCallable_Check(function), Type, "a hook must be callable, and ", Py_TYPE(function)->tp_name,
               " is not");
  return std::make_shared<PythonHook>(kind, function);
}

namespace {
template <typename F>
int each_leaf_hook(const Tensor& t, const F& f) {
  const AutogradMeta* meta = t.defined() ? autograd_meta_or_null(t) : nullptr;
  if (meta == nullptr || meta->leaf_hooks == nullptr) return 0;
  for (const HookList* list : {&meta->leaf_hooks->tensor, &meta->leaf_hooks->post_accumulate}) {
    for (const std::shared_ptr<NodeHook>& hook : *list) {
      auto* python = dynamic_cast<PythonHook*>(hook.get());
      if (python == nullptr) continue;
      if (const int stop = f(*python); stop != 0) return stop;
    }
  }
  return 0;
}
}  // namespace

int traverse_hooks(const Tensor& t, visitproc visit, void* arg) {
  return each_leaf_hook(t, [&](PythonHook& hook) { return hook.traverse(visit, arg); });
}

void clear_hooks(const Tensor& t) {
  each_leaf_hook(t, [](PythonHook& hook) {
    hook.remove();
    return 0;
  });
}

PyObject* wrap_handle(std::shared_ptr<NodeHook> hook) {
  PyObject* o = check(handle_type->tp_alloc(handle_type, 0));
  new (&hook_of(o)) std::shared_ptr<NodeHook>(std::move(hook));
  return o;
}

bool init_hook_type(PyObject* module) {
  handle_type = add_type(module, &handle_spec);
  return handle_type != nullptr;
}

}  // namespace facula::python
