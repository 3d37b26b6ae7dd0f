// Groups of pointwise calls as one kernel: the pointwise template with the group's formula.
#pragma once

#include "launch/host.h"

namespace facula::cuda {

int32_t group(void* context, const FaculaGroup* group);

}  // namespace facula::cuda
