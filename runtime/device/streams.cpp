// The current device and stream of each thread, stream pools, events.
#include <map>

#include "runtime/core/in_call.h"
#include "runtime/device/interface.h"
#include "runtime/device/memory.h"

namespace facula {

namespace {

struct Current {
  int8_t index[kMaxDeviceTypes] = {};
  std::vector<std::pair<Device, void*>> streams;  // those that are not the default
};
thread_local Current tls_current;

constexpr int kPooled = 32;
struct StreamPool {
  std::vector<void*> streams;
  size_t next = 0;
};
struct Pools {
  std::mutex mutex;
  std::map<std::tuple<int, int, int>, StreamPool> streams;
  std::map<std::pair<int, int>, std::vector<void*>> events;  // without timing
};
Pools& pools() {
  static Pools* const p = new Pools;
  return *p;
}

}  // namespace

int current_index(DeviceType type) { return tls_current.index[type]; }

void set_current_index(DeviceType type, int index) {
  tls_current.index[type] = resolved(Device{type, static_cast<int8_t>(index)}).index;
}

Device resolved(Device device) {
  if (device.type <= kMeta) return Device{device.type, -1};
  if (device.index < 0) device.index = tls_current.index[device.type];
  if (DeviceInterface* const d = interface_or_null(device.type); d != nullptr) {
    const int n = d->count();
    if (n == 0 && d->api.properties != nullptr) {  // the vendor knows why
      FaculaProperties none{};
      d->check(d->api.properties(d->api.context, 0, &none), -1, "there is no device");
    }
    FACULA_CHECK(device.index < n, Runtime, "there is no device ", to_string(device), "; '", d->name, "' has ", n,
                 n == 1 ? " device" : " devices");
  }
  return device;
}

void* current_stream(Device device) {
  for (const auto& [d, stream] : tls_current.streams) {
    if (d == device) return stream;
  }
  return nullptr;
}

void set_current_stream(Device device, void* stream) {
  std::erase_if(tls_current.streams, [&](const auto& s) { return s.first == device; });
  if (stream != nullptr) tls_current.streams.emplace_back(device, stream);
}

void* make_stream(Device device, int priority) {
  DeviceInterface& d = started_interface(device.type);
  FACULA_CHECK(d.has_streams(), NotImplemented, "device '", d.name, "' has one stream only, the default one");
  device = resolved(device);
  void* stream = nullptr;
  d.check(d.api.create_stream(d.api.context, device.index, priority, &stream), device.index, "making a stream failed");
  return stream;
}

void* pooled_stream(Device device, int priority) {
  device = resolved(device);
  Pools& p = pools();
  {
    std::lock_guard lock(p.mutex);
    StreamPool& pool = p.streams[{device.type, device.index, priority}];
    if (pool.streams.size() >= kPooled) return pool.streams[pool.next++ % kPooled];
  }
  void* const stream = make_stream(device, priority);
  std::lock_guard lock(p.mutex);
  p.streams[{device.type, device.index, priority}].streams.push_back(stream);
  return stream;
}

void synchronize(Device device) {
  DeviceInterface& d = started_interface(device.type);
  device = resolved(device);
  if (d.api.synchronize_device == nullptr) return;
  if (d.memory->is_captured(device.index)) raise_in_capture(device, "wait for the device when the capture has ended");
  d.check(d.api.synchronize_device(d.api.context, device.index), device.index, "work on the device failed");
  d.raise_fault();
}

void synchronize_stream(Device device, void* stream) {
  DeviceInterface& d = started_interface(device.type);
  if (!d.has_streams()) return;
  if (d.memory->is_captured(device.index, stream)) {
    raise_in_capture(device, "wait for the stream when the capture has ended");
  }
  // Without Python's lock: whoever can end what hangs may need it.
  struct Wait {
    DeviceInterface& d;
    Device device;
    void* stream;
    int32_t status;
  } wait{d, device, stream, FACULA_OK};
  const auto run = [](void* context) {
    Wait& w = *static_cast<Wait*>(context);
    w.status = w.d.api.synchronize_stream(w.d.api.context, w.device.index, w.stream);
  };
  if (wait_aside != nullptr) {
    wait_aside(run, &wait);
  } else {
    run(&wait);
  }
  d.check(wait.status, device.index, "work on the device failed");
  d.raise_fault();
}

DeviceEvent::DeviceEvent(Device device, bool timing) : device_(resolved(device)) {
  DeviceInterface& d = started_interface(device.type);
  if (!d.has_streams()) return;
  if (!timing) {
    Pools& p = pools();
    std::lock_guard lock(p.mutex);
    std::vector<void*>& idle = p.events[{device_.type, device_.index}];
    if (!idle.empty()) {
      event_ = idle.back();
      idle.pop_back();
      return;
    }
  }
  d.check(d.api.create_event(d.api.context, device_.index, timing, &event_), device_.index, "making an event failed");
  timing_ = timing;
}

DeviceEvent::~DeviceEvent() {
  if (event_ == nullptr) return;
  DeviceInterface& d = *interface_or_null(device_.type);
  if (d.forked.load(std::memory_order_relaxed)) return;
  if (timing_) {
    d.ignore(d.api.destroy_event(d.api.context, device_.index, event_));
    return;
  }
  Pools& p = pools();
  std::lock_guard lock(p.mutex);
  p.events[{device_.type, device_.index}].push_back(event_);
}

void DeviceEvent::record(void* stream) {
  DeviceInterface& d = started_interface(device_.type);
  if (event_ == nullptr) return;
  captured_ = d.memory->is_captured(device_.index, stream);
  d.check(d.api.record_event(d.api.context, device_.index, event_, stream), device_.index, "recording an event failed");
}
void DeviceEvent::wait(Device device, void* stream) const {
  DeviceInterface& d = started_interface(device_.type);
  if (event_ == nullptr) return;
  d.check(d.api.wait_event(d.api.context, device.index, event_, stream), device.index, "waiting for an event failed");
}
void DeviceEvent::refuse_captured() const {
  FACULA_CHECK(!captured_, Runtime, "the event is part of a graph that was captured on ", to_string(device_),
               ", and nothing tells when that has run; record it outside of the capture");
}
bool DeviceEvent::done() const {
  DeviceInterface& d = started_interface(device_.type);
  if (event_ == nullptr) return true;
  refuse_captured();
  const int32_t status = d.api.query_event(d.api.context, device_.index, event_);
  if (status == FACULA_NOT_READY) return false;
  d.check(status, device_.index, "work on the device failed");
  return true;
}
void DeviceEvent::synchronize() const {
  DeviceInterface& d = started_interface(device_.type);
  if (event_ == nullptr) return;
  refuse_captured();
  d.check(d.api.synchronize_event(d.api.context, device_.index, event_), device_.index, "work on the device failed");
  d.raise_fault();
}
double DeviceEvent::elapsed_to(const DeviceEvent& end) const {
  DeviceInterface& d = started_interface(device_.type);
  FACULA_CHECK(timing_ && end.timing_ && d.api.elapsed != nullptr, Runtime, Operator{"elapsed_time"},
               "both events need enable_timing=True");
  FACULA_CHECK(device_ == end.device_, Runtime, Operator{"elapsed_time"}, "the events are of ", to_string(device_),
               " and ", to_string(end.device_), "; time is measured on one device");
  double ms = 0;
  d.check(d.api.elapsed(d.api.context, device_.index, event_, end.event_, &ms), device_.index, "elapsed_time() failed");
  return ms;
}

}  // namespace facula
