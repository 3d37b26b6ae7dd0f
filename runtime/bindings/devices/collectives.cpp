// Collectives of a device's own library for Python: what facula.distributed makes its engine of devices of.
#include "runtime/bindings/define.h"
#include "runtime/device/memory.h"

namespace py = pybind11;

namespace facula::python {

namespace {

constexpr const char* kCommunicator = "facula.communicator";

const FaculaCollectives* table_of(const DeviceInterface& d) { return d.api.collectives; }

// The table of a device that must have one.
const FaculaCollectives& collectives_of(const DeviceInterface& d) {
  FACULA_CHECK(table_of(d) != nullptr, NotImplemented, "device '", d.name, "' has no collectives between processes");
  return *table_of(d);
}

// Never freed: whoever waits in a call of it may not know yet that it has ended.
struct Communicator {
  Device device;
  void* handle = nullptr;
  std::atomic<bool> ended{false};

  DeviceInterface& interface() const { return interface_of(device.type); }
  void check(int32_t status, const char* doing) const { interface().check(status, device.index, doing); }
};

Communicator& communicator_of(const py::object& o) {
  auto* const c = static_cast<Communicator*>(PyCapsule_GetPointer(o.ptr(), kCommunicator));
  if (c == nullptr) throw PythonError();
  return *c;
}

// Its name, None where the device has none.
py::object library_name(const Device& device) {
  const DeviceInterface* const d = interface_or_null(device.type);
  if (d == nullptr || table_of(*d) == nullptr) return py::none();
  return py::str(table_of(*d)->name);
}

// Raises where it is not installed.
int library_version(const Device& device) {
  DeviceInterface& d = started_interface(device.type);
  int32_t version = 0;
  ReleaseGil released;
  d.check(collectives_of(d).version(d.api.context, &version), -1, "its collectives cannot be used");
  return version;
}

bool reduces(const Device& device, int op, ScalarType dtype) {
  DeviceInterface& d = interface_of(device.type);
  const int32_t status = collectives_of(d).reduces(d.api.context, op, static_cast<int32_t>(dtype));
  d.ignore(status);
  return status == FACULA_OK;
}

py::bytes make_id(const Device& device) {
  DeviceInterface& d = started_interface(device.type);
  char id[4096];
  size_t size = sizeof(id);
  {
    ReleaseGil released;
    d.check(collectives_of(d).make_id(d.api.context, id, &size), -1, "naming a communicator failed");
  }
  return py::bytes(id, size);
}

py::capsule join(const Device& given, const std::string& id, int ranks, int rank) {
  DeviceInterface& d = started_interface(given.type);
  const Device device = resolved(given);
  void* handle = nullptr;
  {
    ReleaseGil released;
    d.check(collectives_of(d).join(d.api.context, device.index, id.data(), id.size(), ranks, rank, &handle),
            device.index, "joining the other processes failed");
  }
  auto* const made = new Communicator;
  made->device = device;
  made->handle = handle;
  return py::capsule(made, kCommunicator);
}

void* memory_of(const Tensor& t, const Communicator& c) {
  FACULA_CHECK(t.device() == c.device, Device, "a collective of ", to_string(c.device), " is given a tensor on ",
               to_string(t.device()));
  FACULA_CHECK(t.is_contiguous(), Value, "a collective is given a tensor that is not contiguous");
  return t.raw();
}

// Calls are tuples: kind, op, dst or None, src or None, peer, how many elements of one process.
void run(const py::object& communicator, const py::sequence& calls) {
  Communicator& c = communicator_of(communicator);
  DeviceInterface& d = c.interface();
  FACULA_CHECK(!c.ended.load(), Runtime, "the communicator has ended");
  std::vector<FaculaCollective> list;
  list.reserve(calls.size());
  for (const py::handle& item : calls) {
    const auto call = py::reinterpret_borrow<py::tuple>(item);
    FaculaCollective one{};
    one.kind = call[0].cast<int32_t>();
    one.op = call[1].cast<int32_t>();
    one.peer = call[4].cast<int32_t>();
    one.count = call[5].cast<size_t>();
    for (const size_t at : {2, 3}) {
      if (call[at].is_none()) continue;
      const Tensor t = call[at].cast<Tensor>();
      one.dtype = static_cast<int32_t>(t.dtype());
      if (at == 2) {
        one.dst = memory_of(t, c);
      } else {
        one.src = memory_of(t, c);
      }
    }
    list.push_back(one);
  }
  void* const stream = current_stream(c.device);
  ReleaseGil released;
  c.check(collectives_of(d).run(d.api.context, c.handle, list.data(), static_cast<int32_t>(list.size()), stream),
          "a collective failed");
}

void query(const py::object& communicator) {
  Communicator& c = communicator_of(communicator);
  if (c.ended.load()) return;
  ReleaseGil released;
  c.check(collectives_of(c.interface()).query(c.interface().api.context, c.handle), "a collective failed");
}

// In order, where all do so and wait for each other; or at once.
void end(const py::object& communicator, bool in_order) {
  Communicator& c = communicator_of(communicator);
  const FaculaCollectives& table = collectives_of(c.interface());
  if (c.ended.exchange(true)) return;
  ReleaseGil released;
  void* const context = c.interface().api.context;
  if (in_order) return c.check(table.leave(context, c.handle), "leaving a communicator failed");
  c.interface().ignore(table.abort(context, c.handle));
}

// What waits for the device from now on raises this; an empty text ends that.
void set_fault(const Device& device, const std::string& text) {
  DeviceInterface& d = interface_of(device.type);
  std::lock_guard lock(d.counting);
  d.fault = text;
  d.at_fault.store(!text.empty(), std::memory_order_release);
}

}  // namespace

void define_collectives(py::module_& m) {
  define(m, "_collectives_name", library_name);
  define(m, "_collectives_version", library_version);
  define(m, "_communicator_reduces", reduces);
  define(m, "_communicator_id", make_id);
  define(m, "_communicator", join);
  define(m, "_communicator_run", run);
  define(m, "_communicator_query", query);
  define(m, "_communicator_end", end);
  define(m, "_device_fault", set_fault);
  define(m, "_is_captured", [](const Device& device, const py::object& stream) {
    const Device d = resolved(device);
    return interface_of(d.type).memory->is_captured(d.index, PyLong_AsVoidPtr(stream.ptr()));
  });
}

}  // namespace facula::python
