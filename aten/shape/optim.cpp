// Argument checks of optimizer steps and of gradient scaling.
#include "facula/shapes.h"

namespace facula::shape {

namespace {

bool share_memory(const Tensor& a, const Tensor& b) {
  const Overlap overlap = overlap_of(a, b);
  return overlap == Overlap::Full || overlap == Overlap::Partial;
}

}  // namespace

// One gradient and one tensor of each kind of state for each parameter, all like it and apart in memory: one loop
// writes all but the gradient, so that none may stand in the place of another. Lists of the last two kinds may be
// empty.
void step_lists(const Called& called, TensorList params, TensorList grads, TensorList first, TensorList second,
                TensorList maybe, TensorList maybe_too) {
  const TensorList lists[] = {params, grads, first, second, maybe, maybe_too};
  const auto absent = [&](int k) { return called[k].name.empty() || (k >= 4 && lists[k].empty()); };
  for (int k = 1; k < 6; ++k) {
    FACULA_CHECK(absent(k) || lists[k].size() == params.size(), Value, Operator{called.op}, params.size(),
                 " parameters come with ", lists[k].size(), " tensors in ", called[k], "; there must be one for each");
  }
  for (int k = 0; k < 6; ++k) {
    for (size_t i = 0; i < lists[k].size(); ++i) {
      const Tensor &t = lists[k][i], &p = params[i];
      FACULA_CHECK(t.defined(), Value, Operator{called.op}, called[k], "[", i, "] is absent");
      FACULA_CHECK(t.sizes() == p.sizes(), Shape, Operator{called.op}, "parameter ", i, " is ", shape_string(p.sizes()),
                   " and ", called[k], "[", i, "] ", shape_string(t.sizes()), "; their shapes must be the same");
      FACULA_CHECK(is_differentiable(t.dtype()) && t.is_complex() == p.is_complex(), Dtype, Operator{called.op},
                   "parameter ", i, " is ", dtype_name(p.dtype()), " and ", called[k], "[", i, "] ",
                   dtype_name(t.dtype()), "; both must be floating-point, or both complex");
      for (int other = 0; other < k; ++other) {
        FACULA_CHECK(lists[other].empty() || !share_memory(t, lists[other][i]), Aliasing, Operator{called.op},
                     called[other], "[", i, "] and ", called[k], "[", i, "] share memory; clone() one of them");
      }
    }
  }
}

// A number for each parameter that a step counts up or multiplies.
void step_counters(const Called& called, TensorList params, TensorList counters) {
  FACULA_CHECK(counters.size() == params.size(), Value, Operator{called.op}, params.size(), " parameters come with ",
               counters.size(), " tensors in ", called[1], "; there must be one for each");
  for (size_t i = 0; i < counters.size(); ++i) {
    const Tensor& t = counters[i];
    FACULA_CHECK(t.defined() && t.numel() == 1 && is_floating(t.dtype()), Shape, Operator{called.op}, called[1], "[", i,
                 "] is ", t.defined() ? dtype_name(t.dtype()) : "absent", " of shape ",
                 shape_string(t.defined() ? t.sizes() : IntList()), "; it must be one floating-point number");
  }
}

void differentiable_lists(const Called& called, TensorList tensors) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    FACULA_CHECK(tensors[i].defined() && is_differentiable(tensors[i].dtype()), Dtype, Operator{called.op}, called[0],
                 "[", i, "] is ", tensors[i].defined() ? dtype_name(tensors[i].dtype()) : "absent",
                 "; it must be floating-point or complex");
  }
}

}  // namespace facula::shape
