// Groups on devices of packages that are one call over rows: operators over last dims, what makes the elements that
// they take, and what is computed from their results.
#pragma once

#include "runtime/dispatch/plan.h"

namespace facula::detail {

// Those of the plan. None for plans that serve for all sizes.
std::vector<PlanRows> find_device_rows(const Record& record, const Plan& plan, const std::vector<bool>& held);
// False: the device does not take it, or has not built it yet.
bool run_rows_on_device(const Plan& plan, const PlanRows& rows, Record& record, std::vector<Storage>& lent);

}  // namespace facula::detail
