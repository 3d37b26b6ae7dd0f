// The largest or smallest elements of rows; see kernels/topk.cu.
#include <algorithm>

#include "launch/kernels.h"
#include "ops/sort.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

constexpr int kThreads = 512;

KernelSource source(int32_t dtype, int room) {
  return file_kernel("topk.cu", "facula_topk",
                     sort_keys(dtype, kThreads) + "#define FACULA_ROOM " + std::to_string(room) + "\n");
}

// topk(self, k, dim, largest, sorted, values, indices); sorting serves where k is large or rows are few and long.
int32_t topk(void*, const FaculaCall* call) {
  const FaculaTensor &self = tensor(call, 0), &values = result(call, 0), &indices = result(call, 1);
  const int64_t k = call->args[1].at.i;
  if (values.numel == 0) return FACULA_OK;
  if (self.ndim == 0 || is_complex(self.dtype) || !on_device(self) || k > 1024) return FACULA_NOT_SUPPORTED;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const int dim = wrapped_dim(call->args[2].at.i, self);
  const int64_t length = self.sizes[dim], rows = self.numel / length;
  if (length >= int64_t{1} << 31 || (length > 1 << 18 && rows * 4 < device->processors)) return FACULA_NOT_SUPPORTED;
  int64_t sizes[kMaxTensorDims];
  std::copy_n(self.sizes, self.ndim, sizes);
  sizes[dim] = 1;
  const int64_t* strides[] = {self.strides, values.strides, indices.strides};
  const int size = itemsize(self.dtype), items[] = {size, size, 8};
  const StridedDims iterator = make_strided(self.ndim, sizes, strides, items, 3);
  const int room = k <= 64 ? 64 : k <= 256 ? 256 : 1024;
  KernelKey key;
  key.name = "topk.cu";
  key.bits[0] = static_cast<uint64_t>(self.dtype) | static_cast<uint64_t>(room) << 8;
  Kernel* kernel = nullptr;
  FACULA_TRY(find_kernel(*device, key, [&] { return source(self.dtype, room); }, &kernel));
  Params params;
  params.put(self.data);
  params.put(values.data);
  params.put(indices.data);
  for (const int64_t n : {rows, length, k, static_cast<int64_t>(call->args[3].at.i != 0), self.strides[dim] * size,
                          values.strides[dim] * size, indices.strides[dim] * 8}) {
    params.put(n);
  }
  if (!put_strided(params, iterator, 3)) return FACULA_NOT_SUPPORTED;
  void* arguments[] = {params.data()};
  return launch(*device, *kernel, {static_cast<unsigned>(std::min<int64_t>(rows, 65535))}, {kThreads}, 0, call->stream,
                arguments);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_INT64, FACULA_FLOAT64, FACULA_INT32,
                              FACULA_FLOAT16, FACULA_UINT8, FACULA_INT8, FACULA_INT16}) {
    if (level < 2 && dtype != FACULA_FLOAT32 && dtype != FACULA_BFLOAT16) continue;
    for (const int room : {64, 256, 1024}) {
      if (level < 2 && room != 64) continue;
      add(source(dtype, room));
    }
  }
}
const ListsSources lists(list);

const Registers registers{{"topk", topk}};

}  // namespace

}  // namespace facula::cuda
