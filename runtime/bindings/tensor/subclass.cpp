// Operations on objects of a subclass of Tensor give objects of that class, as users of torch expect.
#include "runtime/bindings/arguments/checks.h"
#include "runtime/bindings/arguments/overrides.h"
#include "runtime/bindings/tensor/compound.h"
#include "runtime/bindings/types/types.h"

namespace facula::python {

Flag subclasses_in_use;

namespace {

// Tensors that a module owns say by their `__torch_function__` that what is computed from them is plain.
bool keeps_class(PyTypeObject* type) {
  if constexpr (!kHasGil) return !is_disabling(type);
  static PyTypeObject* last = nullptr;  // held, so that no other class has its address
  static bool last_keeps = false;
  if (type != last) {
    last_keeps = !is_disabling(type);
    Py_INCREF(type);
    Py_XDECREF(std::exchange(last, type));
  }
  return last_keeps;
}

// The class of `o` where that is one to keep and derives from `known`, if there is one.
PyTypeObject* wider(PyTypeObject* known, PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  if (type == tensor_type || type == compound_type || !is_tensor(o) || !keeps_class(type)) return known;
  return known == nullptr || PyType_IsSubtype(type, known) != 0 ? type : known;
}

PyObject* converted(PyTypeObject* type, PyObject* result);

void convert_items(PyTypeObject* type, PyObject** items, Py_ssize_t n) {
  for (Py_ssize_t i = 0; i < n; ++i) items[i] = converted(type, items[i]);
}

// Takes a reference and gives one. Only what the operation has made: no object that somebody knows already.
PyObject* converted(PyTypeObject* type, PyObject* result) {
  if (Py_REFCNT(result) != 1) return result;
  if (Py_TYPE(result) == tensor_type) {
    TensorObject* o = as_tensor_object(result);
    if (o->dict != nullptr || o->weakrefs != nullptr || !o->tensor.defined()) return result;
    Tensor t = std::move(o->tensor);
    t.impl()->pyobject = nullptr;
    Py_DECREF(result);
    return wrap_as(type, std::move(t));
  }
  if (PyTuple_Check(result)) {
    convert_items(type, reinterpret_cast<PyTupleObject*>(result)->ob_item, PyTuple_GET_SIZE(result));
  } else if (PyList_CheckExact(result)) {
    convert_items(type, reinterpret_cast<PyListObject*>(result)->ob_item, PyList_GET_SIZE(result));
  }
  return result;
}

}  // namespace

void note_subclass(PyTypeObject* type) {
  subclasses_in_use.set_if(type != compound_type && keeps_class(type));  // that class's results are its own
  overrides_in_use.set_if(is_overriding(type));
}

PyObject* in_class_of_slots(const FunctionSpec& spec, PyObject* const* slots, PyObject* result) {
  if (result == nullptr || overrides_are_off()) return result;
  PyTypeObject* type = nullptr;
  for (size_t i = 0; i < spec.params.size(); ++i) {
    PyObject* o = slots[i];
    if (o == nullptr || is_varargs(o)) continue;
    if (spec.params[i].type == ArgType::Tensor) {
      type = wider(type, o);
    } else if (PyTuple_Check(o) || PyList_Check(o)) {
      const ItemsOf items(o);
      for (Py_ssize_t k = 0; k < items.size(); ++k) type = wider(type, items[k]);
    }
  }
  return type == nullptr ? result : converted(type, result);
}

PyObject* in_class_of_object(PyObject* self, PyObject* result) {
  PyTypeObject* const type = overrides_are_off() ? nullptr : wider(nullptr, self);
  return result == nullptr || type == nullptr ? result : converted(type, result);
}

}  // namespace facula::python
