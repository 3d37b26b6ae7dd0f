// Memory and events of other processes of the machine.
#include <bit>

#include "launch/device.h"

namespace facula::cuda {

namespace {

CUipcHandle handle_of(const FaculaShared& shared) { return std::bit_cast<CUipcHandle>(shared); }

int32_t share_memory(void*, int32_t index, void* data, FaculaShared* out) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  CUipcHandle handle{};
  FACULA_TRY(status_of(driver()->IpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(data)), "cuIpcGetMemHandle"));
  *out = std::bit_cast<FaculaShared>(handle);
  return FACULA_OK;
}

int32_t open_memory(void*, int32_t index, const FaculaShared* memory, void** out) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  CUdeviceptr p = 0;
  FACULA_TRY(status_of(driver()->IpcOpenMemHandle(&p, handle_of(*memory), CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                       "cuIpcOpenMemHandle"));
  *out = reinterpret_cast<void*>(p);
  return FACULA_OK;
}

int32_t close_memory(void*, int32_t index, void* data) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->IpcCloseMemHandle(reinterpret_cast<CUdeviceptr>(data)), "cuIpcCloseMemHandle");
}

int32_t create_shared_event(void*, int32_t index, void** out, FaculaShared* shared) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  const Driver& d = *driver();
  CUevent event = nullptr;
  FACULA_TRY(status_of(d.EventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  CUipcHandle handle{};
  if (const CUresult r = d.IpcGetEventHandle(&handle, event)) {
    d.EventDestroy(event);
    return status_of(r, "cuIpcGetEventHandle");
  }
  *out = event;
  *shared = std::bit_cast<FaculaShared>(handle);
  return FACULA_OK;
}

int32_t open_event(void*, int32_t index, const FaculaShared* shared, void** out) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  CUevent event = nullptr;
  FACULA_TRY(status_of(driver()->IpcOpenEventHandle(&event, handle_of(*shared)), "cuIpcOpenEventHandle"));
  *out = event;
  return FACULA_OK;
}

}  // namespace

void describe_sharing(FaculaBackend& b) {
  b.share_memory = share_memory;
  b.open_memory = open_memory;
  b.close_memory = close_memory;
  b.create_shared_event = create_shared_event;
  b.open_event = open_event;
}

}  // namespace facula::cuda
