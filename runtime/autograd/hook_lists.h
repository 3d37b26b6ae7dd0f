// Lists of hooks, which threads add to while others run through them.
#pragma once

#include <iterator>
#include <mutex>

#include "runtime/autograd/locks.h"
#include "runtime/autograd/node.h"

namespace facula::detail {

inline bool is_removed(const std::shared_ptr<NodeHook>& hook) { return hook->removed; }
inline bool is_removed(const std::pair<uint32_t, std::shared_ptr<NodeHook>>& entry) { return entry.second->removed; }

// What is no longer wanted dies after the lock: that may run Python.
template <typename List>
void add_hook(const void* owner, List& list, typename List::value_type entry) {
  List kept, removed;
  kept.reserve(1);
  const std::lock_guard lock(lock_for(owner));
  for (auto& e : list) (is_removed(e) ? removed : kept).push_back(std::move(e));
  kept.push_back(std::move(entry));
  list.swap(kept);
}

// As they are now: a hook may add some, or remove itself.
template <typename List>
List hooks_of(const void* owner, const List& list) {
  const std::lock_guard lock(lock_for(owner));
  return list;
}

}  // namespace facula::detail
