// facula.device: a device type's name and an index.
#include "runtime/bindings/devices/default_device.h"
#include "runtime/bindings/types/types.h"

namespace facula::python {

PyTypeObject* device_type = nullptr;

namespace {

struct DeviceObject {
  PyObject_HEAD Device value;
};

PyObject* from_text(std::string_view s) {
  return PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()));
}

Device with_index(Device d, PyObject* index) {
  if (index == nullptr || index == Py_None) return d;
  FACULA_CHECK(d.index < 0, Value, Operator{"device"}, "the index is given twice, in the text and as an argument");
  const long i = PyLong_AsLong(index);
  if (i == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  FACULA_CHECK(i >= 0 && i <= 127, Value, Operator{"device"}, "argument '", Argument{"index"},
               "' must be in [0, 127], but got ", i);
  d.index = static_cast<int8_t>(i);
  return d;
}

PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"type", "index", nullptr};
  PyObject* type = nullptr;
  PyObject* index = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", const_cast<char**>(names), &type, &index)) {
    return nullptr;
  }
  FACULA_PY_TRY
  FACULA_CHECK(Py_TYPE(type) == device_type || PyUnicode_Check(type) || PyLong_Check(type), Type, Operator{"device"},
               "argument '", Argument{"type"}, "' must be a str such as 'cpu' or 'cpu:0', not ",
               Py_TYPE(type)->tp_name);
  return wrap(with_index(device_value(type), index));
  FACULA_PY_END(nullptr)
}

PyObject* device_str(PyObject* self) { return from_text(to_string(device_value(self))); }
PyObject* device_repr(PyObject* self) {
  FACULA_PY_TRY
  const Device d = device_value(self);
  std::string text = concat("device(type='", device_type_name(d.type), "'");
  if (d.index >= 0) text += concat(", index=", int{d.index});
  return from_text(text + ")");
  FACULA_PY_END(nullptr)
}
Py_hash_t device_hash(PyObject* self) {
  const Device d = device_value(self);
  return (static_cast<Py_hash_t>(d.type) << 8) + d.index + 2;
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != device_type || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  const bool equal = device_value(a) == device_value(b);
  return PyBool_FromLong(equal == (op == Py_EQ));
}
PyObject* device_type_getter(PyObject* self, void*) { return from_text(device_type_name(device_value(self).type)); }
PyObject* device_index(PyObject* self, void*) {
  const Device d = device_value(self);
  if (d.index < 0) Py_RETURN_NONE;
  return PyLong_FromLong(d.index);
}
PyObject* device_reduce(PyObject* self, PyObject*) {
  return Py_BuildValue("O(N)", reinterpret_cast<PyObject*>(device_type), device_str(self));
}

PyObject* device_enter(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  push_default_device(device_value(self));
  return Py_NewRef(self);
  FACULA_PY_END(nullptr)
}
PyObject* device_exit(PyObject*, PyObject*) {
  pop_default_device();
  Py_RETURN_NONE;
}
// As a decorator.
PyObject* device_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  FACULA_PY_TRY
  PyObject* function = nullptr;
  static const char* const names[] = {"func", nullptr};
  if (PyArg_ParseTupleAndKeywords(args, kwargs, "O:device", const_cast<char**>(names), &function) == 0) {
    throw PythonError();
  }
  Ref decorate = import_attribute("facula.autograd.grad_mode", "_decorate");
  // the switch is made anew for each call: it is the device itself
  Ref make(check(PyObject_GetAttrString(self, "_itself")));
  return check(PyObject_CallFunctionObjArgs(decorate.get(), make.get(), function, nullptr));
  FACULA_PY_END(nullptr)
}
PyObject* device_itself(PyObject* self, PyObject*) { return Py_NewRef(self); }

PyMethodDef device_methods[] = {
    {"__reduce__", device_reduce, METH_NOARGS, nullptr},
    {"__enter__", device_enter, METH_NOARGS, "__enter__($self)\n--\n\nMake tensors here until __exit__."},
    {"__exit__", device_exit, METH_VARARGS, nullptr},
    {"_itself", device_itself, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef device_properties[] = {
    {"type", device_type_getter, nullptr, "Name of the device type, such as 'cpu'.", nullptr},
    {"index", device_index, nullptr, "Number of the device, or None for the current one of its type.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot device_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(device_new)},
    {Py_tp_repr, reinterpret_cast<void*>(device_repr)},
    {Py_tp_str, reinterpret_cast<void*>(device_str)},
    {Py_tp_hash, reinterpret_cast<void*>(device_hash)},
    {Py_tp_richcompare, reinterpret_cast<void*>(device_compare)},
    {Py_tp_methods, device_methods},
    {Py_tp_call, reinterpret_cast<void*>(device_call)},
    {Py_tp_getset, device_properties},
    {Py_tp_doc, const_cast<char*>("device(type, index=None)\n--\n\nWhere a tensor's memory is: 'cpu', 'cpu:0', ...\n\n"
                                  "`with device:` makes tensors there that are made without a device.")},
    {0, nullptr},
};
PyType_Spec device_spec = {"facula.device", sizeof(DeviceObject), 0, Py_TPFLAGS_DEFAULT, device_slots};

}  // namespace

PyObject* wrap(Device d) {
  auto* o = reinterpret_cast<DeviceObject*>(device_type->tp_alloc(device_type, 0));
  if (o != nullptr) o->value = d;
  return reinterpret_cast<PyObject*>(o);
}

// An index alone is one of the accelerator.
static Device of_accelerator(PyObject* index) {
  const Ref function = import_attribute("facula.backends", "current_accelerator");
  const Ref found(check(PyObject_CallNoArgs(function.get())));
  FACULA_CHECK(found.get() != Py_None, Runtime, "an index alone is one of the accelerator, and there is none; ",
               "name the device, as in 'cpu' or 'acme:0'");
  return with_index(device_value(found.get()), index);
}

Device device_value(PyObject* o) {
  if (Py_TYPE(o) == device_type) return reinterpret_cast<DeviceObject*>(o)->value;
  if (PyUnicode_Check(o)) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(o, &size);
    if (text == nullptr) throw PythonError();
    return parse_device({text, static_cast<size_t>(size)});
  }
  return PyLong_Check(o) ? of_accelerator(o) : with_index(Device{}, o);
}

bool init_device_type(PyObject* module) {
  device_type = add_type(module, &device_spec);
  return device_type != nullptr;
}

}  // namespace facula::python
