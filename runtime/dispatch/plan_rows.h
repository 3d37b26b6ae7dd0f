// Groups that follow one another over the same rows: a reduction over rows, and what is computed from its result. They
// run block of rows by block of rows, so that the second finds in the cache what the first has read or made.
#pragma once

#include "runtime/dispatch/plan.h"

namespace facula::detail {

// Those of the plan. None for plans that serve for all sizes.
std::vector<PlanRows> find_rows(const Record& record, const Plan& plan, const std::vector<bool>& held);
// `lent`: memory of values that only groups read, by buffer.
void run_rows(const Plan& plan, const PlanRows& rows, Record& record, std::vector<Storage>& lent);

// Of plan_run.cpp: groups [first, last), one after another; the memory of a buffer, which it lends where there is none.
void run_groups(const Plan& plan, size_t first, size_t last, Record& record, std::vector<Storage>& lent);
Storage& storage_of(Record& record, std::vector<Storage>& lent, size_t buffer);

}  // namespace facula::detail
