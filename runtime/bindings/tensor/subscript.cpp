// x[...] and x[...] = value: index expressions parsed into items.
#include <algorithm>
#include <array>

#include "runtime/autograd/engine.h"
#include "runtime/bindings/arguments/overrides.h"
#include "runtime/bindings/types/types.h"
#include "runtime/core/in_call.h"
#include "runtime/dispatch/indexing.h"

namespace facula::python {

namespace {

using indexing::Item;
using indexing::Kind;

constexpr size_t kMaxItems = 64;

// Most expressions have few items; longer ones go to the heap.
struct Items {
  std::array<Item, 6> few;
  std::vector<Item> many;
};

// A bound of a slice; None is unset, numbers beyond 64 bits mean "to the end".
int64_t slice_bound(PyObject* o) {
  if (o == Py_None) return Item::kUnset;
  Ref index;
  if (!PyLong_Check(o)) {
    if (PyIndex_Check(o) == 0) {
      raise(ErrorKind::Type, Operator{"index"}, "slice bounds must be ints or None, not ", Py_TYPE(o)->tp_name);
    }
    index = Ref(check(PyNumber_Index(o)));
    o = index.get();
  }
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  if (overflow != 0) return overflow > 0 ? INT64_MAX : INT64_MIN + 1;
  if (v == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  return std::max<int64_t>(v, INT64_MIN + 1);
}

Item slice_item(PyObject* o) {
  const auto* s = reinterpret_cast<PySliceObject*>(o);
  Item item;
  item.kind = Kind::Slice;
  item.start = slice_bound(s->start);
  item.stop = slice_bound(s->stop);
  item.step = s->step == Py_None ? 1 : slice_bound(s->step);
  return item;
}

int64_t int_index(PyObject* o) {
  int overflow = 0;
  const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
  FACULA_CHECK(overflow == 0, Index, Operator{"index"}, "the index does not fit a signed 64-bit integer");
  if (v == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  return v;
}

Item tensor_item_of(Tensor t) {
  Item item;
  item.kind = Kind::Tensor;
  item.tensor = std::move(t);
  return item;
}

// Lists, NumPy arrays and the like.
Item converted_item(PyObject* o, const Tensor& self) {
  DataOptions options;
  if (PySequence_Check(o) && !PyObject_CheckBuffer(o) && PySequence_Size(o) == 0) {
    options.dtype = ScalarType::Int64;  // an empty list selects nothing
  }
  PyErr_Clear();
  Tensor t;
  try {
    t = tensor_from_data("index", o, options);
  } catch (const Error& e) {
    raise(ErrorKind::Index, Operator{"index"}, "a ", Py_TYPE(o)->tp_name, " cannot be an index: ", e.text());
  }
  FACULA_CHECK(is_integral(t.dtype(), true), Index, Operator{"index"}, Py_TYPE(o)->tp_name,
               "s used as indices must hold ints or bools, not ", dtype_name(t.dtype()));
  // NumPy's rule: integers of any width are positions, uint8 too.
  if (t.dtype() != ScalarType::Bool && t.dtype() != ScalarType::Int64) {
    options.dtype = ScalarType::Int64;
    t = tensor_from_data("index", o, options);
  }
  if (!self.is_cpu() && !self.is_meta()) t = core_operators().cast(t, t.dtype(), self.device());
  return tensor_item_of(std::move(t));
}

Item parse_item(PyObject* o, const Tensor& self) {
  Item item;
  if (PyLong_CheckExact(o)) {
    item.kind = Kind::Int;
    item.start = int_index(o);
    return item;
  }
  if (PySlice_Check(o)) return slice_item(o);
  if (o == Py_None) {
    item.kind = Kind::NewAxis;
    return item;
  }
  if (o == Py_Ellipsis) return item;
  if (PyBool_Check(o)) {
    item.kind = Kind::Bool;
    item.start = o == Py_True;
    return item;
  }
  if (is_tensor(o)) return tensor_item_of(tensor_of(o));
  switch (number_kind(o)) {
    case NumberKind::Int: {
      Ref index(check(PyNumber_Index(o)));
      item.kind = Kind::Int;
      item.start = int_index(index.get());
      return item;
    }
    case NumberKind::Bool:
      item.kind = Kind::Bool;
      item.start = number_value(o, NumberKind::Bool).to<bool>();
      return item;
    case NumberKind::None:
      break;
    default:
      raise(ErrorKind::Index, Operator{"index"}, "a ", Py_TYPE(o)->tp_name,
            " cannot be an index; indices are ints, slices, "
            "None, '...', bools, lists, and tensors of ints or bools");
  }
  if (PyUnicode_Check(o) || PyBytes_Check(o) || PyDict_Check(o) || PyAnySet_Check(o) ||
      (!PySequence_Check(o) && !PyObject_CheckBuffer(o) && !PyObject_HasAttrString(o, "__array_interface__") &&
       !PyObject_HasAttrString(o, "__dlpack__"))) {
    raise(ErrorKind::Index, Operator{"index"}, "a ", Py_TYPE(o)->tp_name,
          " cannot be an index; indices are ints, slices, "
          "None, '...', bools, lists, and tensors of ints or bools");
  }
  return converted_item(o, self);
}

// Items of a key, kept in `items`.
std::span<const Item> parse(PyObject* key, const Tensor& self, Items& items) {
  if (!PyTuple_Check(key)) {
    items.few[0] = parse_item(key, self);
    return {items.few.data(), 1};
  }
  const auto n = static_cast<size_t>(PyTuple_GET_SIZE(key));
  FACULA_CHECK(n <= kMaxItems, Index, Operator{"index"}, "too many indices: the tensor has ", self.dim(),
               " dimensions, but ", n, " were indexed");
  Item* to = items.few.data();
  if (n > items.few.size()) {
    items.many.resize(n);
    to = items.many.data();
  }
  for (size_t i = 0; i < n; ++i) to[i] = parse_item(PyTuple_GET_ITEM(key, static_cast<Py_ssize_t>(i)), self);
  return {to, n};
}

std::vector<Tensor> tensors_of(std::span<const Item> items) {
  std::vector<Tensor> found;
  for (const Item& item : items) {
    if (item.kind == Kind::Tensor) found.push_back(item.tensor);
  }
  return found;
}

Tensor value_tensor(PyObject* value, const Tensor& self) {
  if (is_tensor(value)) return tensor_of(value);
  const NumberKind kind = number_kind(value);
  const bool fits = kind != NumberKind::Complex && !is_integral(self.dtype());  // else data is checked below
  if (kind != NumberKind::None && fits) return wrapped_number(number_value(value, kind));
  DataOptions options;
  options.dtype = self.dtype();
  return tensor_from_data("setitem", value, options);
}

}  // namespace

PyObject* tensor_subscript(PyObject* self, PyObject* key) {
  const PythonCall call{"__getitem__", self, &key, 1, nullptr};
  if (PyObject* answer; overrides_in_use && answered(call, answer)) [[unlikely]]
    return answer;
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  if (PyLong_CheckExact(key)) {
    const int64_t at = int_index(key);
    const auto select = [&] {
      const InCall in_call(t);
      return indexing::operators.select(t, 0, at);
    };
    return in_class_of(self, wrap(select()));
  }
  if (PySlice_Check(key)) {
    const Item item = slice_item(key);
    const auto slice = [&] {
      const InCall in_call(t);
      return indexing::operators.slice(t, 0, item.start, item.stop, item.step);
    };
    return in_class_of(self, wrap(slice()));
  }
  Items items;
  const std::span<const Item> parsed = parse(key, t, items);
  const std::vector<Tensor> indices = tensors_of(parsed);
  // Views cost nothing; gathers may be long.
  Tensor result = [&] {
    ReleaseGil gil(t.numel_hint() >= release_gil_numel);
    const InCall in_call(t, indices);
    return indexing::operators.get(t, parsed);
  }();
  return in_class_of(self, wrap(std::move(result)));
}
catch (...) {
  return answer_to_failure(call, true);
}
}

PyObject* tensor_sq_item(PyObject* self, Py_ssize_t i) {
  FACULA_PY_TRY
  const auto select = [&] {
    const InCall in_call(tensor_of(self));
    return indexing::operators.select(tensor_of(self), 0, i);
  };
  return in_class_of(self, wrap(select()));
  FACULA_PY_END(nullptr)
}

int tensor_ass_subscript(PyObject* self, PyObject* key, PyObject* value) {
  if (value != nullptr && overrides_in_use) [[unlikely]] {
    PyObject* const args[] = {key, value};
    if (PyObject* answer = nullptr; answered({"__setitem__", self, args, 2, nullptr}, answer)) {
      Py_XDECREF(answer);
      return answer != nullptr ? 0 : -1;
    }
  }
  FACULA_PY_TRY
  FACULA_CHECK(value != nullptr, Type, "a Tensor's elements cannot be deleted");
  const Tensor& t = tensor_of(self);
  const Tensor v = value_tensor(value, t);
  Items items;
  const std::span<const Item> parsed = parse(key, t, items);
  const std::vector<Tensor> indices = tensors_of(parsed);
  ReleaseGil gil(t.numel_hint() >= release_gil_numel);
  const InCall in_call(t, v, indices);
  indexing::operators.set(t, parsed, v);
  return 0;
  FACULA_PY_END(-1)
}

}  // namespace facula::python
