// facula.dtype, memory formats and layouts: immutable singletons.
#include "runtime/bindings/tensor/compound.h"
#include "runtime/bindings/types/types.h"

namespace facula::python {

PyTypeObject* dtype_type = nullptr;
PyTypeObject* memory_format_type = nullptr;
PyTypeObject* layout_type = nullptr;

namespace {

struct DtypeObject {
  PyObject_HEAD ScalarType value;
};
struct NamedObject {
  PyObject_HEAD const char* name;  // with "facula."
  MemoryFormat value;
};

PyObject* dtypes[kNumScalarTypes] = {};
PyObject* memory_formats[4] = {};
PyObject* strided = nullptr;

struct Alias {
  const char* name;
  ScalarType type;
};
constexpr Alias kAliases[] = {
    {"float", ScalarType::Float32},    {"double", ScalarType::Float64},     {"half", ScalarType::Float16},
    {"int", ScalarType::Int32},        {"long", ScalarType::Int64},         {"short", ScalarType::Int16},
    {"cfloat", ScalarType::Complex64}, {"cdouble", ScalarType::Complex128},
};
constexpr const char* kLayoutNames[] = {"facula.strided",    "facula.sparse_coo", "facula.sparse_csr",
                                        "facula.sparse_csc", "facula.sparse_bsr", "facula.sparse_bsc"};
constexpr const char* kFormatNames[] = {"facula.contiguous_format", "facula.preserve_format", "facula.channels_last",
                                        "facula.channels_last_3d"};

PyObject* dtype_repr(PyObject* self) {
  const std::string text = concat(spoken_name, ".", dtype_name(dtype_value(self)));
  return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}
// Pickle finds a singleton again by its name in the package.
PyObject* dtype_reduce(PyObject* self, PyObject*) {
  const std::string_view name = dtype_name(dtype_value(self));
  return PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
}
PyObject* dtype_is_floating(PyObject* self, void*) { return PyBool_FromLong(is_floating(dtype_value(self))); }
PyObject* dtype_is_complex(PyObject* self, void*) { return PyBool_FromLong(is_complex(dtype_value(self))); }
PyObject* dtype_is_signed(PyObject* self, void*) {
  const ScalarType t = dtype_value(self);
  return PyBool_FromLong(t != ScalarType::Bool && !is_unsigned(t));
}
PyObject* dtype_itemsize(PyObject* self, void*) { return PyLong_FromSize_t(itemsize(dtype_value(self))); }
PyObject* dtype_to_real(PyObject* self, PyObject*) { return wrap(to_real(dtype_value(self))); }
PyObject* dtype_to_complex(PyObject* self, PyObject*) { return wrap(to_complex(dtype_value(self))); }

PyMethodDef dtype_methods[] = {
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {"to_real", dtype_to_real, METH_NOARGS, "to_real($self, /)\n--\n\nThe real dtype of a complex one's parts."},
    {"to_complex", dtype_to_complex, METH_NOARGS,
     "to_complex($self, /)\n--\n\nThe complex dtype whose parts have this dtype."},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef dtype_properties[] = {
    {"is_floating_point", dtype_is_floating, nullptr, "Is it a float, of 8 bits to 64?", nullptr},
    {"is_complex", dtype_is_complex, nullptr, "True for complex64 and complex128.", nullptr},
    {"is_signed", dtype_is_signed, nullptr, "Can it hold negative numbers?", nullptr},
    {"itemsize", dtype_itemsize, nullptr, "Bytes per element.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot dtype_slots[] = {
    {Py_tp_repr, reinterpret_cast<void*>(dtype_repr)},
    {Py_tp_methods, dtype_methods},
    {Py_tp_getset, dtype_properties},
    {Py_tp_doc, const_cast<char*>("The type of a tensor's elements.")},
    {0, nullptr},
};
PyType_Spec dtype_spec = {"facula.dtype", sizeof(DtypeObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, dtype_slots};

PyObject* named_repr(PyObject* self) {
  const char* name = reinterpret_cast<NamedObject*>(self)->name;
  return PyUnicode_FromFormat("%s.%s", spoken_name, name + sizeof("facula.") - 1);
}
PyObject* named_reduce(PyObject* self, PyObject*) {
  return PyUnicode_FromString(reinterpret_cast<NamedObject*>(self)->name + sizeof("facula.") - 1);
}
PyMethodDef named_methods[] = {{"__reduce__", named_reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyType_Slot named_slots[] = {
    {Py_tp_repr, reinterpret_cast<void*>(named_repr)},
    {Py_tp_methods, named_methods},
    {0, nullptr},
};
PyType_Spec format_spec = {"facula.memory_format", sizeof(NamedObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, named_slots};
PyType_Spec layout_spec = {"facula.layout", sizeof(NamedObject), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, named_slots};

template <typename Object>
Object* make(PyTypeObject* type) {
  return reinterpret_cast<Object*>(type->tp_alloc(type, 0));
}

bool add(PyObject* module, const char* name, PyObject* o) { return PyModule_AddObjectRef(module, name, o) == 0; }

}  // namespace

ScalarType dtype_value(PyObject* o) { return reinterpret_cast<DtypeObject*>(o)->value; }
PyObject* dtype_object(ScalarType t) { return dtypes[static_cast<size_t>(t)]; }
PyObject* wrap(ScalarType t) {
  PyObject* o = dtype_object(t);
  Py_INCREF(o);
  return o;
}
MemoryFormat memory_format_value(PyObject* o) { return reinterpret_cast<NamedObject*>(o)->value; }
PyObject* memory_format_object(MemoryFormat f) { return memory_formats[static_cast<size_t>(f)]; }
PyObject* strided_layout() { return strided; }

bool init_dtype_types(PyObject* module) {
  dtype_type = add_type(module, &dtype_spec);
  memory_format_type = add_type(module, &format_spec);
  layout_type = add_type(module, &layout_spec);
  if (dtype_type == nullptr || memory_format_type == nullptr || layout_type == nullptr) return false;

  for (int i = 0; i < kNumScalarTypes; ++i) {
    auto* o = make<DtypeObject>(dtype_type);
    if (o == nullptr) return false;
    o->value = static_cast<ScalarType>(i);
    dtypes[i] = reinterpret_cast<PyObject*>(o);
    if (!add(module, std::string(dtype_name(o->value)).c_str(), dtypes[i])) return false;
  }
  for (const Alias& a : kAliases) {
    if (!add(module, a.name, dtype_object(a.type))) return false;
  }
  for (size_t i = 0; i < 4; ++i) {
    auto* o = make<NamedObject>(memory_format_type);
    if (o == nullptr) return false;
    o->name = kFormatNames[i];
    o->value = static_cast<MemoryFormat>(i);
    memory_formats[i] = reinterpret_cast<PyObject*>(o);
    if (!add(module, o->name + sizeof("facula.") - 1, memory_formats[i])) return false;
  }
  for (const char* name : kLayoutNames) {
    auto* o = make<NamedObject>(layout_type);
    if (o == nullptr) return false;
    o->name = name;
    if (strided == nullptr) strided = reinterpret_cast<PyObject*>(o);
    if (!add(module, name + sizeof("facula.") - 1, reinterpret_cast<PyObject*>(o))) return false;
  }
  return true;
}

}  // namespace facula::python
