// The CUDA driver, opened at run time: what is used of its interface, declared here, so that the module
// is built and loaded on machines without CUDA.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace facula::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUmemGenericAllocationHandle = unsigned long long;

struct CUmemLocation {
  int type, id;
};
struct CUmemAllocationProp {
  int type, requested_handle_types;
  CUmemLocation location;
  void* win32_handle_metadata;
  unsigned char flags[8];
};
struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};

struct CUipcHandle {  // of memory and of events alike
  unsigned char bytes[64];
};

enum : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_READY = 600,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_EVENT_INTERPROCESS = 4,
  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
  CU_STREAM_NON_BLOCKING = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
  CU_MEMHOSTALLOC_PORTABLE_DEVICEMAP = 3,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED = 102,
  CU_MEM_ALLOCATION_TYPE_PINNED = 1,
  CU_MEM_LOCATION_TYPE_DEVICE = 1,
  CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3,
};

// name in this program, exported name, arguments
#define FACULA_CUDA_DRIVER(X)                                                                                        \
  X(Init, cuInit, (unsigned))                                                                                        \
  X(DriverGetVersion, cuDriverGetVersion, (int*))                                                                    \
  X(GetErrorName, cuGetErrorName, (CUresult, const char**))                                                          \
  X(GetErrorString, cuGetErrorString, (CUresult, const char**))                                                      \
  X(DeviceGetCount, cuDeviceGetCount, (int*))                                                                        \
  X(DeviceGet, cuDeviceGet, (CUdevice*, int))                                                                        \
  X(DeviceGetName, cuDeviceGetName, (char*, int, CUdevice))                                                          \
  X(DeviceTotalMem, cuDeviceTotalMem_v2, (size_t*, CUdevice))                                                        \
  X(DeviceGetAttribute, cuDeviceGetAttribute, (int*, int, CUdevice))                                                 \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext*, CUdevice))                                        \
  X(CtxGetCurrent, cuCtxGetCurrent, (CUcontext*))                                                                    \
  X(CtxSetCurrent, cuCtxSetCurrent, (CUcontext))                                                                     \
  X(CtxSynchronize, cuCtxSynchronize, ())                                                                            \
  X(MemGetInfo, cuMemGetInfo_v2, (size_t*, size_t*))                                                                 \
  X(MemAlloc, cuMemAlloc_v2, (CUdeviceptr*, size_t))                                                                 \
  X(MemFree, cuMemFree_v2, (CUdeviceptr))                                                                            \
  X(MemAddressReserve, cuMemAddressReserve, (CUdeviceptr*, size_t, size_t, CUdeviceptr, unsigned long long))         \
  X(MemCreate, cuMemCreate, (CUmemGenericAllocationHandle*, size_t, const CUmemAllocationProp*, unsigned long long)) \
  X(MemRelease, cuMemRelease, (CUmemGenericAllocationHandle))                                                        \
  X(MemMap, cuMemMap, (CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle, unsigned long long))               \
  X(MemUnmap, cuMemUnmap, (CUdeviceptr, size_t))                                                                     \
  X(MemSetAccess, cuMemSetAccess, (CUdeviceptr, size_t, const CUmemAccessDesc*, size_t))                             \
  X(IpcGetMemHandle, cuIpcGetMemHandle, (CUipcHandle*, CUdeviceptr))                                                 \
  X(IpcOpenMemHandle, cuIpcOpenMemHandle_v2, (CUdeviceptr*, CUipcHandle, unsigned))                                  \
  X(IpcCloseMemHandle, cuIpcCloseMemHandle, (CUdeviceptr))                                                           \
  X(IpcGetEventHandle, cuIpcGetEventHandle, (CUipcHandle*, CUevent))                                                 \
  X(IpcOpenEventHandle, cuIpcOpenEventHandle, (CUevent*, CUipcHandle))                                               \
  X(MemHostAlloc, cuMemHostAlloc, (void**, size_t, unsigned))                                                        \
  X(MemFreeHost, cuMemFreeHost, (void*))                                                                             \
  X(MemHostGetDevicePointer, cuMemHostGetDevicePointer_v2, (CUdeviceptr*, void*, unsigned))                          \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2, (CUdeviceptr, const void*, size_t, CUstream))                             \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2, (void*, CUdeviceptr, size_t, CUstream))                                   \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2, (CUdeviceptr, CUdeviceptr, size_t, CUstream))                             \
  X(MemcpyPeerAsync, cuMemcpyPeerAsync, (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))          \
  X(MemcpyHtoD, cuMemcpyHtoD_v2, (CUdeviceptr, const void*, size_t))                                                 \
  X(MemsetD8Async, cuMemsetD8Async, (CUdeviceptr, unsigned char, size_t, CUstream))                                  \
  X(StreamCreateWithPriority, cuStreamCreateWithPriority, (CUstream*, unsigned, int))                                \
  X(StreamSynchronize, cuStreamSynchronize, (CUstream))                                                              \
  X(StreamQuery, cuStreamQuery, (CUstream))                                                                          \
  X(StreamWaitEvent, cuStreamWaitEvent, (CUstream, CUevent, unsigned))                                               \
  X(StreamBeginCapture, cuStreamBeginCapture_v2, (CUstream, int))                                                    \
  X(StreamEndCapture, cuStreamEndCapture, (CUstream, CUgraph*))                                                      \
  X(StreamIsCapturing, cuStreamIsCapturing, (CUstream, int*))                                                        \
  X(GraphInstantiateWithFlags, cuGraphInstantiateWithFlags, (CUgraphExec*, CUgraph, unsigned long long))             \
  X(GraphLaunch, cuGraphLaunch, (CUgraphExec, CUstream))                                                             \
  X(GraphExecDestroy, cuGraphExecDestroy, (CUgraphExec))                                                             \
  X(GraphDestroy, cuGraphDestroy, (CUgraph))                                                                         \
  X(EventCreate, cuEventCreate, (CUevent*, unsigned))                                                                \
  X(EventDestroy, cuEventDestroy_v2, (CUevent))                                                                      \
  X(EventRecord, cuEventRecord, (CUevent, CUstream))                                                                 \
  X(EventQuery, cuEventQuery, (CUevent))                                                                             \
  X(EventSynchronize, cuEventSynchronize, (CUevent))                                                                 \
  X(EventElapsedTime, cuEventElapsedTime, (float*, CUevent, CUevent))                                                \
  X(ModuleLoadData, cuModuleLoadData, (CUmodule*, const void*))                                                      \
  X(ModuleGetFunction, cuModuleGetFunction, (CUfunction*, CUmodule, const char*))                                    \
  X(ModuleGetGlobal, cuModuleGetGlobal_v2, (CUdeviceptr*, size_t*, CUmodule, const char*))                           \
  X(FuncSetAttribute, cuFuncSetAttribute, (CUfunction, int, int))                                                    \
  X(OccupancyMaxActiveBlocks, cuOccupancyMaxActiveBlocksPerMultiprocessor, (int*, CUfunction, int, size_t))          \
  X(LaunchKernel, cuLaunchKernel,                                                                                    \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**, void**))

struct Driver {
#define X(name, symbol, arguments) CUresult(*name) arguments = nullptr;
  FACULA_CUDA_DRIVER(X)
#undef X
};

// Null when there is no driver to be had or CUDA is switched off; `why` then says so.
const Driver* driver(std::string* why = nullptr);

// "CUDA_ERROR_INVALID_VALUE: invalid argument", from the driver.
std::string error_text(CUresult result);

// The status of the device interface for a result, with the text handed to facula.
int32_t status_of(CUresult result, const char* doing);

}  // namespace facula::cuda
