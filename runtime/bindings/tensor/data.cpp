// Tensor's elements as Python objects: item, tolist, iteration, text, NumPy.
#include "runtime/autograd/meta.h"
#include "runtime/bindings/types/types.h"
#include "runtime/core/in_call.h"
#include "runtime/core/interrupt.h"
#include "runtime/dispatch/indexing.h"

namespace facula::python {

namespace {

// `made` counts objects; after so many other threads have their turn, as they have between steps of Python.
constexpr int64_t kTurn = 1 << 17;
PyObject* nested_list(const Tensor& t, size_t dim, const char* p, int64_t& made) {
  const int64_t n = t.sizes()[dim];
  const int64_t step = t.strides()[dim] * static_cast<int64_t>(t.itemsize());
  PyObject* list = check(PyList_New(n));
  Ref guard(list);
  const bool last = dim + 1 == t.sizes().size();
  for (int64_t i = 0; i < n; ++i, p += step) {
    count_step();
    if (++made % kTurn == 0) const ReleaseGil turn;
    PyList_SET_ITEM(list, i, last ? check(element_object(p, t.dtype())) : nested_list(t, dim + 1, p, made));
  }
  return guard.release();
}

PyObject* method_tolist(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  const Tensor& own = tensor_of(self);
  const InCall call(own);  // sizes and memory stay as they are
  const Tensor t = to_cpu(with_data(own, "tolist"));
  const auto* p = static_cast<const char*>(t.raw());
  int64_t made = 0;
  return t.dim() == 0 ? element_object(p, t.dtype()) : nested_list(t, 0, p, made);
  FACULA_PY_END(nullptr)
}

PyObject* method_complex(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  const auto v = item_of(tensor_of(self), "complex").to<complex128>();
  return PyComplex_FromDoubles(v.real(), v.imag());
  FACULA_PY_END(nullptr)
}

// ---- iteration over the first dimension ----
struct IteratorObject {
  PyObject_HEAD PyObject* tensor;
  int64_t next, end;
};
int iterator_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<IteratorObject*>(self)->tensor);
  return 0;
}
int iterator_clear(PyObject* self) {
  auto* it = reinterpret_cast<IteratorObject*>(self);
  it->end = it->next;
  Py_CLEAR(it->tensor);
  return 0;
}
void iterator_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<IteratorObject*>(self)->tensor);
  type->tp_free(self);
  Py_DECREF(type);
}
PyObject* iterator_next(PyObject* self) {
  auto* it = reinterpret_cast<IteratorObject*>(self);
  FACULA_PY_TRY
  if (it->next >= it->end) return nullptr;
  count_step();  // of a list, say, nobody else looks for signals
  return in_class_of(it->tensor, wrap(indexing::operators.select(tensor_of(it->tensor), 0, it->next++)));
  FACULA_PY_END(nullptr)
}
PyObject* iterator_hint(PyObject* self, PyObject*) {
  auto* it = reinterpret_cast<IteratorObject*>(self);
  return PyLong_FromLongLong(it->end - it->next);
}
PyMethodDef iterator_methods[] = {{"__length_hint__", iterator_hint, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
PyType_Slot iterator_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(iterator_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(iterator_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(iterator_clear)},
    {Py_tp_iter, reinterpret_cast<void*>(PyObject_SelfIter)},
    {Py_tp_iternext, reinterpret_cast<void*>(iterator_next)},
    {Py_tp_methods, iterator_methods},
    {0, nullptr},
};
PyType_Spec iterator_spec = {"facula.tensor_iterator", sizeof(IteratorObject), 0,
                             Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             iterator_slots};

// ---- NumPy ----
void check_readable(const Tensor& t, const char* who) {
  check_memory(t, who);
  FACULA_CHECK(!t.requires_grad(), Runtime, Operator{who},
               "the tensor requires grad, and NumPy would lose its history; use t.detach().numpy()");
  FACULA_CHECK(t.is_cpu(), Type, Operator{who}, "the tensor is on ", to_string(t.device()),
               "; copy it to CPU memory first: t.cpu().numpy()");
  FACULA_CHECK(t.dtype() != ScalarType::BFloat16 && !is_float8(t.dtype()), Type, Operator{who}, "NumPy has no ",
               dtype_name(t.dtype()), "; convert first: t.float().numpy()");
}

// An array over the tensor's memory, through the buffer protocol.
Ref numpy_view(PyObject* self) {
  Ref view(check(PyMemoryView_FromObject(self)));
  Ref asarray = import_attribute("numpy", "asarray");
  return Ref(check(PyObject_CallOneArg(asarray.get(), view.get())));
}

constexpr ParamSpec kSelfForce[] = {{"self", ArgType::Tensor},
                                    {.name = "force", .type = ArgType::Bool, .required = false, .keyword_only = true}};
const FunctionSpec kNumpy{"numpy", "numpy(Tensor self, *, bool force=False)", kSelfForce};
PyObject* method_numpy(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  FACULA_PY_TRY
  PyObject* slots[2];
  if (!bind(kNumpy, self, args, n, names, slots)) return nullptr;
  if (slots[1] != nullptr && to_bool(kNumpy, 1, slots[1])) {
    Ref plain(check(wrap(to_cpu(detach(tensor_of(self))))));
    check_readable(tensor_of(plain.get()), "numpy");
    return numpy_view(plain.get()).release();
  }
  check_readable(tensor_of(self), "numpy");
  return numpy_view(self).release();
  FACULA_PY_END(nullptr)
}

PyObject* method_array(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"dtype", "copy", nullptr};
  PyObject* dtype = Py_None;
  PyObject* copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:__array__", const_cast<char**>(names), &dtype, &copy)) {
    return nullptr;
  }
  FACULA_PY_TRY
  check_readable(tensor_of(self), "__array__");
  Ref array = numpy_view(self);
  if (dtype != Py_None) {
    Ref converted(check(PyObject_CallMethod(array.get(), "astype", "OssOO", dtype, "K", "unsafe", Py_True, Py_False)));
    FACULA_CHECK(copy != Py_False || converted.get() == array.get(), Value, Operator{"__array__"},
                 "copy=False, but the conversion to another dtype needs a copy");
    if (converted.get() != array.get() || copy != Py_True) return converted.release();
  }
  if (copy == Py_True) return check(PyObject_CallMethod(array.get(), "copy", nullptr));
  return array.release();
  FACULA_PY_END(nullptr)
}

PyObject* method_format(PyObject* self, PyObject* spec) {
  FACULA_PY_TRY
  FACULA_CHECK(PyUnicode_Check(spec), Type, "__format__() takes a str, not ", Py_TYPE(spec)->tp_name);
  const Tensor& t = tensor_of(self);
  if (t.dim() == 0 && !t.is_meta() && Py_TYPE(self) == tensor_type) {
    Ref item(check(tensor_item(self, nullptr)));
    return check(PyObject_Format(item.get(), spec));
  }
  FACULA_CHECK(PyUnicode_GET_LENGTH(spec) == 0, Type, Operator{"format"},
               "a format such as '.3f' applies to a 0-d Tensor, not to one of shape ", shape_string(t.sizes()));
  return check(PyObject_Str(self));
  FACULA_PY_END(nullptr)
}

// The Array API's way from an array to its namespace.
PyObject* method_namespace(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"api_version", nullptr};
  PyObject* version = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$O:__array_namespace__", const_cast<char**>(names), &version)) {
    return nullptr;
  }
  return PyImport_ImportModule("facula.array_api");
}

#define FASTCALL(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL | METH_KEYWORDS

}  // namespace

PyObject* tensor_item(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  return wrap(item_of(tensor_of(self), "item"));
  FACULA_PY_END(nullptr)
}

PyObject* tensor_iter(PyObject* self) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  FACULA_CHECK(t.dim() > 0, Type, "iteration over a 0-d Tensor");
  static PyTypeObject* type = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&iterator_spec)));
  auto* it = reinterpret_cast<IteratorObject*>(check(type->tp_alloc(type, 0)));
  Py_INCREF(self);
  it->tensor = self;
  it->next = 0;
  it->end = t.sizes()[0];
  return reinterpret_cast<PyObject*>(it);
  FACULA_PY_END(nullptr)
}

PyObject* tensor_repr(PyObject* self) {
  FACULA_PY_TRY
  Ref format = import_attribute("facula._tensor_str", "tensor_str");
  return check(PyObject_CallOneArg(format.get(), self));
  FACULA_PY_END(nullptr)
}

Py_ssize_t tensor_length(PyObject* self) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  FACULA_CHECK(t.dim() > 0, Type, "len() of a 0-d Tensor");
  return t.sizes()[0];
  FACULA_PY_END(-1)
}

const PyMethodDef tensor_data_methods[] = {
    {"item", tensor_item, METH_NOARGS, "item($self, /)\n--\n\nIts one element as a Python number."},
    {"tolist", method_tolist, METH_NOARGS, "tolist($self, /)\n--\n\nIts elements as nested lists of Python numbers."},
    {"numpy", FASTCALL(method_numpy),
     "numpy($self, /, *, force=False)\n--\n\nA NumPy array over the same memory; `force` detaches and copies "
     "to the "
     "CPU as needed."},
    {"__array__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(method_array)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"__array_namespace__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(method_namespace)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"__complex__", method_complex, METH_NOARGS, nullptr},
    {"__format__", method_format, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
