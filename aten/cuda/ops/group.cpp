#include "ops/group.h"

#include "launch/params.h"
#include "ops/group_kernels.h"
#include "ops/pointwise_plan.h"

namespace facula::cuda {

int32_t group(void*, const FaculaGroup* g) {
  std::shared_ptr<const GroupParts> made;
  FACULA_TRY(parts_of_group(*g, made));
  for (int32_t s = 0; s < g->nsteps; ++s) {
    if (g->steps[s].nreduced > 0) return group_rows(*g, *made);
  }
  PointwiseOperands o;
  o.nouts = g->noutputs;
  o.nins = static_cast<int>(made->operands.size());
  const int64_t* strides[kMaxOperands];
  bool contiguous = true;
  for (int i = 0; i < o.count(); ++i) {
    const FaculaTensor& t =
        i < o.nouts ? g->tensors[g->ninputs + i] : g->tensors[made->operands[static_cast<size_t>(i - o.nouts)]];
    o.data[i] = static_cast<char*>(t.data);
    o.dtypes[i] = t.dtype;
    o.sizes[i] = itemsize(t.dtype);
    strides[i] = t.strides;
    contiguous &= (t.flags & FACULA_CONTIGUOUS) != 0;
  }
  const FaculaTensor& lead = g->tensors[g->ninputs];
  if (lead.numel == 0) return FACULA_OK;
  PointwisePlan plan;
  FACULA_TRY(plan_pointwise(o, lead, strides, contiguous, false, plan));
  const Device* device = nullptr;
  FACULA_TRY(enter(g->index, &device));
  const PointwiseForm& f = plan.form;
  const int form[] = {f.kind, f.vec, f.unroll, f.dims, static_cast<int>(f.wide), static_cast<int>(f.splats)};
  Built* const built = find_group(*g, form, [&] { return group_source(*g, f, *made); });
  FACULA_TRY(state_of(*built));

  Params params;
  for (int i = 0; i < o.count(); ++i) params.put(o.data[i]);
  params.put(plan.count);
  for (int32_t s = 0; s < g->nsteps; ++s) {
    const FaculaStep& step = g->steps[s];
    put_numbers(params, *made->formulas[static_cast<size_t>(s)], step.values, step.nvalues, step.compute);
  }
  for (const GroupParts::Fill& fill : made->fills) {
    const FaculaTensor& t = g->tensors[fill.input];
    params.put_element(t.data, t.dtype, fill.want);
  }
  if (plan.form.kind != PointwiseForm::kLinear) put_dims(params, plan, o);
  void* arguments[] = {params.data()};
  return launch(*device, built->kernel, {static_cast<unsigned>(plan.blocks)}, {kPointwiseThreads}, 0, g->stream,
                arguments);
}

}  // namespace facula::cuda
