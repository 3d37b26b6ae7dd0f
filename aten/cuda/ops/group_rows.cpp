#include "ops/group_rows.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "launch/params.h"
#include "ops/group_kernels.h"
#include "ops/pointwise_plan.h"
#include "ops/reduction.h"
#include "ops/rows.h"

namespace facula::cuda {

namespace {

constexpr RowOperator kOperators[] = {
    {"sum", RowOperator::kSchema, 0, true},          {"amax", RowOperator::kSchema, 0, false},
    {"amin", RowOperator::kSchema, 0, false},        {"all", RowOperator::kSchema, 0, false},
    {"any", RowOperator::kSchema, 0, false},         {"mean", RowOperator::kMoment, 0, true},
    {"_mean_square", RowOperator::kMoment, 2, true}, {"softmax", RowOperator::kSoftmax, 0, true},
    {"log_softmax", RowOperator::kSoftmax, 1, true},
};
constexpr int kMostHeld = 64;  // elements of a thread, and registers for what they are made of

struct Shared {
  int lanes, vec;
};

int32_t refuse(const char* why) { return fail(FACULA_NOT_SUPPORTED, why); }

bool is_aligned(const void* data, int bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

// As a reduction alone shares the rows.
int32_t shared_by_reduction(const FaculaGroup& g, const FaculaStep& step, const RowsPlan& p, int processors,
                            Shared& out) {
  const int32_t value = step.ins[0];
  const int widest = std::min(8, 16 / itemsize(g.dtypes[value]));
  const bool aligned = value >= g.ninputs || is_aligned(g.tensors[value].data, widest * itemsize(g.dtypes[value]));
  out.vec = p.length % widest == 0 && aligned ? widest : 1;
  out.lanes = row_lanes(p.length, out.vec);
  if (row_parts(p.rows, p.length, out.vec, out.lanes, processors) > 1) return refuse("few long rows go in parts");
  return FACULA_OK;
}

// And as a softmax alone does.
Shared shared_by_softmax(const FaculaGroup& g, const FaculaStep& step, int64_t length) {
  const int widest = std::max(itemsize(g.dtypes[step.ins[0]]), itemsize(g.dtypes[step.outs[0]]));
  int vec = 16 / widest;
  while (vec > 1 && length % vec != 0) vec /= 2;
  const RowForm form = row_form(length, vec, 32 * 4 / std::max(4, widest));
  return {form.lanes, vec};
}

int32_t share(const FaculaGroup& g, RowsPlan& p, int processors, bool is_short) {
  RowsForm& form = p.form;
  bool decided = false, ordered = false;
  for (const bool first : {true, false}) {  // those whose order counts decide
    for (int32_t s = 0; s < g.nsteps; ++s) {
      const FaculaStep& step = g.steps[s];
      if (step.nreduced == 0) continue;
      const RowOperator* const op = find_row_operator(step.op);
      if (op == nullptr) return refuse("an operator that is no step of a group");
      if (op->ordered != first || (!first && decided)) continue;
      // Its squares of float64 are contracted in a kernel of their own, and nothing is in a group.
      if (op->kind == RowOperator::kMoment && op->number == 2 && step.compute == FACULA_FLOAT64) {
        return refuse("squares of float64");
      }
      Shared shared{};
      const bool softmax = op->kind == RowOperator::kSoftmax;
      if (softmax) {
        if (is_short && itemsize(g.dtypes[step.outs[0]]) > 2) return refuse("results of 16 bits and of more");
        shared = shared_by_softmax(g, step, p.length);
      } else {
        FACULA_TRY(shared_by_reduction(g, step, p, processors, shared));
      }
      if (decided && (shared.lanes != form.lanes || shared.vec != form.vec)) {
        return refuse("two steps along rows share them among threads in two ways");
      }
      decided = true;
      form.lanes = shared.lanes;
      form.vec = shared.vec;
      form.guarded |= softmax;
      ordered |= first && !softmax;
    }
  }
  const int64_t step = int64_t{form.lanes} * form.vec;
  if (form.vec == 1) form.guarded = false;
  if (form.guarded && ordered && p.length % step != 0) {
    return refuse("a sum and a softmax take the end of a row in two ways");
  }
  form.guarded &= p.length % step != 0;
  const int64_t items = form.vec == 1 ? 0 : form.guarded ? ceil_div(p.length, step) : p.length / step;
  const int64_t tails = form.guarded ? 0 : ceil_div(p.length - items * step, form.lanes);
  int64_t bytes = 0;
  for (int32_t i = 0; i < g.ninputs; ++i) {
    if ((form.whole >> i & 1u) != 0) bytes += itemsize(g.tensors[i].dtype);
  }
  const int64_t elements = items * form.vec + tails;
  form.held = elements <= kMostHeld && elements * bytes <= kMostHeld * 4;
  form.items = form.held ? static_cast<int>(items) : 0;
  form.tails = form.held ? static_cast<int>(tails) : 0;
  return FACULA_OK;
}

}  // namespace

const RowOperator* find_row_operator(const char* op) {
  for (const RowOperator& o : kOperators) {
    if (std::strcmp(o.op, op) == 0) return &o;
  }
  return nullptr;
}

const char* const* row_operators() {
  static constexpr auto names = [] {
    std::array<const char*, std::size(kOperators) + 1> all{};
    std::transform(std::begin(kOperators), std::end(kOperators), all.begin(),
                   [](const RowOperator& o) { return o.op; });
    return all;
  }();
  return names.data();
}

int32_t plan_rows(const FaculaGroup& g, const GroupParts& parts, int processors, RowsPlan& p) {
  int nreduced = 0;
  for (int32_t s = 0; s < g.nsteps; ++s) nreduced = std::max(nreduced, g.steps[s].nreduced);
  const FaculaTensor& lead = g.tensors[g.ninputs];
  const int nkept = lead.ndim - nreduced;
  for (int d = 0; d < lead.ndim; ++d) (d < nkept ? p.rows : p.length) *= lead.sizes[d];
  if (p.length < 2 || p.length >= int64_t{1} << 30) return refuse("rows of one element, or very long ones");
  RowsForm& form = p.form;
  const int nouts = g.noutputs, count = nouts + static_cast<int>(parts.operands.size());
  const auto tensor = [&](int i) -> const FaculaTensor& {
    return i < nouts ? g.tensors[g.ninputs + i] : g.tensors[parts.operands[static_cast<size_t>(i - nouts)]];
  };
  const int64_t* strides[kMaxOperands];
  if (g.ninputs > 32) return refuse("more inputs than a kernel of rows takes");
  for (int i = 0; i < count; ++i) {
    const FaculaTensor& t = tensor(i);
    strides[i] = t.strides;
    int64_t step = 0, size = 1;
    for (int d = lead.ndim; d-- > nkept;) {
      if (lead.sizes[d] == 1) continue;
      if (size == 1) step = t.strides[d];
      if (t.strides[d] != step * size) return refuse("an operand's elements are not in one line along the row");
      size *= lead.sizes[d];
    }
    p.steps[i] = step;
    if (step == 0 && i < nouts) form.splats |= 1u << i;
    if (step != 0 && i >= nouts) form.whole |= 1u << parts.operands[static_cast<size_t>(i - nouts)];
  }
  FACULA_TRY(share(g, p, processors, parts.short_form));
  collapse(nkept, lead.sizes, strides, count, p.kept);
  if (p.kept.ndim > kMaxKernelDims) return refuse("more dims than a kernel takes");
  form.dims = std::max(1, p.kept.ndim);
  for (int i = 0; i < count; ++i) {
    if (p.steps[i] == 0) continue;
    const int item = itemsize(tensor(i).dtype), bytes = std::min(16, form.vec * item);
    bool vectors = p.steps[i] == 1 && is_aligned(tensor(i).data, bytes);
    for (int d = 0; d < p.kept.ndim; ++d) vectors &= p.kept.strides[d][i] * item % bytes == 0;
    if (!vectors && i < nouts) return refuse("a result that cannot be written in vectors");
    if (!vectors) form.loose |= 1u << (i - nouts);
  }
  return FACULA_OK;
}

int32_t group_rows(const FaculaGroup& g, const GroupParts& made) {
  const Device* device = nullptr;
  FACULA_TRY(enter(g.index, &device));
  if (g.tensors[g.ninputs].numel == 0) return FACULA_OK;
  RowsPlan plan;
  FACULA_TRY(plan_rows(g, made, device->processors, plan));
  const RowsForm& f = plan.form;
  const int form[] = {f.lanes,
                      f.vec,
                      f.items,
                      f.tails,
                      f.dims,
                      static_cast<int>(f.loose),
                      static_cast<int>(f.whole),
                      static_cast<int>(f.splats),
                      f.held,
                      f.guarded};
  Built* const built = find_group(g, form, [&] { return rows_source(g, f, made); });
  FACULA_TRY(state_of(*built));
  const int64_t blocks = ceil_div(plan.rows, f.threads() / f.lanes);
  if (blocks >= int64_t{1} << 31) return refuse("more rows than a kernel takes");

  // As rows_source() writes them.
  Params params;
  const int count = g.noutputs + static_cast<int>(made.operands.size());
  const auto tensor = [&](int i) -> const FaculaTensor& {
    return i < g.noutputs ? g.tensors[g.ninputs + i] : g.tensors[made.operands[static_cast<size_t>(i - g.noutputs)]];
  };
  for (int i = 0; i < count; ++i) params.put(tensor(i).data);
  params.put(plan.rows);
  params.put(plan.length);
  for (int32_t s = 0; s < g.nsteps; ++s) {
    const FormulaSource* const formula = made.formulas[static_cast<size_t>(s)];
    if (formula != nullptr) put_numbers(params, *formula, g.steps[s].values, g.steps[s].nvalues, g.steps[s].compute);
  }
  for (const GroupParts::Fill& fill : made.fills) {
    const FaculaTensor& t = g.tensors[fill.input];
    params.put_element(t.data, t.dtype, fill.want);
  }
  for (int i = 0; i < count; ++i) params.put(plan.steps[i] * itemsize(tensor(i).dtype));
  for (int d = 0; d < f.dims; ++d) {
    for (int i = 0; i < count; ++i) {
      params.put(d < plan.kept.ndim ? plan.kept.strides[d][i] * itemsize(tensor(i).dtype) : int64_t{0});
    }
  }
  for (int d = 0; d < f.dims; ++d) params.put(d < plan.kept.ndim ? plan.kept.sizes[d] : int64_t{1});
  void* arguments[] = {params.data()};
  return launch(*device, built->kernel, {static_cast<unsigned>(blocks)}, {static_cast<unsigned>(f.threads())}, 0,
                g.stream, arguments);
}

}  // namespace facula::cuda
