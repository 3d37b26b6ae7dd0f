// Pickling and copying of tensors.
#include "runtime/autograd/engine.h"
#include "runtime/autograd/meta.h"
#include "runtime/bindings/types/types.h"
#include "runtime/iterate/strided.h"

namespace facula::python {

namespace {

PyObject* module_function(const char* name) { return import_attribute("facula._C", name).release(); }

// The dict of its attributes, null without one.
Ref attributes_of(PyObject* self) {
  Ref dict;
  Py_BEGIN_CRITICAL_SECTION(self);
  dict = Ref::borrow(as_tensor_object(self)->dict);
  Py_END_CRITICAL_SECTION();
  return dict;
}

// A pickled tensor holds its own elements, not the storage that it may be a small view of.
PyObject* method_reduce(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  check_memory(t, "pickle");
  FACULA_CHECK(is_leaf(t), Runtime, "pickle: the tensor has a history that would be lost; pickle t.detach() instead");
  Ref bytes(Py_None);
  Py_INCREF(Py_None);
  if (!t.is_meta()) {
    const Tensor source = to_cpu(detach(t));
    bytes = Ref(check(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(t.nbytes()))));
    Tensor target = from_storage(StorageImpl::wrap(
                                     PyBytes_AS_STRING(bytes.get()), t.nbytes(), Device{kCPU}, [](void*) {}, nullptr),
                                 t.sizes(), contiguous_strides(t.sizes()), 0, t.dtype());
    copy_strided(target, source);
  }
  Ref rebuild(module_function("_rebuild_tensor"));
  Ref sizes(check(wrap(t.sizes())));
  Ref device(check(wrap(t.device())));
  Ref state(Py_None);
  Py_INCREF(Py_None);
  if (Ref dict = attributes_of(self); dict && PyDict_Size(dict.get()) > 0) state = std::move(dict);
  return check(Py_BuildValue("O(OOOOOO)O", rebuild.get(), reinterpret_cast<PyObject*>(Py_TYPE(self)), bytes.get(),
                             sizes.get(), dtype_object(t.dtype()), device.get(), t.requires_grad() ? Py_True : Py_False,
                             state.get()));
  FACULA_PY_END(nullptr)
}

PyObject* method_copy(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  Tensor copy = detach(t);
  if (t.requires_grad()) set_requires_grad(copy, true);
  Ref result(check(wrap_as(Py_TYPE(self), std::move(copy))));
  if (const Ref dict = attributes_of(self)) {
    as_tensor_object(result.get())->dict = check(PyDict_Copy(dict.get()));
    track(result.get());
  }
  return result.release();
  FACULA_PY_END(nullptr)
}

// A tensor of the same values, without a history.
Tensor copy_of(const Tensor& t, PyObject* memo) {
  FACULA_CHECK(PyDict_Check(memo), Type, Operator{"__deepcopy__"}, "argument '", Argument{"memo"}, "' must be a dict");
  // Memory that others hold as well is copied whole, and once in a memo: what shared it shares it again.
  if (!t.is_wrapped() && t.storage()->users() > 1) {
    return from_storage(deep_copy(t.storage(), memo), t.sizes(), t.strides(), t.offset(), t.dtype());
  }
  GradMode off(false);
  return core_operators().clone(detach(t));
}

// For classes whose deep copies are their own: `_deep_copy(tensor, memo)`.
PyObject* deep_copy_function(PyObject*, PyObject* args) {
  PyObject *self, *memo;
  if (!PyArg_ParseTuple(args, "O!O:_deep_copy", tensor_type, &self, &memo)) return nullptr;
  FACULA_PY_TRY
  return check(wrap(copy_of(tensor_of(self), memo)));
  FACULA_PY_END(nullptr)
}

PyObject* method_deepcopy(PyObject* self, PyObject* memo) {
  FACULA_PY_TRY
  FACULA_CHECK(PyDict_Check(memo), Type, Operator{"__deepcopy__"}, "argument '", Argument{"memo"}, "' must be a dict");
  Ref id(check(PyLong_FromVoidPtr(self)));
  if (Ref known = dict_item(memo, id.get())) return known.release();
  if (PyErr_Occurred() != nullptr) throw PythonError();
  const Tensor& t = tensor_of(self);
  FACULA_CHECK(
      is_leaf(t), Runtime, Operator{"deepcopy"},
      "only tensors that the user made can be copied, not results of recorded operations; use t.detach().clone()");
  Tensor copy = copy_of(t, memo);
  Ref result;
  if (copy.impl()->pyobject == nullptr) {
    if (t.requires_grad()) set_requires_grad(copy, true);
    result = Ref(check(wrap_as(Py_TYPE(self), std::move(copy))));
  } else {
    result = Ref(check(wrap(std::move(copy))));
  }
  check(PyDict_SetItem(memo, id.get(), result.get()));
  Ref deepcopy = import_attribute("copy", "deepcopy");
  if (Tensor own = grad_of(t); own.defined()) {
    Ref grad(check(wrap(std::move(own))));
    Ref copied(check(PyObject_CallFunctionObjArgs(deepcopy.get(), grad.get(), memo, nullptr)));
    check(PyObject_SetAttrString(result.get(), "grad", copied.get()));
  }
  if (const Ref dict = attributes_of(self); dict && PyDict_Size(dict.get()) > 0) {
    Ref copied(check(PyObject_CallFunctionObjArgs(deepcopy.get(), dict.get(), memo, nullptr)));
    Py_XSETREF(as_tensor_object(result.get())->dict, copied.release());
    track(result.get());
  }
  return result.release();
  FACULA_PY_END(nullptr)
}

PyObject* method_setstate(PyObject* self, PyObject* state) {
  FACULA_PY_TRY
  if (state == Py_None) Py_RETURN_NONE;
  FACULA_CHECK(PyDict_Check(state), Type, Operator{"__setstate__"}, "the state must be a dict");
  track(self);
  Ref dict(check(PyObject_GenericGetDict(self, nullptr)));
  check(PyDict_Update(dict.get(), state));
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

// Also used by pickles of earlier processes: the argument list only grows.
PyObject* rebuild_tensor(PyObject*, PyObject* args) {
  PyObject *type, *bytes, *sizes, *dtype, *device;
  int requires_grad = 0;
  if (!PyArg_ParseTuple(args, "O!OO!O!Op:_rebuild_tensor", &PyType_Type, &type, &bytes, &PyTuple_Type, &sizes,
                        dtype_type, &dtype, &device, &requires_grad)) {
    return nullptr;
  }
  FACULA_PY_TRY
  FACULA_CHECK(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type), Type, Operator{"_rebuild_tensor"},
               "the class is no subclass of Tensor");
  DimVector shape;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes); ++i) {
    const int64_t v = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i));
    if (v == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    FACULA_CHECK(v >= 0, Value, Operator{"_rebuild_tensor"}, "negative size ", v);
    shape.push_back(v);
  }
  const Device d = device_value(device);
  Tensor t = make_empty(shape, dtype_value(dtype), bytes == Py_None ? d : Device{kCPU});
  if (bytes != Py_None) {
    Py_buffer view;
    check(PyObject_GetBuffer(bytes, &view, PyBUF_SIMPLE));
    const bool fits = static_cast<size_t>(view.len) == t.nbytes();
    if (fits && view.len > 0) std::memcpy(t.raw(), view.buf, static_cast<size_t>(view.len));
    PyBuffer_Release(&view);
    FACULA_CHECK(fits, Value, Operator{"_rebuild_tensor"}, t.nbytes(), " bytes are needed for shape ",
                 shape_string(shape), ", but ", view.len, " were given");
    if (d.type != kCPU) t = core_operators().cast(t, t.dtype(), d);
  }
  if (requires_grad != 0) set_requires_grad(t, true);
  return wrap_as(reinterpret_cast<PyTypeObject*>(type), std::move(t));
  FACULA_PY_END(nullptr)
}

}  // namespace

const PyMethodDef tensor_copy_methods[] = {
    {"__reduce_ex__", method_reduce, METH_O, nullptr},
    {"__copy__", method_copy, METH_NOARGS, nullptr},
    {"__deepcopy__", method_deepcopy, METH_O, nullptr},
    {"__setstate__", method_setstate, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
const PyMethodDef copy_functions[] = {
    {"_rebuild_tensor", rebuild_tensor, METH_VARARGS, nullptr},
    {"_deep_copy", deep_copy_function, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
