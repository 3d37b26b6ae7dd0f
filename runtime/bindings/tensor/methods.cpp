// Methods of Tensor about geometry, memory and type.
#include "runtime/autograd/engine.h"
#include "runtime/autograd/meta.h"
#include "runtime/bindings/types/types.h"

namespace facula::python {

namespace {

// size() and stride(): all, or that of one dim.
PyObject* sizes_or_one(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames,
                       const FunctionSpec& f, bool strides) {
  FACULA_PY_TRY
  PyObject* slots[2];
  if (!bind(f, self, args, nargs, kwnames, slots)) return nullptr;
  const Tensor& t = tensor_of(self);
  const int64_t d = slots[1] != nullptr ? to_int(f, 1, slots[1]) : 0;
  const InCall in_call(t);
  if (slots[1] != nullptr) return wrap(strides ? t.stride(d) : t.size(d));
  if (!strides) return wrap(t.sizes());
  PyObject* tuple = PyTuple_New(t.dim());
  for (int64_t i = 0; tuple != nullptr && i < t.dim(); ++i) {
    PyTuple_SET_ITEM(tuple, i, PyLong_FromLongLong(t.strides()[static_cast<size_t>(i)]));
  }
  return tuple;
  FACULA_PY_END(nullptr)
}

constexpr ParamSpec kSelfDim[] = {{"self", ArgType::Tensor}, {"dim", ArgType::Int, true, false}};
const FunctionSpec kSize{"size", "size(Tensor self, int? dim=None)", kSelfDim};
const FunctionSpec kStride{"stride", "stride(Tensor self, int? dim=None)", kSelfDim};

PyObject* method_size(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  return sizes_or_one(self, args, n, names, kSize, false);
}
PyObject* method_stride(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  return sizes_or_one(self, args, n, names, kStride, true);
}
PyObject* method_dim(PyObject* self, PyObject*) {
  return read(self, [](const Tensor& t) { return PyLong_FromLongLong(t.dim()); });
}
PyObject* method_numel(PyObject* self, PyObject*) {
  return read(self, [](const Tensor& t) { return PyLong_FromLongLong(t.numel()); });
}
PyObject* method_offset(PyObject* self, PyObject*) {
  return read(self, [](const Tensor& t) { return PyLong_FromLongLong(t.offset()); });
}
PyObject* method_data_ptr(PyObject* self, PyObject*) {
  return read(self, [](const Tensor& t) {
    check_memory(t, "data_ptr");
    return PyLong_FromVoidPtr(t.raw());
  });
}
PyObject* method_element_size(PyObject* self, PyObject*) {
  return read(self, [](const Tensor& t) { return PyLong_FromSize_t(t.itemsize()); });
}
PyObject* method_is_floating(PyObject* self, PyObject*) {
  return read(self, [](const Tensor& t) { return PyBool_FromLong(t.is_floating_point()); });
}
PyObject* method_is_complex(PyObject* self, PyObject*) {
  return read(self, [](const Tensor& t) { return PyBool_FromLong(t.is_complex()); });
}
PyObject* method_is_signed(PyObject* self, PyObject*) {
  return read(
      self, [](const Tensor& t) { return PyBool_FromLong(t.dtype() != ScalarType::Bool && !is_unsigned(t.dtype())); });
}
PyObject* method_is_inference(PyObject* self, PyObject*) { return PyBool_FromLong(tensor_of(self).impl()->inference); }
PyObject* method_get_device(PyObject* self, PyObject*) {
  return read(self, [](const Tensor& t) { return PyLong_FromLong(t.device().index); });
}

PyObject* method_storage(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  const InCall in_call(tensor_of(self));
  check_memory(tensor_of(self), "untyped_storage");
  FACULA_CHECK(tensor_of(self).storage(), NotImplemented, Operator{"untyped_storage"}, "this tensor has no storage");
  return wrap_storage(tensor_of(self).storage());
  FACULA_PY_END(nullptr)
}

// Strides of a channels-last tensor: as if dim 1 came last.
bool is_channels_last(const Tensor& t) {
  DimVector sizes(t.sizes());
  DimVector strides(t.strides());
  const int64_t c = sizes[1], s = strides[1];
  sizes.erase(sizes.begin() + 1);
  strides.erase(strides.begin() + 1);
  sizes.push_back(c);
  strides.push_back(s);
  return is_contiguous(sizes, strides);
}

constexpr ParamSpec kSelfFormat[] = {
    {"self", ArgType::Tensor},
    {.name = "memory_format", .type = ArgType::MemoryFormat, .required = false, .keyword_only = true}};
const FunctionSpec kIsContiguous{
    "is_contiguous", "is_contiguous(Tensor self, *, MemoryFormat memory_format=contiguous_format)", kSelfFormat};
PyObject* method_is_contiguous(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  FACULA_PY_TRY
  PyObject* slots[2];
  if (!bind(kIsContiguous, self, args, n, names, slots)) return nullptr;
  const Tensor& t = tensor_of(self);
  const MemoryFormat format =
      slots[1] != nullptr ? to_memory_format(kIsContiguous, 1, slots[1]) : MemoryFormat::Contiguous;
  const InCall in_call(t);
  switch (format) {
    case MemoryFormat::Contiguous:
      return wrap(t.is_contiguous());
    case MemoryFormat::Preserve:
      break;
    case MemoryFormat::ChannelsLast:
      return wrap(t.dim() == 4 && is_channels_last(t));
    case MemoryFormat::ChannelsLast3d:
      return wrap(t.dim() == 5 && is_channels_last(t));
  }
  raise(ErrorKind::Value, Operator{"is_contiguous"}, "argument 'memory_format' cannot be facula.preserve_format");
  FACULA_PY_END(nullptr)
}

// The name of a type of tensors before dtypes; later dtypes have their own.
std::string_view old_type_name(ScalarType t) {
  switch (t) {
    case ScalarType::UInt8:
      return "Byte";
    case ScalarType::Int8:
      return "Char";
    case ScalarType::Int16:
      return "Short";
    case ScalarType::Int32:
      return "Int";
    case ScalarType::Int64:
      return "Long";
    case ScalarType::Float16:
      return "Half";
    case ScalarType::Float32:
      return "Float";
    case ScalarType::Float64:
      return "Double";
    case ScalarType::Complex64:
      return "ComplexFloat";
    case ScalarType::Complex128:
      return "ComplexDouble";
    default:
      break;
  }
#define X(type, name, text) #name,
  static constexpr std::string_view names[kNumScalarTypes] = {FACULA_FORALL_TYPES(X)};
#undef X
  return names[static_cast<size_t>(t)];
}

constexpr ParamSpec kSelfDtype[] = {{"self", ArgType::Tensor}, {"dtype", ArgType::ScalarType, true, false}};
const FunctionSpec kType{"type", "type(Tensor self, ScalarType? dtype=None)", kSelfDtype};
// A dtype, the name of an old type, such as "torch.LongTensor", or a class that has a dtype.
ScalarType type_argument(PyObject* o) {
  if (PyUnicode_Check(o)) {
    const char* text = PyUnicode_AsUTF8(o);
    if (text == nullptr) throw PythonError();
    const std::string_view given(text);
    const std::string_view name = given.substr(given.rfind('.') + 1);
    for (size_t i = 0; i < kNumScalarTypes; ++i) {
      const auto type = static_cast<ScalarType>(i);
      if (name == concat(old_type_name(type), "Tensor")) return type;
    }
    raise(ErrorKind::Value, Operator{"type"}, "'", given, "' is not the name of a type such as ", spoken_name,
          ".FloatTensor");
  }
  if (PyType_Check(o)) {
    const Ref dtype(PyObject_GetAttrString(o, "dtype"));
    if (dtype && Py_TYPE(dtype.get()) == dtype_type) return dtype_value(dtype.get());
    PyErr_Clear();
  }
  return to_dtype(kType, 1, o);
}

PyObject* method_type(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  FACULA_PY_TRY
  PyObject* slots[2];
  if (!bind(kType, self, args, n, names, slots)) return nullptr;
  const Tensor& t = tensor_of(self);
  if (slots[1] == nullptr) {
    const InCall in_call(t);
    const std::string place = t.is_cpu() || t.is_meta() ? "" : concat(device_type_name(t.device().type), ".");
    const std::string text = concat(spoken_name, ".", place, old_type_name(t.dtype()), "Tensor");
    return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
  }
  const ScalarType dtype = type_argument(slots[1]);
  if (dtype == t.dtype()) return wrap(Tensor(t));
  return in_class_of(self, wrap(core_operators().cast(t, dtype, t.device())));
  FACULA_PY_END(nullptr)
}

PyObject* method_cpu(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  const Tensor& t = tensor_of(self);
  if (t.is_cpu()) return wrap(Tensor(t));
  FACULA_CHECK(!t.is_meta(), NotImplemented, Operator{"cpu"}, "a tensor on device 'meta' has no elements to copy");
  return in_class_of(self, wrap(core_operators().cast(t, t.dtype(), Device{kCPU})));
  FACULA_PY_END(nullptr)
}

// The object of a subclass for the memory of `data`.
PyObject* make_subclass(PyObject*, PyObject* args) {
  PyObject* type = nullptr;
  PyObject* data = nullptr;
  int requires_grad = 0;
  if (!PyArg_ParseTuple(args, "OO|p:_make_subclass", &type, &data, &requires_grad)) return nullptr;
  FACULA_PY_TRY
  FACULA_CHECK(PyType_Check(type) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type), Type,
               Operator{"_make_subclass"}, "argument '", Argument{"cls"}, "' must be a subclass of Tensor");
  FACULA_CHECK(is_tensor(data), Type, Operator{"_make_subclass"}, "argument '", Argument{"data"},
               "' must be a Tensor, not ", Py_TYPE(data)->tp_name);
  Tensor t = detach(tensor_of(data));
  if (requires_grad != 0) set_requires_grad(t, true);
  return wrap_as(reinterpret_cast<PyTypeObject*>(type), std::move(t));
  FACULA_PY_END(nullptr)
}
// The same tensor, history and all, as an object of a subclass.
PyObject* as_subclass(PyObject* self, PyObject* type) {
  FACULA_PY_TRY
  FACULA_CHECK(PyType_Check(type) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(type), tensor_type), Type,
               Operator{"as_subclass"}, "argument '", Argument{"cls"}, "' must be a subclass of Tensor");
  const Tensor& t = tensor_of(self);
  const InCall in_call(t);
  return wrap_as(reinterpret_cast<PyTypeObject*>(type),
                 core_operators().as_strided(t, t.sizes(), t.strides(), t.offset()));
  FACULA_PY_END(nullptr)
}

#define FASTCALL(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL | METH_KEYWORDS

}  // namespace

const PyMethodDef tensor_methods[] = {
    {"size", FASTCALL(method_size), "size($self, /, dim=None)\n--\n\nIts shape, or the size of one dimension."},
    {"stride", FASTCALL(method_stride),
     "stride($self, /, dim=None)\n--\n\nElements to step in memory for each dimension, or for one."},
    {"dim", method_dim, METH_NOARGS, "dim($self, /)\n--\n\nNumber of dimensions."},
    {"ndimension", method_dim, METH_NOARGS, "ndimension($self, /)\n--\n\nNumber of dimensions."},
    {"numel", method_numel, METH_NOARGS, "numel($self, /)\n--\n\nNumber of elements."},
    {"nelement", method_numel, METH_NOARGS, "nelement($self, /)\n--\n\nNumber of elements."},
    {"storage_offset", method_offset, METH_NOARGS,
     "storage_offset($self, /)\n--\n\nElements from the start of the storage to the first one."},
    {"data_ptr", method_data_ptr, METH_NOARGS, "data_ptr($self, /)\n--\n\nAddress of the first element."},
    {"element_size", method_element_size, METH_NOARGS, "element_size($self, /)\n--\n\nBytes per element."},
    {"is_floating_point", method_is_floating, METH_NOARGS,
     "is_floating_point($self, /)\n--\n\nIs its dtype a floating-point one?"},
    {"is_complex", method_is_complex, METH_NOARGS, "is_complex($self, /)\n--\n\nIs its dtype a complex one?"},
    {"is_signed", method_is_signed, METH_NOARGS, "is_signed($self, /)\n--\n\nCan its dtype hold negative numbers?"},
    {"is_inference", method_is_inference, METH_NOARGS,
     "is_inference($self, /)\n--\n\nWas it made under facula.inference_mode?"},
    {"get_device", method_get_device, METH_NOARGS,
     "get_device($self, /)\n--\n\nIndex of its device, -1 for the current one and the CPU."},
    {"untyped_storage", method_storage, METH_NOARGS,
     "untyped_storage($self, /)\n--\n\nThe bytes behind the tensor, which its views share."},
    {"is_contiguous", FASTCALL(method_is_contiguous),
     "is_contiguous($self, /, *, memory_format=contiguous_format)\n--\n\nAre the elements in memory in "
     "order, "
     "without gaps?"},
    {"type", FASTCALL(method_type),
     "type($self, /, dtype=None)\n--\n\nIts type's name, or the tensor converted to a dtype."},
    {"cpu", method_cpu, METH_NOARGS, "cpu($self, /)\n--\n\nA copy in CPU memory, or itself if it is there."},
    {"_make_subclass", make_subclass, METH_VARARGS | METH_STATIC,
     "_make_subclass(cls, data, require_grad=False, /)\n--\n\nAn object of a subclass over the memory of "
     "`data`."},
    {"as_subclass", as_subclass, METH_O,
     "as_subclass($self, cls, /)\n--\n\nThe tensor as an object of a subclass of Tensor."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
