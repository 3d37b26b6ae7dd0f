// Compounds: tensors made of others, for which a class written in Python answers every call.
#include "runtime/bindings/tensor/compound.h"

#include "runtime/bindings/define.h"
#include "runtime/bindings/types/casters.h"
#include "runtime/dispatch/compound.h"

namespace py = pybind11;

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
    const ItemsOf items(o);
    for (Py_ssize_t i = 0; i < items.size(); ++i) {
      PyObject* item = items[i];
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

// The class, and its answer(schema, variant, args).
void set_class(const py::type& type, const py::object& answer) {
  FACULA_CHECK(PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type.ptr()), tensor_type), Type,
               Operator{"_set_compound_class"}, "the class is no subclass of Tensor");
  Py_XSETREF(answering, Py_NewRef(answer.ptr()));
  Py_XSETREF(compound_type, reinterpret_cast<PyTypeObject*>(Py_NewRef(type.ptr())));
  call_compound = call;
}

// A tensor of the class.
Tensor make(const DimVector& sizes, int64_t kind, std::vector<Tensor> parts) {
  FACULA_CHECK(compound_type != nullptr && !parts.empty(), Runtime, Operator{"_make_compound"},
               "takes parts, and a class that answers");
  for (const int64_t n : sizes) {
    FACULA_CHECK(n >= 0, Value, Operator{"_make_compound"}, "sizes must not be negative, but one is ", n);
  }
  for (const Tensor& part : parts) {
    FACULA_CHECK(!is_compound(part), Type, Operator{"_make_compound"}, "parts must be strided Tensors");
  }
  Compound made;
  made.kind = kind;
  made.parts = std::move(parts);
  return make_compound(sizes, std::move(made));
}

// (kind, parts), or None of other tensors.
py::object parts_of(const py::object& o) {
  if (!is_tensor(o.ptr()) || !is_compound(tensor_of(o.ptr()))) return py::none();
  const std::shared_ptr<const Compound> compound = compound_of(tensor_of(o.ptr()));
  return py::make_tuple(compound->kind, py::reinterpret_steal<py::tuple>(check(wrap(compound->parts))));
}

// The tensor is made of what the other is made of, in its place.
py::object become(const py::object& self, const Tensor& from) {
  FACULA_CHECK(is_tensor(self.ptr()), Type, Operator{"_become_compound"}, "takes Tensors, not ",
               Py_TYPE(self.ptr())->tp_name);
  const Tensor& t = tensor_of(self.ptr());
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
  return self;
}

}  // namespace

void define_compounds(py::module_& m) {
  define(m, "_set_compound_class", set_class);
  define(m, "_make_compound", make);
  define(m, "_compound_parts", parts_of);
  define(m, "_become_compound", become);
}

}  // namespace facula::python
