#include "runtime/core/yield_lock.h"

#include <pthread.h>

namespace facula::detail {

constinit std::atomic<uint32_t> fork_era{1};

namespace {

[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { fork_era.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

}  // namespace facula::detail
