// Layer and RMS normalisation, and the gradients.
#include "launch/kernels.h"
#include "ops/rows.h"
#include "launch/strided_iterator.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

enum Kind : int { kForward, kBackward, kColumns };

KernelSource source(Kind kind, const char* entry, bool rms, int32_t in, int32_t weight, int32_t stat,
                    const RowForm& form, bool sums = false) {
  return file_kernel("norm.cu", entry,
                     std::string("using I = ") + element_type(in) + ";\nusing W = " + element_type(weight) +
                         ";\nusing M = " + element_type(stat) +
                         ";\nusing T = " + (in == FACULA_FLOAT64 ? "double" : "float") + ";\n#define FACULA_RMS " +
                         (rms ? "1" : "0") + "\n#define FACULA_KIND " + std::to_string(kind) +
                         "\n#define FACULA_SUMS " + (sums ? "1" : "0") + "\n" + form.text());
}

struct Norm {
  const void *in = nullptr, *grad = nullptr, *weight = nullptr, *bias = nullptr;
  void *out = nullptr, *grad_weight = nullptr, *grad_bias = nullptr;
  const void *mean = nullptr, *rstd = nullptr;
  const void* shifts = nullptr;
  int64_t rows = 0, length = 0;
  double eps = 0;
  bool rms = false;
  int32_t dtype = 0, weight_dtype = 0, stat_dtype = 0;
};

Params params_of(const Norm& n, void* scratch, int64_t part) {
  Params p;
  for (const void* x : {n.in, n.grad, n.weight, n.bias}) p.put(x);
  for (void* x : {n.out, n.grad_weight, n.grad_bias}) p.put(x);
  p.put(n.mean);
  p.put(n.rstd);
  p.put(scratch);
  p.put(n.shifts);
  p.put(n.rows);
  p.put(n.length);
  p.put(part);
  p.put(n.eps);
  return p;
}

int32_t find(const Device& device, Kind kind, int number, const char* entry, const Norm& n, const RowForm& form,
             Kernel** out, bool sums = false) {
  KernelKey key;
  key.name = "norm.cu";
  key.bits[0] = static_cast<uint64_t>(number) | static_cast<uint64_t>(n.rms) << 4 | static_cast<uint64_t>(sums) << 5 |
                form.bits() << 8;
  key.bits[1] = static_cast<uint64_t>(n.dtype) | static_cast<uint64_t>(n.weight_dtype) << 8 |
                static_cast<uint64_t>(n.stat_dtype) << 16;
  return find_kernel(
      device, key, [&] { return source(kind, entry, n.rms, n.dtype, n.weight_dtype, n.stat_dtype, form, sums); }, out);
}

RowForm form_of(const Norm& n, int held) {
  const int size = std::max(itemsize(n.dtype), itemsize(n.weight_dtype));
  int vec = 16 / size;
  const auto fits = [&](int v) {
    uintptr_t all = 0;
    for (const void* p : {n.in, n.grad, n.weight, n.bias, static_cast<const void*>(n.out)})
      all |= reinterpret_cast<uintptr_t>(p);
    return n.length % v == 0 && all % static_cast<uintptr_t>(v * size) == 0;
  };
  while (vec > 1 && !fits(vec)) vec /= 2;
  return row_form(n.length, vec, held * 4 / std::max(4, size));
}

int32_t rows(const Device& device, void* stream, Kind kind, const Norm& n) {
  const RowForm form = form_of(n, kind == kForward ? 32 : 16);
  Kernel* kernel = nullptr;
  FACULA_TRY(find(device, kind, kind, "facula_norm", n, form, &kernel));
  Params params = params_of(n, nullptr, 0);
  void* arguments[] = {params.data()};
  return launch(device, *kernel, {form.blocks(n.rows)}, {static_cast<unsigned>(form.threads())}, 0, stream, arguments);
}

int32_t finish(const Device& device, void* stream, const Norm& n, void* scratch, int64_t parts) {
  Params params = params_of(n, scratch, parts);
  void* arguments[] = {params.data()};
  Kernel* kernel = nullptr;
  FACULA_TRY(find(device, kColumns, 3, "facula_norm_finish", n, {}, &kernel));
  return launch(device, *kernel, {static_cast<unsigned>(ceil_div(n.length, 32))}, {512}, 0, stream, arguments);
}

// All gradients in one reading, where a thread keeps its columns: false when it does not.
bool together(const Device& device, const FaculaCall* call, const Norm& n, int32_t& status) {
  const RowForm form = form_of(n, 16);
  if (form.items == 0 || n.rows < 64) return false;
  Scratch scratch(call->index, call->stream);
  status = [&] {
    Kernel* kernel = nullptr;
    FACULA_TRY(find(device, kBackward, kBackward, "facula_norm", n, form, &kernel, true));
    int64_t resident = 0;
    FACULA_TRY(resident_blocks(device, *kernel, form.threads(), &resident));
    const unsigned blocks = form.blocks(n.rows, resident);
    const int64_t parts = int64_t{blocks} * form.rows_of_block();
    FACULA_TRY(scratch.allocate(static_cast<size_t>(parts * 2 * n.length) * (n.dtype == FACULA_FLOAT64 ? 8 : 4)));
    Params params = params_of(n, scratch.data(), 0);
    void* arguments[] = {params.data()};
    FACULA_TRY(launch(device, *kernel, {blocks}, {static_cast<unsigned>(form.threads())}, 0, call->stream, arguments));
    return finish(device, call->stream, n, scratch.data(), parts);
  }();
  return true;
}

int32_t columns(const Device& device, const FaculaCall* call, const Norm& n) {
  const int64_t tiles = ceil_div(n.length, 32);
  const int64_t parts = std::clamp<int64_t>(int64_t{device.processors} * 8 / std::max<int64_t>(tiles, 1), 1,
                                            std::max<int64_t>(1, n.rows / 32));
  const int64_t part = std::max<int64_t>(1, ceil_div(n.rows, parts));
  Scratch scratch(call->index, call->stream);
  const size_t size = n.dtype == FACULA_FLOAT64 ? 8 : 4;
  const int64_t used = ceil_div(n.rows, part);
  FACULA_TRY(scratch.allocate(static_cast<size_t>(used * 2 * n.length) * size));
  if (used == 0) return finish(device, call->stream, n, nullptr, 0);  // sums of no rows
  Params params = params_of(n, scratch.data(), part);
  void* arguments[] = {params.data()};
  Kernel* first = nullptr;
  FACULA_TRY(find(device, kColumns, 2, "facula_norm_columns", n, {}, &first));
  FACULA_TRY(launch(device, *first, {static_cast<unsigned>(tiles), static_cast<unsigned>(used)}, {256}, 0, call->stream,
                    arguments));
  return finish(device, call->stream, n, scratch.data(), used);
}

bool describe(Norm& n, const FaculaCall* call, const FaculaTensor& input, const FaculaValue& shape) {
  if (!is_floating(input.dtype)) return false;
  n.dtype = n.weight_dtype = input.dtype;
  n.length = 1;
  for (int32_t i = 0; i < shape.count; ++i) n.length *= shape.at.ints[i];
  n.rows = n.length > 0 ? input.numel / n.length : 0;
  n.stat_dtype = input.dtype;
  (void)call;
  return true;
}

// native_layer_norm(input, normalized_shape, weight, bias, eps, rms, output, mean, rstd)
int32_t forward(void*, const FaculaCall* call) {
  const FaculaTensor &input = tensor(call, 0), &out = result(call, 0);
  Norm n;
  if (!describe(n, call, input, call->args[1]) || !is_dense(out) || out.dtype != input.dtype)
    return FACULA_NOT_SUPPORTED;
  if (input.numel == 0) return FACULA_OK;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  Scratch a(call->index, call->stream), b(call->index, call->stream), c(call->index, call->stream);
  FACULA_TRY(dense(input, a, call->index, call->stream, &n.in));
  if (!absent(call, 2)) {
    n.weight_dtype = tensor(call, 2).dtype;
    FACULA_TRY(dense(tensor(call, 2), b, call->index, call->stream, &n.weight));
  }
  if (!absent(call, 3)) {
    if (absent(call, 2)) n.weight_dtype = tensor(call, 3).dtype;
    FACULA_TRY(dense(tensor(call, 3), c, call->index, call->stream, &n.bias, n.weight_dtype));
  }
  if (!is_floating(n.weight_dtype)) return FACULA_NOT_SUPPORTED;
  n.out = out.data;
  n.eps = real_of(call->args[4]);
  n.rms = call->args[5].at.i != 0;
  const FaculaTensor& rstd = result(call, 2);
  n.rstd = rstd.data;
  n.stat_dtype = rstd.dtype;
  if (!n.rms) n.mean = result(call, 1).data;
  return rows(*device, call->stream, kForward, n);
}

// layer_norm_backward(grad, input, normalized_shape, mean, rstd, weight, bias, eps, rms, mask, results)
int32_t backward(void*, const FaculaCall* call) {
  const FaculaTensor &grad = tensor(call, 0), &input = tensor(call, 1);
  Norm n;
  if (!describe(n, call, input, call->args[2]) || grad.dtype != input.dtype) return FACULA_NOT_SUPPORTED;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  Scratch a(call->index, call->stream), b(call->index, call->stream), c(call->index, call->stream),
      d(call->index, call->stream), e(call->index, call->stream), f(call->index, call->stream);
  n.rms = call->args[8].at.i != 0;
  n.stat_dtype = tensor(call, 4).dtype;
  FACULA_TRY(dense(input, a, call->index, call->stream, &n.in));
  FACULA_TRY(dense(grad, b, call->index, call->stream, &n.grad));
  if (!n.rms) FACULA_TRY(dense(tensor(call, 3), c, call->index, call->stream, &n.mean, n.stat_dtype));
  FACULA_TRY(dense(tensor(call, 4), d, call->index, call->stream, &n.rstd));
  if (!absent(call, 5)) {
    n.weight_dtype = tensor(call, 5).dtype;
    FACULA_TRY(dense(tensor(call, 5), e, call->index, call->stream, &n.weight));
  } else if (!absent(call, 6)) {
    n.weight_dtype = tensor(call, 6).dtype;
  }
  const int64_t* const mask = call->args[9].at.ints;
  for (int i = 0; i < 3; ++i) {
    if (mask[i] != 0 && has_result(call, i) && !is_dense(result(call, i))) return FACULA_NOT_SUPPORTED;
  }
  if (mask[1] != 0 && has_result(call, 1)) n.grad_weight = result(call, 1).data;
  if (mask[2] != 0 && has_result(call, 2)) n.grad_bias = result(call, 2).data;
  if (mask[0] != 0 && has_result(call, 0) && input.numel > 0) {
    n.out = result(call, 0).data;
    int32_t status = FACULA_OK;
    if ((n.grad_weight != nullptr || n.grad_bias != nullptr) && together(*device, call, n, status)) return status;
    if (!n.rms && (n.grad_weight != nullptr || n.grad_bias != nullptr)) {
      FACULA_TRY(f.allocate(static_cast<size_t>(n.rows) * (n.dtype == FACULA_FLOAT64 ? 8 : 4)));
      n.shifts = f.data();
    }
    FACULA_TRY(rows(*device, call->stream, kBackward, n));
  }
  if (n.length == 0 || (n.grad_weight == nullptr && n.grad_bias == nullptr)) return FACULA_OK;
  return columns(*device, call, n);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT16, FACULA_FLOAT64}) {
    if (level < 2 && dtype != FACULA_FLOAT32 && dtype != FACULA_BFLOAT16) continue;
    const int32_t stat = dtype == FACULA_FLOAT64 ? FACULA_FLOAT64 : FACULA_FLOAT32;
    for (const bool rms : {false, true}) {
      add(source(kColumns, "facula_norm_columns", rms, dtype, dtype, stat, {}));
      add(source(kColumns, "facula_norm_finish", rms, dtype, dtype, stat, {}));
      for (const Kind kind : {kForward, kBackward}) {
        const int size = itemsize(dtype), held = (kind == kForward ? 32 : 16) * 4 / std::max(4, size);
        for (const int64_t length : {64, 1024, 100000}) {
          add(source(kind, "facula_norm", rms, dtype, dtype, stat, row_form(length, 16 / size, held)));
          if (level > 0) add(source(kind, "facula_norm", rms, dtype, dtype, stat, row_form(length, 1, held)));
          if (kind == kBackward && length < 100000) {
            add(source(kind, "facula_norm", rms, dtype, dtype, stat, row_form(length, 16 / size, held), true));
          }
        }
      }
    }
  }
}
const ListsSources lists(list);

const Registers registers{{"native_layer_norm", forward}, {"layer_norm_backward", backward}};

}  // namespace

}  // namespace facula::cuda
