// Cross entropy of rows: nll_loss of log_softmax in one pass, and its gradient.
#include <string_view>

#include "launch/kernels.h"
#include "ops/rows.h"
#include "launch/strided_iterator.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

enum Kind : int { kForward, kBackward, kSum };

KernelSource source(Kind kind, int32_t in, int32_t weight, int32_t target, int32_t out, const RowForm& form) {
  return file_kernel("cross_entropy.cu", kind == kSum ? "facula_loss_sum" : "facula_loss",
                     std::string("using I = ") + element_type(in) + ";\nusing W = " + element_type(weight) +
                         ";\nusing X = " + element_type(target) + ";\nusing O = " + element_type(out) +
                         ";\nusing T = " + (in == FACULA_FLOAT64 ? "double" : "float") + ";\n#define FACULA_KIND " +
                         std::to_string(kind) + "\n" + form.text());
}

struct Loss {
  const void *in = nullptr, *target = nullptr, *weight = nullptr, *grad = nullptr;
  void *out = nullptr, *tops = nullptr, *losses = nullptr, *weights = nullptr, *total = nullptr;
  int64_t rows = 0, length = 0, ignored = 0, reduction = 0, grad_step = 0;
  int32_t in_dtype = 0, weight_dtype = FACULA_FLOAT32, target_dtype = FACULA_INT64, out_dtype = 0;
};

int32_t run(const Device& device, void* stream, Kind kind, const Loss& x) {
  const int size = itemsize(x.in_dtype);
  int vec = 16 / size;
  const uintptr_t places =
      reinterpret_cast<uintptr_t>(x.in) | (kind == kBackward ? reinterpret_cast<uintptr_t>(x.out) : 0);
  while (vec > 1 && (x.length % vec != 0 || places % static_cast<uintptr_t>(vec * size) != 0)) vec /= 2;
  RowForm form;
  if (kind != kSum) form = row_form(x.length, vec, 32 * 4 / std::max(4, size));
  form.items = 0;
  form.lanes = std::min(form.lanes, 256);
  KernelKey key;
  key.name = "cross_entropy.cu";
  key.bits[0] = static_cast<uint64_t>(kind) | form.bits() << 8;
  key.bits[1] = static_cast<uint64_t>(x.in_dtype) | static_cast<uint64_t>(x.weight_dtype) << 8 |
                static_cast<uint64_t>(x.target_dtype) << 16 | static_cast<uint64_t>(x.out_dtype) << 24;
  Kernel* kernel = nullptr;
  FACULA_TRY(find_kernel(
      device, key, [&] { return source(kind, x.in_dtype, x.weight_dtype, x.target_dtype, x.out_dtype, form); },
      &kernel));
  Params params;
  for (const void* p : {x.in, x.target, x.weight}) params.put(p);
  for (void* p : {x.out, x.tops, x.losses, x.weights, x.total}) params.put(p);
  params.put(x.grad);
  for (const int64_t n : {x.rows, x.length, x.ignored, x.reduction, x.grad_step}) params.put(n);
  void* arguments[] = {params.data()};
  if (kind == kSum) return launch(device, *kernel, {1}, {1024}, 0, stream, arguments);
  return launch(device, *kernel, {form.blocks(x.rows)}, {static_cast<unsigned>(form.threads())}, 0, stream, arguments);
}

int64_t reduction_of(const FaculaValue& v) {
  const std::string_view name = v.at.text;
  return name == "mean" ? 1 : name == "sum" ? 2 : 0;
}

// What both directions take: rows, targets and weights, dense.
struct Given {
  Scratch a, b, c, d, e, f;
  explicit Given(const FaculaCall* call)
      : a(call->index, call->stream),
        b(call->index, call->stream),
        c(call->index, call->stream),
        d(call->index, call->stream),
        e(call->index, call->stream),
        f(call->index, call->stream) {}
  int32_t read(const FaculaCall* call, int first, Loss& x) {
    const FaculaTensor &self = tensor(call, first), &target = tensor(call, first + 1);
    if (!is_floating(self.dtype) || self.ndim != 2 || !on_device(self) || target.ndim != 1) return FACULA_NOT_SUPPORTED;
    x.in_dtype = self.dtype;
    x.rows = self.sizes[0];
    x.length = self.sizes[1];
    FACULA_TRY(dense(self, a, call->index, call->stream, &x.in));
    FACULA_TRY(dense(target, b, call->index, call->stream, &x.target, FACULA_INT64));
    if (!absent(call, first + 2)) {
      const FaculaTensor& weight = tensor(call, first + 2);
      if (!is_floating(weight.dtype)) return FACULA_NOT_SUPPORTED;
      x.weight_dtype = weight.dtype;
      FACULA_TRY(dense(weight, c, call->index, call->stream, &x.weight));
    }
    x.ignored = call->args[first + 3].at.i;
    x.reduction = reduction_of(call->args[first + 4]);
    return FACULA_OK;
  }
};

int32_t computed(int32_t dtype) { return dtype == FACULA_FLOAT64 ? FACULA_FLOAT64 : FACULA_FLOAT32; }

// softmax_nll_forward(self, target, weight, ignore_index, reduction, output, total_weight, tops)
int32_t forward(void*, const FaculaCall* call) {
  const FaculaTensor &out = result(call, 0), &total = result(call, 1), &tops = result(call, 2);
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  Loss x;
  Given given(call);
  FACULA_TRY(given.read(call, 0, x));
  const int32_t compute = computed(x.in_dtype);
  if (!is_dense(out) || tops.dtype != compute || !is_dense(tops)) return FACULA_NOT_SUPPORTED;
  x.out = out.data;
  x.out_dtype = out.dtype;
  x.tops = tops.data;
  constexpr size_t item = sizeof(double);
  FACULA_TRY(given.d.allocate((static_cast<size_t>(x.rows) * 2 + 1) * item));
  x.losses = given.d.data();
  x.weights = given.d.data() + static_cast<size_t>(x.rows) * item;
  void* const sum = given.d.data() + static_cast<size_t>(x.rows) * 2 * item;
  x.total = total.dtype == FACULA_FLOAT64 ? total.data : sum;
  if (x.rows > 0) FACULA_TRY(run(*device, call->stream, kForward, x));
  FACULA_TRY(run(*device, call->stream, kSum, x));
  return x.total == total.data ? int32_t{FACULA_OK} : write_back(total, sum, FACULA_FLOAT64, call->index, call->stream);
}

// softmax_nll_backward(grad, self, target, weight, ignore_index, reduction, total_weight, tops, out)
int32_t backward(void*, const FaculaCall* call) {
  const FaculaTensor &grad = tensor(call, 0), &out = result(call);
  if (out.numel == 0) return FACULA_OK;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  Loss x;
  Given given(call);
  FACULA_TRY(given.read(call, 1, x));
  if (!is_dense(out) || out.dtype != x.in_dtype || !is_floating(grad.dtype)) return FACULA_NOT_SUPPORTED;
  const void *total = nullptr, *tops = nullptr;
  FACULA_TRY(dense(tensor(call, 6), given.d, call->index, call->stream, &total, FACULA_FLOAT64));
  FACULA_TRY(dense(tensor(call, 7), given.e, call->index, call->stream, &tops, computed(x.in_dtype)));
  FACULA_TRY(dense(grad, given.f, call->index, call->stream, &x.grad));
  x.total = const_cast<void*>(total);
  x.tops = const_cast<void*>(tops);
  x.out_dtype = grad.dtype;
  x.grad_step = grad.numel == 1 ? 0 : itemsize(grad.dtype);
  x.out = out.data;
  return run(*device, call->stream, kBackward, x);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT16, FACULA_FLOAT64}) {
    if (level < 2 && dtype != FACULA_FLOAT32 && dtype != FACULA_BFLOAT16) continue;
    add(source(kSum, dtype, FACULA_FLOAT32, FACULA_INT64, dtype, {}));
    const int size = itemsize(dtype);
    for (const int64_t length : {64, 1024, 100000}) {
      for (const int vec : {1, 16 / size}) {
        RowForm form = row_form(length, vec, 32 * 4 / std::max(4, size));
        form.items = 0;
        form.lanes = std::min(form.lanes, 256);
        add(source(kForward, dtype, FACULA_FLOAT32, FACULA_INT64, dtype, form));
        add(source(kBackward, dtype, FACULA_FLOAT32, FACULA_INT64, dtype, form));
      }
    }
  }
}
const ListsSources lists(list);

const Registers registers{{"softmax_nll_forward", forward}, {"softmax_nll_backward", backward}};

}  // namespace

}  // namespace facula::cuda
