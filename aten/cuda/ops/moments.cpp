// Means, variances, norms and counts: reductions with a state or an end of their own.
#include <cmath>

#include "launch/kernels.h"
#include "launch/params.h"
#include "ops/reduction.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

enum Kind : int { kMean, kVariance, kNorm, kNanSum, kCount };
constexpr int kVarianceNumbers = 2, kNormNumbers = 1;
constexpr const char* kNames[] = {"mean", "variance", "norm", "nansum", "count"};

int32_t computed(int32_t dtype) {
  return dtype == FACULA_FLOAT16 || dtype == FACULA_BFLOAT16 ? int32_t{FACULA_FLOAT32} : dtype;
}

ReductionDefinition definition(Kind kind, int norm, double order) {
  std::string before =
      "#define FACULA_REDUCTION_KIND " + std::to_string(kind) + "\n#define FACULA_NORM " + std::to_string(norm) + "\n";
  char text[64];
  std::snprintf(text, sizeof(text), "#define FACULA_ORDER double(%.17g)\n", norm == 5 ? order : 1.0);
  return {kNames[kind], before + text, "facula/cuda/moments.h"};
}

int32_t run(const FaculaCall* call, Kind kind, const FaculaTensor& self, const FaculaValue& dim, int32_t compute,
            double first = 0, double second = 0, int norm = 0, double scale = 1) {
  if (!on_device(self) || self.ndim > kMaxTensorDims) return FACULA_NOT_SUPPORTED;
  Reduction f;
  f.name = kNames[kind];
  f.nouts = call->nouts;
  const FaculaTensor* outs[2] = {&result(call, 0), call->nouts > 1 ? &result(call, 1) : nullptr};
  take_dims(f, self, dim, outs);
  f.compute = compute;
  if (kind == kVariance) {
    f.nnumbers = kVarianceNumbers;
    f.numbers[0] = first;
    f.numbers[1] = second;
  }
  if (kind == kNorm) {
    f.nnumbers = kNormNumbers;
    f.numbers[0] = scale;
  }
  f.index = call->index;
  f.stream = call->stream;
  f.extra = static_cast<uint64_t>(norm);
  if (norm == 5) {  // the order is compiled in
    uint64_t bits;
    std::memcpy(&bits, &first, sizeof(bits));
    f.extra ^= bits;
  }
  return reduce(f, [&] { return definition(kind, norm, first); });
}

// mean(self, dim, keepdim, dtype, out)
int32_t mean(void*, const FaculaCall* call) {
  return run(call, kMean, tensor(call, 0), call->args[1], computed(result(call).dtype));
}
// nansum(self, dim, keepdim, dtype, out)
int32_t nansum(void*, const FaculaCall* call) {
  const int32_t to = result(call).dtype;
  if (is_complex(to) || (is_floating(tensor(call, 0).dtype) && !is_floating(to))) return FACULA_NOT_SUPPORTED;
  return run(call, kNanSum, tensor(call, 0), call->args[1], computed(to));
}
// count_nonzero(self, dim, out)
int32_t count_nonzero(void*, const FaculaCall* call) {
  const FaculaTensor& self = tensor(call, 0);
  return run(call, kCount, self, call->args[1], computed(self.dtype));
}
// var.correction(self, dim, correction, keepdim, out[, mean])
template <int kRoot>
int32_t variance(void*, const FaculaCall* call) {
  const FaculaTensor& self = tensor(call, 0);
  const double correction = call->args[2].kind == FACULA_NONE ? 1 : real_of(call->args[2]);
  return run(call, kVariance, self, call->args[1], computed(self.dtype), correction, kRoot);
}
// linalg_vector_norm(x, ord, dim, keepdim, dtype, out)
// _scaled_norm(x, ord, dim, keepdim, dtype, scale, out)
template <bool kScaled>
int32_t vector_norm(void*, const FaculaCall* call) {
  const FaculaTensor& self = tensor(call, 0);
  const double order = real_of(call->args[1]);
  const int norm = std::isinf(order) ? (order > 0 ? 3 : 4) : order == 0 ? 0 : order == 1 ? 1 : order == 2 ? 2 : 5;
  const double scale = kScaled ? real_of(call->args[5]) : 1;
  return run(call, kNorm, self, call->args[2], computed(self.dtype), order, 0, norm, scale);
}

// _mean_square(self, dim, keepdim, out)
int32_t mean_square(void*, const FaculaCall* call) {
  const FaculaTensor& self = tensor(call, 0);
  return run(call, kNorm, self, call->args[1], computed(self.dtype), 2, 0, 6);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const Kind kind : {kMean, kVariance, kNorm, kNanSum, kCount}) {
    for (const int32_t type : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT64, FACULA_COMPLEX64}) {
      if (level == 0 && (kind != kMean || type > FACULA_FLOAT32)) continue;
      if (level == 1 && type == FACULA_FLOAT64) continue;
      if (type == FACULA_COMPLEX64 && kind == kNanSum) continue;
      Reduction f;
      f.in_dtype = type;
      f.out_dtypes[0] = kind == kCount                              ? int32_t{FACULA_INT64}
                        : type == FACULA_COMPLEX64 && kind != kMean ? int32_t{FACULA_FLOAT32}
                                                                    : int32_t{type};
      f.compute = computed(type);
      f.nnumbers = kind == kVariance ? kVarianceNumbers : kind == kNorm ? kNormNumbers : 0;
      for (const int norm : {0, 1, 2, 3, 4, 5, 6}) {
        if (kind != kNorm && norm != 2) continue;
        const ReductionDefinition d = definition(kind, norm, 3);
        ReductionForm form;
        form.vec = std::min(8, 16 / itemsize(f.in_dtype));
        form.lanes = level == 0 ? 256 : 1;
        add(reduction_source(d.name, f, form, d.before, d.file, "facula_reduce"));
      }
    }
  }
}
const ListsSources lists(list);

const Registers registers{
    {"mean", mean},
    {"nansum", nansum},
    {"count_nonzero", count_nonzero},
    {"var.correction", variance<0>},
    {"std.correction", variance<1>},
    {"var_mean.correction", variance<0>},
    {"std_mean.correction", variance<1>},
    {"linalg_vector_norm", vector_norm<false>},
    {"_mean_square", mean_square},
    {"_scaled_norm", vector_norm<true>},
};

}  // namespace

}  // namespace facula::cuda
