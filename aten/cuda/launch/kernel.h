// Loaded kernels, found by small keys, and their launch.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>

#include "launch/compiler.h"
#include "launch/device.h"
#include "launch/embedded.h"

namespace facula::cuda {

struct Kernel {
  CUfunction function = nullptr;
  const FormulaSource* formula = nullptr;  // of the pointwise template
  int dynamic_shared = 0;                  // what was allowed so far
  std::atomic<int> resident{};             // see resident_blocks()
};

// All that distinguishes one compiled kernel from another: addresses of constant names, and small
// numbers. Compared as bytes, so it must be zero where it is not used.
struct KernelKey {
  const void* name = nullptr;
  const void* variant = nullptr;
  uint64_t bits[4] = {};
  uint64_t device = 0;
  bool operator==(const KernelKey& other) const { return std::memcmp(this, &other, sizeof(*this)) == 0; }
  // Products that do not wait for each other; the highest bits depend on all others, and the lowest on those.
  uint64_t hash() const {
    const uint64_t sum = reinterpret_cast<uint64_t>(name) * 0x9e3779b97f4a7c15u +
                         reinterpret_cast<uint64_t>(variant) * 0xff51afd7ed558ccdu + bits[0] * 0xc4ceb9fe1a85ec53u +
                         bits[1] * 0xbf58476d1ce4e5b9u + bits[2] * 0x94d049bb133111ebu + bits[3] * 0xd6e8feb86659fd93u +
                         device * 0xa0761d6478bd642fu;
    return sum ^ sum >> 56;
  }
};

struct KernelSource {
  Source source;
  const char* entry;  // null: there is no such kernel, FACULA_NOT_SUPPORTED
  const FormulaSource* formula = nullptr;
};

// The kernel of a key; `make` is called when it is met first in this process.
int32_t find_kernel_slow(const Device& device, const KernelKey& key, const std::function<KernelSource()>& make,
                         Kernel** out);

// Compiles and loads; any thread, in the device's context. `error` becomes the reason of a failure.
int32_t load_kernel(const Device& device, const KernelSource& source, Kernel& kernel, std::string& error);

// A cache of this thread's last kernels before the table of all.
struct RecentKernel {
  KernelKey key;
  Kernel* kernel = nullptr;
};
inline constexpr size_t kRecent = 256;
RecentKernel* recent_kernels();

template <typename Make>
int32_t find_kernel(const Device& device, KernelKey& key, const Make& make, Kernel** out) {
  key.device = static_cast<uint64_t>(device.index);
  RecentKernel& r = recent_kernels()[key.hash() % kRecent];
  if (r.kernel != nullptr && r.key == key) [[likely]] {
    *out = r.kernel;
    return FACULA_OK;
  }
  FACULA_TRY(find_kernel_slow(device, key, make, out));
  r = {key, *out};
  return FACULA_OK;
}

struct Grid {
  unsigned x = 1, y = 1, z = 1;
};

// `arguments`: addresses of the kernel's arguments.
int32_t launch(const Device& device, Kernel& kernel, Grid grid, Grid block, int shared, void* stream,
               void* const* arguments);

// Blocks that the device runs at a time of a kernel which is always launched with `threads` of them and no dynamic
// shared memory: what goes on from row to row has that many, so that none waits for another to end.
int32_t resident_blocks(const Device& device, Kernel& kernel, int threads, int64_t* out);

// The kernel `entry` of an embedded file, with lines of text before it: types and constants.
KernelSource file_kernel(const char* file, const char* entry, const std::string& before, bool fused = true);

}  // namespace facula::cuda
