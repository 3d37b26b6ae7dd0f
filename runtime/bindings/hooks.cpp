#include "runtime/bindings/hooks.h"

#include "runtime/autograd/meta.h"
#include "runtime/bindings/function.h"

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
    Py_CLEAR(function_);  // and nothing after: it may run Python, which may drop this hook
  }
  int traverse(visitproc visit, void* arg) const {
    Py_VISIT(function_);
    return 0;
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
// The node that dies with `t`, if any: nobody else can reach it, so that it may be read without a lock.
Node* own_node(const AutogradMeta& meta) {
  Node* node = meta.grad_fn.get();
  return node != nullptr && node->use_count() == 1 ? node : nullptr;
}

std::vector<std::shared_ptr<NodeHook>> hooks_of(const Tensor& t) {
  std::vector<std::shared_ptr<NodeHook>> all;
  const AutogradMeta* meta = t.defined() ? autograd_meta_or_null(t) : nullptr;
  if (meta == nullptr) return all;
  const auto add = [&](const HookList& list) { all.insert(all.end(), list.begin(), list.end()); };
  if (meta->leaf_hooks) {
    add(meta->leaf_hooks->tensor);
    add(meta->leaf_hooks->post_accumulate);
  }
  if (const Node* node = own_node(*meta); node != nullptr && node->hooks_or_null() != nullptr) {
    for (const auto& [nr, hook] : node->hooks_or_null()->tensor) all.push_back(hook);
    add(node->hooks_or_null()->pre);
    add(node->hooks_or_null()->post);
  }
  return all;
}
}  // namespace

int traverse_hooks(const Tensor& t, visitproc visit, void* arg) {
  for (const auto& hook : hooks_of(t)) {
    const auto* python = dynamic_cast<const PythonHook*>(hook.get());
    // A hook that is registered twice, or whose handle is alive, has other holders.
    if (python == nullptr) continue;
    if (const int stop = python->traverse(visit, arg); stop != 0) return stop;
  }
  const AutogradMeta* meta = t.defined() ? autograd_meta_or_null(t) : nullptr;
  const auto* function = meta != nullptr ? dynamic_cast<const PythonFunctionNode*>(own_node(*meta)) : nullptr;
  return function != nullptr ? visit(function->context(), arg) : 0;
}

void clear_hooks(const Tensor& t) {
  for (const auto& hook : hooks_of(t)) {
    if (auto* python = dynamic_cast<PythonHook*>(hook.get())) python->remove();
  }
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
