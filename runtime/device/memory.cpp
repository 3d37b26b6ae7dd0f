#include "runtime/device/memory.h"

#include <algorithm>
#include <bit>

namespace facula {

namespace {

// Few distinct sizes, so that freed blocks serve again: at most an eighth is lost.
size_t rounded(size_t nbytes) {
  if (nbytes <= 512) return 512;
  const size_t step = std::max<size_t>(512, std::bit_floor(nbytes) / 8);
  return (nbytes + step - 1) / step * step;
}

}  // namespace

DeviceMemory::Pool& DeviceMemory::pool(int index) {
  std::lock_guard lock(mutex_);
  std::unique_ptr<Pool>& p = pools_[index];
  if (!p) p = std::make_unique<Pool>();
  return *p;
}

void* DeviceMemory::raw_allocate(size_t nbytes, int index, void* stream, int32_t& status) {
  void* data = nullptr;
  status = door_.api.allocate(door_.api.context, index, nbytes, stream, &data);
  if (status == FACULA_OK && data == nullptr) status = FACULA_OUT_OF_MEMORY;
  return status == FACULA_OK ? data : nullptr;
}

// Blocks that other streams used come back when their events have passed.
void DeviceMemory::collect(Pool& pool, bool wait) {
  std::vector<Waiting> waiting, still;
  std::vector<Block> done;
  {
    std::lock_guard lock(pool.mutex);
    waiting.swap(pool.waiting);
  }
  for (Waiting& w : waiting) {
    if (wait) {
      for (const auto& e : w.events) e->synchronize();
    }
    const auto passed = [](const auto& e) { return e->done(); };
    if (wait || std::all_of(w.events.begin(), w.events.end(), passed)) {
      done.push_back(std::move(w.block));
    } else {
      still.push_back(std::move(w));
    }
  }
  std::lock_guard lock(pool.mutex);
  for (Block& b : done) pool.free[{b.stream, b.size}].push_back(std::move(b));
  for (Waiting& w : still) pool.waiting.push_back(std::move(w));
}

void DeviceMemory::release(Pool& pool, int index) {
  collect(pool, true);
  std::map<std::pair<void*, size_t>, std::vector<Block>> free;
  {
    std::lock_guard lock(pool.mutex);
    free.swap(pool.free);
  }
  int64_t bytes = 0;
  for (auto& [key, blocks] : free) {
    for (const Block& b : blocks) {
      door_.ignore(door_.api.deallocate(door_.api.context, index, b.data, b.size, b.stream));
      bytes += static_cast<int64_t>(b.size);
    }
  }
  std::lock_guard lock(pool.mutex);
  pool.stats.reserved -= bytes;
}

void* DeviceMemory::allocate(size_t nbytes, Device device) {
  door_.start();
  const Device d = resolved(device);
  Pool& p = pool(d.index);
  void* const stream = current_stream(d);
  const bool caching = door_.has(FACULA_CACHING);
  const size_t size = caching ? rounded(nbytes) : nbytes;
  Block block{nullptr, size, stream, {}};
  if (caching) {
    collect(p, false);
    std::lock_guard lock(p.mutex);
    if (const auto at = p.free.find({stream, size}); at != p.free.end() && !at->second.empty()) {
      block.data = at->second.back().data;
      at->second.pop_back();
      ++p.stats.reused;
    }
  }
  const bool fresh = block.data == nullptr;
  bool retried = false;
  if (fresh) {
    int32_t status = FACULA_OK;
    block.data = raw_allocate(size, d.index, stream, status);
    if (status == FACULA_OUT_OF_MEMORY && caching) {
      retried = true;
      release(p, d.index);
      synchronize(d);  // vendors may give memory back in the order of its stream
      block.data = raw_allocate(size, d.index, stream, status);
    }
    if (block.data == nullptr) {
      if (status != FACULA_OUT_OF_MEMORY) door_.check(status, d.index, "allocating memory failed");
      const std::string why = take_door_error();
      raise(ErrorKind::OutOfMemory, to_string(d), " is out of memory: ", nbytes, " bytes were asked for, ",
            stats(d.index).allocated, " are in use by tensors", why.empty() ? "" : ". ", why);
    }
  }
  std::lock_guard lock(p.mutex);
  FACULA_CHECK(!p.live.contains(block.data), Runtime, "device '", to_string(d), "' gave memory that is in use: its ",
               "allocate returned the address of a tensor that lives");
  if (fresh) p.stats.reserved += static_cast<int64_t>(size);
  p.stats.retries += retried;
  ++p.stats.allocations;
  p.stats.allocated += static_cast<int64_t>(size);
  p.stats.peak = std::max(p.stats.peak, p.stats.allocated);
  void* const data = block.data;
  p.live.insert_or_assign(data, std::move(block));
  return data;
}

void DeviceMemory::deallocate(void* data, size_t, Device device) noexcept {
  if (data == nullptr || door_.forked.load(std::memory_order_relaxed)) return;  // the parent's memory
  try {
    Pool& p = pool(device.index);
    Waiting w;
    {
      std::lock_guard lock(p.mutex);
      const auto at = p.live.find(data);
      if (at == p.live.end()) return;
      w.block = std::move(at->second);
      p.live.erase(at);
      p.stats.allocated -= static_cast<int64_t>(w.block.size);
      if (!door_.has(FACULA_CACHING)) p.stats.reserved -= static_cast<int64_t>(w.block.size);
    }
    for (void* other : w.block.others) {
      w.events.push_back(std::make_unique<DeviceEvent>(device));
      w.events.back()->record(other);
    }
    w.block.others.clear();
    if (!door_.has(FACULA_CACHING)) {
      for (const auto& e : w.events) e->wait(device, w.block.stream);
      door_.ignore(door_.api.deallocate(door_.api.context, device.index, data, w.block.size, w.block.stream));
      return;
    }
    std::lock_guard lock(p.mutex);
    if (w.events.empty()) {
      p.free[{w.block.stream, w.block.size}].push_back(std::move(w.block));
    } else {
      p.waiting.push_back(std::move(w));
    }
  } catch (...) {  // a device that has failed: its memory is lost with it
  }
}

void DeviceMemory::copy(void* dst, const void* src, size_t nbytes, Device device) {
  transfer(dst, device, src, device, nbytes);
}

void DeviceMemory::record_stream(void* data, Device device, void* stream) {
  Pool& p = pool(device.index);
  std::lock_guard lock(p.mutex);
  if (const auto at = p.live.find(data); at != p.live.end() && at->second.stream != stream) {
    at->second.others.insert(stream);
  }
}

void DeviceMemory::empty_cache() {
  std::vector<std::pair<int, Pool*>> all;
  {
    std::lock_guard lock(mutex_);
    for (auto& [index, p] : pools_) all.emplace_back(index, p.get());
  }
  for (const auto& [index, p] : all) release(*p, index);
}

DeviceMemoryStats DeviceMemory::stats(int index) {
  Pool& p = pool(index);
  std::lock_guard lock(p.mutex);
  return p.stats;
}
void DeviceMemory::reset_peak(int index) {
  Pool& p = pool(index);
  std::lock_guard lock(p.mutex);
  p.stats.peak = p.stats.allocated;
}

// ---- pinned host memory ----

namespace {

struct Pinned {
  Door* door;
  char* data;
  size_t nbytes;
  std::vector<std::unique_ptr<DeviceEvent>> events;
};
struct PinnedTable {
  std::mutex mutex;
  std::map<const char*, Pinned*> by_start;
};
PinnedTable& pinned_table() {
  static PinnedTable* const t = new PinnedTable;
  return *t;
}

Pinned* find_pinned(PinnedTable& t, const void* data) {
  auto at = t.by_start.upper_bound(static_cast<const char*>(data));
  if (at == t.by_start.begin()) return nullptr;
  Pinned* p = std::prev(at)->second;
  return static_cast<const char*>(data) < p->data + p->nbytes ? p : nullptr;
}

void release_pinned(void* context) {
  std::unique_ptr<Pinned> p(static_cast<Pinned*>(context));
  {
    PinnedTable& t = pinned_table();
    std::lock_guard lock(t.mutex);
    t.by_start.erase(p->data);
  }
  if (p->door->forked.load(std::memory_order_relaxed)) return;
  try {
    for (const auto& e : p->events) e->synchronize();
  } catch (...) {
  }
  p->door->ignore(p->door->api.unpin(p->door->api.context, p->data, p->nbytes));
}

}  // namespace

Storage allocate_pinned(Door& door, size_t nbytes) {
  door.start();
  FACULA_CHECK(door.api.pin != nullptr, NotImplemented, "pin_memory(): device '", door.name, "' pins no host memory");
  auto p = std::make_unique<Pinned>(Pinned{&door, nullptr, std::max<size_t>(nbytes, 1), {}});
  void* data = nullptr;
  door.check(door.api.pin(door.api.context, p->nbytes, &data), -1, "pinning host memory failed");
  FACULA_CHECK(data != nullptr, OutOfMemory, "pin_memory(): device '", door.name, "' has no memory for ", nbytes,
               " bytes");
  p->data = static_cast<char*>(data);
  {
    PinnedTable& t = pinned_table();
    std::lock_guard lock(t.mutex);
    t.by_start[p->data] = p.get();
  }
  Pinned* const held = p.release();
  return StorageImpl::wrap(held->data, nbytes, Device{kCPU}, release_pinned, held);
}

bool is_pinned(const void* data) {
  PinnedTable& t = pinned_table();
  std::lock_guard lock(t.mutex);
  return find_pinned(t, data) != nullptr;
}

bool use_pinned(const void* data, Device device, void* stream) {
  if (!is_pinned(data)) return false;
  auto event = std::make_unique<DeviceEvent>(device);
  event->record(stream);
  PinnedTable& t = pinned_table();
  std::lock_guard lock(t.mutex);
  Pinned* const p = find_pinned(t, data);
  if (p != nullptr) p->events.push_back(std::move(event));
  return p != nullptr;
}

}  // namespace facula
