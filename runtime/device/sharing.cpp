#include "runtime/device/sharing.h"

#include <unistd.h>

#include <memory>
#include <vector>

#include "runtime/device/memory.h"

namespace facula {

namespace {

struct Opened {
  DeviceInterface* interface;
  Device device;
  void* piece;
  int fd;
};

// Those that nobody had any more while a graph was captured, when nothing may wait for the device.
struct Late {
  std::mutex mutex;
  std::vector<std::unique_ptr<Opened>> list;
};
Late& late() {
  static Late* const l = new Late;
  return *l;
}

// False where it cannot be now.
bool close(const Opened& o) noexcept {
  if (!o.interface->forked.load(std::memory_order_relaxed)) {
    try {
      if (o.interface->memory->is_captured(o.device.index)) return false;
      synchronize(o.device);
    } catch (...) {  // a device that has failed does no more work
    }
    o.interface->ignore(o.interface->api.close_memory(o.interface->api.context, o.device.index, o.piece));
  }
  ::close(o.fd);
  return true;
}

}  // namespace

void close_opened() {
  std::vector<std::unique_ptr<Opened>> list;
  {
    std::lock_guard lock(late().mutex);
    list.swap(late().list);
  }
  for (auto& o : list) {
    if (close(*o)) continue;
    std::lock_guard lock(late().mutex);
    late().list.push_back(std::move(o));
  }
}

namespace {

void release_opened(void* context) {
  std::unique_ptr<Opened> o(static_cast<Opened*>(context));
  if (close(*o)) return close_opened();
  std::lock_guard lock(late().mutex);
  late().list.push_back(std::move(o));
}

DeviceInterface& sharing_interface(Device device) {
  DeviceInterface& interface = started_interface(device.type);
  FACULA_CHECK(interface.api.share_memory != nullptr && interface.api.open_memory != nullptr &&
                   interface.api.close_memory != nullptr,
               NotImplemented, "device '", interface.name, "' shares no memory with other processes");
  return interface;
}

}  // namespace

SharedStorage share_storage(const Storage& storage) {
  const Device device = storage->device();
  DeviceInterface& interface = sharing_interface(device);
  const DeviceMemory::Place place = interface.memory->place_of(storage->data(), device);
  FACULA_CHECK(place.piece != nullptr, Runtime, "a tensor on ", to_string(device),
               " cannot be sent to another process: its memory is not this process's own (another process or library "
               "gave it); send a clone()");
  FACULA_CHECK(!place.in_range, Runtime, "a tensor on ", to_string(device),
               " cannot be sent to another process: its memory is of an expandable segment, which others cannot open; "
               "run without FACULA_DEVICE_EXPANDABLE=1, or send tensor.cpu()");
  if (interface.memory->is_captured(device.index)) {
    raise_in_capture(device, "a tensor cannot be sent to another process meanwhile");
  }
  SharedStorage shared;
  shared.offset = place.offset;
  const FaculaBackend& api = interface.api;
  interface.check(api.share_memory(api.context, device.index, place.piece, &shared.memory), device.index,
                  "sharing memory with another process failed");
  if (api.create_shared_event == nullptr || api.open_event == nullptr) {
    synchronize(device);
    return shared;
  }
  interface.check(api.create_shared_event(api.context, device.index, &shared.event, &shared.marker), device.index,
                  "making an event for another process failed");
  const int32_t status = api.record_event(api.context, device.index, shared.event, current_stream(device));
  if (status != FACULA_OK) destroy_shared_event(device, shared.event);
  interface.check(status, device.index, "recording an event for another process failed");
  return shared;
}

void destroy_shared_event(Device device, void* event) noexcept {
  DeviceInterface& interface = interface_of(device.type);
  if (interface.forked.load(std::memory_order_relaxed)) return;
  interface.ignore(interface.api.destroy_event(interface.api.context, device.index, event));
}

Storage open_shared(Device device, const FaculaShared& memory, const FaculaShared* marker, size_t offset, size_t nbytes,
                    int fd) {
  auto o = std::unique_ptr<Opened>(new Opened{nullptr, device, nullptr, fd});
  DeviceInterface& interface = sharing_interface(device);
  o->interface = &interface;
  close_opened();
  const FaculaBackend& api = interface.api;
  interface.check(api.open_memory(api.context, device.index, &memory, &o->piece), device.index,
                  "opening the memory of another process failed (has it ended?)");
  try {
    if (marker != nullptr) {
      void* event = nullptr;
      interface.check(api.open_event(api.context, device.index, marker, &event), device.index,
                      "opening an event of another process failed (has it ended?)");
      const int32_t status = api.wait_event(api.context, device.index, event, current_stream(device));
      interface.ignore(api.destroy_event(api.context, device.index, event));
      interface.check(status, device.index, "waiting for another process failed");
    }
    char* const data = static_cast<char*>(o->piece) + offset;
    Storage storage = StorageImpl::wrap(data, nbytes, device, release_opened, o.get());
    o.release();
    return storage;
  } catch (...) {
    interface.ignore(api.close_memory(api.context, device.index, o->piece));
    throw;
  }
}

}  // namespace facula
