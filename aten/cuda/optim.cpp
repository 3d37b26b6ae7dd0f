// Optimizer steps in one kernel a parameter.
#include <algorithm>

#include "kernels.h"
#include "walk.h"
#include "warm.h"

namespace facula::cuda {

namespace {

// Complex parameters are pairs of real numbers.
int32_t real_type(int32_t dtype) {
  return dtype == FACULA_COMPLEX64 ? FACULA_FLOAT32 : dtype == FACULA_COMPLEX128 ? FACULA_FLOAT64 : dtype;
}

KernelSource source(const char* entry, const int32_t (&types)[4]) {
  const bool wide = std::find(types, types + 4, FACULA_FLOAT64) != types + 4;
  std::string text;
  for (int i = 0; i < 4; ++i) text += std::string("using ") + "PGMV"[i] + " = " + element_type(types[i]) + ";\n";
  return file_kernel("optim.cu", entry, text + "using T = " + (wide ? "double" : "float") + ";\n");
}
int32_t find(const Device& device, const char* entry, int number, const int32_t (&types)[4], Kernel** out) {
  KernelKey key;
  key.name = "optim.cu";
  key.bits[0] = static_cast<uint64_t>(number);
  for (int i = 0; i < 4; ++i) key.bits[1] |= static_cast<uint64_t>(types[i]) << (8 * i);
  return find_kernel(device, key, [&] { return source(entry, types); }, out);
}

bool same_layout(const FaculaTensor& a, const FaculaTensor& b) {
  if (a.ndim != b.ndim || a.numel != b.numel || !on_device(b)) return false;
  return std::equal(a.sizes, a.sizes + a.ndim, b.sizes) &&
         ((is_dense(a) && is_dense(b)) || std::equal(a.strides, a.strides + a.ndim, b.strides));
}

// adam_step(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, lr, beta1, beta2, eps, weight_decay,
//           decoupled, maximize)
int32_t adam(void*, const FaculaCall* call) {
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const int32_t count = call->args[0].count;
  const bool has_largest = call->args[4].count > 0;
  const auto at = [&](int list, int32_t i) -> const FaculaTensor& { return call->args[list].at.tensors[i]; };
  for (const int list : {1, 2, 3, 5}) {
    if (call->args[list].count != count) return fail(FACULA_VALUE_ERROR, "the lists must be of one length");
  }
  if (has_largest && call->args[4].count != count) return fail(FACULA_VALUE_ERROR, "the lists must be of one length");
  for (int32_t i = 0; i < count; ++i) {
    const FaculaTensor& p = at(0, i);
    for (int list = 1; list < (has_largest ? 5 : 4); ++list) {
      if (!same_layout(p, at(list, i))) return FACULA_NOT_SUPPORTED;
    }
    const FaculaTensor& steps = at(5, i);
    if (!is_dense(p) || !on_device(p) || steps.numel != 1 || !is_floating(steps.dtype)) return FACULA_NOT_SUPPORTED;
    if (!on_device(steps) && steps.dtype < FACULA_FLOAT32) return FACULA_NOT_SUPPORTED;
    for (const int list : {0, 1, 2, 3}) {
      if (!is_floating(real_type(at(list, i).dtype))) return FACULA_NOT_SUPPORTED;
    }
    if (has_largest && at(4, i).dtype != at(3, i).dtype) return FACULA_NOT_SUPPORTED;
  }
  Scratch counts(call->index, call->stream);
  if (count > 0) FACULA_TRY(counts.allocate(static_cast<size_t>(count) * 8));
  for (int32_t i = 0; i < count; ++i) {
    const FaculaTensor &p = at(0, i), &steps = at(5, i);
    const int32_t types[] = {real_type(p.dtype), real_type(at(1, i).dtype), real_type(at(2, i).dtype),
                             real_type(at(3, i).dtype)};
    double step = 0;
    double* counter = nullptr;
    if (on_device(steps)) {
      counter = reinterpret_cast<double*>(counts.data()) + i;
      Kernel* kernel = nullptr;
      FACULA_TRY(find(*device, "facula_step", 1, {steps.dtype, steps.dtype, steps.dtype, steps.dtype}, &kernel));
      void* arguments[] = {const_cast<void**>(&steps.data), &counter};
      FACULA_TRY(launch(*device, *kernel, {1}, {1}, 0, call->stream, arguments));
    } else if (steps.dtype == FACULA_FLOAT32) {
      step = *static_cast<float*>(steps.data) += 1;
    } else {
      step = *static_cast<double*>(steps.data) += 1;
    }
    if (p.numel == 0) continue;
    const int64_t n = p.numel * (is_complex(p.dtype) ? 2 : 1);
    Params params;
    params.put(p.data);
    for (const int list : {1, 2, 3}) params.put(at(list, i).data);
    params.put(has_largest ? at(4, i).data : nullptr);
    params.put(counter);
    params.put(step);
    params.put(n);
    for (int k = 6; k < 11; ++k) params.put(real_of(call->args[k]));
    params.put(call->args[11].at.i);
    params.put(call->args[12].at.i);
    Kernel* kernel = nullptr;
    FACULA_TRY(find(*device, "facula_adam", 0, types, &kernel));
    void* arguments[] = {params.data()};
    FACULA_TRY(launch(*device, *kernel, grid_for(*device, n, 256), {256}, 0, call->stream, arguments));
  }
  return FACULA_OK;
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT64, FACULA_FLOAT16}) {
    if (level == 0 && dtype != FACULA_FLOAT32) continue;
    add(source("facula_adam", {dtype, dtype, dtype, dtype}));
  }
  add(source("facula_step", {FACULA_FLOAT32, FACULA_FLOAT32, FACULA_FLOAT32, FACULA_FLOAT32}));
}
const ListsSources lists(list);

const Registers registers{{"adam_step", adam}};

}  // namespace

}  // namespace facula::cuda
