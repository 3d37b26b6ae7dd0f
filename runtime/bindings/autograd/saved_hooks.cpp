// autograd.graph.saved_tensors_hooks: Python functions that keep what nodes save.
#include <vector>

#include "runtime/autograd/saved_tensor.h"
#include "runtime/bindings/types/types.h"
#include "runtime/core/thread_state.h"

namespace facula::python {

namespace {

// What is packed is the owner of memory, as an array of NumPy's is: so it dies, and is found in cycles, with the
// tensor that stands for it.
class PythonSavedHooks final : public SavedHooks {
 public:
  PythonSavedHooks(PyObject* pack, PyObject* unpack, SavedHooks* outer)
      : pack_(Ref::borrow(pack)), unpack_(Ref::borrow(unpack)), outer_(outer) {}
  SavedHooks* outer() const { return outer_; }

  Tensor pack(const Tensor& t) override {
    AcquireGil gil;
    static char nothing[16] = {};
    const Ref given(check(wrap(Tensor(t))));
    const Ref packed(check(PyObject_CallOneArg(pack_.get(), given.get())));
    Ref both(check(PyTuple_Pack(2, unpack_.get(), packed.get())));
    const DimVector strides(t.sizes().size(), 0);
    return from_storage(storage_of(std::move(both), nothing, sizeof(nothing), true), t.sizes(), strides, 0, t.dtype());
  }

 private:
  Ref pack_, unpack_;
  SavedHooks* outer_;
};

Tensor unpack(const Tensor& packed) {
  AcquireGil gil;
  const Ref both = Ref::borrow(leading_owner(*packed.storage()));
  const Ref t(check(PyObject_CallOneArg(PyTuple_GET_ITEM(both.get(), 0), PyTuple_GET_ITEM(both.get(), 1))));
  FACULA_CHECK(is_tensor(t.get()), Type, "an unpack hook of saved tensors must return a Tensor, not ",
               Py_TYPE(t.get())->tp_name);
  return tensor_of(t.get());
}

PyObject* push(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *pack = nullptr, *unpack = nullptr;
  if (PyArg_ParseTuple(args, "OO:_push_saved_hooks", &pack, &unpack) == 0) throw PythonError();
  FACULA_CHECK(PyCallable_Check(pack) && PyCallable_Check(unpack), Type,
               "hooks of saved tensors must be callable, and ", Py_TYPE(pack)->tp_name, " or ",
               Py_TYPE(unpack)->tp_name, " is not");
  tls_state.saved_hooks = new PythonSavedHooks(pack, unpack, tls_state.saved_hooks);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

PyObject* pop(PyObject*, PyObject*) {
  FACULA_PY_TRY
  auto* top = static_cast<PythonSavedHooks*>(tls_state.saved_hooks);
  FACULA_CHECK(top != nullptr, Runtime, "this thread has no hooks of saved tensors");
  tls_state.saved_hooks = top->outer();
  delete top;
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

}  // namespace

void init_saved_hooks() { unpack_saved = unpack; }

const PyMethodDef saved_hook_functions[] = {
    {"_push_saved_hooks", push, METH_VARARGS, nullptr},
    {"_pop_saved_hooks", pop, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
