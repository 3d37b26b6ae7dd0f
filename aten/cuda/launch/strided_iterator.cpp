#include "launch/strided_iterator.h"

#include <algorithm>

#include "ops/pointwise.h"

namespace facula::cuda {

StridedDims make_strided(int ndim, const int64_t* sizes, const int64_t* const* strides, const int* itemsizes,
                         int operands) {
  StridedDims w;
  for (int d = 0; d < ndim; ++d) {
    w.count *= sizes[d];
    if (sizes[d] == 1) continue;
    int64_t now[6];
    for (int k = 0; k < operands; ++k) now[k] = strides[k] != nullptr ? strides[k][d] * itemsizes[k] : 0;
    bool joins = w.ndim > 0;
    for (int k = 0; joins && k < operands; ++k) joins = w.strides[k][w.ndim - 1] == now[k] * sizes[d];
    if (joins) {
      w.sizes[w.ndim - 1] *= sizes[d];
    } else {
      w.sizes[w.ndim++] = sizes[d];
    }
    for (int k = 0; k < operands; ++k) w.strides[k][w.ndim - 1] = now[k];
  }
  return w;
}

bool put_strided(Params& params, const StridedDims& w, int operands) {
  if (w.ndim > kMaxKernelDims) return false;
  params.put(w.count);
  params.put(static_cast<int64_t>(w.ndim));
  for (int d = 0; d < kMaxKernelDims; ++d) params.put(d < w.ndim ? w.sizes[d] : int64_t{1});
  for (int k = 0; k < operands; ++k) {
    for (int d = 0; d < kMaxKernelDims; ++d) params.put(d < w.ndim ? w.strides[k][d] : int64_t{0});
  }
  return true;
}

Grid grid_for(const Device& device, int64_t n, int threads) {
  const int64_t blocks = ceil_div(n, threads), most = int64_t{device.processors} * 16;
  return {static_cast<unsigned>(std::clamp<int64_t>(blocks, 1, most))};
}

namespace {

FaculaTensor block_like(const FaculaTensor& t, void* data, int32_t dtype, int64_t* strides) {
  FaculaTensor b = t;
  int64_t step = 1;
  for (int d = t.ndim - 1; d >= 0; --d) {
    strides[d] = step;
    step *= t.sizes[d];
  }
  b.data = data;
  b.dtype = dtype;
  b.strides = strides;
  b.flags = FACULA_CONTIGUOUS;
  return b;
}

int category(int32_t dtype) { return is_complex(dtype) ? 3 : is_floating(dtype) ? 2 : dtype == FACULA_BOOL ? 0 : 1; }

}  // namespace

int32_t copy_between(const FaculaTensor& to, const FaculaTensor& from, int32_t index, void* stream) {
  const int32_t wide = category(from.dtype) >= category(to.dtype) ? from.dtype : to.dtype;
  FaculaPointwise call{};
  call.op = "copy";
  call.variant = "";
  call.ins = &from;
  call.outs = &to;
  call.nins = call.nouts = 1;
  call.compute = wide == FACULA_FLOAT16 || wide == FACULA_BFLOAT16 ? int32_t{FACULA_FLOAT32} : wide;
  call.index = index;
  call.stream = stream;
  return pointwise(nullptr, &call);
}

int32_t dense(const FaculaTensor& t, Scratch& scratch, int32_t index, void* stream, const void** data, int32_t dtype) {
  if (dtype < 0) dtype = t.dtype;
  if ((t.flags & FACULA_CONTIGUOUS) != 0 && dtype == t.dtype && t.index >= 0) {
    *data = t.data;
    return FACULA_OK;
  }
  FACULA_TRY(
      scratch.allocate(static_cast<size_t>(std::max<int64_t>(t.numel, 1)) * static_cast<size_t>(itemsize(dtype))));
  int64_t strides[kMaxTensorDims];
  const FaculaTensor block = block_like(t, scratch.data(), dtype, strides);
  *data = scratch.data();
  return copy_between(block, t, index, stream);
}

int32_t write_back(const FaculaTensor& t, const void* data, int32_t dtype, int32_t index, void* stream) {
  int64_t strides[kMaxTensorDims];
  const FaculaTensor block = block_like(t, const_cast<void*>(data), dtype, strides);
  return copy_between(t, block, index, stream);
}

}  // namespace facula::cuda
