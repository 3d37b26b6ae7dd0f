// The two templates that serve all operators with formulas and reductions, and groups of the former.
#pragma once

#include "facula/backend.h"

namespace @NAME@ {

int32_t pointwise(void* context, const FaculaPointwise* call);
int32_t reduction(void* context, const FaculaReduction* call);
int32_t group(void* context, const FaculaGroup* call);
extern const char* const kGroupRows[];

}  // namespace @NAME@
