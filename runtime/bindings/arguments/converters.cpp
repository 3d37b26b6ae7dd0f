// One converter per argument type. A slot that does not fit raises TypeError naming function,
// argument, what was given and what is allowed.
#include <cmath>

#include "runtime/autograd/meta.h"
#include "runtime/bindings/arguments/checks.h"
#include "runtime/bindings/types/types.h"
#include "runtime/core/in_call.h"

namespace facula::python {

namespace {

std::string allowed_text(const ParamSpec& p) {
  std::string text;
  switch (p.type) {
    case ArgType::Tensor:
      text = p.numbers ? "a Tensor or a number" : "a Tensor";
      break;
    case ArgType::TensorList:
      text = "a list or tuple of Tensors";
      break;
    case ArgType::OptionalTensorList:
      text = "a list or tuple of Tensors and None";
      break;
    case ArgType::Int:
      text = "an int";
      break;
    case ArgType::IntList:
      text = p.list_size != 0 ? concat("an int or ", int{p.list_size}, " ints") : "an int or a tuple of ints";
      break;
    case ArgType::Float:
      text = "a float";
      break;
    case ArgType::Bool:
      text = "a bool";
      break;
    case ArgType::BoolList:
      text = "a list or tuple of bools";
      break;
    case ArgType::Str:
      text = "a str";
      break;
    case ArgType::Scalar:
      text = "a number";
      break;
    case ArgType::ScalarType:
      text = "a dtype such as facula.float32";
      break;
    case ArgType::Device:
      text = "a facula.device, a str such as 'cpu', or an index";
      break;
    case ArgType::Generator:
      text = "a facula.Generator";
      break;
    case ArgType::MemoryFormat:
      text = "a memory format such as facula.contiguous_format";
      break;
    case ArgType::Layout:
      text = "a layout, facula.strided";
      break;
  }
  if (p.optional) text += ", or None";
  return text;
}

[[noreturn]] __attribute__((cold, noinline)) void wrong_type(const FunctionSpec& f, size_t i, PyObject* o) {
  raise(ErrorKind::Type, Operator{f.name}, "argument '", Argument{f.params[i].name}, "' must be ",
        allowed_text(f.params[i]), ", not ", type_text(o));
}

[[noreturn]] __attribute__((cold, noinline)) void out_of_range(const FunctionSpec& f, size_t i,
                                                               const std::string& value) {
  raise(ErrorKind::Value, Operator{f.name}, "argument '", Argument{f.params[i].name}, "' must be ", f.params[i].range,
        ", but got ", value);
}

template <typename T>
void check_range(const FunctionSpec& f, size_t i, T value) {
  const ParamSpec& p = f.params[i];
  if (p.range == nullptr) [[likely]]
    return;
  const auto v = static_cast<double>(value);
  const bool above = p.low_open ? v > p.low : v >= p.low;  // false for NaN
  const bool below = p.high_open ? v < p.high : v <= p.high;
  if (!(above && below)) out_of_range(f, i, concat(value));
}

bool is_int_like(PyObject* o) {
  if (PyLong_CheckExact(o)) return true;
  if (PyBool_Check(o)) return false;
  if (PyLong_Check(o)) return true;
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    const InCall in_call(t);
    return t.dim() == 0 && is_integral(t.dtype()) && !t.is_meta();
  }
  return number_kind(o) == NumberKind::Int;
}

bool is_bool_like(PyObject* o) {
  if (PyBool_Check(o)) return true;
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    const InCall in_call(t);
    return t.dim() == 0 && t.dtype() == ScalarType::Bool;
  }
  return number_kind(o) == NumberKind::Bool;
}

// 0-d tensors count as numbers, but one that requires grad would silently lose its history.
bool is_number_like(PyObject* o) {
  if (number_kind(o) != NumberKind::None) return true;
  if (!is_tensor(o)) return false;
  const Tensor& t = tensor_of(o);
  const InCall in_call(t);
  return t.dim() == 0 && !t.requires_grad() && !has_tangent(t);
}

bool is_float_like(PyObject* o) {
  if (PyFloat_CheckExact(o) || PyLong_CheckExact(o)) return true;
  if (is_tensor(o)) return is_number_like(o) && !tensor_of(o).is_complex();
  const NumberKind k = number_kind(o);
  return k != NumberKind::None && k != NumberKind::Complex;
}

template <typename Test>
bool all_items(PyObject* o, const Test& test) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  const ItemsOf items(o);
  // The size is read again each time: a test may run Python (__getattr__ of an element), which may change a list.
  for (Py_ssize_t i = 0; i < items.size(); ++i) {
    const Ref item = Ref::borrow(items[i]);
    if (!test(item.get())) return false;
  }
  return true;
}

bool is_python_type(PyObject* o) {
  return o == reinterpret_cast<PyObject*>(&PyFloat_Type) || o == reinterpret_cast<PyObject*>(&PyLong_Type) ||
         o == reinterpret_cast<PyObject*>(&PyBool_Type) || o == reinterpret_cast<PyObject*>(&PyComplex_Type);
}

Scalar scalar_from(PyObject* o, const char* who) {
  if (is_tensor(o)) return item_of(tensor_of(o), who);
  return number_value(o, number_kind(o));
}

// An int from an object that is_int_like.
int64_t int_from(const FunctionSpec& f, size_t i, PyObject* o) {
  if (is_tensor(o)) return item_of(tensor_of(o), f.name).to<int64_t>();
  Ref index;
  if (!PyLong_Check(o)) {
    index = Ref(check(PyNumber_Index(o)));
    o = index.get();
  }
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow != 0) {
    raise(ErrorKind::Overflow, Operator{f.name}, "argument '", Argument{f.params[i].name},
          "' does not fit a signed 64-bit integer");
  }
  if (v == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  return v;
}

}  // namespace

std::string type_text(PyObject* o) {
  if (is_varargs(o)) return "int";
  if (o == Py_None) return "None";
  if (is_tensor(o)) {
    const Tensor& t = tensor_of(o);
    const InCall in_call(t);
    return concat("Tensor of shape ", shape_string(t.sizes()), " and dtype ", dtype_name(t.dtype()));
  }
  if (PyTuple_Check(o) || PyList_Check(o)) {
    const ItemsOf items(o);
    if (items.size() > 0) return concat(PyTuple_Check(o) ? "tuple" : "list", " of ", Py_TYPE(items[0])->tp_name);
  }
  return Py_TYPE(o)->tp_name;
}

bool fits(const FunctionSpec& f, size_t i, PyObject* o) {
  const ParamSpec& p = f.params[i];
  if (is_varargs(o)) {
    for (PyObject* item : varargs(o)) {
      if (!is_int_like(item)) return false;
    }
    return true;
  }
  switch (p.type) {
    case ArgType::Tensor:
      return is_tensor(o) || (p.numbers && number_kind(o) != NumberKind::None);
    case ArgType::TensorList:
      return all_items(o, is_tensor);
    case ArgType::OptionalTensorList:
      return all_items(o, [](PyObject* x) { return x == Py_None || is_tensor(x); });
    case ArgType::Int:
      return is_int_like(o);
    case ArgType::IntList:
      return is_int_like(o) || PyRange_Check(o) || all_items(o, is_int_like);
    case ArgType::Float:
      return is_float_like(o);
    case ArgType::Bool:
      return is_bool_like(o);
    case ArgType::BoolList:
      return all_items(o, is_bool_like);
    case ArgType::Str:
      return PyUnicode_Check(o) != 0;
    case ArgType::Scalar:
      return is_number_like(o);
    case ArgType::ScalarType:
      return Py_TYPE(o) == dtype_type || is_python_type(o);
    case ArgType::Device:
      return Py_TYPE(o) == device_type || PyUnicode_Check(o) || (PyLong_Check(o) && !PyBool_Check(o));
    case ArgType::Generator:
      return Py_TYPE(o) == generator_type;
    case ArgType::MemoryFormat:
      return Py_TYPE(o) == memory_format_type;
    case ArgType::Layout:
      return Py_TYPE(o) == layout_type;
  }
  return false;
}

const Tensor& to_tensor(const FunctionSpec& f, size_t i, PyObject* o, Tensor& hold) {
  if (is_tensor(o)) [[likely]]
    return tensor_of(o);
  if (f.params[i].numbers) {
    if (const NumberKind k = number_kind(o); k != NumberKind::None) {
      hold = wrapped_number(number_value(o, k));
      return hold;
    }
  }
  wrong_type(f, i, o);
}

const Tensor& to_optional_tensor(const FunctionSpec& f, size_t i, PyObject* o, Tensor& hold) {
  if (o == nullptr || o == Py_None) return hold;
  return to_tensor(f, i, o, hold);
}

std::vector<Tensor> to_tensor_list(const FunctionSpec& f, size_t i, PyObject* o) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) wrong_type(f, i, o);
  const bool none_allowed = f.params[i].type == ArgType::OptionalTensorList;
  std::vector<Tensor> list;
  const ItemsOf items(o);
  const Py_ssize_t n = items.size();
  list.reserve(static_cast<size_t>(n));
  for (Py_ssize_t k = 0; k < n; ++k) {
    PyObject* item = items[k];
    if (is_tensor(item)) {
      list.push_back(tensor_of(item));
    } else if (none_allowed && item == Py_None) {
      list.emplace_back();
    } else {
      raise(ErrorKind::Type, Operator{f.name}, "argument '", Argument{f.params[i].name}, "' must be ",
            allowed_text(f.params[i]), ", but its element ", k, " is ", type_text(item));
    }
  }
  return list;
}

int64_t to_int(const FunctionSpec& f, size_t i, PyObject* o) {
  if (!is_int_like(o)) wrong_type(f, i, o);
  const int64_t v = int_from(f, i, o);
  check_range(f, i, v);
  return v;
}

double to_float(const FunctionSpec& f, size_t i, PyObject* o) {
  if (!is_float_like(o)) wrong_type(f, i, o);
  double v;
  if (PyFloat_CheckExact(o)) {
    v = PyFloat_AS_DOUBLE(o);
  } else if (PyLong_Check(o)) {
    v = PyLong_AsDouble(o);
    if (v == -1.0 && PyErr_Occurred() != nullptr) throw PythonError();
  } else {
    v = scalar_from(o, f.name).as_double();
  }
  check_range(f, i, v);
  return v;
}

bool to_bool(const FunctionSpec& f, size_t i, PyObject* o) {
  if (o == Py_True) return true;
  if (o == Py_False) return false;
  if (!is_bool_like(o)) wrong_type(f, i, o);
  return scalar_from(o, f.name).to<bool>();
}

DimVector to_int_list(const FunctionSpec& f, size_t i, PyObject* o) {
  const ParamSpec& p = f.params[i];
  DimVector list;
  const auto add = [&](PyObject* item, size_t k) {
    if (!is_int_like(item)) {
      raise(ErrorKind::Type, Operator{f.name}, "argument '", Argument{p.name}, "' must be ", allowed_text(p),
            ", but its element ", k, " is ", type_text(item));
    }
    const int64_t v = int_from(f, i, item);
    check_range(f, i, v);
    list.push_back(v);
  };
  if (is_varargs(o)) {
    const std::span<PyObject* const> items = varargs(o);
    for (size_t k = 0; k < items.size(); ++k) add(items[k], k);
  } else if (PyTuple_Check(o) || PyList_Check(o)) {
    const ItemsOf items(o);
    // The size is read again each time: __index__ of an element may change a list.
    for (Py_ssize_t k = 0; k < items.size(); ++k) add(Ref::borrow(items[k]).get(), static_cast<size_t>(k));
  } else if (is_int_like(o)) {
    add(o, 0);
  } else if (PyRange_Check(o)) {
    Ref items(check(PySequence_Tuple(o)));
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(items.get()); ++k) {
      add(PyTuple_GET_ITEM(items.get(), k), static_cast<size_t>(k));
    }
  } else {
    wrong_type(f, i, o);
  }
  if (p.list_size != 0 && list.size() != p.list_size) {
    if (list.size() != 1) {
      raise(ErrorKind::Value, Operator{f.name}, "argument '", Argument{p.name}, "' must have ", int{p.list_size},
            " elements, not ", list.size());
    }
    list.resize(p.list_size, list[0]);
  }
  return list;
}

std::vector<bool> to_bool_list(const FunctionSpec& f, size_t i, PyObject* o) {
  if (!all_items(o, is_bool_like)) wrong_type(f, i, o);
  std::vector<bool> list;
  const ItemsOf items(o);
  for (Py_ssize_t k = 0; k < items.size(); ++k) {
    const Ref item = Ref::borrow(items[k]);
    list.push_back(scalar_from(item.get(), f.name).to<bool>());
  }
  return list;
}

std::string_view to_str(const FunctionSpec& f, size_t i, PyObject* o) {
  if (!PyUnicode_Check(o)) wrong_type(f, i, o);
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(o, &size);
  if (text == nullptr) throw PythonError();
  return {text, static_cast<size_t>(size)};
}

Scalar to_scalar(const FunctionSpec& f, size_t i, PyObject* o) {
  if (!is_number_like(o)) {
    if (is_tensor(o) && tensor_of(o).dim() == 0) {
      raise(ErrorKind::Type, Operator{f.name}, "argument '", Argument{f.params[i].name},
            "' must be a number; a Tensor that requires grad would lose its gradient here: pass its .item() or "
            ".detach()");
    }
    wrong_type(f, i, o);
  }
  const Scalar v = scalar_from(o, f.name);
  if (f.params[i].range != nullptr) check_range(f, i, v.as_double());
  return v;
}

ScalarType to_dtype(const FunctionSpec& f, size_t i, PyObject* o) {
  if (Py_TYPE(o) == dtype_type) [[likely]]
    return dtype_value(o);
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) return ScalarType::Float64;
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) return ScalarType::Int64;
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) return ScalarType::Bool;
  if (o == reinterpret_cast<PyObject*>(&PyComplex_Type)) return ScalarType::Complex128;
  wrong_type(f, i, o);
}

Device to_device(const FunctionSpec& f, size_t i, PyObject* o) {
  if (Py_TYPE(o) != device_type && !PyUnicode_Check(o) && !(PyLong_Check(o) && !PyBool_Check(o))) {
    wrong_type(f, i, o);
  }
  return device_value(o);
}

Generator to_generator(const FunctionSpec& f, size_t i, PyObject* o) {
  if (Py_TYPE(o) != generator_type) wrong_type(f, i, o);
  return generator_value(o);
}

MemoryFormat to_memory_format(const FunctionSpec& f, size_t i, PyObject* o) {
  if (Py_TYPE(o) != memory_format_type) wrong_type(f, i, o);
  return memory_format_value(o);
}

void to_strided(const FunctionSpec& f, size_t i, PyObject* o) {
  if (o != strided_layout()) wrong_type(f, i, o);
}

}  // namespace facula::python
