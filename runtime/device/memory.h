// Device memory: the vendor's functions, with a cache of freed blocks where the vendor wants one.
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "runtime/core/allocator.h"
#include "runtime/device/door.h"

namespace facula {

struct DeviceMemoryStats {
  int64_t allocated = 0, peak = 0, reserved = 0, allocations = 0, reused = 0, retries = 0;
};

class DeviceMemory final : public Allocator {
 public:
  explicit DeviceMemory(Door& door) : door_(door) {}
  void* allocate(size_t nbytes, Device device) override;
  void deallocate(void* data, size_t nbytes, Device device) noexcept override;
  void copy(void* dst, const void* src, size_t nbytes, Device device) override;
  // Another stream uses the block too: it is not handed out again before that work is done.
  void record_stream(void* data, Device device, void* stream);
  void empty_cache();
  DeviceMemoryStats stats(int index);
  void reset_peak(int index);

 private:
  struct Block {
    void* data = nullptr;
    size_t size = 0;
    void* stream = nullptr;
    std::set<void*> others;
  };
  struct Waiting {
    Block block;
    std::vector<std::unique_ptr<DeviceEvent>> events;
  };
  struct Pool {
    std::mutex mutex;
    std::unordered_map<void*, Block> live;
    std::map<std::pair<void*, size_t>, std::vector<Block>> free;  // by stream and size
    std::vector<Waiting> waiting;
    DeviceMemoryStats stats;
  };
  Pool& pool(int index);
  void* raw_allocate(size_t nbytes, int index, void* stream, int32_t& status);
  void release(Pool& pool, int index);
  // Vendors' functions are called without the lock: one written in Python waits for Python's own.
  static void collect(Pool& pool, bool wait);

  Door& door_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<Pool>> pools_;
};

// Page-locked host memory of `door`'s making; freed when copies from and to it have been done.
FACULA_API Storage allocate_pinned(Door& door, size_t nbytes);
FACULA_API bool is_pinned(const void* data);
// A copy on `stream` uses the memory; false when it is not pinned.
bool use_pinned(const void* data, Device device, void* stream);

}  // namespace facula
