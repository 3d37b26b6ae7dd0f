// Memory whose address code outside has been given: NumPy, DLPack, data_ptr(). It may be read and written at any time
// from then on, without a call that says so.
#pragma once

#include "runtime/core/storage.h"

namespace facula {

void show_memory(const StorageImpl& s);
// True of foreign memory as well.
bool is_shown(const StorageImpl& s);

namespace detail {

inline constexpr size_t kShownCounts = 4096;
// How many shown memories hash to each place, so that nearly all others are told by one look.
extern std::atomic<uint16_t> shown_counts[kShownCounts];
inline size_t shown_place(const StorageImpl* s) { return (reinterpret_cast<uintptr_t>(s) >> 6) % kShownCounts; }
void forget_shown_at_all(const StorageImpl* s) noexcept;
inline void forget_shown(const StorageImpl* s) noexcept {
  if (shown_counts[shown_place(s)].load(std::memory_order_relaxed) != 0) [[unlikely]]
    forget_shown_at_all(s);
}

}  // namespace detail

}  // namespace facula
