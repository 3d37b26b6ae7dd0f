#include "runtime/core/pool.h"

#include <cstdint>
#include <cstdlib>
#include <new>

#include "runtime/core/allocator.h"
#include "runtime/core/memory_internal.h"

namespace facula {

namespace detail {

constinit thread_local SmallCount tls_small_count __attribute__((tls_model("initial-exec")));

namespace {

// Classes: every 64 bytes up to 1 KiB, then four steps a doubling up to 64 KiB.
constexpr int kFineClasses = 16;
constexpr int kNumClasses = kFineClasses + 6 * 4;

struct SizeClass {
  int index;
  size_t bytes;
};

inline SizeClass size_class(size_t nbytes) {
  if (nbytes <= 1024) {
    const size_t i = (nbytes - 1) / 64;
    return {static_cast<int>(i), (i + 1) * 64};
  }
  const int log = 63 - __builtin_clzll(nbytes - 1);  // 2^log < nbytes <= 2^(log + 1), log >= 10
  const size_t step = size_t{1} << (log - 2);
  const size_t k = (nbytes - 1 - (size_t{1} << log)) / step;
  return {kFineClasses + (log - 10) * 4 + static_cast<int>(k), (size_t{1} << log) + (k + 1) * step};
}

// Of objects: 16 bytes apart, and 8 bytes, which malloc() keeps for itself, below a multiple of 16.
constexpr size_t kObjectLimit = 512;
constexpr int kObjectClasses = kObjectLimit / 16;
inline SizeClass object_class(size_t nbytes) {
  const size_t i = nbytes <= 24 ? 0 : (nbytes - 9) / 16;
  return {static_cast<int>(i), 16 * i + 24};
}

struct FreeBlock {
  FreeBlock* next;
};

// What one thread keeps for reuse. A block that another thread allocated is as good as an own one.
struct ThreadPool {
  struct List {
    FreeBlock* head = nullptr;
    uint32_t count = 0;
    uint32_t limit = 0;
  };
  List lists[kNumClasses];
  List objects[kObjectClasses];

  ThreadPool() {
    for (size_t bytes = 1; bytes < kPoolLimit;) {
      const SizeClass c = size_class(bytes);
      const size_t fit = 256 * 1024 / c.bytes;  // at most 256 KiB a class
      lists[c.index].limit = static_cast<uint32_t>(fit < 8 ? 8 : fit > 512 ? 512 : fit);
      bytes = c.bytes + 1;
    }
    for (List& list : objects) list.limit = 512;
  }
  void clear() {
    for (List& list : lists) clear(list);
    for (List& list : objects) clear(list);
  }
  static void clear(List& list) {
    while (list.head != nullptr) {
      FreeBlock* block = list.head;
      list.head = block->next;
      std::free(block);
    }
    list.count = 0;
  }
  ~ThreadPool() { clear(); }
};

constinit thread_local ThreadPool* tls_pool __attribute__((tls_model("initial-exec"))) = nullptr;
constinit thread_local bool tls_ended __attribute__((tls_model("initial-exec"))) = false;

// Tensors may outlive the thread's own objects; from then on blocks go straight to malloc.
struct ThreadPoolOwner {
  ~ThreadPoolOwner() {
    delete tls_pool;
    tls_pool = nullptr;
    tls_ended = true;
    flush_small_count();
  }
};

[[gnu::noinline]] ThreadPool* make_thread_pool() {
  if (!kCaching || tls_ended) return nullptr;
  thread_local ThreadPoolOwner owner;
  static_cast<void>(owner);
  tls_pool = new (std::nothrow) ThreadPool;
  return tls_pool;
}

[[gnu::noinline]] void* fresh_block(size_t bytes) {
  void* p = std::aligned_alloc(64, bytes);
  if (p == nullptr) {
    cpu_empty_cache();
    p = std::aligned_alloc(64, bytes);
    if (p == nullptr) raise_out_of_memory(bytes);
  }
  return p;
}

[[gnu::noinline]] void* fresh_object(size_t bytes) {
  void* p = std::malloc(bytes);
  if (p == nullptr) {
    cpu_empty_cache();
    p = std::malloc(bytes);
    if (p == nullptr) raise_out_of_memory(bytes);
  }
  return p;
}

inline ThreadPool* thread_pool() {
  ThreadPool* pool = tls_pool;
  return pool != nullptr ? pool : make_thread_pool();
}

inline void* taken(ThreadPool::List& list) {
  FreeBlock* block = list.head;
  if (block == nullptr) return nullptr;
  list.head = block->next;
  --list.count;
  return block;
}

inline bool kept(ThreadPool::List& list, void* p) {
  if (list.count >= list.limit) return false;
  FreeBlock* block = static_cast<FreeBlock*>(p);
  block->next = list.head;
  list.head = block;
  ++list.count;
  return true;
}

}  // namespace

void flush_small_count() {
  SmallCount& c = tls_small_count;
  count_memory(c.bytes, c.count);
  constexpr int64_t kLimit = 64 * 1024;
  c = {0, 0, thread_pool() != nullptr ? kLimit : 0};
}

void empty_thread_pool() {
  if (tls_pool != nullptr) tls_pool->clear();
}

}  // namespace detail

void* pool_allocate(size_t nbytes) {
  using namespace detail;
  const SizeClass c = size_class(nbytes);
  if (ThreadPool* pool = thread_pool(); pool != nullptr) [[likely]] {
    if (void* p = taken(pool->lists[c.index]); p != nullptr) return p;
  }
  return fresh_block(c.bytes);
}

void pool_deallocate(void* p, size_t nbytes) noexcept {
  using namespace detail;
  ThreadPool* pool = thread_pool();
  if (pool == nullptr || !kept(pool->lists[size_class(nbytes).index], p)) std::free(p);
}

void* pool_allocate_object(size_t nbytes) {
  using namespace detail;
  if (nbytes > kObjectLimit) return pool_allocate(nbytes);
  const SizeClass c = object_class(nbytes);
  if (ThreadPool* pool = thread_pool(); pool != nullptr) [[likely]] {
    if (void* p = taken(pool->objects[c.index]); p != nullptr) return p;
  }
  return fresh_object(c.bytes);
}

void pool_deallocate_object(void* p, size_t nbytes) noexcept {
  using namespace detail;
  if (nbytes > kObjectLimit) return pool_deallocate(p, nbytes);
  ThreadPool* pool = thread_pool();
  if (pool == nullptr || !kept(pool->objects[object_class(nbytes).index], p)) std::free(p);
}

}  // namespace facula
