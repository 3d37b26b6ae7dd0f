// The two templates that serve all operators with formulas and reductions.
#pragma once

#include "facula/backend.h"

namespace @NAME@ {

int32_t pointwise(void* context, const FaculaPointwise* call);
int32_t reduction(void* context, const FaculaReduction* call);

}  // namespace @NAME@
