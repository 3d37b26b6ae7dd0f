// Groups of pointwise calls as one kernel: the pointwise template with the group's formula.
#pragma once

#include <string>

#include "launch/kernel.h"
#include "ops/pointwise.h"

namespace facula::cuda {

// The text of a group in a form; without an entry, and with the reason in `why`, where it cannot be one kernel.
KernelSource group_source(const FaculaGroup& group, const PointwiseForm& form, std::string& why);

int32_t group(void* context, const FaculaGroup* group);

}  // namespace facula::cuda
