// Shared by the two halves of the CPU allocator.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FACULA_NO_MEMORY_CACHE 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FACULA_NO_MEMORY_CACHE 1
#endif

namespace facula::detail {

// Reused blocks would hide use after free from AddressSanitizer.
#ifdef FACULA_NO_MEMORY_CACHE
inline constexpr bool kCaching = false;
#else
inline constexpr bool kCaching = true;
#endif

void count_memory(int64_t bytes, int64_t allocations);
// Small allocations are counted by thread and added up now and then: a locked add per tensor would cost more than the
// tensor.
struct SmallCount {
  int64_t bytes = 0, count = 0;
  int64_t limit = 0;  // beyond which they are added up; 0 while the thread keeps no memory
};
extern constinit thread_local SmallCount tls_small_count __attribute__((tls_model("initial-exec")));
void flush_small_count();
inline void count_small(int64_t bytes) {  // negative when freed
  SmallCount& c = tls_small_count;
  c.bytes += bytes;
  c.count += bytes > 0;
  if (c.bytes > c.limit || c.bytes < -c.limit) [[unlikely]]
    flush_small_count();
}
void empty_thread_pool();
// Storages' own blocks. One of a few elements, of which graphs keep millions, is an object: its data are aligned as
// any number's, and not to 64 bytes, which would double what it takes up.
inline constexpr size_t kObjectBlock = 80;
void* allocate_small(size_t nbytes);
void deallocate_small(void* block, size_t nbytes) noexcept;  // HoldMemory keeps it
[[noreturn]] void raise_out_of_memory(size_t nbytes);

}  // namespace facula::detail
