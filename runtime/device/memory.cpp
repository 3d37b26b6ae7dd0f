#include "runtime/device/memory.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>

namespace facula {

DeviceMemory::Pool& DeviceMemory::pool(int index) {
  FACULA_CHECK(index >= 0 && index < std::ssize(pools_), Runtime, "device '", interface_.name,
               "' has no memory of number ", index);
  std::atomic<Pool*>& slot = pools_[index];
  if (Pool* const p = slot.load(std::memory_order_acquire); p != nullptr) [[likely]]
    return *p;
  std::lock_guard lock(making_);
  if (slot.load(std::memory_order_relaxed) == nullptr) slot.store(new Pool, std::memory_order_release);
  return *slot.load(std::memory_order_relaxed);
}

// The variable's word where it is set: "0" is no, all else yes.
static bool is_wanted(const char* variable, bool otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr || *text == '\0' ? otherwise : std::strcmp(text, "0") != 0;
}

// FACULA_DEVICE_CACHE=0: each block is the vendor's own, so that tools that watch its memory see where one ends.
bool DeviceMemory::caching() const {
  static const bool wanted = is_wanted("FACULA_DEVICE_CACHE", true);
  return wanted && interface_.has(FACULA_CACHING);
}

// FACULA_DEVICE_EXPANDABLE=1: memory is mapped behind addresses where it is wanted, for less of it in pieces.
bool DeviceMemory::expandable() const {
  static const bool wanted = is_wanted("FACULA_DEVICE_EXPANDABLE", false);
  return wanted && caching() && interface_.api.reserve != nullptr;
}

// Blocks that other streams used come back when their events have passed.
void DeviceMemory::collect(Pool& pool, bool wait) {
  std::vector<Waiting> waiting, still, done;
  {
    std::lock_guard lock(pool.mutex);
    if (pool.waiting.empty()) return;
    waiting.swap(pool.waiting);
  }
  const auto put_back = [&] {
    std::lock_guard lock(pool.mutex);
    for (const Waiting& w : done) pool.blocks.give(w.block);
    for (Waiting& w : still) pool.waiting.push_back(std::move(w));
  };
  for (size_t i = 0; i < waiting.size(); ++i) {
    Waiting& w = waiting[i];
    bool passed = true;
    try {
      for (const auto& e : w.events) {
        if (wait) e->synchronize();
        passed = passed && (wait || e->done());
      }
    } catch (...) {
      for (; i < waiting.size(); ++i) still.push_back(std::move(waiting[i]));
      put_back();
      throw;
    }
    (passed ? done : still).push_back(std::move(w));
  }
  put_back();
}

void DeviceMemory::release(Pool& pool, Device device) {
  collect(pool, true);
  std::vector<Blocks::Piece> pieces;
  {
    std::lock_guard lock(pool.mutex);
    // In a stream that is being captured the vendor's work would be part of the graph.
    pieces = pool.blocks.release([&](void* stream) { return graph_of(pool, stream) == 0; });
  }
  int64_t bytes = 0;
  for (const Blocks::Piece& piece : pieces) {
    interface_.ignore(
        interface_.api.deallocate(interface_.api.context, device.index, piece.data, piece.size, piece.stream));
    bytes += static_cast<int64_t>(piece.size);
  }
  {
    std::lock_guard lock(pool.mutex);
    pool.stats.reserved -= bytes;
  }
  unmap(pool, device);
}

// Takes the memory from behind chunks that nobody uses.
void DeviceMemory::unmap(Pool& pool, Device device) {
  std::vector<std::pair<Block*, size_t>> whole;  // with what is mapped of each
  {
    std::lock_guard lock(pool.mutex);
    for (Block* const block : pool.blocks.retract()) whole.emplace_back(block, block->size);
  }
  if (whole.empty()) return;
  const auto put_back = [&] {
    std::lock_guard lock(pool.mutex);
    for (const auto& [block, left] : whole) {
      pool.stats.reserved -= static_cast<int64_t>(block->size - left);
      pool.blocks.mapped(block, left);
    }
  };
  try {
    if (settle(device)) {  // it is done in no stream's order
      for (auto& [block, left] : whole) {
        const size_t chunk = Blocks::chunk_of(block->small);
        while (left > 0) {
          const int32_t status =
              interface_.api.unmap(interface_.api.context, device.index, block->data + left - chunk, chunk);
          interface_.ignore(status);
          if (status != FACULA_OK) break;
          left -= chunk;
        }
      }
    }
  } catch (...) {
    put_back();
    throw;
  }
  put_back();
}

bool DeviceMemory::settle(Device device) {
  try {
    synchronize(device);
    return true;
  } catch (...) {
    if (is_captured(device.index)) return false;
    throw;
  }
}

static void count_reserved(DeviceMemoryStats& stats, size_t more) {
  stats.reserved += static_cast<int64_t>(more);
  stats.peak_reserved = std::max(stats.peak_reserved, stats.reserved);
}

Block* DeviceMemory::piece(Pool& p, Device d, size_t bytes, size_t size, const Arena& arena) {
  void* data = nullptr;
  const int32_t status = interface_.api.allocate(interface_.api.context, d.index, bytes, arena.stream, &data);
  if (status == FACULA_OUT_OF_MEMORY || (status == FACULA_OK && data == nullptr)) return nullptr;
  interface_.check(status, d.index, "allocating memory failed");
  std::lock_guard lock(p.mutex);
  Block* const block = p.blocks.add(data, bytes, size, arena);
  FACULA_CHECK(block != nullptr, Runtime, "device '", to_string(d), "' gave memory that is in use: its ",
               "allocate returned an address within memory that it has given before");
  count_reserved(p.stats, bytes);
  return block;
}

// A new range for the arena; false when there is none to be had that is large enough.
bool DeviceMemory::reserve(Pool& p, Device d, size_t size, const Arena& arena) {
  if (size > p.largest_range.load(std::memory_order_relaxed)) return false;
  void* data = nullptr;
  size_t bytes = 0;
  const int32_t status = interface_.api.reserve(interface_.api.context, d.index, &data, &bytes);
  interface_.ignore(status);
  const size_t chunk = Blocks::chunk_of(false);
  bytes = bytes / chunk * chunk;
  if (status != FACULA_OK || data == nullptr) return false;
  p.largest_range.store(bytes, std::memory_order_relaxed);
  if (bytes == 0) return false;
  std::lock_guard lock(p.mutex);
  FACULA_CHECK(p.blocks.add_range(data, bytes, size, arena), Runtime, "device '", to_string(d),
               "' gave addresses that are in use: its reserve returned some that it has given before");
  return bytes >= size;
}

Block* DeviceMemory::mapped(Pool& p, Device d, size_t size, const Arena& arena) {
  while (true) {
    Block* hole = nullptr;
    {
      std::lock_guard lock(p.mutex);
      if (Block* const block = p.blocks.take(size, arena)) return block;
      hole = p.blocks.claim(size, arena);
    }
    if (hole == nullptr) {
      if (reserve(p, d, size, arena)) continue;
      return piece(p, d, Blocks::piece_for(size), size, arena);
    }
    const size_t chunk = Blocks::chunk_of(hole->small);
    size_t done = 0;
    int32_t status = FACULA_OK;
    while (done < hole->size && status == FACULA_OK) {
      status = interface_.api.map(interface_.api.context, d.index, hole->data + done, chunk);
      if (status == FACULA_OK) done += chunk;
    }
    {
      std::lock_guard lock(p.mutex);
      count_reserved(p.stats, done);
      p.blocks.mapped(hole, done);
    }
    if (status == FACULA_OUT_OF_MEMORY) return nullptr;
    interface_.check(status, d.index, "mapping memory failed");
  }
}

Block* DeviceMemory::grown(Pool& p, Device d, size_t size, const Arena& arena) {
  if (!caching()) return piece(p, d, size, size, arena);
  // A captured graph's memory is a graph's for long: it takes none of the addresses.
  if (expandable() && arena.graph == 0) return mapped(p, d, size, arena);
  return piece(p, d, Blocks::piece_for(size), size, arena);
}

Block* DeviceMemory::fresh(Pool& p, Device d, size_t nbytes, size_t size, const Arena& arena) {
  struct Counted {
    std::atomic<int>& n;
    explicit Counted(std::atomic<int>& of) : n(of) { ++n; }
    ~Counted() { --n; }
  } const counted(p.growing);
  Block* block = grown(p, d, size, arena);
  // What one thread gives back another may take: so long as others ask too, it is tried again, for a while.
  constexpr int kTries = 50;
  for (int i = 0; block == nullptr && caching() && i < kTries && (i == 0 || p.growing.load() > 1); ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    release(p, d);
    settle(d);  // vendors may give memory back in the order of its stream
    {           // what came back may lie beside blocks that live
      std::lock_guard lock(p.mutex);
      p.stats.retries += i == 0;
      block = p.blocks.take(size, arena);
    }
    if (block == nullptr) block = grown(p, d, size, arena);
    if (block == nullptr) block = piece(p, d, size, size, arena);  // without a rest to share
  }
  if (block != nullptr) return block;
  const std::string why = take_device_error();
  const DeviceMemoryStats s = stats(d.index);
  raise(ErrorKind::OutOfMemory, to_string(d), " is out of memory: ", nbytes, " bytes were asked for, ", s.allocated,
        " are in use by tensors, ", s.reserved - s.allocated, " are kept for reuse, at most ", s.largest_free,
        " of them side by side", why.empty() ? "" : ". ", why);
}

void* DeviceMemory::allocate(size_t nbytes, Device device) {
  interface_.start();
  const Device d = resolved(device);
  Pool& p = pool(d.index);
  Arena arena{current_stream(d), 0};
  const bool kept = caching();
  const size_t size = kept ? Blocks::rounded(nbytes) : nbytes;
  std::unique_lock lock(p.mutex);
  if (kept && !p.waiting.empty()) {
    lock.unlock();
    collect(p, false);
    lock.lock();
  }
  arena.graph = graph_of(p, arena.stream);
  Block* block = kept ? p.blocks.take(size, arena) : nullptr;
  p.stats.reused += block != nullptr;
  if (block == nullptr) {
    lock.unlock();
    block = fresh(p, d, nbytes, size, arena);
    lock.lock();
  }
  ++p.stats.allocations;
  p.stats.allocated += static_cast<int64_t>(block->size);
  p.stats.peak = std::max(p.stats.peak, p.stats.allocated);
  return block->data;
}

void DeviceMemory::deallocate(void* data, size_t, Device device) noexcept {
  if (data == nullptr || interface_.forked.load(std::memory_order_relaxed)) return;  // the parent's memory
  try {
    Pool& p = pool(device.index);
    Block* block = nullptr;
    std::vector<void*> others;
    {
      std::lock_guard lock(p.mutex);
      block = p.blocks.live(data);
      if (block == nullptr) return;
      p.stats.allocated -= static_cast<int64_t>(block->size);
      if (keeps(*block) && block->others.empty()) {
        p.blocks.give(block);
        return;
      }
      block->state = Block::State::Waiting;
      others.swap(block->others);
      if (!p.captures.empty()) {
        p.deferred.emplace_back(block, std::move(others));
        return;
      }
    }
    retire(p, device, block, others);
  } catch (...) {  // a device that has failed: its memory is lost with it
  }
}

void DeviceMemory::retire(Pool& p, Device device, Block* block, const std::vector<void*>& others) {
  Waiting w{block, {}};
  for (void* other : others) {
    w.events.push_back(std::make_unique<DeviceEvent>(device));
    w.events.back()->record(other);
  }
  {
    std::lock_guard lock(p.mutex);
    if (keeps(*block)) {
      p.waiting.push_back(std::move(w));
      return;
    }
  }
  void *const data = block->data, *const stream = block->arena.stream;
  const size_t size = block->size;
  for (const auto& e : w.events) e->wait(device, stream);
  {
    std::lock_guard lock(p.mutex);
    p.stats.reserved -= static_cast<int64_t>(size);
    p.blocks.forget(block);  // before its address can come again
  }
  interface_.ignore(interface_.api.deallocate(interface_.api.context, device.index, data, size, stream));
}

void DeviceMemory::copy(void* dst, const void* src, size_t nbytes, Device device) {
  transfer(dst, device, src, device, nbytes);
}

void DeviceMemory::record_stream(void* data, Device device, void* stream) {
  Pool& p = pool(device.index);
  std::lock_guard lock(p.mutex);
  Block* const block = p.blocks.live(data);
  if (block == nullptr || block->arena.stream == stream) return;
  if (std::find(block->others.begin(), block->others.end(), stream) == block->others.end()) {
    block->others.push_back(stream);
  }
}

DeviceMemory::Place DeviceMemory::place_of(void* data, Device device) {
  Pool& p = pool(device.index);
  std::lock_guard lock(p.mutex);
  const Block* const block = p.blocks.live(data);
  if (block == nullptr) return {};
  const Block* first = block;
  while (first->before != nullptr) first = first->before;
  return {first->data, static_cast<size_t>(block->data - first->data), block->range != nullptr};
}

uint64_t DeviceMemory::begin_graph(int index, void* stream) {
  Pool& p = pool(index);
  std::lock_guard lock(p.mutex);
  p.captures.push_back({stream, std::this_thread::get_id(), ++p.captured});
  ++captures_;
  return p.captured;
}
void DeviceMemory::end_graph(Device device, void* stream) {
  Pool& p = pool(device.index);
  decltype(p.deferred) deferred;
  {
    std::lock_guard lock(p.mutex);
    captures_ -=
        static_cast<int>(std::erase_if(p.captures, [&](const Pool::Capture& c) { return c.stream == stream; }));
    if (p.captures.empty()) deferred.swap(p.deferred);
  }
  for (const auto& [block, others] : deferred) retire(p, device, block, others);
}
bool DeviceMemory::is_captured(int index, void* stream) {
  if (captures_.load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  Pool& p = pool(index);
  std::lock_guard lock(p.mutex);
  return graph_of(p, stream) != 0;
}
bool DeviceMemory::is_captured(int index) {
  if (captures_.load(std::memory_order_relaxed) == 0) [[likely]]
    return false;
  Pool& p = pool(index);
  std::lock_guard lock(p.mutex);
  return !p.captures.empty();
}
uint64_t DeviceMemory::graph_of(const Pool& p, void* stream) {
  uint64_t newest = 0;  // of this thread
  for (const Pool::Capture& c : p.captures) {
    if (c.stream == stream) return c.graph;
    if (c.thread == std::this_thread::get_id()) newest = c.graph;
  }
  return newest;
}
void raise_in_capture(Device device, const char* what) {
  raise(ErrorKind::Runtime, "a graph is being captured on ", to_string(device),
        ", which records the work and does not run it: ", what);
}
void DeviceMemory::destroy_graph(Device device, uint64_t graph) {
  if (interface_.forked.load(std::memory_order_relaxed)) return;  // the parent's
  Pool& p = pool(device.index);
  {
    std::lock_guard lock(p.mutex);
    p.blocks.end_graph(graph);
  }
  if (!caching()) release(p, device);
}

void DeviceMemory::empty_cache() {
  for (size_t i = 0; i < std::size(pools_); ++i) {
    Pool* const p = pools_[i].load(std::memory_order_acquire);
    if (p == nullptr) continue;
    interface_.start();
    release(*p, Device{interface_.type, static_cast<int8_t>(i)});
  }
}

DeviceMemoryStats DeviceMemory::stats(int index) {
  Pool& p = pool(index);
  std::lock_guard lock(p.mutex);
  DeviceMemoryStats now = p.stats;
  now.largest_free = static_cast<int64_t>(p.blocks.largest_free());
  return now;
}
void DeviceMemory::reset_peak(int index) {
  Pool& p = pool(index);
  std::lock_guard lock(p.mutex);
  p.stats.peak = p.stats.allocated;
  p.stats.peak_reserved = p.stats.reserved;
}

// ---- pinned host memory ----

namespace {

struct Pinned {
  DeviceInterface* interface;
  char* data;
  size_t nbytes;
  struct Use {
    void* stream;
    std::unique_ptr<DeviceEvent> last;  // its last copy from or to here
  };
  std::vector<Use> uses;  // one of each stream
  bool in_graphs = false;
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
  // A graph reads it at each replay, and nobody says when the last one was: it stays.
  if (p->in_graphs || p->interface->forked.load(std::memory_order_relaxed)) return;
  try {
    for (const Pinned::Use& use : p->uses) use.last->synchronize();
  } catch (...) {
  }
  p->interface->ignore(p->interface->api.unpin(p->interface->api.context, p->data, p->nbytes));
}

}  // namespace

Storage allocate_pinned(DeviceInterface& interface, size_t nbytes) {
  interface.start();
  FACULA_CHECK(interface.api.pin != nullptr, NotImplemented, Operator{"pin_memory"}, "device '", interface.name,
               "' pins no host memory");
  auto p = std::make_unique<Pinned>(Pinned{&interface, nullptr, std::max<size_t>(nbytes, 1), {}});
  void* data = nullptr;
  interface.check(interface.api.pin(interface.api.context, p->nbytes, &data), -1, "pinning host memory failed");
  FACULA_CHECK(data != nullptr, OutOfMemory, Operator{"pin_memory"}, "device '", interface.name, "' has no memory for ",
               nbytes, " bytes");
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
  const bool captured = interface_of(device.type).memory->is_captured(device.index, stream);
  PinnedTable& t = pinned_table();
  Pinned* p = nullptr;
  Pinned::Use use{stream, nullptr};
  {
    std::lock_guard lock(t.mutex);
    p = find_pinned(t, data);
    if (p == nullptr) return false;
    p->in_graphs = p->in_graphs || captured;
    if (captured) return true;
    const auto at = std::find_if(p->uses.begin(), p->uses.end(), [&](const Pinned::Use& u) {
      return u.stream == stream && u.last->device() == device;
    });
    if (at != p->uses.end()) {  // recorded anew, it stands for the copies before too
      use = std::move(*at);
      p->uses.erase(at);
    }
  }
  const auto keep = [&] {
    std::lock_guard lock(t.mutex);
    p->uses.push_back(std::move(use));
  };
  if (use.last == nullptr) use.last = std::make_unique<DeviceEvent>(device);
  try {
    use.last->record(stream);
  } catch (...) {
    keep();  // for the copies before
    throw;
  }
  keep();
  return true;
}

}  // namespace facula
