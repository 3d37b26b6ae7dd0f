// Python numbers <-> scalars and single elements.
#include <cstring>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/meta.h"
#include "runtime/bindings/types/types.h"

namespace facula::python {

namespace {

// Types that are numbers without being subclasses of Python's; looked up once per type.
NumberKind foreign_kind(PyObject* o) {
  PyTypeObject* type = Py_TYPE(o);
  const PySequenceMethods* sequence = type->tp_as_sequence;
  const PyMappingMethods* mapping = type->tp_as_mapping;
  if ((sequence != nullptr && sequence->sq_length != nullptr) ||
      (mapping != nullptr && mapping->mp_length != nullptr)) {
    return NumberKind::None;
  }
  const PyNumberMethods* number = type->tp_as_number;
  if (number == nullptr) return NumberKind::None;
  if (number->nb_index != nullptr) return NumberKind::Int;
  if (number->nb_float == nullptr) {
    return PyObject_HasAttrString(o, "__complex__") ? NumberKind::Complex : NumberKind::None;
  }
  // NumPy's bool has no __index__ and is no subclass of bool.
  if (std::strcmp(type->tp_name, "numpy.bool") == 0 || std::strcmp(type->tp_name, "numpy.bool_") == 0) {
    return NumberKind::Bool;
  }
  // NumPy's complex scalars have __float__ too; so do fractions, which have __complex__.
  return std::strncmp(type->tp_name, "numpy.complex", 13) == 0 || std::strcmp(type->tp_name, "numpy.clongdouble") == 0
             ? NumberKind::Complex
             : NumberKind::Float;
}

}  // namespace

NumberKind number_kind(PyObject* o) {
  if (PyFloat_CheckExact(o)) return NumberKind::Float;
  if (PyLong_CheckExact(o)) return NumberKind::Int;
  if (PyBool_Check(o)) return NumberKind::Bool;
  if (PyFloat_Check(o)) return NumberKind::Float;
  if (PyLong_Check(o)) return NumberKind::Int;
  if (PyComplex_Check(o)) return NumberKind::Complex;
  if (o == Py_None || PyUnicode_Check(o) || PyTuple_Check(o) || PyList_Check(o) || is_tensor(o) || PyType_Check(o)) {
    return NumberKind::None;
  }
  return foreign_kind(o);
}

Scalar number_value(PyObject* o, NumberKind kind) {
  switch (kind) {
    case NumberKind::Bool: {
      const int truth = PyObject_IsTrue(o);
      check(truth);
      return Scalar(truth != 0);
    }
    case NumberKind::Int: {
      Ref index;
      if (!PyLong_Check(o)) {
        index = Ref(check(PyNumber_Index(o)));
        o = index.get();
      }
      int overflow = 0;
      const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
      if (overflow > 0) {
        const unsigned long long large = PyLong_AsUnsignedLongLong(o);
        if (large != static_cast<unsigned long long>(-1) || PyErr_Occurred() == nullptr) return Scalar(uint64_t{large});
        PyErr_Clear();
      }
      if (overflow != 0) {
        raise(ErrorKind::Overflow,
              "a Python int is too large: tensors hold integers of at most 64 bits (-2**63 to 2**63-1, and uint64 to "
              "2**64-1)");
      }
      if (v == -1 && PyErr_Occurred() != nullptr) throw PythonError();
      return Scalar(static_cast<int64_t>(v));
    }
    case NumberKind::Float: {
      const double v = PyFloat_AsDouble(o);
      if (v == -1.0 && PyErr_Occurred() != nullptr) throw PythonError();
      return Scalar(v);
    }
    case NumberKind::Complex: {
      const Py_complex v = PyComplex_AsCComplex(o);
      if (v.real == -1.0 && PyErr_Occurred() != nullptr) throw PythonError();
      return Scalar(complex128(v.real, v.imag));
    }
    case NumberKind::None:
      break;
  }
  raise(ErrorKind::Type, "expected a number, not ", Py_TYPE(o)->tp_name);
}

PyObject* element_object(const void* p, ScalarType t) { return wrap(load_element(p, t)); }

Tensor to_cpu(const Tensor& t) {
  if (t.is_wrapped()) [[unlikely]]
    return to_cpu(with_data(t, nullptr));
  if (t.is_cpu()) return t;
  FACULA_CHECK(!t.is_meta(), Values, "a tensor on device 'meta' has a shape and a dtype but no elements to read");
  return core_operators().cast(detach(t), t.dtype(), Device{kCPU});
}

Scalar item_of(const Tensor& t, const char* who) {
  FACULA_CHECK(t.numel() == 1, Shape, Operator{who}, "a Tensor with ", t.numel(), " elements, shape ",
               shape_string(t.sizes()), ", cannot be converted to one number");
  return load_element(to_cpu(with_data(t, who)).raw(), t.dtype());
}

}  // namespace facula::python
