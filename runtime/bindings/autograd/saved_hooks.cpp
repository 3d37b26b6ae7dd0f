// autograd.graph.saved_tensors_hooks: Python functions that keep what nodes save.
#include "runtime/bindings/types/casters.h"
#include "runtime/autograd/reversing.h"
#include "runtime/autograd/saved_tensor.h"
#include "runtime/bindings/autograd/hooks.h"
#include "runtime/bindings/define.h"
#include "runtime/core/thread_state.h"

namespace py = pybind11;

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

void check_hooks(PyObject* pack, PyObject* unpack) {
  FACULA_CHECK(PyCallable_Check(pack) && PyCallable_Check(unpack), Type,
               "hooks of saved tensors must be callable, and ", Py_TYPE(pack)->tp_name, " or ",
               Py_TYPE(unpack)->tp_name, " is not");
}

}  // namespace

void register_saved_hooks(SavedTensor& saved, PyObject* pack, PyObject* unpack) {
  check_hooks(pack, unpack);
  PythonSavedHooks hooks(pack, unpack, nullptr);
  saved.register_hooks(hooks);
}

void init_saved_hooks() { unpack_saved = unpack; }

void define_saved_hooks(py::module_& m) {
  define(m, "_push_saved_hooks", [](const py::object& pack, const py::object& unpack) {
    check_hooks(pack.ptr(), unpack.ptr());
    tls_state.saved_hooks = new PythonSavedHooks(pack.ptr(), unpack.ptr(), tls_state.saved_hooks);
  });
  // Is what is saved now wanted before the operator that saves it returns?
  define(m, "_saves_for_now", [] { return detail::is_reversing(); });
  // What allow_mutation_on_saved_tensors packs and unpacks.
  define(m, "_keep_elements", [](const Tensor& t) {
    const auto drop = [](void* kept) { delete static_cast<KeptTensor*>(kept); };
    return py::capsule(new KeptTensor(t), drop);
  });
  define(m, "_kept_elements", [](const py::capsule& kept) { return kept.get_pointer<KeptTensor>()->get(); });
  define(m, "_pop_saved_hooks", [] {
    auto* top = static_cast<PythonSavedHooks*>(tls_state.saved_hooks);
    FACULA_CHECK(top != nullptr, Runtime, "this thread has no hooks of saved tensors");
    tls_state.saved_hooks = top->outer();
    delete top;
  });
}

}  // namespace facula::python
