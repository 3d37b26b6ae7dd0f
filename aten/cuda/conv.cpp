// Convolution by a kernel of our own.
#include <algorithm>

#include "kernels.h"
#include "walk.h"
#include "warm.h"

namespace facula::cuda {

namespace {

KernelSource source(int32_t dtype, bool transposed) {
  return file_kernel("conv.cu", "facula_conv",
                     std::string("using S = ") + element_type(dtype) + ";\nusing T = " + compute_type(dtype) +
                         ";\n#define FACULA_TRANSPOSED " + (transposed ? "1" : "0") + "\n");
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out)
int32_t convolution(void*, const FaculaCall* call) {
  const FaculaTensor &in = tensor(call, 0), &weight = tensor(call, 1), &out = result(call);
  const int dims = in.ndim - 2;
  if (out.numel == 0) return FACULA_OK;
  if (dims < 1 || dims > 3 || in.dtype != out.dtype || weight.dtype != out.dtype || !on_device(in) ||
      !on_device(weight)) {
    return FACULA_NOT_SUPPORTED;
  }
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const bool transposed = call->args[6].at.i != 0;
  const FaculaTensor* const bias = absent(call, 2) ? nullptr : &tensor(call, 2);
  if (bias != nullptr && (bias->dtype != out.dtype || !on_device(*bias))) return FACULA_NOT_SUPPORTED;
  KernelKey key;
  key.name = "conv.cu";
  key.bits[0] = static_cast<uint64_t>(in.dtype) | static_cast<uint64_t>(transposed) << 8;
  Kernel* kernel = nullptr;
  FACULA_TRY(find_kernel(*device, key, [&] { return source(in.dtype, transposed); }, &kernel));
  Params params;
  params.put(in.data);
  params.put(weight.data);
  params.put(bias != nullptr ? bias->data : nullptr);
  params.put(out.data);
  for (const int64_t n : {out.numel, in.sizes[1], out.sizes[1], call->args[8].at.i}) params.put(n);
  // fewer dims are the last ones of three
  const auto three = [&](const int64_t* values, int64_t missing) {
    for (int d = 0; d < 3; ++d) params.put(d < 3 - dims ? missing : values[d - (3 - dims)]);
  };
  three(in.sizes + 2, 1);
  three(out.sizes + 2, 1);
  three(weight.sizes + 2, 1);
  three(call->args[3].at.ints, 1);
  three(call->args[4].at.ints, 0);
  three(call->args[5].at.ints, 1);
  const int64_t size = itemsize(in.dtype);
  for (const FaculaTensor* t : {&in, &weight, &out}) {
    for (int d = 0; d < 5; ++d) {
      const int own = d < 2 ? d : d - (3 - dims);
      params.put(d < 2 || own >= 2 ? t->strides[own] * size : int64_t{0});
    }
  }
  params.put(bias != nullptr ? bias->strides[0] * size : int64_t{0});
  void* arguments[] = {params.data()};
  return launch(*device, *kernel, grid_for(*device, out.numel, 256), {256}, 0, call->stream, arguments);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  if (level == 0) return;
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT16, FACULA_FLOAT64, FACULA_COMPLEX64}) {
    if (level == 1 && dtype != FACULA_FLOAT32) continue;
    for (const bool transposed : {false, true}) add(source(dtype, transposed));
  }
}
const ListsSources lists(list);

const Registers registers{{"convolution", convolution}};

}  // namespace

}  // namespace facula::cuda
