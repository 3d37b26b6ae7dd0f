// softmax, log_softmax and their gradients.
#include "launch/kernels.h"
#include "ops/rows.h"
#include "launch/strided_iterator.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

KernelSource source(int kind, int32_t in, int32_t other, int32_t out, const RowForm& form) {
  const bool wide = in == FACULA_FLOAT64 || out == FACULA_FLOAT64;
  // Without contraction a softmax gives the same bits as in a group of compile().
  const bool fused = kind >= 2;
  return file_kernel("softmax.cu", "facula_softmax",
                     std::string("using I = ") + element_type(in) + ";\nusing J = " + element_type(other) +
                         ";\nusing O = " + element_type(out) + ";\nusing T = " + (wide ? "double" : "float") +
                         ";\n#define FACULA_KIND " + std::to_string(kind) + "\n" + form.text(),
                     fused);
}

int32_t run(const FaculaCall* call, int kind, const FaculaTensor& in, const FaculaTensor& other, int64_t dim_given) {
  const FaculaTensor& out = result(call);
  if (out.numel == 0) return FACULA_OK;
  if (!is_floating(in.dtype) || !is_floating(other.dtype) || !is_floating(out.dtype)) return FACULA_NOT_SUPPORTED;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const int dim = wrapped_dim(dim_given, in);
  const int64_t length = in.ndim == 0 ? 1 : in.sizes[dim];
  int64_t sizes[kMaxTensorDims];
  std::copy_n(in.sizes, in.ndim, sizes);
  if (in.ndim > 0) sizes[dim] = 1;
  const FaculaTensor* const all[] = {&in, &other, &out};
  const int64_t* strides[3];
  int items[3], widest = 1;
  int64_t steps[3];
  bool side_by_side = true;
  for (int k = 0; k < 3; ++k) {
    strides[k] = all[k]->strides;
    items[k] = itemsize(all[k]->dtype);
    widest = std::max(widest, items[k]);
    steps[k] = in.ndim == 0 ? items[k] : all[k]->strides[dim] * items[k];
    side_by_side &= steps[k] == items[k];
  }
  const StridedDims iterator = make_strided(in.ndim, sizes, strides, items, 3);
  int vec = 16 / widest;
  const auto fits = [&](int v) {
    if (!side_by_side || length % v != 0) return false;
    for (int k = 0; k < 3; ++k) {
      const int bytes = v * items[k];
      if (reinterpret_cast<uintptr_t>(all[k]->data) % static_cast<uintptr_t>(bytes) != 0) return false;
      for (int d = 0; d < iterator.ndim; ++d) {
        if (iterator.strides[k][d] % bytes != 0) return false;
      }
    }
    return true;
  };
  while (vec > 1 && !fits(vec)) vec /= 2;
  const RowForm form = row_form(length, vec, (kind < 2 ? 32 : 16) * 4 / std::max(4, widest));
  KernelKey key;
  key.name = "softmax.cu";
  key.bits[0] = static_cast<uint64_t>(kind) | form.bits() << 8;
  key.bits[1] = static_cast<uint64_t>(in.dtype) | static_cast<uint64_t>(other.dtype) << 8 |
                static_cast<uint64_t>(out.dtype) << 16;
  Kernel* kernel = nullptr;
  FACULA_TRY(find_kernel(*device, key, [&] { return source(kind, in.dtype, other.dtype, out.dtype, form); }, &kernel));
  Params params;
  for (const FaculaTensor* t : all) params.put(t->data);
  params.put(length);
  for (const int64_t s : steps) params.put(s);
  bool together = side_by_side;
  for (int k = 0; k < 3; ++k) together &= is_dense(*all[k]);
  params.put(static_cast<int64_t>(together));
  if (!put_strided(params, iterator, 3)) return FACULA_NOT_SUPPORTED;
  void* arguments[] = {params.data()};
  return launch(*device, *kernel, {form.blocks(iterator.count)}, {static_cast<unsigned>(form.threads())}, 0,
                call->stream, arguments);
}

// softmax(self, dim, dtype, out)
template <int kKind>
int32_t forward(void*, const FaculaCall* call) {
  return run(call, kKind, tensor(call, 0), tensor(call, 0), call->args[1].at.i);
}
// softmax_backward(grad, output, dim, out)
template <int kKind>
int32_t backward(void*, const FaculaCall* call) {
  return run(call, kKind, tensor(call, 0), tensor(call, 1), call->args[2].at.i);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT16, FACULA_FLOAT64}) {
    if (level < 2 && dtype != FACULA_FLOAT32 && dtype != FACULA_BFLOAT16) continue;
    for (int kind = 0; kind < 4; ++kind) {
      const int widest = itemsize(dtype);
      for (const int64_t length : {64, 1024, 100000}) {
        for (const int vec : {1, 16 / widest}) {
          add(source(kind, dtype, dtype, dtype, row_form(length, vec, (kind < 2 ? 32 : 16) * 4 / std::max(4, widest))));
        }
      }
    }
  }
}
const ListsSources lists(list);

const Registers registers{
    {"softmax", forward<0>},
    {"log_softmax", forward<1>},
    {"softmax_backward", backward<2>},
    {"log_softmax_backward", backward<3>},
};

}  // namespace

}  // namespace facula::cuda
