// Large CPU blocks: a bounded cache by size class, so that a fresh result of 64 MB does not pay for
// page faults each time.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "runtime/core/rounding.h"
#include "runtime/core/allocator.h"
#include "runtime/core/memory_internal.h"
#include "runtime/core/pool.h"

namespace facula {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kMapped = kHugePage;        // from here on blocks are mappings of their own
constexpr size_t kSlack = size_t{64} << 20;  // may be held beyond the peak of live bytes
constexpr int kStepsLog = 3;                 // eight sizes a doubling: at most 12.5 % unused
constexpr int kNumClasses = (63 - 16) << kStepsLog;

struct LargeClass {
  int index;
  size_t bytes;
};

LargeClass large_class(size_t nbytes) {
  const int log = 63 - __builtin_clzll(nbytes);  // log >= 16
  const size_t step = size_t{1} << (log - kStepsLog);
  const size_t k = ceil_div(nbytes - (size_t{1} << log), step);
  size_t bytes = (size_t{1} << log) + k * step;
  if (bytes >= 2 * kHugePage) bytes = (bytes + kHugePage - 1) & ~(kHugePage - 1);
  return {((log - 16) << kStepsLog) + static_cast<int>(k), bytes};
}

void* map_block(size_t bytes) {
  if (bytes < kMapped) return std::aligned_alloc(4096, bytes);
  // Over-map to find a huge page boundary, then cut off what is too much.
  const size_t mapped = bytes + kHugePage;
  void* raw = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(raw);
  const uintptr_t aligned = (begin + kHugePage - 1) & ~(kHugePage - 1);
  if (aligned > begin) munmap(raw, aligned - begin);
  const uintptr_t end = begin + mapped, aligned_end = aligned + bytes;
  if (end > aligned_end) munmap(reinterpret_cast<void*>(aligned_end), end - aligned_end);
  void* p = reinterpret_cast<void*>(aligned);
#ifdef MADV_HUGEPAGE
  madvise(p, bytes, MADV_HUGEPAGE);
#endif
  return p;
}

void unmap_block(void* p, size_t bytes) noexcept {
  if (bytes < kMapped) {
    std::free(p);
  } else {
    munmap(p, bytes);
  }
}

size_t physical_memory() {
  size_t bytes = static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    if (std::FILE* f = std::fopen(path, "r"); f != nullptr) {
      unsigned long long limit = 0;
      if (std::fscanf(f, "%llu", &limit) == 1 && limit > 0) bytes = std::min<size_t>(bytes, limit);
      std::fclose(f);
    }
  }
  return bytes;
}

// What no process here can have: the system might promise it, and end the process when it is used.
size_t most_memory() {
  static const size_t bytes = [] {
    struct sysinfo info{};
    const size_t swap = sysinfo(&info) == 0 ? static_cast<size_t>(info.totalswap) * info.mem_unit : 0;
    return physical_memory() + swap;
  }();
  return bytes;
}

size_t cache_limit() {
  if (const char* text = std::getenv("FACULA_CPU_CACHE_MB"); text != nullptr && *text != '\0') {
    char* end = nullptr;
    const unsigned long long mb = std::strtoull(text, &end, 10);
    if (*end == '\0' && *text != '-') return static_cast<size_t>(std::min(mb, 1ULL << 40)) << 20;
  }
  return physical_memory() / 4;
}

// A cached block carries its own list links: its first page is resident anyway.
struct Cached {
  Cached *next, *previous;  // same class, newest first
  Cached *older, *newer;    // all classes
  size_t bytes;
  int index;
};

struct Cache {
  std::mutex mutex;
  Cached* heads[kNumClasses] = {};
  Cached *newest = nullptr, *oldest = nullptr;
  size_t bytes = 0;
  size_t limit = detail::kCaching ? cache_limit() : 0;

  void insert(void* p, LargeClass c) {
    Cached* b = static_cast<Cached*>(p);
    *b = {heads[c.index], nullptr, newest, nullptr, c.bytes, c.index};
    if (b->next != nullptr) b->next->previous = b;
    heads[c.index] = b;
    (newest != nullptr ? newest->newer : oldest) = b;
    newest = b;
    bytes += c.bytes;
  }
  void remove(Cached* b) {
    (b->previous != nullptr ? b->previous->next : heads[b->index]) = b->next;
    if (b->next != nullptr) b->next->previous = b->previous;
    (b->newer != nullptr ? b->newer->older : newest) = b->older;
    (b->older != nullptr ? b->older->newer : oldest) = b->newer;
    bytes -= b->bytes;
  }
  // Unlinks the oldest blocks until at most `keep` bytes stay; the caller unmaps the chain.
  Cached* trim(size_t keep) {
    Cached* chain = nullptr;
    while (bytes > keep) {
      Cached* b = oldest;
      remove(b);
      b->next = chain;
      chain = b;
    }
    return chain;
  }
};

void unmap_chain(Cached* chain) noexcept {
  while (chain != nullptr) {
    Cached* next = chain->next;
    unmap_block(chain, chain->bytes);
    chain = next;
  }
}

Cache& cache() {
  static Cache* const c = [] {
    auto* made = new Cache;
    // A fork while another thread holds the lock must not leave it locked in the child.
    pthread_atfork([] { cache().mutex.lock(); }, [] { cache().mutex.unlock(); }, [] { cache().mutex.unlock(); });
    return made;
  }();
  return *c;
}

std::atomic<int64_t> g_live{0}, g_peak{0}, g_allocations{0};

void* large_allocate(size_t nbytes) {
  const LargeClass c = large_class(nbytes);
  Cache& store = cache();
  Cached* drop = nullptr;
  {
    std::lock_guard lock(store.mutex);
    if (Cached* b = store.heads[c.index]; b != nullptr) {
      store.remove(b);
      return b;
    }
    // Blocks of other sizes must not push the process far beyond what its tensors need at once.
    const int64_t live = g_live.load(std::memory_order_relaxed) + static_cast<int64_t>(c.bytes);
    const int64_t room = std::max(g_peak.load(std::memory_order_relaxed), live) - live + static_cast<int64_t>(kSlack);
    drop = store.trim(static_cast<size_t>(room));
  }
  unmap_chain(drop);
  void* p = map_block(c.bytes);
  if (p == nullptr) {
    cpu_empty_cache();
    p = map_block(c.bytes);
    if (p == nullptr) detail::raise_out_of_memory(nbytes);
  }
  return p;
}

void large_deallocate(void* p, size_t nbytes) noexcept {
  const LargeClass c = large_class(nbytes);
  Cache& store = cache();
  if (c.bytes > store.limit) {
    unmap_block(p, c.bytes);
    return;
  }
  Cached* drop = nullptr;
  {
    std::lock_guard lock(store.mutex);
    drop = store.trim(store.limit - c.bytes);
    store.insert(p, c);
  }
  unmap_chain(drop);
}

std::string readable(size_t bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 6) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof(text), unit == 0 ? "%.0f %s" : "%.2f %s", value, kUnits[unit]);
  return text;
}

}  // namespace

namespace detail {

void count_memory(int64_t bytes, int64_t allocations) {
  const int64_t live = g_live.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  if (allocations != 0) g_allocations.fetch_add(allocations, std::memory_order_relaxed);
  int64_t peak = g_peak.load(std::memory_order_relaxed);
  while (live > peak && !g_peak.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
  }
}

void raise_out_of_memory(size_t nbytes) {
  raise(ErrorKind::OutOfMemory, "cannot allocate ", readable(nbytes), " on cpu: tensors hold ",
        readable(static_cast<size_t>(std::max<int64_t>(0, g_live.load()))), " (peak ",
        readable(static_cast<size_t>(g_peak.load())), "), this machine has ", readable(physical_memory()));
}

}  // namespace detail

void* cpu_allocate(size_t nbytes) {
  if (nbytes == 0) return nullptr;
  if (nbytes < kPoolLimit) {
    void* p = pool_allocate(nbytes);
    detail::count_small(static_cast<int64_t>(nbytes));
    return p;
  }
  if (nbytes > most_memory()) detail::raise_out_of_memory(nbytes);
  void* p = large_allocate(nbytes);
  detail::count_memory(static_cast<int64_t>(nbytes), 1);
  return p;
}

namespace {

// Memory that was given back while it was held.
struct Block {
  void* data;
  size_t nbytes;
  bool pooled;  // by its owner itself, who keeps count
};
struct Held {
  std::mutex mutex;
  std::vector<Block> blocks;
};
Held& held() {
  static Held* const held = new Held;  // never destroyed: memory is given back at exit too
  return *held;
}
std::atomic<int> g_holders{0};

[[maybe_unused]] const int g_forgets = pthread_atfork([] { held().mutex.lock(); }, [] { held().mutex.unlock(); },
                                                      [] {
                                                        g_holders.store(0);
                                                        held().mutex.unlock();
                                                      });

bool keep_while_held(void* data, size_t nbytes, bool pooled) {
  Held& all = held();
  const std::lock_guard lock(all.mutex);
  if (g_holders.load(std::memory_order_relaxed) == 0) return false;
  try {
    all.blocks.push_back({data, nbytes, pooled});
  } catch (const std::bad_alloc&) {  // rather lost than used by two
  }
  return true;
}

}  // namespace

void* detail::allocate_small(size_t nbytes) {
  return nbytes <= kObjectBlock ? pool_allocate_object(nbytes) : pool_allocate(nbytes);
}

namespace {
void free_small(void* block, size_t nbytes) noexcept {
  nbytes <= detail::kObjectBlock ? pool_deallocate_object(block, nbytes) : pool_deallocate(block, nbytes);
}
}  // namespace

void detail::deallocate_small(void* block, size_t nbytes) noexcept {
  if (g_holders.load(std::memory_order_relaxed) != 0 && keep_while_held(block, nbytes, true)) [[unlikely]]
    return;
  free_small(block, nbytes);
}

HoldMemory::HoldMemory() {
  const std::lock_guard lock(held().mutex);
  g_holders.fetch_add(1, std::memory_order_relaxed);
}
HoldMemory::~HoldMemory() {
  std::vector<Block> blocks;
  {
    const std::lock_guard lock(held().mutex);
    if (g_holders.load(std::memory_order_relaxed) == 0) return;  // in a forked child
    if (g_holders.fetch_sub(1, std::memory_order_relaxed) == 1) blocks.swap(held().blocks);
  }
  for (const Block& b : blocks) {
    if (b.pooled) {
      free_small(b.data, b.nbytes);
    } else {
      cpu_deallocate(b.data, b.nbytes);
    }
  }
}

void cpu_deallocate(void* data, size_t nbytes) noexcept {
  if (data == nullptr || nbytes == 0) return;
  if (g_holders.load(std::memory_order_relaxed) != 0 && keep_while_held(data, nbytes, false)) [[unlikely]]
    return;
  if (nbytes < kPoolLimit) {
    detail::count_small(-static_cast<int64_t>(nbytes));
    pool_deallocate(data, nbytes);
  } else {
    detail::count_memory(-static_cast<int64_t>(nbytes), 0);
    large_deallocate(data, nbytes);
  }
}

CpuMemoryStats cpu_memory_stats() {
  detail::flush_small_count();
  Cache& store = cache();
  std::lock_guard lock(store.mutex);
  return {g_live.load(), g_peak.load(), static_cast<int64_t>(store.bytes), g_allocations.load()};
}

void cpu_empty_cache() {
  detail::empty_thread_pool();
  Cache& store = cache();
  Cached* drop = nullptr;
  {
    std::lock_guard lock(store.mutex);
    drop = store.trim(0);
  }
  unmap_chain(drop);
}

}  // namespace facula
