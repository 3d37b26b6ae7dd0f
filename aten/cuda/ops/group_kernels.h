// Kernels of groups: built in the background, found by the group and its form.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "launch/kernel.h"
#include "ops/group_parts.h"

namespace facula::cuda {

// A kernel that is being built, or has been.
struct Built {
  enum State : int { kWaiting, kReady, kFailed };
  std::atomic<int> state{kWaiting};
  Kernel kernel;
  std::string error;
};

// What the group is made of; FACULA_NOT_SUPPORTED where it cannot be one kernel.
int32_t parts_of_group(const FaculaGroup& g, std::shared_ptr<const GroupParts>& out);

// The kernel of a form, whose source `make` gives when it is new.
Built* find_group(const FaculaGroup& g, std::span<const int> form, const std::function<KernelSource()>& make);
int32_t state_of(const Built& built);

// Groups with steps along rows.
int32_t group_rows(const FaculaGroup& g, const GroupParts& made);

}  // namespace facula::cuda
