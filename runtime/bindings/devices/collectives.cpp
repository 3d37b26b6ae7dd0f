// Collectives of a device's own library for Python: what facula.distributed makes its engine of devices of.
#include <algorithm>
#include <chrono>
#include <deque>
#include <mutex>
#include <utility>

#include "runtime/bindings/define.h"
#include "runtime/bindings/devices/interface.h"
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

using Clock = std::chrono::steady_clock;

// What a call that Python does not describe itself is of; its text is made when somebody asks.
struct Description {
  int kind = 0, op = 0, root = 0;
  ScalarType dtype = ScalarType::Float32;
  DimVector sizes;
  int64_t number = 0;

  py::tuple tuple() const {
    return py::make_tuple(kind, op, root, dtype, std::vector<int64_t>(sizes.begin(), sizes.end()), number);
  }
};

// A call that the watch looks after; without an event the call itself still goes on.
struct Pending {
  uint64_t ticket = 0;
  std::shared_ptr<DeviceEvent> event;
  Clock::time_point started;
  double timeout = 0;
  py::object call;  // null: as described
  Description described;
};

// Never freed: whoever waits in a call of it may not know yet that it has ended.
struct Communicator {
  Device device;
  int ranks = 1;
  void* handle = nullptr;
  std::atomic<bool> ended{false};
  std::mutex asking;  // held while the library is asked; the end waits for it

  std::mutex mutex;  // of what follows; whoever has it does not wait for Python's lock
  std::deque<Pending> pending;
  uint64_t tickets = 0;               // given so far, the newest
  std::shared_ptr<DeviceEvent> last;  // of the last call
  void* last_stream = nullptr;
  Description latest;  // of those that Python does not describe

  uint64_t begin(Pending p) {
    p.started = Clock::now();
    std::lock_guard lock(mutex);
    p.ticket = ++tickets;
    if (!p.call) latest = p.described;
    pending.push_back(std::move(p));
    return tickets;
  }
  void put(uint64_t ticket, std::shared_ptr<DeviceEvent> event, void* stream) {
    std::shared_ptr<DeviceEvent> before;  // dropped without the lock: it may be Python's
    std::lock_guard lock(mutex);
    before = std::exchange(last, event);
    last_stream = stream;
    if (const auto p = find(ticket); p != pending.end()) p->event = std::move(event);
  }
  Pending forget(uint64_t ticket) {
    std::lock_guard lock(mutex);
    const auto p = find(ticket);
    if (p == pending.end()) return {};
    Pending gone = std::move(*p);
    pending.erase(p);
    return gone;
  }
  std::deque<Pending>::iterator find(uint64_t ticket) {  // mostly the newest
    const auto p = std::find_if(pending.rbegin(), pending.rend(), [&](const Pending& x) { return x.ticket == ticket; });
    return p == pending.rend() ? pending.end() : std::prev(p.base());
  }
  // Calls of one communicator come one after the other, whatever their streams.
  void order(void* stream) {
    std::shared_ptr<DeviceEvent> before;
    {
      std::lock_guard lock(mutex);
      if (last_stream != stream) before = last;
    }
    if (before != nullptr) before->wait(device, stream);
  }
  void run(const FaculaCollective* calls, size_t n, void* stream) const {
    const DeviceInterface& d = interface();
    check(table_of(d)->run(d.api.context, handle, calls, static_cast<int32_t>(n), stream), "a collective failed");
  }

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
  made->ranks = ranks;
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
  c.run(list.data(), list.size(), stream);
}

// ---- what is under way ----

// The events of calls that Python puts together are its own.
std::shared_ptr<DeviceEvent> shared_event(const py::object& capsule) {
  auto* const event = static_cast<DeviceEvent*>(PyCapsule_GetPointer(capsule.ptr(), kEvent));
  if (event == nullptr) throw PythonError();
  return {event, [kept = capsule.inc_ref().ptr()](DeviceEvent*) {
            if (!interpreter_alive()) return;
            AcquireGil gil;
            Py_DECREF(kept);
          }};
}

uint64_t begin(const py::object& communicator, py::object call, double timeout) {
  Communicator& c = communicator_of(communicator);
  Pending p;
  p.timeout = timeout;
  p.call = std::move(call);
  return c.begin(std::move(p));
}

// Drops the calls that are done; raises what the device says.
void advance(const py::object& communicator) {
  Communicator& c = communicator_of(communicator);
  while (true) {
    std::shared_ptr<DeviceEvent> event;
    uint64_t ticket = 0;
    {
      std::lock_guard lock(c.mutex);
      if (c.pending.empty() || c.pending.front().event == nullptr) return;
      event = c.pending.front().event;
      ticket = c.pending.front().ticket;
    }
    {
      ReleaseGil released;
      if (!event->done()) return;
    }
    c.forget(ticket);
  }
}

// The oldest call, how long ago it began and how long it may take; None if there is none.
py::object oldest(const py::object& communicator) {
  Communicator& c = communicator_of(communicator);
  std::unique_lock lock(c.mutex);
  if (c.pending.empty()) return py::none();
  const Pending& p = c.pending.front();
  const double waited = std::chrono::duration<double>(Clock::now() - p.started).count();
  const double timeout = p.timeout;
  const py::object call = p.call;
  const Description described = p.described;
  lock.unlock();
  return py::make_tuple(call ? call : described.tuple(), waited, timeout);
}

// ---- one plain collective as one call ----

// Has `whole` the shape (n * k, ...) or (n, k, ...) for parts of (k, ...)?
bool is_whole(const Tensor& whole, const Tensor& part, int64_t n) {
  const IntList w = whole.sizes(), p = part.sizes();
  if (w.size() == p.size() + 1) return w[0] == n && std::equal(p.begin(), p.end(), w.begin() + 1);
  return !p.empty() && w.size() == p.size() && w[0] == n * p[0] && std::equal(p.begin() + 1, p.end(), w.begin() + 1);
}

bool is_plain(const Tensor& t, const Communicator& c) {
  return !t.is_wrapped() && t.device() == c.device && t.is_contiguous() && t.numel() > 0;
}

// In the current stream; false, with nothing done, where it takes more than that or is not right.
bool direct(const py::object& communicator, int kind, int op, const py::object& out, const py::object& in, int root,
            int64_t number, double timeout) {
  if (!is_tensor(out.ptr()) || !is_tensor(in.ptr()) || op < 0) return false;
  const Tensor dst = tensor_of(out.ptr()), src = tensor_of(in.ptr());
  Communicator& c = communicator_of(communicator);
  if (!is_plain(dst, c) || !is_plain(src, c) || dst.dtype() != src.dtype() || c.ended.load()) return false;
  if (kind == FACULA_ALL_GATHER && !is_whole(dst, src, c.ranks)) return false;
  if (kind == FACULA_REDUCE_SCATTER && !is_whole(src, dst, c.ranks)) return false;
  DeviceInterface& d = c.interface();
  void* const stream = current_stream(c.device);
  if (d.memory->is_captured(c.device.index, stream)) return false;
  if ((kind == FACULA_ALL_REDUCE || kind == FACULA_REDUCE_SCATTER) && !reduces(c.device, op, dst.dtype())) return false;
  with_data(dst, nullptr);
  with_data(src, nullptr);
  const Tensor& part = kind == FACULA_ALL_GATHER ? src : dst;
  FaculaCollective one{};
  one.kind = kind;
  one.op = op;
  one.peer = root;
  one.dtype = static_cast<int32_t>(dst.dtype());
  one.count = static_cast<size_t>(part.numel());
  one.dst = dst.raw();
  one.src = src.raw();
  Pending p;
  p.timeout = timeout;
  p.described = {kind, op, root, part.dtype(), DimVector(part.sizes()), number};
  ReleaseGil released;
  const auto event = std::make_shared<DeviceEvent>(c.device);
  const uint64_t ticket = c.begin(std::move(p));
  try {
    c.order(stream);
    c.run(&one, 1, stream);
    event->record(stream);
  } catch (...) {
    c.forget(ticket);
    throw;
  }
  c.put(ticket, event, stream);
  return true;
}

void query(const py::object& communicator) {
  Communicator& c = communicator_of(communicator);
  ReleaseGil released;
  std::lock_guard lock(c.asking);
  if (c.ended.load()) return;
  c.check(collectives_of(c.interface()).query(c.interface().api.context, c.handle), "a collective failed");
}

// In order, where all do so and wait for each other; or at once.
void end(const py::object& communicator, bool in_order) {
  Communicator& c = communicator_of(communicator);
  const FaculaCollectives& table = collectives_of(c.interface());
  if (c.ended.exchange(true)) return;
  ReleaseGil released;
  {
    std::lock_guard lock(c.asking);
  }  // who asks from now on sees that it has ended
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
  define(m, "_communicator_direct", direct);
  define(m, "_communicator_latest", [](const py::object& communicator) {
    Communicator& c = communicator_of(communicator);
    std::unique_lock lock(c.mutex);
    const Description latest = c.latest;
    lock.unlock();
    return latest.tuple();
  });
  define(m, "_communicator_begin", begin);
  define(m, "_communicator_order", [](const py::object& communicator, const py::object& stream) {
    communicator_of(communicator).order(PyLong_AsVoidPtr(stream.ptr()));
  });
  define(m, "_communicator_put",
         [](const py::object& communicator, uint64_t ticket, const py::object& event, const py::object& stream) {
           communicator_of(communicator).put(ticket, shared_event(event), PyLong_AsVoidPtr(stream.ptr()));
         });
  define(m, "_communicator_forget",
         [](const py::object& communicator, uint64_t ticket) { communicator_of(communicator).forget(ticket); });
  define(m, "_communicator_advance", advance);
  define(m, "_communicator_oldest", oldest);
  define(m, "_communicator_query", query);
  define(m, "_communicator_end", end);
  define(m, "_device_fault", set_fault);
  define(m, "_is_captured", [](const Device& device, const py::object& stream) {
    const Device d = resolved(device);
    return interface_of(d.type).memory->is_captured(d.index, PyLong_AsVoidPtr(stream.ptr()));
  });
}

}  // namespace facula::python
