// facula.tensor, as_tensor, asarray, from_numpy, frombuffer.
#include "runtime/autograd/engine.h"
#include "runtime/autograd/meta.h"
#include "runtime/bindings/devices/default_device.h"
#include "runtime/bindings/types/types.h"
#include "runtime/dispatch/levels.h"

namespace facula::python {

namespace {

// The type of `data` is not checked by bind(); Tensor stands for any object here.
constexpr ParamSpec kData{"data", ArgType::Tensor};
constexpr ParamSpec kDtype{
    .name = "dtype", .type = ArgType::ScalarType, .optional = true, .required = false, .keyword_only = true};
constexpr ParamSpec kDevice{
    .name = "device", .type = ArgType::Device, .optional = true, .required = false, .keyword_only = true};
constexpr ParamSpec kRequiresGrad{
    .name = "requires_grad", .type = ArgType::Bool, .required = false, .keyword_only = true};
constexpr ParamSpec kPinMemory{.name = "pin_memory", .type = ArgType::Bool, .required = false, .keyword_only = true};
constexpr ParamSpec kCopy{
    .name = "copy", .type = ArgType::Bool, .optional = true, .required = false, .keyword_only = true};

constexpr ParamSpec kTensorParams[] = {kData, kDtype, kDevice, kRequiresGrad, kPinMemory};
const FunctionSpec kTensor{"tensor",
                           "tensor(data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False, "
                           "bool pin_memory=False)",
                           kTensorParams};
PyObject* function_tensor(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  FACULA_PY_TRY
  PyObject* slots[5];
  if (!bind(kTensor, nullptr, args, n, names, slots)) return nullptr;
  DataOptions options;
  if (slots[1] != nullptr) options.dtype = to_dtype(kTensor, 1, slots[1]);
  options.device = slots[2] != nullptr ? to_device(kTensor, 2, slots[2]) : default_device();
  const bool requires_grad = slots[3] != nullptr && to_bool(kTensor, 3, slots[3]);
  if (slots[4] != nullptr) to_bool(kTensor, 4, slots[4]);  // memory is never pinned without a device that gains by it
  options.copy = true;
  Tensor t = is_tensor(slots[0])
                 ? tensor_from_data("tensor", Ref(check(wrap(detach(tensor_of(slots[0]))))).get(), options)
                 : tensor_from_data("tensor", slots[0], options);
  t = made_within(std::move(t));
  if (requires_grad) set_requires_grad(t, true);
  return wrap(std::move(t));
  FACULA_PY_END(nullptr)
}

// A tensor keeps its history when nothing, or only dtype or device, changes.
Tensor tensor_as(const Tensor& t, const DataOptions& options) {
  const ScalarType dtype = options.dtype.value_or(t.dtype());
  const Device device = options.device.value_or(t.device());
  if (dtype == t.dtype() && device.type == t.device().type && (device.index < 0 || device == t.device())) return t;
  if (device.type == kMeta) return make_empty(t.sizes(), dtype, device);
  return core_operators().cast(t, dtype, device);
}

constexpr ParamSpec kAsTensorParams[] = {
    kData,
    {.name = "dtype", .type = ArgType::ScalarType, .optional = true, .required = false},
    {.name = "device", .type = ArgType::Device, .optional = true, .required = false}};
const FunctionSpec kAsTensor{"as_tensor", "as_tensor(data, ScalarType? dtype=None, Device? device=None)",
                             kAsTensorParams};
PyObject* function_as_tensor(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  FACULA_PY_TRY
  PyObject* slots[3];
  if (!bind(kAsTensor, nullptr, args, n, names, slots)) return nullptr;
  DataOptions options;
  if (slots[1] != nullptr) options.dtype = to_dtype(kAsTensor, 1, slots[1]);
  options.device = slots[2] != nullptr ? to_device(kAsTensor, 2, slots[2]) : default_device();
  if (is_tensor(slots[0])) return wrap(tensor_as(tensor_of(slots[0]), options));
  return wrap(tensor_from_data("as_tensor", slots[0], options));
  FACULA_PY_END(nullptr)
}

constexpr ParamSpec kAsArrayParams[] = {{"obj", ArgType::Tensor}, kDtype, kDevice, kCopy, kRequiresGrad};
const FunctionSpec kAsArray{"asarray",
                            "asarray(obj, *, ScalarType? dtype=None, Device? device=None, bool? copy=None, bool "
                            "requires_grad=False)",
                            kAsArrayParams};
PyObject* function_asarray(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  FACULA_PY_TRY
  PyObject* slots[5];
  if (!bind(kAsArray, nullptr, args, n, names, slots)) return nullptr;
  DataOptions options;
  if (slots[1] != nullptr) options.dtype = to_dtype(kAsArray, 1, slots[1]);
  options.device = slots[2] != nullptr ? to_device(kAsArray, 2, slots[2]) : default_device();
  if (slots[3] != nullptr) options.copy = to_bool(kAsArray, 3, slots[3]);
  const bool requires_grad = slots[4] != nullptr && to_bool(kAsArray, 4, slots[4]);
  Tensor t;
  if (is_tensor(slots[0])) {
    const Tensor& self = tensor_of(slots[0]);
    t = tensor_as(self, options);
    FACULA_CHECK(t.is_same(self) || options.copy.value_or(true), Value, Operator{"asarray"},
                 "copy=False, but the dtype or the device asked for needs a copy");
    if (t.is_same(self) && options.copy.value_or(false)) t = core_operators().clone(t);
    if (!requires_grad && t.requires_grad() && is_leaf(t) && !t.is_same(self)) set_requires_grad(t, false);
  } else {
    t = tensor_from_data("asarray", slots[0], options);
  }
  if (requires_grad && !t.requires_grad()) set_requires_grad(t, true);
  return wrap(std::move(t));
  FACULA_PY_END(nullptr)
}

PyObject* function_from_numpy(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  FACULA_CHECK(!is_tensor(o) && PyObject_HasAttrString(o, "__array_interface__"), Type, Operator{"from_numpy"},
               "argument must be a NumPy array, not ", Py_TYPE(o)->tp_name);
  return wrap(*tensor_from_exchange("from_numpy", o));
  FACULA_PY_END(nullptr)
}

constexpr ParamSpec kFromBufferParams[] = {
    {"buffer", ArgType::Tensor},
    {.name = "dtype", .type = ArgType::ScalarType, .keyword_only = true},
    {.name = "count", .type = ArgType::Int, .required = false, .keyword_only = true},
    {.name = "offset", .type = ArgType::Int, .required = false, .keyword_only = true},
    kRequiresGrad};
const FunctionSpec kFromBuffer{"frombuffer",
                               "frombuffer(buffer, *, ScalarType dtype, int count=-1, int offset=0, bool "
                               "requires_grad=False)",
                               kFromBufferParams};
PyObject* function_frombuffer(PyObject*, PyObject* const* args, Py_ssize_t n, PyObject* names) {
  FACULA_PY_TRY
  PyObject* slots[5];
  if (!bind(kFromBuffer, nullptr, args, n, names, slots)) return nullptr;
  FACULA_CHECK(PyObject_CheckBuffer(slots[0]), Type, Operator{"frombuffer"}, "argument '", Argument{"buffer"},
               "' must have the buffer protocol, and ", Py_TYPE(slots[0])->tp_name, " has not");
  const ScalarType dtype = to_dtype(kFromBuffer, 1, slots[1]);
  const int64_t count = slots[2] != nullptr ? to_int(kFromBuffer, 2, slots[2]) : -1;
  const int64_t offset = slots[3] != nullptr ? to_int(kFromBuffer, 3, slots[3]) : 0;
  const bool requires_grad = slots[4] != nullptr && to_bool(kFromBuffer, 4, slots[4]);
  Ref view(check(PyMemoryView_GetContiguous(slots[0], PyBUF_READ, 'C')));
  const Py_buffer* b = PyMemoryView_GET_BUFFER(view.get());
  const auto size = static_cast<int64_t>(itemsize(dtype));
  FACULA_CHECK(offset >= 0 && offset <= b->len, Value, Operator{"frombuffer"}, "argument '", Argument{"offset"},
               "' must be in [0, ", b->len, "], but got ", offset);
  FACULA_CHECK(count == -1 || count >= 0, Value, Operator{"frombuffer"}, "argument '", Argument{"count"},
               "' must be -1 or more, but got ", count);
  const int64_t available = b->len - offset;
  FACULA_CHECK(count >= 0 || available % size == 0, Value, Operator{"frombuffer"}, "the buffer has ", available,
               " bytes after the offset, no multiple of the ", size, " bytes of ", dtype_name(dtype));
  const int64_t numel = count >= 0 ? count : available / size;
  FACULA_CHECK(numel <= available / size, Value, Operator{"frombuffer"}, numel, " elements of ", dtype_name(dtype),
               " are more than the ", available, " bytes after the offset hold");
  char* data = static_cast<char*>(b->buf) + offset;
  FACULA_CHECK(numel == 0 || reinterpret_cast<uintptr_t>(data) % type_info(dtype).alignment == 0, Value,
               Operator{"frombuffer"}, "the memory at the offset is not aligned for ", dtype_name(dtype));
  const bool read_only = b->readonly != 0;
  Storage storage = storage_of(std::move(view), data, static_cast<size_t>(numel * size), read_only);
  Tensor t = from_storage(std::move(storage), {numel}, {1}, 0, dtype);
  if (requires_grad) set_requires_grad(t, true);
  return wrap(std::move(t));
  FACULA_PY_END(nullptr)
}

PyObject* function_is_tensor(PyObject*, PyObject* o) { return PyBool_FromLong(is_tensor(o)); }

const Tensor& tensor_argument(PyObject* o, const char* who) {
  FACULA_CHECK(is_tensor(o), Type, Operator{who}, "argument '", Argument{"input"}, "' must be a Tensor, not ",
               Py_TYPE(o)->tp_name);
  return tensor_of(o);
}
PyObject* function_is_floating(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  return wrap(tensor_argument(o, "is_floating_point").is_floating_point());
  FACULA_PY_END(nullptr)
}
PyObject* function_is_complex(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  return wrap(tensor_argument(o, "is_complex").is_complex());
  FACULA_PY_END(nullptr)
}
PyObject* function_numel(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  return wrap(tensor_argument(o, "numel").numel());
  FACULA_PY_END(nullptr)
}

#define FASTCALL(f) reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f)), METH_FASTCALL | METH_KEYWORDS

}  // namespace

const PyMethodDef creation_functions[] = {
    {"tensor", FASTCALL(function_tensor),
     "tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)\n--\n\n"
     "A new tensor with a copy of `data`: a number, nested sequences of numbers, an array or a tensor."},
    {"as_tensor", FASTCALL(function_as_tensor),
     "as_tensor(data, dtype=None, device=None)\n--\n\nA tensor of `data`, sharing its memory where "
     "possible."},
    {"asarray", FASTCALL(function_asarray),
     "asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)\n--\n\n"
     "A tensor of `obj`; copy=True always copies, copy=False raises where a copy is needed."},
    {"from_numpy", function_from_numpy, METH_O,
     "from_numpy(ndarray, /)\n--\n\nA tensor over the memory of a NumPy array; read-only if the array is."},
    {"frombuffer", FASTCALL(function_frombuffer),
     "frombuffer(buffer, *, dtype, count=-1, offset=0, requires_grad=False)\n--\n\n"
     "A 1-d tensor over the memory of an object with the buffer protocol."},
    {"is_tensor", function_is_tensor, METH_O, "is_tensor(obj, /)\n--\n\nIs `obj` a Tensor?"},
    {"is_floating_point", function_is_floating, METH_O,
     "is_floating_point(input, /)\n--\n\nIs the tensor's dtype a floating-point one?"},
    {"is_complex", function_is_complex, METH_O, "is_complex(input, /)\n--\n\nIs the tensor's dtype a complex one?"},
    {"numel", function_numel, METH_O, "numel(input, /)\n--\n\nNumber of elements."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
