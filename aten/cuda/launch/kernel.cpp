#include "launch/kernel.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>

namespace facula::cuda {

namespace {

struct KeyHash {
  size_t operator()(const KernelKey& k) const { return k.hash(); }
};
struct Table {
  std::mutex mutex;
  std::unordered_map<KernelKey, Kernel*, KeyHash> kernels;
};
Table& table() {
  static Table* const t = new Table;
  return *t;
}

}  // namespace

int32_t load_kernel(const Device& device, const KernelSource& made, Kernel& kernel, std::string& error) {
  if (made.entry == nullptr) return FACULA_NOT_SUPPORTED;
  kernel.formula = made.formula;
  const Compiled compiled = compile(made.source, device.arch);
  error = compiled.error;
  if (compiled.status != FACULA_OK) return fail(compiled.status, compiled.error);
  error = "the driver did not load the kernel " + made.source.name;
  const Driver& d = *driver();
  CUmodule module = nullptr;
  FACULA_TRY(status_of(d.ModuleLoadData(&module, compiled.code.data()), "cuModuleLoadData"));
  CUdeviceptr place = 0;
  size_t size = 0;
  if (d.ModuleGetGlobal(&place, &size, module, "facula_errors") == CUDA_SUCCESS && size == sizeof(CUdeviceptr)) {
    CUdeviceptr report = 0;
    FACULA_TRY(status_of(d.MemHostGetDevicePointer(&report, device.report, 0), "cuMemHostGetDevicePointer"));
    FACULA_TRY(status_of(d.MemcpyHtoD(place, &report, sizeof(report)), "cuMemcpyHtoD"));
  }
  return status_of(d.ModuleGetFunction(&kernel.function, module, made.entry), "cuModuleGetFunction");
}

RecentKernel* recent_kernels() {
  thread_local RecentKernel recent[kRecent];
  return recent;
}

int32_t find_kernel_slow(const Device& device, const KernelKey& key, const std::function<KernelSource()>& make,
                         Kernel** out) {
  Table& t = table();
  {
    std::lock_guard lock(t.mutex);
    if (const auto at = t.kernels.find(key); at != t.kernels.end()) {
      *out = at->second;
      return FACULA_OK;
    }
  }
  // Compiled without the lock: two threads may both do it, and the first one's is kept.
  auto* made = new Kernel;
  std::string error;
  if (const int32_t status = load_kernel(device, make(), *made, error); status != FACULA_OK) {
    delete made;
    return status;
  }
  std::lock_guard lock(t.mutex);
  const auto [at, fresh] = t.kernels.emplace(key, made);
  if (!fresh) delete made;
  *out = at->second;
  return FACULA_OK;
}

int32_t launch(const Device& device, Kernel& kernel, Grid grid, Grid block, int shared, void* stream,
               void* const* arguments) {
  const Driver& d = *driver();
  if (shared > 48 * 1024 && shared > kernel.dynamic_shared) {
    FACULA_TRY(status_of(d.FuncSetAttribute(kernel.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared),
                         "cuFuncSetAttribute"));
    kernel.dynamic_shared = shared;
  }
  const CUresult r =
      d.LaunchKernel(kernel.function, grid.x, grid.y, grid.z, block.x, block.y, block.z, static_cast<unsigned>(shared),
                     static_cast<CUstream>(stream), const_cast<void**>(arguments), nullptr);
  if (r != CUDA_SUCCESS) return status_of(r, "cuLaunchKernel");
  if (synchronous()) [[unlikely]] {
    int capturing = 0;
    d.StreamIsCapturing(static_cast<CUstream>(stream), &capturing);
    if (capturing == 0) {
      FACULA_TRY(status_of(d.StreamSynchronize(static_cast<CUstream>(stream)), "the kernel failed"));
      return take_report(device);
    }
  }
  return FACULA_OK;
}

int32_t resident_blocks(const Device& device, Kernel& kernel, int threads, int64_t* out) {
  int each = kernel.resident.load(std::memory_order_relaxed);
  if (each == 0) {
    FACULA_TRY(status_of(driver()->OccupancyMaxActiveBlocks(&each, kernel.function, threads, 0),
                         "cuOccupancyMaxActiveBlocksPerMultiprocessor"));
    each = std::max(each, 1);
    kernel.resident.store(each, std::memory_order_relaxed);
  }
  *out = int64_t{each} * device.processors;
  return FACULA_OK;
}

KernelSource file_kernel(const char* file, const char* entry, const std::string& before, bool fused) {
  const std::string path = std::string("facula/cuda/") + file;
  return {{std::string(file) + ":" + entry,
           "#include \"facula/cuda/types.h\"\nnamespace facula {\n" + before + "}\n#include \"" + path + "\"\n", fused},
          entry};
}

}  // namespace facula::cuda
