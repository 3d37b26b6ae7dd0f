// Groups that end in a reduction, which asks for their elements piece by piece.
#pragma once

#include "runtime/dispatch/plan.h"
#include "runtime/iterate/fused.h"

namespace facula::detail {

// The group with its addresses; `plans` are what gathers go by, and stay as long as the run. Of plan_run.cpp.
void fill_in(const PlanGroup& group, const Record& record, FusedRun& run, std::vector<StridedPlan>& plans);

// What the node reduces, and its result, over the memory given from so many bytes on.
Tensor reduced(const Record& record, const RecordNode& node, const Storage& memory, int64_t offset);
Tensor reduction_out(const Record& record, const RecordNode& node, const Storage& memory, int64_t offset);

// Outside of groups; `memory`: by buffer.
void run_taken_down(const Record& record, const RecordNode& node, const std::vector<Storage>& memory);

// `in`, `out`: memory of what is reduced, which has values in the end if others read it, and of the result.
void run_reduced_group(const PlanGroup& group, const Record& record, const Storage& in, const Storage& out);

}  // namespace facula::detail
