#include "ops/reduction.h"

#include <algorithm>
#include <bit>

#include "launch/params.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

constexpr int kThreads = 256;
constexpr size_t kLargestAcc = 48;

int rounded_dims(int n) { return n <= 2 ? std::max(n, 1) : n <= 4 ? 4 : kMaxKernelDims; }

struct Plan {
  ReductionForm form;
  Layout kept, reduced;
  int64_t outputs = 1, length = 1, part = 1, parts = 1, blocks = 1;
};

// `steps`: elements that a block takes at a time.
int64_t parts_of(int64_t blocks, int64_t length, int64_t steps, int processors) {
  const int64_t most = std::max<int64_t>(1, length / (2 * steps));
  return std::min<int64_t>(std::clamp<int64_t>(int64_t{processors} * 8 / std::max<int64_t>(blocks, 1), 1, most), 1024);
}

int32_t make_plan(const Reduction& f, int processors, Plan& p) {
  const int64_t* kept_strides[] = {f.in_strides, f.out_strides[0], f.out_strides[1]};
  const int64_t* reduced_strides[] = {f.in_strides + f.kept};
  collapse(static_cast<int>(f.kept), f.sizes, kept_strides, 1 + f.nouts, p.kept);
  collapse(static_cast<int>(f.reduced), f.sizes + f.kept, reduced_strides, 1, p.reduced);
  if (p.kept.ndim > kMaxKernelDims || p.reduced.ndim > kMaxKernelDims) return FACULA_NOT_SUPPORTED;
  p.outputs = p.kept.numel();
  p.length = p.reduced.numel();
  ReductionForm& form = p.form;
  form.kept = rounded_dims(p.kept.ndim);
  form.reduced = rounded_dims(p.reduced.ndim);
  form.wide = p.length >= int64_t{1} << 31;
  const int size = itemsize(f.in_dtype);
  const int widest = std::min(8, 16 / size);
  const auto aligned = [&](int vec, const Layout& l, int from) {
    if (reinterpret_cast<uintptr_t>(f.in) % static_cast<uintptr_t>(vec * size) != 0) return false;
    for (int d = from; d < l.ndim; ++d) {
      if (l.strides[d][0] % vec != 0) return false;
    }
    return true;
  };
  const bool side_by_side = p.reduced.ndim > 0 && p.reduced.strides[0][0] == 1;
  form.rows = side_by_side || p.kept.ndim == 0 || p.kept.strides[0][0] != 1 || p.kept.sizes[0] < 8;
  int64_t steps = 1;  // of a block along what is reduced
  if (form.rows) {
    const bool line = p.reduced.ndim == 1 && side_by_side;
    form.vec = line && aligned(widest, p.kept, 0) ? widest : 1;
    form.lanes = row_lanes(p.length, form.vec);
    p.blocks = ceil_div(p.outputs, kThreads / form.lanes);
    steps = int64_t{form.lanes} * form.vec * 4;
  } else {
    int vec = widest;
    while (vec > 1 && (p.kept.sizes[0] % vec != 0 || !aligned(vec, p.kept, 1) || !aligned(vec, p.reduced, 0))) vec /= 2;
    form.vec = vec;
    form.lanes = 32;
    p.blocks = ceil_div(p.outputs, 32 * vec);
    steps = 8 * 4;
  }
  p.parts = parts_of(p.blocks, p.length, steps, processors);
  p.part = ceil_div(p.length, p.parts);
  p.part = round_up(p.part, steps);
  p.parts = std::max<int64_t>(1, ceil_div(p.length, std::max<int64_t>(p.part, 1)));
  return p.blocks < int64_t{1} << 31 ? FACULA_OK : FACULA_NOT_SUPPORTED;
}

uint64_t bits_of(const ReductionForm& f) {
  return static_cast<uint64_t>(f.rows) | static_cast<uint64_t>(f.wide) << 1 | static_cast<uint64_t>(f.vec) << 2 |
         static_cast<uint64_t>(f.lanes) << 8 | static_cast<uint64_t>(f.kept) << 20 |
         static_cast<uint64_t>(f.reduced) << 24;
}

ReductionDefinition schema_reduction(const ReductionSource& text) {
  return {text.op, text.text, "facula/cuda/schema_reduction.h"};
}

// The layout as `dims` dims, one element in those that it lacks.
int64_t size_at(const Layout& l, int d) { return d < l.ndim ? l.sizes[d] : 1; }
int64_t stride_at(const Layout& l, int d, int operand) { return d < l.ndim ? l.strides[d][operand] : 0; }

// As kernels/reduce.h has them.
void put_params(Params& params, const Reduction& f, const Plan& p, const void* scratch) {
  params.put(f.in);
  for (int i = 0; i < f.nouts; ++i) params.put(f.out[i]);
  params.put(scratch);
  for (const int64_t n : {p.outputs, p.length, p.part, p.parts}) params.put(n);
  for (int i = 0; i < f.nnumbers; ++i) params.put(f.numbers[i]);
  const ReductionForm& form = p.form;
  const int in_size = itemsize(f.in_dtype);
  for (int d = 0; d < form.kept; ++d) params.put(stride_at(p.kept, d, 0) * in_size);
  for (int d = 0; d < form.kept; ++d) {
    for (int i = 0; i < f.nouts; ++i) params.put(stride_at(p.kept, d, 1 + i) * itemsize(f.out_dtypes[i]));
  }
  for (int d = 0; d < form.reduced; ++d) params.put(stride_at(p.reduced, d, 0) * in_size);
  for (int d = 0; d + 1 < form.kept; ++d) params.put(size_at(p.kept, d));
  for (int d = 0; d + 1 < form.reduced; ++d) {
    const int64_t n = size_at(p.reduced, d);
    if (form.wide) {
      params.put(n);
    } else {
      params.put(n > 0 && n < int64_t{1} << 31 ? divisor_of(static_cast<uint32_t>(n)) : Divisor{1, 1, 0});
    }
  }
}

void list_reductions(int level, const std::function<void(KernelSource)>& add) {
  for (const ReductionSource& t : reduction_sources()) {
    const std::string_view c = t.type_class;
    std::vector<int32_t> types;
    if (c == "bool") types = {FACULA_BOOL};
    if (c == "int") types = {FACULA_INT64, FACULA_INT32, FACULA_UINT8};
    if (c == "float") types = {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT16, FACULA_FLOAT64};
    if (c == "complex") types = {FACULA_COMPLEX64};
    if (level == 0 && c != "float") continue;
    if (level < 2) types.resize(std::min<size_t>(types.size(), 2));
    for (const int32_t type : types) {
      Reduction f;
      f.in_dtype = type;
      const bool index = std::string_view(t.text).find("FOLD_INDEX 1") != std::string_view::npos;
      f.out_dtypes[0] = index ? int32_t{FACULA_INT64} : type;
      f.compute = type == FACULA_BFLOAT16 || type == FACULA_FLOAT16 ? int32_t{FACULA_FLOAT32} : type;
      for (const bool rows : {true, false}) {
        ReductionForm form;
        form.rows = rows;
        form.vec = std::min(8, 16 / itemsize(type));
        form.lanes = rows ? (level == 0 ? 256 : 1) : 32;
        const ReductionDefinition d = schema_reduction(t);
        add(reduction_source(d.name, f, form, d.before, d.file, "facula_reduce"));
        if (level == 0) continue;
        form.vec = 1;
        form.lanes = 32;
        form.reduced = 2;
        add(reduction_source(d.name, f, form, d.before, d.file, "facula_reduce"));
      }
    }
  }
}
const ListsSources lists(list_reductions);

}  // namespace

int row_lanes(int64_t length, int vec) {
  const int vectors = vec == 1 || vec == 8 ? 4 : 8;  // of a thread
  const auto work = static_cast<uint64_t>(std::max<int64_t>(ceil_div(length, vec * vectors), 1));
  const auto lanes = static_cast<int>(std::min<uint64_t>(std::bit_ceil(work), kThreads));
  return lanes == kThreads / 2 ? kThreads : lanes;  // fewer forms
}
int64_t row_parts(int64_t rows, int64_t length, int vec, int lanes, int processors) {
  return parts_of(ceil_div(rows, kThreads / lanes), length, int64_t{lanes} * vec * 4, processors);
}

KernelSource reduction_source(const std::string& name, const Reduction& f, const ReductionForm& form,
                              const std::string& before, const char* file, const char* entry) {
  std::string text = "#include \"facula/cuda/types.h\"\nnamespace facula {\n";
  text += std::string("using I = ") + element_type(f.in_dtype) + ";\nusing T = " + compute_type(f.compute) +
          ";\nusing R = math::real_t<T>;\n";
  for (int i = 0; i < f.nouts; ++i) {
    text += "using O" + std::to_string(i) + " = " + element_type(f.out_dtypes[i]) + ";\n";
  }
  const auto define = [&](const char* macro, int value) {
    text += std::string("#define ") + macro + " " + std::to_string(value) + "\n";
  };
  define("FACULA_OUTS", f.nouts);
  define("FACULA_ROWS", form.rows);
  define("FACULA_VEC", form.vec);
  define("FACULA_LANES", form.lanes);
  define("FACULA_KEPT", form.kept);
  define("FACULA_REDUCED", form.reduced);
  define("FACULA_WIDE", form.wide);
  define("FACULA_NUMBERS", f.nnumbers);
  text += before + "}\n#define FACULA_REDUCTION_FILE \"" + file + "\"\n#include \"facula/cuda/reduce.h\"\n";
  return {{name + ".cu", text, true}, entry};
}

int32_t reduce(const Reduction& f, const std::function<ReductionDefinition()>& definition) {
  const Device* device = nullptr;
  FACULA_TRY(enter(f.index, &device));
  Plan p;
  FACULA_TRY(make_plan(f, device->processors, p));
  if (p.outputs == 0) return FACULA_OK;
  KernelKey key;
  key.name = f.name;
  key.variant = f.variant;
  key.bits[0] = bits_of(p.form);
  key.bits[1] = static_cast<uint64_t>(f.in_dtype) | static_cast<uint64_t>(f.out_dtypes[0]) << 4 |
                static_cast<uint64_t>(f.out_dtypes[1]) << 8 | static_cast<uint64_t>(f.compute) << 12 |
                static_cast<uint64_t>(f.nouts) << 16;
  key.bits[2] = f.extra;
  const auto make = [&](const char* entry) {
    const ReductionDefinition d = definition();
    return d.file == nullptr ? KernelSource{{}, nullptr} : reduction_source(d.name, f, p.form, d.before, d.file, entry);
  };
  Kernel *first = nullptr, *second = nullptr;
  FACULA_TRY(find_kernel(*device, key, [&] { return make("facula_reduce"); }, &first));
  Scratch scratch(f.index, f.stream);
  if (p.parts > 1) {
    key.bits[3] = 1;
    FACULA_TRY(find_kernel(*device, key, [&] { return make("facula_reduce_parts"); }, &second));
    FACULA_TRY(scratch.allocate(static_cast<size_t>(p.parts * p.outputs) * kLargestAcc));
  }
  Params params;
  put_params(params, f, p, scratch.data());
  void* arguments[] = {params.data()};
  FACULA_TRY(launch(*device, *first, {static_cast<unsigned>(p.blocks), static_cast<unsigned>(p.parts)}, {kThreads}, 0,
                    f.stream, arguments));
  if (p.parts == 1) return FACULA_OK;
  const unsigned blocks = static_cast<unsigned>(ceil_div(p.outputs, kThreads / 32));
  return launch(*device, *second, {blocks}, {kThreads}, 0, f.stream, arguments);
}

void take_dims(Reduction& f, const FaculaTensor& self, const FaculaValue& dim, const FaculaTensor* const* outs) {
  uint64_t reduced = 0;
  const auto add = [&](int64_t d) { reduced |= self.ndim == 0 ? 0 : uint64_t{1} << (d < 0 ? d + self.ndim : d); };
  if (dim.kind == FACULA_INT) {
    add(dim.at.i);
  } else if (dim.kind == FACULA_INTS && dim.count > 0) {
    for (int32_t i = 0; i < dim.count; ++i) add(dim.at.ints[i]);
  } else {
    reduced = ~uint64_t{0};
  }
  f.in = self.data;
  f.in_dtype = self.dtype;
  for (int i = 0; i < f.nouts; ++i) {
    f.out[i] = outs[i]->data;
    f.out_dtypes[i] = outs[i]->dtype;
  }
  for (const bool taken : {false, true}) {
    for (int d = 0, o = 0; d < self.ndim; ++d) {
      const bool goes = (reduced >> d & 1u) != 0;
      const bool has_out = !goes || outs[0]->ndim == self.ndim;
      if (goes == taken) {
        const int64_t at = f.kept + f.reduced;
        f.sizes[at] = self.sizes[d];
        f.in_strides[at] = self.strides[d];
        for (int i = 0; i < f.nouts; ++i) f.out_strides[i][at] = goes ? 0 : outs[i]->strides[o];
        ++(goes ? f.reduced : f.kept);
      }
      o += has_out;
    }
  }
}

int32_t reduction(void*, const FaculaReduction* call) {
  const FaculaTensor &in = *call->in, &out = *call->out;
  if (in.ndim > kMaxTensorDims) return FACULA_NOT_SUPPORTED;
  Reduction f;
  f.name = call->op;
  f.reduced = call->nreduced;
  f.kept = in.ndim - call->nreduced;
  std::copy_n(in.sizes, in.ndim, f.sizes);
  std::copy_n(in.strides, in.ndim, f.in_strides);
  std::copy_n(out.strides, f.kept, f.out_strides[0]);
  f.in = in.data;
  f.out[0] = out.data;
  f.in_dtype = in.dtype;
  f.out_dtypes[0] = out.dtype;
  f.compute = call->compute;
  f.index = call->index;
  f.stream = call->stream;
  return reduce(f, [call]() -> ReductionDefinition {
    const ReductionSource* const text = find_reduction(call->op, class_of(call->compute));
    return text != nullptr ? schema_reduction(*text) : ReductionDefinition{{}, {}, nullptr};
  });
}

}  // namespace facula::cuda
