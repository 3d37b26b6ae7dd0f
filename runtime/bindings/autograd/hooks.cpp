#include "runtime/bindings/autograd/hooks.h"

#include "runtime/autograd/meta.h"
#include "runtime/bindings/arguments/function.h"

namespace facula::python {

std::atomic<int64_t> python_links{0};

namespace {

PyTypeObject* handle_type = nullptr;

class PythonHook final : public NodeHook {
 public:
  PythonHook(HookKind kind, PyObject* function) : kind_(kind), function_(function) {
    Py_INCREF(function);
    ++python_links;
  }
  ~PythonHook() override {
    --python_links;
    if (function_ == nullptr || !interpreter_alive()) return;
    AcquireGil gil;
    Py_CLEAR(function_);
  }

  void run(std::vector<Tensor>& grads) override { run_post(grads, {}); }

  void run_post(std::vector<Tensor>& grads, std::span<const Tensor> entered) override {
    AcquireGil gil;
    const Ref function = held();  // the hook may remove itself
    if (removed || !function) return;
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
    PyObject* function;
    {
      const ObjectLock lock(this);
      function = std::exchange(function_, nullptr);
    }
    Py_XDECREF(function);  // and nothing after: it may run Python, which may drop this hook
  }
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function_);
    return 0;
  }
  Ref held() const {
    const ObjectLock lock(this);
    return Ref::borrow(function_);
  }

 private:
  static void replace(std::vector<Tensor>& grads, PyObject* result) {
    if (result == Py_None) return;
    // Dropping an old gradient may run Python, which may change a list.
    const bool many = PyTuple_Check(result) || PyList_Check(result);
    const Ref items(check(many ? PySequence_Tuple(result) : PyTuple_Pack(1, result)));
    const auto n = static_cast<size_t>(PyTuple_GET_SIZE(items.get()));
    FACULA_CHECK(n == grads.size(), Runtime, "a hook returned ", n, " gradients, but it was given ", grads.size());
    for (size_t i = 0; i < n; ++i) {
      PyObject* item = PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i));
      if (item == Py_None) continue;
      FACULA_CHECK(is_tensor(item), Type, "a hook must return Tensors or None, not ", Py_TYPE(item)->tp_name);
      grads[i] = tensor_of(item);
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
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  hook_of(self).~shared_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}
// A hook whose tensor or node is gone is the handle's alone.
int handle_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  const auto* hook = static_cast<const PythonHook*>(hook_of(self).get());
  return hook != nullptr && hook_of(self).use_count() == 1 ? hook->traverse(visit, arg) : 0;
}
int handle_clear(PyObject* self) {
  if (auto* hook = static_cast<PythonHook*>(hook_of(self).get()); hook != nullptr && hook_of(self).use_count() == 1) {
    hook->remove();
  }
  return 0;
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
    {Py_tp_traverse, reinterpret_cast<void*>(handle_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(handle_clear)},
    {Py_tp_methods, handle_methods},
    {Py_tp_getset, handle_properties},
    {Py_tp_doc, const_cast<char*>("Removes the hook that was registered.")},
    {0, nullptr},
};
PyType_Spec handle_spec = {"facula.autograd.graph.HookHandle", sizeof(HandleObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, handle_slots};

}  // namespace

std::shared_ptr<NodeHook> make_hook(HookKind kind, PyObject* function) {
  FACULA_CHECK(PyCallable_Check(function), Type, "a hook must be callable, and ", Py_TYPE(function)->tp_name,
               " is not");
  return std::make_shared<PythonHook>(kind, function);
}

PyObject* notes_of(Node& node) {
  std::shared_ptr<NodeHook>& notes = node.hooks().notes;
  const auto held = [&]() -> std::shared_ptr<NodeHook> {
    const ObjectLock lock(&node);
    return notes;
  };
  if (auto known = held()) return static_cast<const PythonHook&>(*known).held().release();
  const Ref dict(check(PyDict_New()));
  std::shared_ptr<NodeHook> made = std::make_shared<PythonHook>(HookKind::NodePre, dict.get());
  {
    const ObjectLock lock(&node);
    if (!notes) notes.swap(made);
  }
  return static_cast<const PythonHook&>(*held()).held().release();
}

namespace {

template <typename F>
int each_hook(const AutogradMeta& meta, const F& fn) {
  const LeafHooks* hooks = meta.leaf_hooks.get();
  if (hooks == nullptr) return 0;
  for (const HookList* list : {&hooks->tensor, &hooks->post_accumulate}) {
    for (const auto& hook : *list) {
      if (const int stop = fn(hook); stop != 0) return stop;
    }
  }
  return 0;
}
template <typename F>
int each_hook(const Node& node, const F& fn) {
  const Node::Hooks* hooks = node.hooks_or_null();
  if (hooks == nullptr) return 0;
  for (const auto& [nr, hook] : hooks->tensor) {
    if (const int stop = fn(hook); stop != 0) return stop;
  }
  for (const HookList* list : {&hooks->pre, &hooks->post}) {
    for (const auto& hook : *list) {
      if (const int stop = fn(hook); stop != 0) return stop;
    }
  }
  return hooks->notes ? fn(hooks->notes) : 0;
}

// A hook is in one list; its handle, if that is alive, only ever removes it.
auto visitor(visitproc visit, void* arg) {
  return [=](const std::shared_ptr<NodeHook>& hook) {
    const auto* python = dynamic_cast<const PythonHook*>(hook.get());
    return python != nullptr ? python->traverse(visit, arg) : 0;
  };
}
// Dropping a function may run Python, which may change the lists.
template <typename Owner>
void clear(const Owner& owner) {
  HookList all;
  each_hook(owner, [&](const std::shared_ptr<NodeHook>& hook) {
    all.push_back(hook);
    return 0;
  });
  for (const auto& hook : all) {
    if (auto* python = dynamic_cast<PythonHook*>(hook.get())) python->remove();
  }
}

}  // namespace

int visit_hooks(const AutogradMeta& meta, visitproc visit, void* arg) { return each_hook(meta, visitor(visit, arg)); }

int visit_hooks(const Node& node, visitproc visit, void* arg) {
  if (const int stop = each_hook(node, visitor(visit, arg)); stop != 0) return stop;
  if (const auto* function = dynamic_cast<const PythonFunctionNode*>(&node)) {
    Py_VISIT(function->context());
    Py_VISIT(function->function());
  }
  return 0;
}

void clear_hooks(const AutogradMeta& meta) { clear(meta); }
void clear_hooks(const Node& node) { clear(node); }

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
