// Compounds: tensors made of others, for which a class written in Python answers every call.
#include "runtime/bindings/tensor/compound.h"

#include "runtime/dispatch/compound.h"

namespace facula::python {

PyTypeObject* compound_type = nullptr;

namespace {

PyObject* answering = nullptr;  // answer(schema, variant, args), of the class

template <typename List, typename F>
PyObject* tuple_of(const List& list, const F& object) {
  Ref t(check(PyTuple_New(static_cast<Py_ssize_t>(list.size()))));
  for (size_t i = 0; i < list.size(); ++i)
    PyTuple_SET_ITEM(t.get(), static_cast<Py_ssize_t>(i), check(object(list[i])));
  return t.release();
}

PyObject* object_of(const Tensor& t, const char* op) {
  return t.defined() && t.is_wrapped_number() ? wrap(item_of(t, op)) : wrap(Tensor(t));
}

PyObject* object_of(const KernelArg& arg, const char* op) {
  using Kind = KernelArg::Kind;
  if (arg.at == nullptr) return Py_NewRef(Py_None);
  switch (arg.kind) {
    case Kind::Tensor:
      return object_of(*static_cast<const Tensor*>(arg.at), op);
    case Kind::Tensors:
      return tuple_of(*static_cast<const TensorList*>(arg.at), [&](const Tensor& t) { return object_of(t, op); });
    case Kind::Int:
      return wrap(*static_cast<const int64_t*>(arg.at));
    case Kind::Float:
      return wrap(*static_cast<const double*>(arg.at));
    case Kind::Bool:
      return wrap(*static_cast<const bool*>(arg.at));
    case Kind::String: {
      const auto& text = *static_cast<const std::string_view*>(arg.at);
      return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    }
    case Kind::Scalar:
      return wrap(*static_cast<const Scalar*>(arg.at));
    case Kind::Type:
      return wrap(*static_cast<const ScalarType*>(arg.at));
    case Kind::Device:
      return wrap(*static_cast<const Device*>(arg.at));
    case Kind::Format:
      return Py_NewRef(memory_format_object(*static_cast<const MemoryFormat*>(arg.at)));
    case Kind::Generator:
      return wrap(*static_cast<const Generator*>(arg.at));
    case Kind::Ints:
      return wrap(*static_cast<const IntList*>(arg.at));
    case Kind::Bools:
      return tuple_of(*static_cast<const std::vector<bool>*>(arg.at), [](bool b) { return wrap(b); });
  }
  Py_RETURN_NONE;
}

Value value_of(PyObject* o) {
  if (is_tensor(o)) return tensor_of(o);
  if (PyBool_Check(o)) return o == Py_True;
  if (PyLong_Check(o)) {
    const long long v = PyLong_AsLongLong(o);
    if (v == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    return static_cast<int64_t>(v);
  }
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (PyTuple_Check(o) || PyList_Check(o)) {
    std::vector<Tensor> list;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(o, i);
      FACULA_CHECK(is_tensor(item), Type, "a list of results holds ", Py_TYPE(item)->tp_name, ", expected Tensors");
      list.push_back(tensor_of(item));
    }
    return list;
  }
  return Tensor();
}

void call(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, Stack& results) {
  AcquireGil gil;
  const Ref list(tuple_of(args, [&](const KernelArg& arg) { return object_of(arg, op.name); }));
  const Ref result(check(PyObject_CallFunction(answering, "siO", op.schema, static_cast<int>(variant), list.get())));
  results.clear();
  if (op.outputs > 1 && PyTuple_Check(result.get())) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result.get()); ++i) {
      results.push_back(value_of(PyTuple_GET_ITEM(result.get(), i)));
    }
  } else {
    results.push_back(value_of(result.get()));
  }
}

// _set_compound_class(class, answer)
PyObject* set_class(PyObject*, PyObject* args) {
  PyObject *type, *answer;
  if (!PyArg_ParseTuple(args, "O!O:_set_compound_class", &PyType_Type, &type, &answer)) return nullptr;
  FACULA_PY_TRY
  FACULA_CHECK(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type), Type,
               Operator{"_set_compound_class"}, "the class is no subclass of Tensor");
  Py_XSETREF(answering, Py_NewRef(answer));
  Py_XSETREF(compound_type, reinterpret_cast<PyTypeObject*>(Py_NewRef(type)));
  call_compound = call;
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

// _make_compound(sizes, kind, parts): a tensor of the class.
PyObject* make(PyObject*, PyObject* args) {
  PyObject *sizes, *parts;
  long long kind = 0;
  if (!PyArg_ParseTuple(args, "O!LO!:_make_compound", &PyTuple_Type, &sizes, &kind, &PyTuple_Type, &parts)) {
    return nullptr;
  }
  FACULA_PY_TRY
  FACULA_CHECK(compound_type != nullptr && PyTuple_GET_SIZE(parts) > 0, Runtime, Operator{"_make_compound"},
               "takes parts, and a class that answers");
  DimVector shape;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes); ++i) {
    const long long v = PyLong_AsLongLong(PyTuple_GET_ITEM(sizes, i));
    if (v == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    FACULA_CHECK(v >= 0, Value, Operator{"_make_compound"}, "sizes must not be negative, but one is ", v);
    shape.push_back(v);
  }
  Compound made;
  made.kind = kind;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); ++i) {
    PyObject* part = PyTuple_GET_ITEM(parts, i);
    FACULA_CHECK(is_tensor(part) && !is_compound(tensor_of(part)), Type, Operator{"_make_compound"},
                 "parts must be strided Tensors, not ", Py_TYPE(part)->tp_name);
    made.parts.push_back(tensor_of(part));
  }
  return wrap(make_compound(shape, std::move(made)));
  FACULA_PY_END(nullptr)
}

// _compound_parts(tensor): (kind, parts), or None of other tensors.
PyObject* parts_of(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  if (!is_tensor(o) || !is_compound(tensor_of(o))) Py_RETURN_NONE;
  const std::shared_ptr<const Compound> compound = compound_of(tensor_of(o));
  const Ref parts(check(wrap(compound->parts)));
  return Py_BuildValue("(LO)", static_cast<long long>(compound->kind), parts.get());
  FACULA_PY_END(nullptr)
}

// _become_compound(tensor, other): the tensor is made of what the other is made of, in its place.
PyObject* become(PyObject*, PyObject* args) {
  PyObject *self, *other;
  if (!PyArg_ParseTuple(args, "O!O!:_become_compound", compound_type, &self, compound_type, &other)) return nullptr;
  FACULA_PY_TRY
  const Tensor &t = tensor_of(self), &from = tensor_of(other);
  FACULA_CHECK(is_compound(t) && is_compound(from) && t.dtype() == from.dtype(), Dtype, Operator{"_become_compound"},
               "a result of dtype ", dtype_name(from.dtype()), " cannot be written to a tensor of dtype ",
               dtype_name(t.dtype()));
  const CompoundWrapping old = static_cast<const CompoundWrapping&>(*t.impl()->wrapping);  // dropped after the change
  const Changing changing(t);
  static_cast<CompoundWrapping&>(*t.impl()->wrapping) = static_cast<const CompoundWrapping&>(*from.impl()->wrapping);
  t.impl()->sizes = from.impl()->sizes;
  t.impl()->strides = from.impl()->strides;
  t.impl()->device = from.impl()->device;
  t.impl()->refresh();
  return Py_NewRef(self);
  FACULA_PY_END(nullptr)
}

}  // namespace

const PyMethodDef compound_functions[] = {
    {"_set_compound_class", set_class, METH_VARARGS, nullptr},
    {"_make_compound", make, METH_VARARGS, nullptr},
    {"_compound_parts", parts_of, METH_O, nullptr},
    {"_become_compound", become, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
