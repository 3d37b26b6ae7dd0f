// facula.UntypedStorage: the bytes behind tensors.
#include "runtime/bindings/types/types.h"

namespace facula::python {

namespace {

PyTypeObject* storage_type = nullptr;

struct StorageObject {
  PyObject_HEAD Storage value;
};
Storage& storage(PyObject* o) { return reinterpret_cast<StorageObject*>(o)->value; }

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  storage(self).~Storage();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* get_nbytes(PyObject* self, PyObject*) { return PyLong_FromSize_t(storage(self)->nbytes()); }
PyObject* get_data_ptr(PyObject* self, PyObject*) { return PyLong_FromVoidPtr(storage(self)->data()); }
PyObject* get_device(PyObject* self, void*) { return wrap(storage(self)->device()); }
Py_ssize_t get_length(PyObject* self) { return static_cast<Py_ssize_t>(storage(self)->nbytes()); }

// Of the same memory, whatever `.data` gave a version of its own.
PyObject* compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != storage_type || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return PyBool_FromLong(storage(a)->shares_with(*storage(b)) == (op == Py_EQ));
}
Py_hash_t get_hash(PyObject* self) {
  return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(storage(self)->owner()) >> 4);
}

// The bytes as a tensor.
Tensor bytes_of(const Storage& s) {
  return from_storage(s, {static_cast<int64_t>(s->nbytes())}, {1}, 0, ScalarType::UInt8);
}

PyObject* copy(PyObject* self, PyObject*) { return wrap_storage(storage(self)); }

PyObject* deep_copy_method(PyObject* self, PyObject* memo) {
  FACULA_PY_TRY
  FACULA_CHECK(PyDict_Check(memo), Type, Operator{"__deepcopy__"}, "argument '", Argument{"memo"}, "' must be a dict");
  return wrap_storage(deep_copy(storage(self), memo));
  FACULA_PY_END(nullptr)
}

// As a tensor of the bytes, which knows how to pickle itself.
PyObject* reduce(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  const Ref rebuild = import_attribute("facula._C", "_rebuild_storage");
  const Ref bytes(check(wrap(bytes_of(storage(self)))));
  return check(Py_BuildValue("O(O)", rebuild.get(), bytes.get()));
  FACULA_PY_END(nullptr)
}
PyObject* rebuild_storage(PyObject*, PyObject* bytes) {
  FACULA_PY_TRY
  FACULA_CHECK(is_tensor(bytes), Type, Operator{"_rebuild_storage"}, "argument '", Argument{"bytes"},
               "' must be a Tensor, not ", Py_TYPE(bytes)->tp_name);
  return wrap_storage(tensor_of(bytes).storage());
  FACULA_PY_END(nullptr)
}

PyMethodDef methods[] = {
    {"nbytes", get_nbytes, METH_NOARGS, "nbytes($self, /)\n--\n\nSize in bytes."},
    {"size", get_nbytes, METH_NOARGS, "size($self, /)\n--\n\nSize in bytes."},
    {"data_ptr", get_data_ptr, METH_NOARGS, "data_ptr($self, /)\n--\n\nAddress of the first byte."},
    {"__copy__", copy, METH_NOARGS, nullptr},
    {"__deepcopy__", deep_copy_method, METH_O, nullptr},
    {"__reduce_ex__", reduce, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef properties[] = {
    {"device", get_device, nullptr, "The device of the memory.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_methods, methods},
    {Py_tp_getset, properties},
    {Py_sq_length, reinterpret_cast<void*>(get_length)},
    {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
    {Py_tp_hash, reinterpret_cast<void*>(get_hash)},
    {Py_tp_doc, const_cast<char*>("The bytes that one or more tensors share.")},
    {0, nullptr},
};
PyType_Spec spec = {"facula.UntypedStorage", sizeof(StorageObject), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

}  // namespace

PyObject* wrap_storage(const Storage& s) {
  auto* o = reinterpret_cast<StorageObject*>(storage_type->tp_alloc(storage_type, 0));
  if (o != nullptr) new (&o->value) Storage(s);
  return reinterpret_cast<PyObject*>(o);
}

// The memo keeps the original too, so that its address stays its own.
Storage deep_copy(const Storage& s, PyObject* memo) {
  const Ref key(check(PyLong_FromVoidPtr(const_cast<StorageImpl*>(s->owner()))));
  Ref kept = dict_item(memo, key.get());
  if (PyErr_Occurred() != nullptr) throw PythonError();
  if (!kept) {
    const Storage fresh = StorageImpl::allocate(s->nbytes(), s->device());
    if (fresh->data() != nullptr) {
      allocator_of(s->device().type).copy(fresh->data(), s->data(), s->nbytes(), s->device());
    }
    const Ref copied(check(wrap_storage(fresh))), original(check(wrap_storage(s)));
    kept = Ref(check(PyTuple_Pack(2, copied.get(), original.get())));
    check(PyDict_SetItem(memo, key.get(), kept.get()));
  }
  return storage(PyTuple_GET_ITEM(kept.get(), 0));
}

bool init_storage_type(PyObject* module) {
  storage_type = add_type(module, &spec);
  return storage_type != nullptr;
}

const PyMethodDef storage_functions[] = {
    {"_rebuild_storage", rebuild_storage, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
