#include "ops/pointwise.h"

#include "launch/params.h"
#include "ops/pointwise_plan.h"

namespace facula::cuda {

namespace {

uint64_t bits_of(const PointwiseForm& f) {
  return static_cast<uint64_t>(f.kind) | static_cast<uint64_t>(f.vec) << 2 | static_cast<uint64_t>(f.unroll) << 8 |
         static_cast<uint64_t>(f.dims) << 12 | static_cast<uint64_t>(f.tile / 64) << 16 |
         static_cast<uint64_t>(f.wide) << 18 | static_cast<uint64_t>(f.scalars) << 20 |
         static_cast<uint64_t>(f.splats) << 32 | static_cast<uint64_t>(f.turned) << 44;
}

}  // namespace

std::string form_defines(const PointwiseForm& form, int ins, int outs) {
  std::string text;
  const auto define = [&](const char* name, const std::string& value) {
    text += std::string("#define ") + name + " " + value + "\n";
  };
  const auto each = [](int count) {
    std::string calls;
    for (int i = 0; i < count; ++i) calls += " X(" + std::to_string(i) + ")";
    return calls;
  };
  define("FACULA_INS", std::to_string(ins));
  define("FACULA_OUTS", std::to_string(outs));
  define("FACULA_EACH_IN(X)", each(ins));
  define("FACULA_EACH_OUT(X)", each(outs));
  define("FACULA_FORM", std::to_string(form.kind));
  define("FACULA_VEC", std::to_string(form.vec));
  define("FACULA_UNROLL", std::to_string(form.unroll));
  define("FACULA_DIMS", std::to_string(form.dims));
  define("FACULA_TILE", std::to_string(form.tile));
  define("FACULA_WIDE", form.wide ? "1" : "0");
  define("FACULA_SCALARS", std::to_string(form.scalars) + "u");
  define("FACULA_SPLATS", std::to_string(form.splats) + "u");
  define("FACULA_TURNED", std::to_string(form.turned) + "u");
  return text;
}

KernelSource pointwise_source(const FormulaSource& f, int32_t compute, const int32_t* dtypes,
                              const PointwiseForm& form) {
  bool is_short = true;
  for (int i = 0; i < f.nouts; ++i) is_short &= dtypes[i] == FACULA_FLOAT16 || dtypes[i] == FACULA_BFLOAT16;
  std::string text = is_short ? "#define FACULA_SHORT 1\n" : "";
  text += "#include \"facula/cuda/types.h\"\nnamespace facula {\n";
  text += std::string("using T = ") + compute_type(compute) + ";\nusing R = math::real_t<T>;\n";
  std::string arguments = f.nnumbers > 0 ? "p.numbers, " : "";
  for (int i = 0; i < f.nouts; ++i) {
    text += "using O" + std::to_string(i) + " = " + element_type(dtypes[i]) + ";\n";
  }
  for (int i = 0; i < f.nins; ++i) {
    const std::string n = std::to_string(i);
    text += "using I" + n + " = " + element_type(dtypes[f.nouts + i]) + ";\n";
    arguments += "in" + n + "[u].get(p, k), ";
  }
  for (int i = 0; i < f.nouts; ++i) arguments += (i == 0 ? "y" : ", y") + std::to_string(i) + "[k]";
  text += form_defines(form, f.nins, f.nouts) + "#define FACULA_ARGS(k) " + arguments + "\n";
  text += f.text;
  text += "}\n#include \"facula/cuda/pointwise.cu\"\n";
  // Without contraction a formula gives the same bits in a kernel of its own and in that of a group.
  return {{std::string(f.op) + ".cu", text, false}, "facula_pointwise", &f};
}

int32_t pointwise(void*, const FaculaPointwise* call) {
  PointwiseOperands o;
  o.nouts = call->nouts;
  o.nins = call->nins;
  if (o.count() > kMaxOperands) return FACULA_NOT_SUPPORTED;
  const FaculaTensor& lead = call->outs[0];
  bool contiguous = true;
  uint64_t dtypes = 0;
  const int64_t* strides[kMaxOperands];
  for (int i = 0; i < o.count(); ++i) {
    const FaculaTensor& t = i < o.nouts ? call->outs[i] : call->ins[i - o.nouts];
    o.data[i] = static_cast<char*>(t.data);
    o.dtypes[i] = t.dtype;
    o.sizes[i] = itemsize(t.dtype);
    dtypes |= static_cast<uint64_t>(t.dtype) << (4 * i);
    strides[i] = t.strides;
    if ((t.flags & FACULA_HOST_SCALAR) != 0 && i >= o.nouts) {
      o.scalars |= 1u << (i - o.nouts);
      strides[i] = nullptr;
    } else {
      contiguous &= (t.flags & FACULA_CONTIGUOUS) != 0;
    }
  }
  if (lead.numel == 0) return FACULA_OK;

  PointwisePlan plan;
  FACULA_TRY(plan_pointwise(o, lead, strides, contiguous, true, plan));
  plan.form.scalars = o.scalars;

  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  KernelKey key;
  key.name = call->op;
  key.variant = call->variant;
  key.bits[0] = bits_of(plan.form);
  key.bits[1] = dtypes;
  key.bits[2] = static_cast<uint64_t>(call->compute);
  Kernel* kernel = nullptr;
  const auto make = [&]() -> KernelSource {
    const FormulaSource* const f = find_formula(call->op, call->variant, class_of(call->compute));
    if (f == nullptr) return {{}, nullptr};
    return pointwise_source(*f, call->compute, o.dtypes, plan.form);
  };
  FACULA_TRY(find_kernel(*device, key, make, &kernel));

  Params params;
  for (int i = 0; i < o.count(); ++i) params.put(o.is_scalar(i) ? nullptr : o.data[i]);
  params.put(plan.count);
  put_numbers(params, *kernel->formula, call->values, call->nvalues, call->compute);
  for (int i = 0; i < o.nins; ++i) {
    if ((o.scalars >> i & 1u) == 0) continue;
    const bool mask = (call->masks >> i & 1u) != 0;
    params.put_element(o.data[o.nouts + i], o.dtypes[o.nouts + i], mask ? FACULA_BOOL : call->compute);
  }
  if (plan.form.kind != PointwiseForm::kLinear) put_dims(params, plan, o);
  void* arguments[] = {params.data()};
  return launch(*device, *kernel, {static_cast<unsigned>(plan.blocks)}, {kPointwiseThreads}, 0, call->stream,
                arguments);
}

}  // namespace facula::cuda
