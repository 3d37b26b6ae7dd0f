// Device memory of other processes.
#pragma once

#include "runtime/core/storage.h"
#include "runtime/device/interface.h"

namespace facula {

// What another process needs to have a storage. `event`: of what was in this thread's stream, which the other's work
// must wait for; it is destroyed by whoever has this, when the other has opened it. Null: the device had nothing to do.
struct SharedStorage {
  FaculaShared memory{}, marker{};
  size_t offset = 0;
  void* event = nullptr;
};
FACULA_API SharedStorage share_storage(const Storage& storage);
FACULA_API void destroy_shared_event(Device device, void* event) noexcept;

// Memory of another process. When nobody has it any more, and the device has done its work, `fd` is closed: by that the
// other process knows. On an error `fd` stays the caller's.
FACULA_API Storage open_shared(Device device, const FaculaShared& memory, const FaculaShared* marker, size_t offset,
                               size_t nbytes, int fd);
// Closes what nobody had any more while a graph was captured, if that has ended.
FACULA_API void close_opened();

}  // namespace facula
