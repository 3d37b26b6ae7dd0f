// Small blocks for the runtime's own objects: thread-local free lists by size class.
#pragma once

#include <cstddef>

#include "runtime/core/error.h"

namespace facula {

inline constexpr size_t kPoolLimit = 64 * 1024;  // larger requests go to the allocator

// 64-byte aligned, for 0 < nbytes < kPoolLimit. Raises OutOfMemory. A block may be given back on any
// thread, with the size it was asked for.
FACULA_API void* pool_allocate(size_t nbytes);
FACULA_API void pool_deallocate(void* block, size_t nbytes) noexcept;

// The same for objects, 16-byte aligned: a block takes up little more than was asked for, where alignment to 64 bytes
// costs a line or two of each. Graphs consist of these.
FACULA_API void* pool_allocate_object(size_t nbytes);
FACULA_API void pool_deallocate_object(void* block, size_t nbytes) noexcept;

}  // namespace facula
