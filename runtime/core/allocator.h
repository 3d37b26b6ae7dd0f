// Memory of one device type. The CPU allocator keeps free lists; vendors bring their own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/core/device.h"

namespace facula {

class FACULA_API Allocator {
 public:
  virtual ~Allocator() = default;
  // Never null for nbytes > 0: raises OutOfMemory with the size asked for and what is held.
  virtual void* allocate(size_t nbytes, Device device) = 0;
  virtual void deallocate(void* data, size_t nbytes, Device device) noexcept = 0;
  virtual void copy(void* dst, const void* src, size_t nbytes, Device device);  // memcpy, if it is not overridden
};

// 64-byte aligned; a thread-local free list for small blocks, a bounded cache for large ones.
FACULA_API void* cpu_allocate(size_t nbytes);
// While there is one, memory that is given back is not used again: work that nobody waits for writes to it.
class FACULA_API HoldMemory {
 public:
  HoldMemory();
  ~HoldMemory();
  HoldMemory(const HoldMemory&) = delete;
  HoldMemory& operator=(const HoldMemory&) = delete;
};

FACULA_API void cpu_deallocate(void* data, size_t nbytes) noexcept;
struct CpuMemoryStats {
  int64_t live_bytes, peak_bytes, cached_bytes, allocations;
};
FACULA_API CpuMemoryStats cpu_memory_stats();
FACULA_API void cpu_empty_cache();

// By device type; meta has an allocator that returns null.
FACULA_API Allocator& allocator_of(DeviceType type);
FACULA_API void set_allocator(DeviceType type, Allocator* allocator);

}  // namespace facula
