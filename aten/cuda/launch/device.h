// Devices: primary contexts, and what every launch needs to know of them.
#pragma once

#include <string>

#include "launch/driver.h"
#include "launch/host.h"

namespace facula::cuda {

// What kernels report of the data they see; kernels/std.h has the same.
enum ErrorCode : int {
  kNoError,
  kZeroDivision,
  kIndexOutOfRange,
  kBadProbability,
  kBadRate,
  kNegativePower,
  kOutside,
  kBadConcentration,
  kBadCount
};
struct ErrorReport {
  volatile int code;
  volatile int64_t value, limit;
};

struct Device {
  int index = 0;
  CUdevice id = 0;
  CUcontext context = nullptr;
  std::string name;
  std::string arch;  // "sm_90"
  size_t total = 0;
  int major = 0, minor = 0, processors = 1;
  ErrorReport* report = nullptr;  // in host memory that kernels reach
};

// How many there are; 0 without a driver.
int device_count();

// Makes the device's context this thread's and gives the device; `out` is untouched on failure.
int32_t enter(int32_t index, const Device** out);

// The status of what kernels reported since the last call; called when the host has waited.
int32_t take_report(const Device& device);

// FACULA_CUDA_SYNC=1: every kernel is waited for, so that errors show where they arise.
bool synchronous();

// Full precision for float32 unless FACULA_CUDA_TF32=1 lets the matrix units round it to 10 bits.
bool tf32_allowed();

// Fills in the functions of devices, memory, streams, events and graphs.
void describe_device(FaculaBackend& backend);
void describe_sharing(FaculaBackend& backend);  // of sharing.cpp

}  // namespace facula::cuda
