// The device interface for Python: what facula.backends and the modules of devices are made of.
#include "runtime/device/interface.h"

#include <cstring>

#include "runtime/bindings/types/casters.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/meta.h"
#include "runtime/bindings/define.h"
#include "runtime/bindings/devices/interface.h"
#include "runtime/device/memory.h"
#include "runtime/device/sharing.h"
#include "runtime/dispatch/capture.h"
#include "runtime/dispatch/autocast.h"

namespace py = pybind11;
using namespace py::literals;

namespace facula::python {

namespace {

// What functions here take: the name of a device interface; a device that has one, started; a number that stands for a
// stream or a graph; an event, in a capsule.
struct Named {
  DeviceInterface* interface = nullptr;
  DeviceInterface* operator->() const { return interface; }
};
struct Started {
  Device device;
  DeviceInterface& interface() const { return interface_of(device.type); }
};
struct Handle {
  void* p = nullptr;
};
struct Event {
  DeviceEvent* event = nullptr;
  DeviceEvent* operator->() const { return event; }
};

void load(Named& named, PyObject* o) {
  FACULA_CHECK(PyUnicode_Check(o), Type, "the name of a device must be a str, not ", Py_TYPE(o)->tp_name);
  const char* name = PyUnicode_AsUTF8(o);
  if (name == nullptr) throw PythonError();
  named.interface = &interface_of(parse_device(name).type);
}
void load(Started& started, PyObject* o) {
  const Device d = device_value(o);
  FACULA_CHECK(d.type > kMeta, Value, "'", to_string(d), "' has no streams and no memory of its own");
  started_interface(d.type);
  started.device = resolved(d);
}
void load(Handle& handle, PyObject* o) {
  handle.p = PyLong_AsVoidPtr(o);
  if (handle.p == nullptr && PyErr_Occurred() != nullptr) throw PythonError();
}
void load(Event& event, PyObject* o) {
  event.event = static_cast<DeviceEvent*>(PyCapsule_GetPointer(o, kEvent));
  if (event.event == nullptr) throw PythonError();
}

}  // namespace

}  // namespace facula::python

namespace pybind11::detail {

// What does not fit raises by itself.
template <typename T>
struct loading_caster : facula_caster<loading_caster<T>, T> {
  static constexpr auto name = const_name("object");
  bool load(handle source, bool) {
    facula::python::load(this->value, source.ptr());
    return true;
  }
};
template <>
struct type_caster<facula::python::Named> : loading_caster<facula::python::Named> {};
template <>
struct type_caster<facula::python::Started> : loading_caster<facula::python::Started> {};
template <>
struct type_caster<facula::python::Event> : loading_caster<facula::python::Event> {};
template <>
struct type_caster<facula::python::Handle> : loading_caster<facula::python::Handle> {
  static handle cast(facula::python::Handle h, return_value_policy, handle) { return PyLong_FromVoidPtr(h.p); }
};

}  // namespace pybind11::detail

namespace facula::python {

namespace {

// Runs without Python's lock, so that a backend written in Python, or another thread, can go on.
template <typename F>
auto unlocked(F&& fn) {
  ReleaseGil released;
  return fn();
}
// The same for a whole function.
const py::call_guard<ReleaseGil> kUnlocked;

std::vector<std::string> texts(const char* const* names) {
  std::vector<std::string> list;
  for (; names != nullptr && *names != nullptr; ++names) list.emplace_back(*names);
  return list;
}

py::dict info(Named d) {
  std::vector<std::string> kernels;
  for (const OperatorEntry* op : all_operators()) {
    if (d->kernels[op->number].load() != nullptr) kernels.emplace_back(op->name);
  }
  return py::dict("name"_a = d->name, "package"_a = d->package, "tag"_a = d->tag, "dlpack_type"_a = d->api.dlpack_type,
                  "flags"_a = d->api.flags, "dtypes"_a = d->api.dtypes, "streams"_a = d->has_streams(),
                  "graphs"_a = d->api.begin_capture != nullptr, "pins"_a = d->api.pin != nullptr,
                  "started"_a = d->used.load(), "fallback"_a = d->fallback.load(),
                  "pointwise"_a = d->api.pointwise != nullptr, "reduction"_a = d->api.reduction != nullptr,
                  "autocast_dtype"_a = std::string(dtype_name(default_autocast_dtype(d->type))),
                  "autocast_lower"_a = texts(d->api.autocast_lower),
                  "autocast_float32"_a = texts(d->api.autocast_float32), "kernels"_a = kernels);
}

py::dict device_properties(Started d) {
  const DeviceInterface& interface = d.interface();
  FaculaProperties p{};
  if (interface.api.properties != nullptr) {
    interface.check(unlocked([&] { return interface.api.properties(interface.api.context, d.device.index, &p); }),
                    d.device.index, "asking for properties failed");
  }
  p.name[sizeof(p.name) - 1] = '\0';
  const char* const text = p.name[0] != '\0' ? p.name : interface.name.c_str();
  const auto name = py::reinterpret_steal<py::str>(
      check(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(std::strlen(text)), "ignore")));
  return py::dict("name"_a = name, "total_memory"_a = p.total_memory, "major"_a = p.major, "minor"_a = p.minor,
                  "multi_processor_count"_a = p.processors);
}

std::pair<uint64_t, uint64_t> memory_info(Started d) {
  const DeviceInterface& interface = d.interface();
  FACULA_CHECK(interface.api.memory_info != nullptr, NotImplemented, Operator{"mem_get_info"}, "device '",
               interface.name, "' does not tell");
  uint64_t free = 0, total = 0;
  interface.check(interface.api.memory_info(interface.api.context, d.device.index, &free, &total), d.device.index,
                  "asking for its memory failed");
  return {free, total};
}

py::dict memory_stats(Started d) {
  const DeviceMemoryStats s = d.interface().memory->stats(d.device.index);
  return py::dict("allocated"_a = s.allocated, "peak"_a = s.peak, "reserved"_a = s.reserved,
                  "peak_reserved"_a = s.peak_reserved, "allocations"_a = s.allocations, "reused"_a = s.reused,
                  "retries"_a = s.retries, "largest_free"_a = s.largest_free);
}

bool is_stream_done(Started d, Handle stream) {
  const DeviceInterface& interface = d.interface();
  if (interface.api.query_stream == nullptr) return true;
  const int32_t status = interface.api.query_stream(interface.api.context, d.device.index, stream.p);
  if (status == FACULA_NOT_READY) return false;
  interface.check(status, d.device.index, "work on the device failed");
  return true;
}

py::capsule new_event(Started d, bool timing) {
  auto event = unlocked([&] { return std::make_unique<DeviceEvent>(d.device, timing); });
  const py::capsule capsule(event.get(), kEvent, [](PyObject* o) {
    const auto* const e = static_cast<DeviceEvent*>(PyCapsule_GetPointer(o, kEvent));
    unlocked([&] { delete e; });
  });
  event.release();
  return capsule;
}

// What was called before goes before: events, waits and graphs are of what is in the streams.
const char* const kStreams = "a stream, an event or a graph is used";

uint64_t begin_graph(Started d, Handle stream) {
  settle_capture(kStreams);
  const DeviceInterface& interface = d.interface();
  FACULA_CHECK(interface.api.begin_capture != nullptr, NotImplemented, "device '", interface.name, "' has no graphs");
  interface.check(interface.api.begin_capture(interface.api.context, d.device.index, stream.p), d.device.index,
                  "beginning a capture failed");
  return interface.memory->begin_graph(d.device.index, stream.p);
}
Handle end_graph(Started d, Handle stream) {
  settle_capture(kStreams);
  const DeviceInterface& interface = d.interface();
  Handle graph;
  const int32_t status = interface.api.end_capture(interface.api.context, d.device.index, stream.p, &graph.p);
  interface.memory->end_graph(d.device, stream.p);
  interface.check(status, d.device.index, "ending a capture failed");
  return graph;
}
void run_graph(Started d, Handle graph) {
  settle_capture(kStreams);
  const DeviceInterface& interface = d.interface();
  void* const stream = current_stream(d.device);
  interface.check(interface.api.launch_graph(interface.api.context, d.device.index, graph.p, stream), d.device.index,
                  "launching a graph failed");
}
void destroy_graph(Started d, Handle graph) {
  const DeviceInterface& interface = d.interface();
  interface.check(interface.api.destroy_graph(interface.api.context, d.device.index, graph.p), d.device.index,
                  "destroying a graph failed");
}

void record_stream(const Tensor& t, const py::object& device, const py::object& stream) {
  check_memory(t, "record_stream");
  FACULA_CHECK(t.device().type > kMeta, Device, Operator{"record_stream"}, "the tensor is on ", to_string(t.device()),
               ", which has no streams");
  Started d;
  load(d, device.ptr());
  FACULA_CHECK(d.device == t.device(), Value, Operator{"record_stream"}, "the tensor is on ", to_string(t.device()),
               ", the stream is of ", to_string(d.device));
  Handle handle;
  load(handle, stream.ptr());
  d.interface().memory->record_stream(t.storage()->data(), t.device(), handle.p);
}

// A copy in host memory that the device `name` copies from and to in the background.
Tensor pin(const Tensor& t, const py::object& name) {
  check_memory(t, "pin_memory");
  FACULA_CHECK(t.is_cpu(), Device, Operator{"pin_memory"}, "only host memory is pinned, the tensor is on ",
               to_string(t.device()));
  if (is_pinned(t.raw())) return t;
  Named d;
  load(d, name.ptr());
  const DimVector strides = preserved_strides(t);
  const Storage storage = unlocked([&] { return allocate_pinned(*d.interface, t.nbytes()); });
  const Tensor made = from_storage(storage, t.sizes(), strides, 0, t.dtype());
  GradMode off(false);
  core_operators().copy_into(made, detach(t));
  return made;
}

// ---- memory of other processes ----
constexpr const char* kSharedEvent = "facula.shared_event";
struct SharedEvent {
  Device device;
  void* event;
};

std::string_view bytes_of(const FaculaShared& shared) {
  return {reinterpret_cast<const char*>(shared.bytes), sizeof(shared.bytes)};
}
FaculaShared shared_of(const py::bytes& bytes) {
  const std::string_view text = bytes;
  FaculaShared shared{};
  FACULA_CHECK(text.size() == sizeof(shared.bytes), Value, "a handle of shared memory has ", sizeof(shared.bytes),
               " bytes, not ", text.size());
  std::memcpy(shared.bytes, text.data(), text.size());
  return shared;
}

// (handle, offset in it, handle of an event or empty bytes, what must be kept until the other process has it)
py::tuple share_device_memory(const Tensor& t) {
  check_memory(t, "send");
  FACULA_CHECK(t.device().type > kMeta, Value, "the tensor is on ", to_string(t.device()),
               ", which has no memory of its own to share");
  const SharedStorage s = unlocked([&] { return share_storage(t.storage()); });
  py::object kept = py::none();
  if (s.event != nullptr) {
    auto event = std::make_unique<SharedEvent>(SharedEvent{t.device(), s.event});
    kept = py::capsule(event.get(), kSharedEvent, [](PyObject* o) {
      const std::unique_ptr<SharedEvent> e(static_cast<SharedEvent*>(PyCapsule_GetPointer(o, kSharedEvent)));
      unlocked([&] { destroy_shared_event(e->device, e->event); });
    });
    event.release();
  }
  return py::make_tuple(py::bytes(bytes_of(s.memory)), s.offset,
                        s.event != nullptr ? py::bytes(bytes_of(s.marker)) : py::bytes(), kept);
}

Tensor open_device_memory(Started d, const py::bytes& memory, size_t offset, size_t nbytes, const py::bytes& marker,
                          int fd) {
  const FaculaShared shared = shared_of(memory);
  const bool marked = !std::string_view(marker).empty();
  const FaculaShared event = marked ? shared_of(marker) : FaculaShared{};
  Storage storage =
      unlocked([&] { return open_shared(d.device, shared, marked ? &event : nullptr, offset, nbytes, fd); });
  return from_storage(std::move(storage), {static_cast<int64_t>(nbytes)}, {1}, 0, ScalarType::UInt8);
}

py::dict fallbacks(Named d, bool reset) {
  py::dict found;
  std::lock_guard lock(d->counting);
  for (const auto& [op, count] : d->fallbacks) found[op.c_str()] = count;
  if (reset) {
    d->fallbacks.clear();
    d->refusals.clear();
  }
  return found;
}
py::dict refusals(Named d) {
  py::dict found;
  std::lock_guard lock(d->counting);
  for (const auto& [op, r] : d->refusals) found[op.c_str()] = py::make_tuple(r.calls, r.reason);
  return found;
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

void define_interface(py::module_& m) {
  define(m, "_backend_names", [] {
    std::vector<std::string> names;
    for (const DeviceInterface* d : all_interfaces()) names.push_back(d->name);
    return names;
  });
  define(m, "_backend_info", info);
  define(m, "_load_backend_library", [](const py::object& path) {
    const Ref text(check(PyOS_FSPath(path.ptr())));
    const char* name = PyUnicode_AsUTF8(text.get());
    if (name == nullptr) throw PythonError();
    return load_backend_library(name);
  });
  define(m, "_register_backend", [](const py::object& backend) { register_python_backend(backend.ptr()); });

  // ---- devices ----
  define(m, "_device_count", [](Named d) { return d->count(); }, kUnlocked);
  define(m, "_current_device", [](Named d) { return current_index(d->type); });
  define(m, "_set_device", [](Started d) { set_current_index(d.device.type, d.device.index); });
  define(m, "_resolved_device", [](const py::object& device) { return resolved(device_value(device.ptr())); });
  define(m, "_device_properties", device_properties);
  define(m, "_memory_info", memory_info, kUnlocked);
  define(
      m, "_synchronize",
      [](Started d) {
        settle_capture(kStreams);
        synchronize(d.device);
      },
      kUnlocked);

  // ---- streams: a device and a number ----
  define(
      m, "_new_stream",
      [](Started d, int priority, bool own) {
        return Handle{own ? make_stream(d.device, priority) : pooled_stream(d.device, priority)};
      },
      py::arg(), py::arg(), "own"_a = false, kUnlocked);
  define(m, "_get_stream", [](Started d) { return Handle{current_stream(d.device)}; });
  define(
      m, "_set_stream",
      [](Started d, Handle stream) {
        settle_capture(kStreams);
        set_current_stream(d.device, stream.p);
      },
      kUnlocked);
  define(
      m, "_stream_synchronize",
      [](Started d, Handle stream) {
        settle_capture(kStreams);
        synchronize_stream(d.device, stream.p);
      },
      kUnlocked);
  define(m, "_stream_query", is_stream_done, kUnlocked);

  // ---- events ----
  define(m, "_new_event", new_event);
  define(
      m, "_event_record",
      [](Event e, Handle stream) {
        settle_capture(kStreams);
        e->record(stream.p);
      },
      kUnlocked);
  define(
      m, "_event_wait",
      [](Event e, Started d, Handle stream) {
        settle_capture(kStreams);
        e->wait(d.device, stream.p);
      },
      kUnlocked);
  define(m, "_event_query", [](Event e) { return e->done(); }, kUnlocked);
  define(m, "_event_synchronize", [](Event e) { e->synchronize(); }, kUnlocked);
  define(m, "_event_elapsed", [](Event from, Event to) { return from->elapsed_to(*to.event); }, kUnlocked);

  // ---- graphs: what _graph_begin gives stands for their memory, what _graph_end gives for themselves ----
  define(m, "_graph_begin", begin_graph, kUnlocked);
  define(m, "_graph_end", end_graph, kUnlocked);
  define(m, "_graph_run", run_graph, kUnlocked);
  define(m, "_graph_destroy", destroy_graph, kUnlocked);
  define(m, "_graph_free", [](Started d, uint64_t n) { d.interface().memory->destroy_graph(d.device, n); }, kUnlocked);

  // ---- memory ----
  define(m, "_device_memory_stats", memory_stats);
  define(m, "_reset_peak", [](Started d) { d.interface().memory->reset_peak(d.device.index); });
  define(m, "_device_empty_cache", [](Named d) { d->memory->empty_cache(); }, kUnlocked);
  define(m, "_record_stream", record_stream);
  define(m, "_pin", pin);
  define(m, "_is_pinned", [](const py::object& tensor) {
    FACULA_CHECK(is_tensor(tensor.ptr()), Type, Operator{"is_pinned"}, "the argument must be a Tensor, not ",
                 Py_TYPE(tensor.ptr())->tp_name);
    const Tensor& t = tensor_of(tensor.ptr());
    return t.is_cpu() && is_pinned(t.raw());
  });

  define(m, "_shares_device_memory", [](Named d) { return d->api.share_memory != nullptr; });
  define(m, "_share_device_memory", share_device_memory);
  define(m, "_open_device_memory", open_device_memory);
  define(m, "_close_opened_memory", [] { unlocked(close_opened); });

  // ---- fallback, profiling, random numbers ----
  define(m, "_fallbacks", fallbacks, py::arg(), "reset"_a = false);
  define(m, "_refusals", refusals);
  define(m, "_allow_fallback", [](Named d, bool allowed) { return d->fallback.exchange(allowed); });
  define(m, "_profile", [](Named d, bool on) { return d->profiling.exchange(on); });
  define(m, "_generator_of",
         [](const py::object& device) { return default_generator(resolved(device_value(device.ptr()))); });
}

}  // namespace facula::python
