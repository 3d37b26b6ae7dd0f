#include "launch/device.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <vector>

namespace facula::cuda {

namespace {

struct Slot {
  std::atomic<bool> ready{false};  // open, without an error
  std::once_flag once;
  Device device;
  std::string error;
};

std::vector<Slot>* slots() {
  static std::vector<Slot>* const all = [] {
    const Driver* const d = driver();
    int n = 0;
    if (d == nullptr || d->DeviceGetCount(&n) != CUDA_SUCCESS) n = 0;
    return new std::vector<Slot>(static_cast<size_t>(n));
  }();
  return all;
}

std::string open(Device& device, int index) {
  const Driver& d = *driver();
  device.index = index;
  const auto failed = [](const char* doing, CUresult r) { return std::string(doing) + ": " + error_text(r); };
  if (const CUresult r = d.DeviceGet(&device.id, index)) return failed("cuDeviceGet", r);
  char name[256] = {};
  if (d.DeviceGetName(name, sizeof(name) - 1, device.id) == CUDA_SUCCESS) device.name = name;
  d.DeviceTotalMem(&device.total, device.id);
  d.DeviceGetAttribute(&device.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device.id);
  d.DeviceGetAttribute(&device.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device.id);
  d.DeviceGetAttribute(&device.processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device.id);
  device.arch = "sm_" + std::to_string(device.major * 10 + device.minor);
  if (device.major < 8) {
    return device.name + " has compute capability " + std::to_string(device.major) + "." +
           std::to_string(device.minor) + "; facula's kernels need 8.0 (Ampere) or later";
  }
  if (const CUresult r = d.DevicePrimaryCtxRetain(&device.context, device.id)) {
    return failed("cuDevicePrimaryCtxRetain", r);
  }
  if (const CUresult r = d.CtxSetCurrent(device.context)) return failed("cuCtxSetCurrent", r);
  void* report = nullptr;
  if (const CUresult r = d.MemHostAlloc(&report, sizeof(ErrorReport), CU_MEMHOSTALLOC_PORTABLE_DEVICEMAP)) {
    return failed("cuMemHostAlloc", r);
  }
  std::memset(report, 0, sizeof(ErrorReport));
  device.report = static_cast<ErrorReport*>(report);
  return {};
}

constexpr size_t kGranule = size_t{2} << 20;  // of mapped memory, on all devices

CUstream stream_of(void* stream) { return static_cast<CUstream>(stream); }
CUdeviceptr address(const void* p) { return reinterpret_cast<CUdeviceptr>(p); }

// ---- the functions of the device interface ----

int32_t count_devices(void*, int32_t* count) {
  *count = device_count();
  return FACULA_OK;
}

int32_t properties(void*, int32_t index, FaculaProperties* out) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  std::strncpy(out->name, device->name.c_str(), sizeof(out->name) - 1);
  out->total_memory = device->total;
  out->major = device->major;
  out->minor = device->minor;
  out->processors = device->processors;
  return FACULA_OK;
}

// Of a call that makes memory; what is said of none left is how much there is.
int32_t memory_status(CUresult r, const char* doing) {
  if (r != CUDA_ERROR_OUT_OF_MEMORY) return status_of(r, doing);
  size_t free = 0, total = 0;
  driver()->MemGetInfo(&free, &total);
  return fail(FACULA_OUT_OF_MEMORY,
              "the device has " + std::to_string(total) + " bytes, of which " + std::to_string(free) + " are free");
}

int32_t allocate(void*, int32_t index, size_t nbytes, void*, void** out) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  CUdeviceptr p = 0;
  FACULA_TRY(memory_status(driver()->MemAlloc(&p, nbytes == 0 ? 1 : nbytes), "cuMemAlloc"));
  *out = reinterpret_cast<void*>(p);
  return FACULA_OK;
}

int32_t deallocate(void*, int32_t index, void* data, size_t, void*) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->MemFree(address(data)), "cuMemFree");
}

int32_t reserve(void*, int32_t index, void** out, size_t* nbytes) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  int able = 0;
  driver()->DeviceGetAttribute(&able, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device->id);
  if (able == 0) return FACULA_NOT_SUPPORTED;
  *nbytes = round_up(device->total, kGranule);
  CUdeviceptr p = 0;
  FACULA_TRY(status_of(driver()->MemAddressReserve(&p, *nbytes, kGranule, 0, 0), "cuMemAddressReserve"));
  *out = reinterpret_cast<void*>(p);
  return FACULA_OK;
}

int32_t map(void*, int32_t index, void* data, size_t nbytes) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  const Driver& d = *driver();
  CUmemAllocationProp what{};
  what.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  what.location = {CU_MEM_LOCATION_TYPE_DEVICE, device->id};
  CUmemGenericAllocationHandle memory = 0;
  FACULA_TRY(memory_status(d.MemCreate(&memory, nbytes, &what, 0), "cuMemCreate"));
  const CUresult r = d.MemMap(address(data), nbytes, 0, memory, 0);
  d.MemRelease(memory);  // it stays until it is unmapped
  FACULA_TRY(memory_status(r, "cuMemMap"));
  const CUmemAccessDesc access{what.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  if (const CUresult failed = d.MemSetAccess(address(data), nbytes, &access, 1)) {
    d.MemUnmap(address(data), nbytes);
    return memory_status(failed, "cuMemSetAccess");
  }
  return FACULA_OK;
}

int32_t unmap(void*, int32_t index, void* data, size_t nbytes) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->MemUnmap(address(data), nbytes), "cuMemUnmap");
}

int32_t copy(void*, const FaculaCopy* c) {
  const bool to_host = c->dst_index == FACULA_HOST, from_host = c->src_index == FACULA_HOST;
  const Device *from = nullptr, *to = nullptr;
  if (!to_host) FACULA_TRY(enter(c->dst_index, &to));
  if (!from_host) FACULA_TRY(enter(c->src_index, &from));
  if (c->nbytes == 0) return FACULA_OK;
  const Driver& d = *driver();
  const CUstream stream = stream_of(c->stream);
  if (from_host) return status_of(d.MemcpyHtoDAsync(address(c->dst), c->src, c->nbytes, stream), "cuMemcpyHtoDAsync");
  if (to_host) return status_of(d.MemcpyDtoHAsync(c->dst, address(c->src), c->nbytes, stream), "cuMemcpyDtoHAsync");
  if (from == to) {
    return status_of(d.MemcpyDtoDAsync(address(c->dst), address(c->src), c->nbytes, stream), "cuMemcpyDtoDAsync");
  }
  return status_of(d.MemcpyPeerAsync(address(c->dst), to->context, address(c->src), from->context, c->nbytes, stream),
                   "cuMemcpyPeerAsync");
}

int32_t pin(void*, size_t nbytes, void** out) {
  const Device* device = nullptr;
  FACULA_TRY(enter(0, &device));
  return status_of(driver()->MemHostAlloc(out, nbytes, CU_MEMHOSTALLOC_PORTABLE_DEVICEMAP), "cuMemHostAlloc");
}
int32_t unpin(void*, void* data, size_t) {
  const Device* device = nullptr;
  FACULA_TRY(enter(0, &device));
  return status_of(driver()->MemFreeHost(data), "cuMemFreeHost");
}

int32_t memory_info(void*, int32_t index, uint64_t* free, uint64_t* total) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  size_t f = 0, t = 0;
  FACULA_TRY(status_of(driver()->MemGetInfo(&f, &t), "cuMemGetInfo"));
  *free = f;
  *total = t;
  return FACULA_OK;
}

int32_t create_stream(void*, int32_t index, int32_t priority, void** out) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  CUstream s = nullptr;
  FACULA_TRY(status_of(driver()->StreamCreateWithPriority(&s, CU_STREAM_NON_BLOCKING, priority),
                       "cuStreamCreateWithPriority"));
  *out = s;
  return FACULA_OK;
}

int32_t synchronize_stream(void*, int32_t index, void* stream) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  FACULA_TRY(status_of(driver()->StreamSynchronize(stream_of(stream)), "cuStreamSynchronize"));
  return take_report(*device);
}
int32_t query_stream(void*, int32_t index, void* stream) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->StreamQuery(stream_of(stream)), "cuStreamQuery");
}
int32_t synchronize_device(void*, int32_t index) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  FACULA_TRY(status_of(driver()->CtxSynchronize(), "cuCtxSynchronize"));
  return take_report(*device);
}

CUevent event_of(void* event) { return static_cast<CUevent>(event); }

int32_t create_event(void*, int32_t index, int32_t timing, void** out) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  CUevent e = nullptr;
  FACULA_TRY(status_of(driver()->EventCreate(&e, timing != 0 ? 0 : CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  *out = e;
  return FACULA_OK;
}
int32_t destroy_event(void*, int32_t index, void* event) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->EventDestroy(event_of(event)), "cuEventDestroy");
}
int32_t record_event(void*, int32_t index, void* event, void* stream) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->EventRecord(event_of(event), stream_of(stream)), "cuEventRecord");
}
int32_t wait_event(void*, int32_t index, void* event, void* stream) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->StreamWaitEvent(stream_of(stream), event_of(event), 0), "cuStreamWaitEvent");
}
int32_t query_event(void*, int32_t index, void* event) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->EventQuery(event_of(event)), "cuEventQuery");
}
int32_t synchronize_event(void*, int32_t index, void* event) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  FACULA_TRY(status_of(driver()->EventSynchronize(event_of(event)), "cuEventSynchronize"));
  return take_report(*device);
}
int32_t elapsed(void*, int32_t index, void* start, void* end, double* milliseconds) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  float ms = 0;
  FACULA_TRY(status_of(driver()->EventElapsedTime(&ms, event_of(start), event_of(end)), "cuEventElapsedTime"));
  *milliseconds = ms;
  return FACULA_OK;
}

int32_t begin_capture(void*, int32_t index, void* stream) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->StreamBeginCapture(stream_of(stream), CU_STREAM_CAPTURE_MODE_RELAXED),
                   "cuStreamBeginCapture");
}
int32_t end_capture(void*, int32_t index, void* stream, void** out) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  CUgraph graph = nullptr;
  FACULA_TRY(status_of(driver()->StreamEndCapture(stream_of(stream), &graph), "cuStreamEndCapture"));
  CUgraphExec made = nullptr;
  const CUresult r = driver()->GraphInstantiateWithFlags(&made, graph, 0);
  driver()->GraphDestroy(graph);
  FACULA_TRY(status_of(r, "cuGraphInstantiate"));
  *out = made;
  return FACULA_OK;
}
int32_t launch_graph(void*, int32_t index, void* graph, void* stream) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->GraphLaunch(static_cast<CUgraphExec>(graph), stream_of(stream)), "cuGraphLaunch");
}
int32_t destroy_graph(void*, int32_t index, void* graph) {
  const Device* device = nullptr;
  FACULA_TRY(enter(index, &device));
  return status_of(driver()->GraphExecDestroy(static_cast<CUgraphExec>(graph)), "cuGraphExecDestroy");
}

}  // namespace

int device_count() { return static_cast<int>(slots()->size()); }

int32_t enter(int32_t index, const Device** out) {
  std::vector<Slot>& all = *slots();
  if (index < 0 || static_cast<size_t>(index) >= all.size()) {
    std::string why;
    if (driver(&why) == nullptr) return fail(FACULA_DEVICE_ERROR, why);
    return fail(FACULA_DEVICE_ERROR, all.empty() ? "the driver finds no NVIDIA GPU" : "there is no such device");
  }
  Slot& s = all[static_cast<size_t>(index)];
  if (!s.ready.load(std::memory_order_acquire)) [[unlikely]] {
    std::call_once(s.once, [&] { s.error = open(s.device, index); });
    if (!s.error.empty()) return fail(FACULA_DEVICE_ERROR, s.error);
    s.ready.store(true, std::memory_order_release);
  }
  // another library may have chosen another context for this thread
  CUcontext now = nullptr;
  driver()->CtxGetCurrent(&now);
  if (now != s.device.context) FACULA_TRY(status_of(driver()->CtxSetCurrent(s.device.context), "cuCtxSetCurrent"));
  *out = &s.device;
  return FACULA_OK;
}

int32_t take_report(const Device& device) {
  ErrorReport& r = *device.report;
  const int code = r.code;
  if (code == kNoError) [[likely]]
    return FACULA_OK;
  const int64_t value = r.value, limit = r.limit;
  r.code = kNoError;
  switch (code) {
    case kZeroDivision:
      return fail(FACULA_ZERO_DIVISION, "integer division or remainder by zero");
    case kIndexOutOfRange:
      return fail(FACULA_INDEX_ERROR, "index " + std::to_string(value) + " is out of range for a dim of size " +
                                          std::to_string(limit) + " (in a kernel that ran earlier)");
    case kNegativePower:
      return fail(FACULA_DEVICE_ERROR,
                  "integers have no negative integer powers; make the base a floating-point tensor, or the exponent "
                  "floats (in a kernel that ran earlier)");
    case kOutside:
      return fail(FACULA_DEVICE_ERROR, "all elements must be in [" + std::to_string(value) + ", " +
                                           (limit < 0 ? "inf" : std::to_string(limit)) +
                                           "], but one is not (in a kernel that ran earlier)");
    case kBadProbability:
      return fail(FACULA_DEVICE_ERROR, "a probability is not in [0, 1] (in a kernel that ran earlier)");
    case kBadConcentration:
      return fail(FACULA_DEVICE_ERROR, "a concentration is negative or not finite (in a kernel that ran earlier)");
    case kBadCount:
      return fail(FACULA_DEVICE_ERROR, "a count is no whole number from 0 on (in a kernel that ran earlier)");
    default:
      return fail(FACULA_DEVICE_ERROR, "a rate is negative or not finite (in a kernel that ran earlier)");
  }
}

bool synchronous() {
  static const bool on = [] {
    const char* const text = std::getenv("FACULA_CUDA_SYNC");
    return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
  }();
  return on;
}

bool tf32_allowed() {
  static const bool allowed = [] {
    const char* const text = std::getenv("FACULA_CUDA_TF32");
    return text != nullptr && *text != '\0' && std::strcmp(text, "0") != 0;
  }();
  return allowed;
}

void describe_device(FaculaBackend& b) {
  b.device_count = count_devices;
  b.properties = properties;
  b.allocate = allocate;
  b.deallocate = deallocate;
  b.copy = copy;
  b.pin = pin;
  b.unpin = unpin;
  b.memory_info = memory_info;
  b.create_stream = create_stream;
  b.synchronize_stream = synchronize_stream;
  b.query_stream = query_stream;
  b.synchronize_device = synchronize_device;
  b.create_event = create_event;
  b.destroy_event = destroy_event;
  b.record_event = record_event;
  b.wait_event = wait_event;
  b.query_event = query_event;
  b.synchronize_event = synchronize_event;
  b.elapsed = elapsed;
  b.begin_capture = begin_capture;
  b.end_capture = end_capture;
  b.launch_graph = launch_graph;
  b.destroy_graph = destroy_graph;
  b.reserve = reserve;
  b.map = map;
  b.unmap = unmap;
}

}  // namespace facula::cuda
