// facula.Size: the tuple that shapes are, and the named tuples that operators with several results
// return.
#include "runtime/bindings/types/types.h"

namespace facula::python {

PyTypeObject* size_type = nullptr;

namespace {

PyObject* return_types = nullptr;

PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  Ref self(PyTuple_Type.tp_new(type, args, kwargs));
  if (!self) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self.get()); ++i) {
    PyObject* item = PyTuple_GET_ITEM(self.get(), i);
    if (PyLong_Check(item)) continue;
    PyObject* index = PyNumber_Index(item);
    if (index == nullptr) {
      PyErr_Format(PyExc_TypeError, "Size(): element %zd must be an int, not %s", i, Py_TYPE(item)->tp_name);
      return nullptr;
    }
    PyTuple_SET_ITEM(self.get(), i, index);
    Py_DECREF(item);
  }
  return self.release();
}

PyObject* size_repr(PyObject* self) {
  std::string text = concat(spoken_name, ".Size([");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
    if (i > 0) text += ", ";
    const int64_t v = PyLong_AsLongLong(PyTuple_GET_ITEM(self, i));
    if (v == -1 && PyErr_Occurred() != nullptr) return nullptr;
    text += std::to_string(v);
  }
  text += "])";
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyObject* size_numel(PyObject* self, PyObject*) {
  Ref product(PyLong_FromLong(1));
  for (Py_ssize_t i = 0; product && i < PyTuple_GET_SIZE(self); ++i) {
    product = Ref(PyNumber_Multiply(product.get(), PyTuple_GET_ITEM(self, i)));
  }
  return product.release();
}

PyObject* as_size(PyObject* o) {
  if (o == nullptr || !PyTuple_CheckExact(o)) return o;
  Ref tuple(o);
  return PyObject_CallOneArg(reinterpret_cast<PyObject*>(size_type), tuple.get());
}
PyObject* size_concat(PyObject* a, PyObject* b) { return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b)); }
PyObject* size_repeat(PyObject* a, Py_ssize_t n) { return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(a, n)); }
PyObject* size_subscript(PyObject* self, PyObject* key) {
  PyObject* o = PyTuple_Type.tp_as_mapping->mp_subscript(self, key);
  return PySlice_Check(key) ? as_size(o) : o;
}
PyObject* size_reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(N)", reinterpret_cast<PyObject*>(size_type), PySequence_Tuple(self));
}

PyMethodDef size_methods[] = {
    {"numel", size_numel, METH_NOARGS, "numel($self, /)\n--\n\nNumber of elements of a tensor of this shape."},
    {"__reduce__", size_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot size_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(size_new)},
    {Py_tp_repr, reinterpret_cast<void*>(size_repr)},
    {Py_tp_methods, size_methods},
    {Py_sq_concat, reinterpret_cast<void*>(size_concat)},
    {Py_sq_repeat, reinterpret_cast<void*>(size_repeat)},
    {Py_mp_subscript, reinterpret_cast<void*>(size_subscript)},
    {Py_tp_doc, const_cast<char*>("The shape of a tensor: a tuple of ints.")},
    {0, nullptr},
};
PyType_Spec size_spec = {"facula.Size", 0, 0, Py_TPFLAGS_DEFAULT, size_slots};

}  // namespace

PyObject* wrap(IntList sizes) {
  PyObject* o = size_type->tp_alloc(size_type, static_cast<Py_ssize_t>(sizes.size()));
  if (o == nullptr) return nullptr;
#if PY_VERSION_HEX >= 0x030E0000
  reinterpret_cast<PyTupleObject*>(o)->ob_hash = -1;  // not yet known: tuples keep theirs from 3.14 on
#endif
  for (size_t i = 0; i < sizes.size(); ++i) {
    PyObject* v = PyLong_FromLongLong(sizes[i]);
    if (v == nullptr) {
      Py_DECREF(o);
      return nullptr;
    }
    PyTuple_SET_ITEM(o, static_cast<Py_ssize_t>(i), v);
  }
  return o;
}

PyTypeObject* make_return_type(const char* name, std::span<const char* const> fields) {
  std::vector<PyStructSequence_Field> described;
  for (const char* field : fields) described.push_back({field, nullptr});
  described.push_back({nullptr, nullptr});
  // Python keeps the pointer of the name: types made here live as long as the process.
  const auto* full = new std::string(concat("facula.return_types.", name));
  PyStructSequence_Desc desc = {full->c_str(), nullptr, described.data(), static_cast<int>(fields.size())};
  PyTypeObject* type = PyStructSequence_NewType(&desc);
  if (type == nullptr) throw PythonError();
  if (return_types != nullptr) {
    check(PyModule_AddObjectRef(return_types, name, reinterpret_cast<PyObject*>(type)));
  }
  return type;
}

PyObject* wrap_named(PyTypeObject* type, std::span<Tensor> fields) {
  PyObject* o = PyStructSequence_New(type);
  if (o == nullptr) return nullptr;
  for (size_t i = 0; i < fields.size(); ++i) {
    PyObject* v = wrap(std::move(fields[i]));
    if (v == nullptr) {
      Py_DECREF(o);
      return nullptr;
    }
    PyStructSequence_SetItem(o, static_cast<Py_ssize_t>(i), v);
  }
  return o;
}

bool init_size_type(PyObject* module) {
  size_type = add_type(module, &size_spec, reinterpret_cast<PyObject*>(&PyTuple_Type));
  return size_type != nullptr;
}

bool init_return_types(PyObject* module) {
  return_types = PyModule_New("facula.return_types");
  return return_types != nullptr && PyModule_AddObjectRef(module, "return_types", return_types) == 0;
}

}  // namespace facula::python
