// The device interface for Python: what facula.backends and the modules of devices are made of.
#include "runtime/device/interface.h"

#include "runtime/autograd/engine.h"
#include "runtime/autograd/meta.h"
#include "runtime/bindings/devices/interface.h"
#include "runtime/bindings/types/types.h"
#include "runtime/device/memory.h"
#include "runtime/dispatch/autocast.h"

namespace facula::python {

namespace {

DeviceInterface& interface_argument(PyObject* o) {
  FACULA_CHECK(PyUnicode_Check(o), Type, "the name of a device must be a str, not ", Py_TYPE(o)->tp_name);
  const char* name = PyUnicode_AsUTF8(o);
  if (name == nullptr) throw PythonError();
  return interface_of(parse_device(name).type);
}

// Runs without Python's lock, so that a backend written in Python, or another thread, can go on.
template <typename F>
auto unlocked(F&& fn) {
  ReleaseGil released;
  return fn();
}

void set_item(PyObject* dict, const char* key, PyObject* value) {
  Ref held(check(value));
  check(PyDict_SetItemString(dict, key, held.get()));
}

PyObject* names_list(const char* const* names) {
  Ref list(check(PyList_New(0)));
  for (; names != nullptr && *names != nullptr; ++names) {
    Ref text(check(PyUnicode_FromString(*names)));
    check(PyList_Append(list.get(), text.get()));
  }
  return list.release();
}

PyObject* backend_names(PyObject*, PyObject*) {
  FACULA_PY_TRY
  Ref list(check(PyList_New(0)));
  for (const DeviceInterface* d : all_interfaces()) {
    Ref text(check(PyUnicode_FromString(d->name.c_str())));
    check(PyList_Append(list.get(), text.get()));
  }
  return list.release();
  FACULA_PY_END(nullptr)
}

PyObject* backend_info(PyObject*, PyObject* name) {
  FACULA_PY_TRY
  const DeviceInterface& d = interface_argument(name);
  Ref dict(check(PyDict_New()));
  set_item(dict.get(), "name", PyUnicode_FromString(d.name.c_str()));
  set_item(dict.get(), "package", PyUnicode_FromString(d.package.c_str()));
  set_item(dict.get(), "tag", PyUnicode_FromString(d.tag.c_str()));
  set_item(dict.get(), "dlpack_type", PyLong_FromLong(d.api.dlpack_type));
  set_item(dict.get(), "flags", PyLong_FromUnsignedLongLong(d.api.flags));
  set_item(dict.get(), "dtypes", PyLong_FromUnsignedLongLong(d.api.dtypes));
  set_item(dict.get(), "streams", PyBool_FromLong(d.has_streams()));
  set_item(dict.get(), "graphs", PyBool_FromLong(d.api.begin_capture != nullptr));
  set_item(dict.get(), "pins", PyBool_FromLong(d.api.pin != nullptr));
  set_item(dict.get(), "started", PyBool_FromLong(d.used.load()));
  set_item(dict.get(), "fallback", PyBool_FromLong(d.fallback.load()));
  set_item(dict.get(), "pointwise", PyBool_FromLong(d.api.pointwise != nullptr));
  set_item(dict.get(), "reduction", PyBool_FromLong(d.api.reduction != nullptr));
  const std::string dtype(dtype_name(default_autocast_dtype(d.type)));
  set_item(dict.get(), "autocast_dtype", PyUnicode_FromString(dtype.c_str()));
  set_item(dict.get(), "autocast_lower", names_list(d.api.autocast_lower));
  set_item(dict.get(), "autocast_float32", names_list(d.api.autocast_float32));
  Ref kernels(check(PyList_New(0)));
  for (const OperatorEntry* op : all_operators()) {
    if (d.kernels[op->number].load() == nullptr) continue;
    Ref text(check(PyUnicode_FromString(op->name)));
    check(PyList_Append(kernels.get(), text.get()));
  }
  set_item(dict.get(), "kernels", kernels.release());
  return dict.release();
  FACULA_PY_END(nullptr)
}

PyObject* load_library(PyObject*, PyObject* path) {
  FACULA_PY_TRY
  Ref bytes(check(PyOS_FSPath(path)));
  const char* text = PyUnicode_AsUTF8(bytes.get());
  if (text == nullptr) throw PythonError();
  Ref list(check(PyList_New(0)));
  for (const std::string& name : load_backend_library(text)) {
    Ref item(check(PyUnicode_FromString(name.c_str())));
    check(PyList_Append(list.get(), item.get()));
  }
  return list.release();
  FACULA_PY_END(nullptr)
}

// ---- devices ----

Device device_argument(PyObject* o) {
  const Device d = device_value(o);
  FACULA_CHECK(d.type > kMeta, Value, "'", to_string(d), "' has no streams and no memory of its own");
  started_interface(d.type);
  return resolved(d);
}

PyObject* device_count(PyObject*, PyObject* name) {
  FACULA_PY_TRY
  DeviceInterface& d = interface_argument(name);
  return PyLong_FromLong(unlocked([&] { return d.count(); }));
  FACULA_PY_END(nullptr)
}
PyObject* current_device(PyObject*, PyObject* name) {
  FACULA_PY_TRY
  return PyLong_FromLong(current_index(interface_argument(name).type));
  FACULA_PY_END(nullptr)
}
PyObject* set_device(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  const Device d = device_argument(o);
  set_current_index(d.type, d.index);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* resolved_device(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  return wrap(resolved(device_value(o)));
  FACULA_PY_END(nullptr)
}
PyObject* device_properties(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  const Device d = device_argument(o);
  const DeviceInterface& interface = interface_of(d.type);
  FaculaProperties p{};
  if (interface.api.properties != nullptr) {
    interface.check(unlocked([&] { return interface.api.properties(interface.api.context, d.index, &p); }), d.index,
                    "asking for properties failed");
  }
  p.name[sizeof(p.name) - 1] = '\0';
  const char* const text = p.name[0] != '\0' ? p.name : interface.name.c_str();
  const Ref name(check(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "ignore")));
  return Py_BuildValue("{s:O,s:K,s:i,s:i,s:i}", "name", name.get(), "total_memory",
                       static_cast<unsigned long long>(p.total_memory), "major", p.major, "minor", p.minor,
                       "multi_processor_count", p.processors);
  FACULA_PY_END(nullptr)
}
PyObject* memory_info(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  const Device d = device_argument(o);
  const DeviceInterface& interface = interface_of(d.type);
  FACULA_CHECK(interface.api.memory_info != nullptr, NotImplemented, Operator{"mem_get_info"}, "device '",
               interface.name, "' does not tell");
  uint64_t free = 0, total = 0;
  interface.check(unlocked([&] { return interface.api.memory_info(interface.api.context, d.index, &free, &total); }),
                  d.index, "asking for its memory failed");
  return Py_BuildValue("(KK)", static_cast<unsigned long long>(free), static_cast<unsigned long long>(total));
  FACULA_PY_END(nullptr)
}
PyObject* synchronize_device(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  const Device d = device_argument(o);
  unlocked([&] { synchronize(d); });
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

// ---- streams: a device and a number ----

struct StreamArgument {
  Device device;
  void* stream = nullptr;
};
StreamArgument stream_arguments(PyObject* args, const char* format) {
  PyObject *device, *stream;
  if (PyArg_ParseTuple(args, format, &device, &stream) == 0) throw PythonError();
  StreamArgument s{device_argument(device), PyLong_AsVoidPtr(stream)};
  if (s.stream == nullptr && PyErr_Occurred() != nullptr) throw PythonError();
  return s;
}
PyObject* new_stream(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject* device;
  int priority = 0, own = 0;
  if (PyArg_ParseTuple(args, "Oi|p:_new_stream", &device, &priority, &own) == 0) throw PythonError();
  const Device d = device_argument(device);
  return PyLong_FromVoidPtr(unlocked([&] { return own != 0 ? make_stream(d, priority) : pooled_stream(d, priority); }));
  FACULA_PY_END(nullptr)
}
PyObject* get_stream(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  return PyLong_FromVoidPtr(current_stream(device_argument(o)));
  FACULA_PY_END(nullptr)
}
PyObject* set_stream(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  const StreamArgument s = stream_arguments(args, "OO:_set_stream");
  set_current_stream(s.device, s.stream);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* stream_synchronize(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  const StreamArgument s = stream_arguments(args, "OO:_stream_synchronize");
  unlocked([&] { synchronize_stream(s.device, s.stream); });
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* stream_query(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  const StreamArgument s = stream_arguments(args, "OO:_stream_query");
  const DeviceInterface& d = interface_of(s.device.type);
  if (d.api.query_stream == nullptr) Py_RETURN_TRUE;
  const int32_t status = unlocked([&] { return d.api.query_stream(d.api.context, s.device.index, s.stream); });
  if (status == FACULA_NOT_READY) Py_RETURN_FALSE;
  d.check(status, s.device.index, "work on the device failed");
  Py_RETURN_TRUE;
  FACULA_PY_END(nullptr)
}

// ---- events: a capsule ----

constexpr const char* kEvent = "facula.event";
DeviceEvent& event_argument(PyObject* o) {
  void* const e = PyCapsule_GetPointer(o, kEvent);
  if (e == nullptr) throw PythonError();
  return *static_cast<DeviceEvent*>(e);
}
PyObject* new_event(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject* device;
  int timing = 0;
  if (PyArg_ParseTuple(args, "Op:_new_event", &device, &timing) == 0) throw PythonError();
  const Device d = device_argument(device);
  auto event = unlocked([&] { return std::make_unique<DeviceEvent>(d, timing != 0); });
  PyObject* capsule = check(PyCapsule_New(event.get(), kEvent, [](PyObject* o) {
    const auto* const e = static_cast<DeviceEvent*>(PyCapsule_GetPointer(o, kEvent));
    unlocked([&] { delete e; });
  }));
  event.release();
  return capsule;
  FACULA_PY_END(nullptr)
}
PyObject* event_record(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *event, *stream;
  if (PyArg_ParseTuple(args, "OO:_event_record", &event, &stream) == 0) throw PythonError();
  DeviceEvent& e = event_argument(event);
  void* const s = PyLong_AsVoidPtr(stream);
  unlocked([&] { e.record(s); });
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* event_wait(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *event, *device, *stream;
  if (PyArg_ParseTuple(args, "OOO:_event_wait", &event, &device, &stream) == 0) throw PythonError();
  const DeviceEvent& e = event_argument(event);
  const Device d = device_argument(device);
  void* const s = PyLong_AsVoidPtr(stream);
  unlocked([&] { e.wait(d, s); });
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* event_query(PyObject*, PyObject* event) {
  FACULA_PY_TRY
  const DeviceEvent& e = event_argument(event);
  return PyBool_FromLong(unlocked([&] { return e.done(); }));
  FACULA_PY_END(nullptr)
}
PyObject* event_synchronize(PyObject*, PyObject* event) {
  FACULA_PY_TRY
  const DeviceEvent& e = event_argument(event);
  unlocked([&] { e.synchronize(); });
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* event_elapsed(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *start, *end;
  if (PyArg_ParseTuple(args, "OO:_event_elapsed", &start, &end) == 0) throw PythonError();
  const DeviceEvent &from = event_argument(start), &to = event_argument(end);
  return PyFloat_FromDouble(unlocked([&] { return from.elapsed_to(to); }));
  FACULA_PY_END(nullptr)
}

// ---- graphs ----

PyObject* graph_begin(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  const StreamArgument s = stream_arguments(args, "OO:_graph_begin");
  const DeviceInterface& d = interface_of(s.device.type);
  FACULA_CHECK(d.api.begin_capture != nullptr, NotImplemented, "device '", d.name, "' has no graphs");
  return PyLong_FromUnsignedLongLong(unlocked([&] {
    d.check(d.api.begin_capture(d.api.context, s.device.index, s.stream), s.device.index, "beginning a capture failed");
    return d.memory->begin_graph(s.device.index, s.stream);
  }));
  FACULA_PY_END(nullptr)
}
PyObject* graph_end(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  const StreamArgument s = stream_arguments(args, "OO:_graph_end");
  const DeviceInterface& d = interface_of(s.device.type);
  return PyLong_FromVoidPtr(unlocked([&] {
    void* graph = nullptr;
    const int32_t status = d.api.end_capture(d.api.context, s.device.index, s.stream, &graph);
    d.memory->end_graph(s.device, s.stream);
    d.check(status, s.device.index, "ending a capture failed");
    return graph;
  }));
  FACULA_PY_END(nullptr)
}
// _graph_free(device, number): the memory that _graph_begin's number stands for serves others again
PyObject* graph_free(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject* device;
  unsigned long long number;
  if (PyArg_ParseTuple(args, "OK:_graph_free", &device, &number) == 0) throw PythonError();
  const Device d = device_argument(device);
  unlocked([&] { interface_of(d.type).memory->destroy_graph(d, number); });
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
// _graph_run(device, graph): launches it on the current stream; _graph_destroy(device, graph)
PyObject* graph_run(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  const StreamArgument s = stream_arguments(args, "OO:_graph_run");
  const DeviceInterface& d = interface_of(s.device.type);
  void* const stream = current_stream(s.device);
  d.check(unlocked([&] { return d.api.launch_graph(d.api.context, s.device.index, s.stream, stream); }), s.device.index,
          "launching a graph failed");
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* graph_destroy(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  const StreamArgument s = stream_arguments(args, "OO:_graph_destroy");
  const DeviceInterface& d = interface_of(s.device.type);
  d.check(unlocked([&] { return d.api.destroy_graph(d.api.context, s.device.index, s.stream); }), s.device.index,
          "destroying a graph failed");
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

// ---- memory ----

PyObject* device_memory_stats(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  const Device d = device_argument(o);
  const DeviceMemoryStats s = interface_of(d.type).memory->stats(d.index);
  return Py_BuildValue("{s:L,s:L,s:L,s:L,s:L,s:L,s:L,s:L}", "allocated", static_cast<long long>(s.allocated), "peak",
                       static_cast<long long>(s.peak), "reserved", static_cast<long long>(s.reserved), "peak_reserved",
                       static_cast<long long>(s.peak_reserved), "allocations", static_cast<long long>(s.allocations),
                       "reused", static_cast<long long>(s.reused), "retries", static_cast<long long>(s.retries),
                       "largest_free", static_cast<long long>(s.largest_free));
  FACULA_PY_END(nullptr)
}
PyObject* reset_peak(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  const Device d = device_argument(o);
  interface_of(d.type).memory->reset_peak(d.index);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* device_empty_cache(PyObject*, PyObject* name) {
  FACULA_PY_TRY
  DeviceInterface& d = interface_argument(name);
  unlocked([&] { d.memory->empty_cache(); });
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* record_stream(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *tensor, *device, *stream;
  if (PyArg_ParseTuple(args, "O!OO:_record_stream", tensor_type, &tensor, &device, &stream) == 0) throw PythonError();
  const Tensor& t = tensor_of(tensor);
  check_memory(t, "record_stream");
  FACULA_CHECK(t.device().type > kMeta, Device, Operator{"record_stream"}, "the tensor is on ", to_string(t.device()),
               ", which has no streams");
  const Device d = device_argument(device);
  FACULA_CHECK(d == t.device(), Value, Operator{"record_stream"}, "the tensor is on ", to_string(t.device()),
               ", the stream is of ", to_string(d));
  interface_of(t.device().type).memory->record_stream(t.storage()->data(), t.device(), PyLong_AsVoidPtr(stream));
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
// _pin(tensor, name): a copy in host memory that the device `name` copies from and to in the background
PyObject* pin(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *tensor, *name;
  if (PyArg_ParseTuple(args, "O!O:_pin", tensor_type, &tensor, &name) == 0) throw PythonError();
  const Tensor& t = tensor_of(tensor);
  check_memory(t, "pin_memory");
  FACULA_CHECK(t.is_cpu(), Device, Operator{"pin_memory"}, "only host memory is pinned, the tensor is on ",
               to_string(t.device()));
  if (is_pinned(t.raw())) return wrap(Tensor(t));
  const DimVector strides = preserved_strides(t);
  DeviceInterface& interface = interface_argument(name);
  const Storage storage = unlocked([&] { return allocate_pinned(interface, t.nbytes()); });
  const Tensor made = from_storage(storage, t.sizes(), strides, 0, t.dtype());
  GradMode off(false);
  core_operators().copy_into(made, detach(t));
  return wrap(Tensor(made));
  FACULA_PY_END(nullptr)
}
PyObject* pinned(PyObject*, PyObject* tensor) {
  FACULA_PY_TRY
  FACULA_CHECK(is_tensor(tensor), Type, Operator{"is_pinned"}, "the argument must be a Tensor, not ",
               Py_TYPE(tensor)->tp_name);
  const Tensor& t = tensor_of(tensor);
  return PyBool_FromLong(t.is_cpu() && is_pinned(t.raw()));
  FACULA_PY_END(nullptr)
}

// ---- fallback, profiling, random numbers ----

PyObject* fallbacks(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject* name;
  int reset = 0;
  if (PyArg_ParseTuple(args, "O|p:_fallbacks", &name, &reset) == 0) throw PythonError();
  DeviceInterface& d = interface_argument(name);
  Ref dict(check(PyDict_New()));
  std::lock_guard lock(d.counting);
  for (const auto& [op, count] : d.fallbacks) set_item(dict.get(), op.c_str(), PyLong_FromLongLong(count));
  if (reset != 0) {
    d.fallbacks.clear();
    d.refusals.clear();
  }
  return dict.release();
  FACULA_PY_END(nullptr)
}
PyObject* refusals(PyObject*, PyObject* name) {
  FACULA_PY_TRY
  DeviceInterface& d = interface_argument(name);
  Ref dict(check(PyDict_New()));
  std::lock_guard lock(d.counting);
  for (const auto& [op, r] : d.refusals)
    set_item(dict.get(), op.c_str(), Py_BuildValue("(Ls)", static_cast<long long>(r.calls), r.reason.c_str()));
  return dict.release();
  FACULA_PY_END(nullptr)
}
PyObject* allow_fallback(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject* name;
  int allowed = 1;
  if (PyArg_ParseTuple(args, "Op:_allow_fallback", &name, &allowed) == 0) throw PythonError();
  return PyBool_FromLong(interface_argument(name).fallback.exchange(allowed != 0));
  FACULA_PY_END(nullptr)
}
PyObject* profile(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject* name;
  int on = 1;
  if (PyArg_ParseTuple(args, "Op:_profile", &name, &on) == 0) throw PythonError();
  return PyBool_FromLong(interface_argument(name).profiling.exchange(on != 0));
  FACULA_PY_END(nullptr)
}
PyObject* generator_of(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  return wrap(default_generator(resolved(device_value(o))));
  FACULA_PY_END(nullptr)
}

// Entry points are looked up, and loaded, when a name is used that nobody has registered.
bool load_by_name(std::string_view name) {
  if (!interpreter_alive()) return false;
  AcquireGil gil;
  Ref load = import_attribute("facula.backends", "_load");
  Ref text(check(PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()))));
  Ref found(check(PyObject_CallOneArg(load.get(), text.get())));
  return found.get() == Py_True;
}

}  // namespace

void init_interface() { device_loader = load_by_name; }

const PyMethodDef interface_functions[] = {
    {"_backend_names", backend_names, METH_NOARGS, nullptr},
    {"_backend_info", backend_info, METH_O, nullptr},
    {"_load_backend_library", load_library, METH_O, nullptr},
    {"_register_backend", register_python_backend, METH_O, nullptr},
    {"_device_count", device_count, METH_O, nullptr},
    {"_current_device", current_device, METH_O, nullptr},
    {"_set_device", set_device, METH_O, nullptr},
    {"_resolved_device", resolved_device, METH_O, nullptr},
    {"_device_properties", device_properties, METH_O, nullptr},
    {"_memory_info", memory_info, METH_O, nullptr},
    {"_synchronize", synchronize_device, METH_O, nullptr},
    {"_new_stream", new_stream, METH_VARARGS, nullptr},
    {"_get_stream", get_stream, METH_O, nullptr},
    {"_set_stream", set_stream, METH_VARARGS, nullptr},
    {"_stream_synchronize", stream_synchronize, METH_VARARGS, nullptr},
    {"_stream_query", stream_query, METH_VARARGS, nullptr},
    {"_new_event", new_event, METH_VARARGS, nullptr},
    {"_event_record", event_record, METH_VARARGS, nullptr},
    {"_event_wait", event_wait, METH_VARARGS, nullptr},
    {"_event_query", event_query, METH_O, nullptr},
    {"_event_synchronize", event_synchronize, METH_O, nullptr},
    {"_event_elapsed", event_elapsed, METH_VARARGS, nullptr},
    {"_graph_begin", graph_begin, METH_VARARGS, nullptr},
    {"_graph_end", graph_end, METH_VARARGS, nullptr},
    {"_graph_run", graph_run, METH_VARARGS, nullptr},
    {"_graph_destroy", graph_destroy, METH_VARARGS, nullptr},
    {"_device_memory_stats", device_memory_stats, METH_O, nullptr},
    {"_reset_peak", reset_peak, METH_O, nullptr},
    {"_device_empty_cache", device_empty_cache, METH_O, nullptr},
    {"_graph_free", graph_free, METH_VARARGS, nullptr},
    {"_record_stream", record_stream, METH_VARARGS, nullptr},
    {"_pin", pin, METH_VARARGS, nullptr},
    {"_is_pinned", pinned, METH_O, nullptr},
    {"_fallbacks", fallbacks, METH_VARARGS, nullptr},
    {"_refusals", refusals, METH_O, nullptr},
    {"_allow_fallback", allow_fallback, METH_VARARGS, nullptr},
    {"_profile", profile, METH_VARARGS, nullptr},
    {"_generator_of", generator_of, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
