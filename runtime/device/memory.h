// Device memory: the vendor's functions, with a cache of freed blocks where the vendor wants one.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/core/allocator.h"
#include "runtime/device/blocks.h"
#include "runtime/device/interface.h"

namespace facula {

struct DeviceMemoryStats {  // bytes, then numbers of calls
  int64_t allocated = 0, peak = 0, reserved = 0, peak_reserved = 0, allocations = 0, reused = 0, retries = 0,
          largest_free = 0;
};

class DeviceMemory final : public Allocator {
 public:
  explicit DeviceMemory(DeviceInterface& interface) : interface_(interface) {}
  void* allocate(size_t nbytes, Device device) override;
  void deallocate(void* data, size_t nbytes, Device device) noexcept override;
  void copy(void* dst, const void* src, size_t nbytes, Device device) override;
  // Another stream uses the block too: it is not handed out again before that work is done.
  void record_stream(void* data, Device device, void* stream);
  // The vendor's piece that a block is in, and the block's place there; `in_range`: it is in a range, which has no such
  // piece. Null where nothing of ours begins at `data`.
  struct Place {
    void* piece = nullptr;
    size_t offset = 0;
    bool in_range = false;
  };
  Place place_of(void* data, Device device);
  // What is allocated for the stream, or by this thread, from now on is kept for one captured graph until that is
  // destroyed. Returns the graph's number.
  uint64_t begin_graph(int index, void* stream);
  void end_graph(Device device, void* stream);  // when the vendor has ended the capture
  // The device must have done the graph's work.
  void destroy_graph(Device device, uint64_t graph);
  // Is work for the stream, or of this thread, being recorded? Without a stream: any of the device's?
  bool is_captured(int index, void* stream);
  bool is_captured(int index);
  void empty_cache();
  DeviceMemoryStats stats(int index);
  void reset_peak(int index);

 private:
  struct Waiting {
    Block* block;
    std::vector<std::unique_ptr<DeviceEvent>> events;
  };
  struct Pool {
    std::mutex mutex;
    Blocks blocks;
    std::vector<Waiting> waiting;
    struct Capture {
      void* stream;
      std::thread::id thread;  // its other streams take part too
      uint64_t graph;
    };
    std::vector<Capture> captures;  // going on
    // Freed during one, while other streams used them: an event of now would be part of the graph.
    std::vector<std::pair<Block*, std::vector<void*>>> deferred;
    uint64_t captured = 0;  // graphs so far
    std::atomic<size_t> largest_range{SIZE_MAX};
    std::atomic<int> growing{0};  // threads that ask the vendor for memory
    DeviceMemoryStats stats;
  };
  Pool& pool(int index);
  // A block of memory new to the pool.
  Block* fresh(Pool& pool, Device device, size_t nbytes, size_t size, const Arena& arena);
  // These give null where the vendor has no more.
  Block* grown(Pool& pool, Device device, size_t size, const Arena& arena);
  Block* piece(Pool& pool, Device device, size_t bytes, size_t size, const Arena& arena);
  Block* mapped(Pool& pool, Device device, size_t size, const Arena& arena);
  bool reserve(Pool& pool, Device device, size_t size, const Arena& arena);
  void release(Pool& pool, Device device);
  void unmap(Pool& pool, Device device);
  // Waits for the device; false where a capture forbids it.
  bool settle(Device device);
  // Vendors' functions are called without the lock: one written in Python waits for Python's own.
  static void collect(Pool& pool, bool wait);
  bool caching() const;
  bool expandable() const;
  // Whether a freed block stays in the books rather than go back to the vendor.
  bool keeps(const Block& block) const { return block.arena.graph != 0 || caching(); }
  // Waits for the streams `others` before the block serves again.
  void retire(Pool& pool, Device device, Block* block, const std::vector<void*>& others);
  static uint64_t graph_of(const Pool& pool, void* stream);
  std::atomic<int> captures_{0};  // going on

  DeviceInterface& interface_;
  std::mutex making_;
  std::atomic<Pool*> pools_[kMostDevices] =
      {};  // by index, made when first asked for; they live for ever, as the DeviceInterface does
};

// Raises for what a graph cannot record; `what` ends the sentence.
[[noreturn]] void raise_in_capture(Device device, const char* what);

// Page-locked host memory of `interface`'s making; freed when copies from and to it have been done.
FACULA_API Storage allocate_pinned(DeviceInterface& interface, size_t nbytes);
FACULA_API bool is_pinned(const void* data);
// A copy on `stream` uses the memory; false when it is not pinned.
bool use_pinned(const void* data, Device device, void* stream);

}  // namespace facula
