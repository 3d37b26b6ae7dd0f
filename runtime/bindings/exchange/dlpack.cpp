// DLPack, version 1 and the older unversioned form, both ways.
// The structures are those of the specification, https://dmlc.github.io/dlpack/latest/c_api.html.
#include <cstring>

#include "runtime/autograd/engine.h"
#include "runtime/bindings/types/types.h"
#include "runtime/device/memory.h"

namespace facula::python {

namespace {

namespace dl {
struct Version {
  uint32_t major, minor;
};
struct Device {
  int32_t type, id;
};
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct Managed {
  Tensor tensor;
  void* context;
  void (*deleter)(Managed*);
};
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Tensor tensor;
};
constexpr int32_t kCpu = 1;
constexpr uint64_t kReadOnly = 1, kCopied = 2;
enum Code : uint8_t {
  Int = 0,
  UInt = 1,
  Float = 2,
  BFloat = 4,
  Complex = 5,
  Bool = 6,
  Float8_e4m3fn = 10,
  Float8_e5m2 = 12
};
}  // namespace dl

constexpr const char* kName = "dltensor";
constexpr const char* kUsedName = "used_dltensor";
constexpr const char* kNameVersioned = "dltensor_versioned";
constexpr const char* kUsedNameVersioned = "used_dltensor_versioned";

dl::DataType to_dl(ScalarType t) {
  const auto bits = static_cast<uint8_t>(itemsize(t) * 8);
  switch (t) {
    case ScalarType::Bool:
      return {dl::Bool, 8, 1};
    case ScalarType::BFloat16:
      return {dl::BFloat, 16, 1};
    case ScalarType::Float8_e4m3fn:
      return {dl::Float8_e4m3fn, 8, 1};
    case ScalarType::Float8_e5m2:
      return {dl::Float8_e5m2, 8, 1};
    default:
      break;
  }
  return {is_complex(t) ? dl::Complex : is_floating(t) ? dl::Float : is_unsigned(t) ? dl::UInt : dl::Int, bits, 1};
}

ScalarType from_dl(dl::DataType d) {
  if (d.lanes == 1) {
    for (int i = 0; i < kNumScalarTypes; ++i) {
      const auto t = static_cast<ScalarType>(i);
      const dl::DataType known = to_dl(t);
      if (known.code == d.code && known.bits == d.bits) return t;
    }
  }
  raise(ErrorKind::Buffer, Operator{"from_dlpack"}, "cannot take elements of DLPack type code ", int{d.code}, ", ",
        int{d.bits}, " bits, ", d.lanes, " lanes");
}

// Null without one.
DeviceInterface* interface_with(int32_t type) {
  for (DeviceInterface* d : all_interfaces()) {
    if (type != 0 && d->api.dlpack_type == type) return d;
  }
  return nullptr;
}

dl::Device to_dl(const Tensor& t, const char* call) {
  if (t.is_cpu()) return {dl::kCpu, 0};
  const DeviceInterface* const d = interface_or_null(t.device().type);
  FACULA_CHECK(d != nullptr && d->api.dlpack_type != 0, Buffer, Operator{call}, "the tensor is on ",
               to_string(t.device()),
               ", which shares no memory (it has no DLPack number); copy it to the CPU first, with .cpu()");
  return {d->api.dlpack_type, t.device().index};
}

Device from_dl(dl::Device device) {
  if (device.type == dl::kCpu) return Device{kCPU};
  DeviceInterface* d = interface_with(device.type);
  if (d == nullptr) {  // its package may not have been loaded yet
    Ref find = import_attribute("facula.backends", "_name_with");
    Ref name(check(PyObject_CallFunction(find.get(), "si", "dlpack_type", device.type)));
    d = interface_with(device.type);
  }
  FACULA_CHECK(d != nullptr, Buffer, Operator{"from_dlpack"}, "the memory is on DLPack device ", device.type,
               ", which no device of facula's has (the CPU has ", dl::kCpu, "); copy it to the CPU first");
  FACULA_CHECK(device.id >= 0 && device.id < d->count(), Buffer, Operator{"from_dlpack"},
               "the memory is on DLPack device ", device.type, " number ", device.id, ", and '", d->name, "' has ",
               d->count(), " devices");
  return Device{d->type, static_cast<int8_t>(device.id)};
}

// Streams as the protocol has them: 0 and 1 are the default one, -1 asks for no order.
constexpr intptr_t kNoOrder = -1;
void* stream_of(intptr_t number) { return number <= 1 ? nullptr : reinterpret_cast<void*>(number); }

// The consumer's stream goes on after what the producer's has now, and the memory is kept for its work.
void hand_over(const Tensor& t, intptr_t number) {
  const Device device = t.device();
  const DeviceInterface& interface = started_interface(device.type);
  FACULA_CHECK(number >= kNoOrder, Value, Operator{"__dlpack__"}, "a stream of number ", number,
               " is not known; -1 asks for no order, 1 is the default one");
  void *const from = current_stream(device), *const to = stream_of(number);
  if (number == kNoOrder || !interface.has_streams()) return;
  if (from != to) {
    if (interface.memory->is_captured(device.index, from)) {
      raise_in_capture(device, "share the tensor when the capture has ended");
    }
    ReleaseGil released;
    DeviceEvent event(device);
    event.record(from);
    event.wait(device, to);
  }
  interface.memory->record_stream(t.storage()->data(), device, to);
}

// What an exported capsule keeps.
template <typename Struct>
struct Exported {
  Struct managed;
  Tensor tensor;
  Storage storage;  // the tensor may get other memory meanwhile
  DimVector sizes, strides;
};

template <typename Struct>
void delete_exported(Struct* managed) {
  delete static_cast<Exported<Struct>*>(managed->context);
}

// Runs for capsules that nobody consumed.
template <typename Struct>
void destroy_capsule(PyObject* capsule) {
  const char* name = std::is_same_v<Struct, dl::Managed> ? kName : kNameVersioned;
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Struct*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <typename Struct>
PyObject* export_tensor(const Tensor& t, bool copied) {
  auto* e = new Exported<Struct>();
  e->tensor = t;
  e->storage = t.storage();
  e->sizes = DimVector(t.sizes());
  e->strides = DimVector(t.strides());
  // Some consumers reject odd strides where they do not matter.
  const DimVector plain = contiguous_strides(t.sizes());
  if (t.is_contiguous()) e->strides = plain;
  e->managed.context = e;
  e->managed.deleter = delete_exported<Struct>;
  dl::Tensor& d = e->managed.tensor;
  d.data = t.numel() > 0 ? t.raw() : nullptr;
  d.device = to_dl(t, "__dlpack__");
  d.ndim = static_cast<int32_t>(t.dim());
  d.dtype = to_dl(t.dtype());
  d.shape = e->sizes.data();
  d.strides = e->strides.data();
  d.byte_offset = 0;
  const char* name = kName;
  if constexpr (std::is_same_v<Struct, dl::ManagedVersioned>) {
    e->managed.version = {1, 0};
    e->managed.flags = (t.storage()->read_only() ? dl::kReadOnly : 0) | (copied ? dl::kCopied : 0);
    name = kNameVersioned;
  }
  PyObject* capsule = PyCapsule_New(&e->managed, name, destroy_capsule<Struct>);
  if (capsule == nullptr) delete e;
  return capsule;
}

void check_exportable(const Tensor& t) {
  check_memory(t, "__dlpack__");
  FACULA_CHECK(!t.requires_grad(), Buffer, Operator{"__dlpack__"}, "the tensor requires grad; use t.detach()");
  to_dl(t, "__dlpack__");
}

PyObject* method_dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"stream", "max_version", "dl_device", "copy", nullptr};
  PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOO:__dlpack__", const_cast<char**>(names), &stream, &max_version,
                                   &device, &copy)) {
    return nullptr;
  }
  FACULA_PY_TRY
  Tensor t = tensor_of(self);
  check_exportable(t);
  FACULA_CHECK(stream == Py_None || !t.is_cpu(), Value, Operator{"__dlpack__"}, "argument '", Argument{"stream"},
               "' must be None for a CPU tensor");
  const int wanted = copy == Py_None ? -1 : PyObject_IsTrue(copy);
  check(copy == Py_None ? 0 : wanted);
  bool copied = wanted == 1;
  if (device != Py_None) {
    int type = 0, id = 0;
    if (!PyTuple_Check(device) || !PyArg_ParseTuple(device, "ii", &type, &id)) {
      PyErr_Clear();
      raise(ErrorKind::Type, Operator{"__dlpack__"}, "argument '", Argument{"dl_device"},
            "' must be a tuple of two ints");
    }
    if (type == dl::kCpu && !t.is_cpu() && wanted != 0) {
      t = core_operators().cast(t, t.dtype(), Device{kCPU});
      copied = true;
    }
    const dl::Device own = to_dl(t, "__dlpack__");
    FACULA_CHECK(type == own.type && id == own.id, Buffer, Operator{"__dlpack__"}, "a tensor on ",
                 to_string(t.device()), " cannot be exported to DLPack device ", type, ":", id,
                 wanted == 0 ? " without a copy" : "");
  }
  bool versioned = false;
  if (max_version != Py_None) {
    int major = 0, minor = 0;
    if (!PyTuple_Check(max_version) || !PyArg_ParseTuple(max_version, "ii", &major, &minor)) {
      PyErr_Clear();
      raise(ErrorKind::Type, Operator{"__dlpack__"}, "argument '", Argument{"max_version"},
            "' must be a tuple of two ints");
    }
    versioned = major >= 1;
  }
  if (wanted == 1 && t.storage()->shares_with(*tensor_of(self).storage())) t = core_operators().clone(t);
  if (!t.is_cpu()) {
    const intptr_t number = stream == Py_None ? 0 : PyLong_AsSsize_t(stream);
    check(PyErr_Occurred() == nullptr ? 0 : -1);
    hand_over(t, number);
  }
  if (versioned) return check(export_tensor<dl::ManagedVersioned>(t, copied));
  FACULA_CHECK(!t.storage()->read_only(), Buffer, Operator{"__dlpack__"},
               "the tensor is read-only, which only DLPack version 1 can say; the consumer asked for an older one");
  return check(export_tensor<dl::Managed>(t, copied));
  FACULA_PY_END(nullptr)
}

PyObject* method_dlpack_device(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  const dl::Device device = to_dl(tensor_of(self), "__dlpack_device__");
  return Py_BuildValue("(ii)", device.type, device.id);
  FACULA_PY_END(nullptr)
}

// ---- import ----
template <typename Struct>
void release_import(void* p) {
  auto* managed = static_cast<Struct*>(p);
  if (managed->deleter == nullptr) return;
  // The producer's deleter may touch Python objects.
  if (!interpreter_alive()) return;
  AcquireGil gil;
  managed->deleter(managed);
}

// Checks all that can be wrong before the capsule is marked as used: until then it frees the memory,
// from then on the storage does.
template <typename Struct>
Tensor consume(PyObject* capsule, const char* name, const char* used_name, bool read_only) {
  auto* managed = static_cast<Struct*>(PyCapsule_GetPointer(capsule, name));
  if (managed == nullptr) throw PythonError();
  const dl::Tensor& d = managed->tensor;
  const Device device = from_dl(d.device);
  FACULA_CHECK(d.ndim >= 0 && (d.ndim == 0 || d.shape != nullptr), Buffer, Operator{"from_dlpack"}, "malformed tensor");
  const ScalarType dtype = from_dl(d.dtype);
  if (const DeviceInterface* const interface = interface_or_null(device.type)) {
    FACULA_CHECK(interface->supports(dtype), Buffer, Operator{"from_dlpack"}, "device '", interface->name,
                 "' has no tensors of ", dtype_name(dtype));
  }
  const auto n = static_cast<size_t>(d.ndim);
  DimVector sizes(d.shape, d.shape + n);
  DimVector strides = contiguous_strides(sizes);
  int64_t last = 0;
  const bool empty = numel_of(sizes) == 0;
  for (size_t i = 0; i < n && !empty; ++i) {
    if (d.strides != nullptr && sizes[i] > 1) strides[i] = d.strides[i];
    FACULA_CHECK(strides[i] >= 0, Buffer, Operator{"from_dlpack"}, "negative strides are not supported: dimension ", i,
                 " has stride ", strides[i]);
    int64_t step = 0;
    FACULA_CHECK(!__builtin_mul_overflow(sizes[i] - 1, strides[i], &step) && !__builtin_add_overflow(last, step, &last),
                 Buffer, Operator{"from_dlpack"}, "the strides overflow");
  }
  FACULA_CHECK(d.byte_offset <= PTRDIFF_MAX, Buffer, Operator{"from_dlpack"}, "byte_offset ", d.byte_offset,
               " leads out of any memory");
  char* data = d.data != nullptr ? static_cast<char*>(d.data) + d.byte_offset : nullptr;
  FACULA_CHECK(empty || data != nullptr, Buffer, Operator{"from_dlpack"}, "the tensor has elements but no memory");
  FACULA_CHECK(empty || reinterpret_cast<uintptr_t>(data) % type_info(dtype).alignment == 0, Buffer,
               Operator{"from_dlpack"}, "the memory is not aligned for ", dtype_name(dtype));
  FACULA_CHECK(last < PTRDIFF_MAX / static_cast<int64_t>(itemsize(dtype)), Buffer, Operator{"from_dlpack"},
               "the tensor would reach over more bytes than can be addressed");
  const size_t bytes = empty ? 0 : static_cast<size_t>(last + 1) * itemsize(dtype);
  check(PyCapsule_SetName(capsule, used_name));
  Storage storage = StorageImpl::wrap(data, bytes, device, release_import<Struct>, managed, read_only);
  return from_storage(std::move(storage), sizes, strides, 0, dtype);
}

Tensor from_capsule(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kNameVersioned)) {
    auto* managed = static_cast<dl::ManagedVersioned*>(PyCapsule_GetPointer(capsule, kNameVersioned));
    FACULA_CHECK(managed->version.major == 1, Buffer, Operator{"from_dlpack"}, "DLPack version ",
                 managed->version.major, ".", managed->version.minor, " is not known; version 1 is");
    return consume<dl::ManagedVersioned>(capsule, kNameVersioned, kUsedNameVersioned,
                                         (managed->flags & dl::kReadOnly) != 0);
  }
  if (PyCapsule_IsValid(capsule, kName)) return consume<dl::Managed>(capsule, kName, kUsedName, false);
  const char* name = PyCapsule_GetName(capsule);
  PyErr_Clear();
  raise(ErrorKind::Value, Operator{"from_dlpack"}, "the capsule is named '", name != nullptr ? name : "",
        "', expected '", kNameVersioned, "' or '", kName, "'; a capsule can be used once only");
}

PyObject* function_from_dlpack(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"x", "device", "copy", nullptr};
  PyObject *x = nullptr, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OO:from_dlpack", const_cast<char**>(names), &x, &device, &copy)) {
    return nullptr;
  }
  FACULA_PY_TRY
  std::optional<bool> copying;
  if (copy != Py_None) copying = PyObject_IsTrue(copy) != 0;
  Tensor t = from_dlpack(x, copying);
  if (device != Py_None) {
    const Device named = device_value(device), d = named.type > kMeta ? resolved(named) : named;
    if (d.type > kMeta ? d != t.device() : d.type != t.device().type) {
      FACULA_CHECK(!copying || *copying, Value, Operator{"from_dlpack"}, "copy=False, but moving to ", to_string(d),
                   " needs a copy");
      t = core_operators().cast(t, t.dtype(), d);
    }
  }
  return wrap(std::move(t));
  FACULA_PY_END(nullptr)
}

PyObject* function_to_dlpack(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  FACULA_CHECK(is_tensor(o), Type, Operator{"to_dlpack"}, "argument must be a Tensor, not ", Py_TYPE(o)->tp_name);
  check_exportable(tensor_of(o));
  return check(export_tensor<dl::Managed>(tensor_of(o), false));
  FACULA_PY_END(nullptr)
}

// Where a producer's memory is; the CPU where it does not say.
Device device_of(PyObject* o) {
  Ref pair(PyObject_CallMethod(o, "__dlpack_device__", nullptr));
  if (!pair && PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Clear();
    return Device{kCPU};
  }
  check(pair.get() != nullptr ? 0 : -1);
  // the type may be an enumeration
  Ref numbers(check(PySequence_Tuple(pair.get())));
  FACULA_CHECK(PyTuple_GET_SIZE(numbers.get()) == 2, Type, Operator{"from_dlpack"}, "__dlpack_device__ of ",
               Py_TYPE(o)->tp_name, " gave no pair of a type and an index");
  const long type = PyLong_AsLong(PyTuple_GET_ITEM(numbers.get(), 0));
  const long id = PyLong_AsLong(PyTuple_GET_ITEM(numbers.get(), 1));
  check(PyErr_Occurred() == nullptr ? 0 : -1);
  FACULA_CHECK(type == static_cast<int32_t>(type) && id == static_cast<int32_t>(id), Buffer, Operator{"from_dlpack"},
               "__dlpack_device__ of ", Py_TYPE(o)->tp_name, " gave ", type, " and ", id,
               ", which are no type and index");
  return from_dl(dl::Device{static_cast<int32_t>(type), static_cast<int32_t>(id)});
}

}  // namespace

Tensor from_dlpack(PyObject* o, std::optional<bool> copy) {
  if (PyCapsule_CheckExact(o)) {
    Tensor t = from_capsule(o);
    return copy.value_or(false) ? core_operators().clone(t) : t;
  }
  Ref method(PyObject_GetAttrString(o, "__dlpack__"));
  if (!method) {
    PyErr_Clear();
    raise(ErrorKind::Type, Operator{"from_dlpack"}, "argument '", Argument{"x"}, "' must have __dlpack__, and ",
          Py_TYPE(o)->tp_name, " has not");
  }
  Ref none(PyTuple_New(0));
  Ref kwargs(check(Py_BuildValue("{s:(ii)}", "max_version", 1, 0)));
  if (copy) check(PyDict_SetItemString(kwargs.get(), "copy", *copy ? Py_True : Py_False));
  if (const Device device = device_of(o); device.type != kCPU) {
    if (void* const stream = current_stream(device)) {  // without the argument it is the default one
      Ref number(check(PyLong_FromVoidPtr(stream)));
      check(PyDict_SetItemString(kwargs.get(), "stream", number.get()));
    }
  }
  bool copied = copy.has_value();
  Ref capsule(PyObject_Call(method.get(), none.get(), kwargs.get()));
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();  // a producer from before max_version and copy
    copied = false;
    check(PyDict_DelItemString(kwargs.get(), "max_version"));
    if (copy) check(PyDict_DelItemString(kwargs.get(), "copy"));
    capsule = Ref(PyObject_Call(method.get(), none.get(), kwargs.get()));
  }
  check(capsule.get() != nullptr ? 0 : -1);
  FACULA_CHECK(PyCapsule_CheckExact(capsule.get()), Type, Operator{"from_dlpack"}, "__dlpack__ of ",
               Py_TYPE(o)->tp_name, " gave no capsule");
  Tensor t = from_capsule(capsule.get());
  return copy.value_or(false) && !copied ? core_operators().clone(t) : t;
}

const PyMethodDef exchange_methods[] = {
    {"__dlpack__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(method_dlpack)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"__dlpack_device__", method_dlpack_device, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
const PyMethodDef exchange_functions[] = {
    {"from_dlpack", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function_from_dlpack)),
     METH_VARARGS | METH_KEYWORDS,
     "from_dlpack(x, /, *, device=None, copy=None)\n--\n\nA tensor over the memory of an object with "
     "__dlpack__."},
    {"to_dlpack", function_to_dlpack, METH_O, "to_dlpack(tensor, /)\n--\n\nA DLPack capsule over the tensor's memory."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
