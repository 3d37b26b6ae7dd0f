// Tangents that come by two backward passes (tangents_by_reverse()): what is saved for them is wanted at once.
#pragma once

#include <cstdint>

#include "runtime/dispatch/levels.h"

namespace facula::detail {

// The level at which this thread takes tangents so, 0 for the program outside of levels.
struct Reversing {
  bool on = false;
  uint64_t level = 0;
};
extern FACULA_API constinit thread_local Reversing tls_reversing __attribute__((tls_model("initial-exec")));

inline uint64_t level_now() { return tls_state.level == nullptr ? 0 : tls_state.level->number; }
inline bool is_reversing() { return tls_reversing.on && tls_reversing.level == level_now(); }

}  // namespace facula::detail
