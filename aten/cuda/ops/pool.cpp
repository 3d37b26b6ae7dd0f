// Largest values of windows, and their gradient.
#include <algorithm>

#include "launch/kernels.h"
#include "launch/strided_iterator.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

KernelSource source(const char* entry, int32_t dtype, int32_t index, bool last, int vec, bool wide) {
  return file_kernel("pool.cu", entry,
                     std::string("using S = ") + element_type(dtype) + ";\nusing T = " + compute_type(dtype) +
                         ";\nusing X = " + element_type(index) + ";\n#define FACULA_LAST " + (last ? "1" : "0") +
                         "\n#define FACULA_VEC " + std::to_string(vec) + "\n#define FACULA_WIDE " + (wide ? "1" : "0") +
                         "\n");
}

// Windows of the last one to three dims of (C, ...) or (N, C, ...); without the taps that no window has inside the
// image.
struct Windows {
  int lead = 0, dims = 0;
  int64_t kernel[3], stride[3], padding[3], dilation[3];
  bool known = false;
  Windows(const FaculaCall* call, int first, const FaculaTensor& wide, const FaculaTensor& narrow) {
    const FaculaValue* const values = &call->args[first];
    dims = values->count;
    lead = wide.ndim - dims;
    known = dims >= 1 && dims <= 3 && (lead == 1 || lead == 2);
    for (int d = 0; known && d < dims; ++d) {
      const int64_t in = wide.sizes[lead + d], last = narrow.sizes[lead + d] - 1;
      dilation[d] = values[3].at.ints[d];
      stride[d] = last > 0 ? values[1].at.ints[d] : 1;  // one window does not move
      // of tap k of window o: o * stride + k * dilation - padding; the rule of the shape has made sure that it fits
      const int64_t margin = values[2].at.ints[d], moved = std::max<int64_t>(last, 0) * stride[d];
      const int64_t low = margin > moved ? (margin - moved) / dilation[d] : 0;
      const int64_t high = std::min(values[0].at.ints[d] - 1, std::max<int64_t>(in - 1 + margin, 0) / dilation[d]);
      kernel[d] = std::max<int64_t>(high - low, 0) + 1;
      padding[d] = margin - low * dilation[d];
    }
  }
};

// Five steps of a tensor: batch, channel, three dims.
void put_steps(Params& params, const FaculaTensor* t, const Windows& w) {
  for (int d = 0; d < 5; ++d) {
    const int own = d < 2 ? d - (2 - w.lead) : w.lead + d - 2 - (3 - w.dims);
    const bool has = t != nullptr && own >= 0 && (d < 2 || own >= w.lead);
    params.put(has ? t->strides[own] : int64_t{0});
  }
}

bool channels_fastest(const FaculaTensor& t, const Windows& w) {
  const int channel = w.lead - 1;
  return t.sizes[channel] > 1 && t.strides[channel] == 1 && (t.flags & FACULA_CONTIGUOUS) == 0;
}

// `vec` channels of any pixel are one access of memory.
bool side_by_side(const FaculaTensor& t, const Windows& w, int vec) {
  if (t.strides[w.lead - 1] != 1) return false;
  const int64_t bytes = int64_t{vec} * itemsize(t.dtype);
  if (reinterpret_cast<uintptr_t>(t.data) % static_cast<uintptr_t>(std::min<int64_t>(bytes, 16)) != 0) return false;
  for (int d = 0; d < t.ndim; ++d) {
    if (d != w.lead - 1 && t.sizes[d] != 1 && t.strides[d] % vec != 0) return false;
  }
  return true;
}

struct Pool {
  const FaculaTensor *wide, *narrow;  // the image, and what the windows make of it
  const FaculaTensor *in, *out, *indices;
};

int32_t run(const Device& device, void* stream, bool backward, const Pool& x, const Windows& w) {
  const FaculaTensor& over = backward ? *x.wide : *x.narrow;
  if (over.numel == 0) return FACULA_OK;
  const bool last = channels_fastest(over, w);
  // channels side by side, whole vectors of them
  int vec = 1;
  const int64_t channels = over.sizes[w.lead - 1];
  if (last) {
    vec = 16 / itemsize(x.in->dtype);
    for (const FaculaTensor* t : {x.in, x.out, x.indices}) {
      if (t == nullptr) continue;
      while (vec > 1 && !side_by_side(*t, w, vec)) vec /= 2;
    }
    while (channels % vec != 0) vec /= 2;
  }
  const bool wide = std::max(x.wide->numel, x.narrow->numel) >= int64_t{1} << 31;
  const int32_t dtype = x.in->dtype, index = x.indices != nullptr ? x.indices->dtype : int32_t{FACULA_INT32};
  const char* const entry = backward ? "facula_max_pool_backward" : "facula_max_pool";
  KernelKey key;
  key.name = "pool.cu";
  key.bits[0] = static_cast<uint64_t>(dtype) | static_cast<uint64_t>(index) << 8 | static_cast<uint64_t>(last) << 16 |
                static_cast<uint64_t>(wide) << 17 | static_cast<uint64_t>(backward) << 18 |
                static_cast<uint64_t>(vec) << 20;
  Kernel* kernel = nullptr;
  FACULA_TRY(find_kernel(device, key, [&] { return source(entry, dtype, index, last, vec, wide); }, &kernel));
  Params params;
  params.put(x.in->data);
  params.put(x.out != nullptr ? x.out->data : nullptr);
  params.put(x.indices != nullptr ? x.indices->data : nullptr);
  params.put(over.numel / vec);
  params.put(channels);
  const auto three = [&](const int64_t* values, int64_t missing) {
    for (int d = 0; d < 3; ++d) {
      params.put(static_cast<int32_t>(d < 3 - w.dims ? missing : values[d - (3 - w.dims)]));
    }
  };
  three(x.wide->sizes + w.lead, 1);
  three(x.narrow->sizes + w.lead, 1);
  three(w.kernel, 1);
  three(w.stride, 1);
  three(w.padding, 0);
  three(w.dilation, 1);
  put_steps(params, x.in, w);
  put_steps(params, x.out, w);
  put_steps(params, x.indices, w);
  void* arguments[] = {params.data()};
  return launch(device, *kernel, grid_for(device, over.numel / vec, 256), {256}, 0, stream, arguments);
}

bool fits(const FaculaTensor& wide, const FaculaTensor& narrow, const Windows& w) {
  if (!w.known || !is_floating(wide.dtype) || narrow.dtype != wide.dtype || !on_device(wide) || !on_device(narrow)) {
    return false;
  }
  double spatial = 1;
  for (int d = 0; d < w.dims; ++d) {
    const auto in = static_cast<double>(wide.sizes[w.lead + d]), out = static_cast<double>(narrow.sizes[w.lead + d]);
    spatial *= in;
    const double reach = in + static_cast<double>(w.padding[d]) + out * static_cast<double>(w.stride[d]) +
                         static_cast<double>(w.kernel[d]) * static_cast<double>(w.dilation[d]);
    // a thread has no more taps than there are places, nearly
    if (reach >= 0x1p31 || static_cast<double>(w.kernel[d]) > 4 * (in + out) + 64) return false;
  }
  return spatial < 0x1p31;
}

// max_pool(input, kernel_size, stride, padding, dilation, ceil_mode, output), max_pool_with_indices(..., indices)
int32_t forward(void*, const FaculaCall* call) {
  const FaculaTensor &in = tensor(call, 0), &out = result(call, 0);
  const Windows w(call, 1, in, out);
  if (!fits(in, out, w)) return FACULA_NOT_SUPPORTED;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const FaculaTensor* const indices = call->nouts > 1 ? &result(call, 1) : nullptr;
  return run(*device, call->stream, false, {&in, &out, &in, &out, indices}, w);
}

// max_pool_backward(grad, input, kernel_size, stride, padding, dilation, ceil_mode, grad_input)
int32_t backward(void*, const FaculaCall* call) {
  const FaculaTensor &grad = tensor(call, 0), &in = tensor(call, 1), &out = result(call);
  const Windows w(call, 2, in, grad);
  if (!fits(in, grad, w) || out.dtype != in.dtype) return FACULA_NOT_SUPPORTED;
  if (in.numel == 0) return FACULA_OK;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  // places of the largest, laid out like the gradient where that is dense in some order
  Scratch scratch(call->index, call->stream);
  FACULA_TRY(scratch.allocate(static_cast<size_t>(std::max<int64_t>(grad.numel, 1)) * 4));
  FaculaTensor places = grad;
  int64_t strides[kMaxTensorDims];
  const bool last = channels_fastest(in, w);
  int64_t step = last ? grad.sizes[w.lead - 1] : 1;
  for (int d = grad.ndim - 1; d >= 0; --d) {
    if (last && d == w.lead - 1) continue;
    strides[d] = step;
    step *= grad.sizes[d];
  }
  if (last) strides[w.lead - 1] = 1;
  places.data = scratch.data();
  places.dtype = FACULA_INT32;
  places.strides = strides;
  places.flags = last ? 0 : uint32_t{FACULA_CONTIGUOUS};
  FACULA_TRY(run(*device, call->stream, false, {&in, &places, &in, nullptr, &places}, w));
  FaculaTensor image = in;
  image.strides = out.strides;
  image.flags = out.flags;
  return run(*device, call->stream, true, {&image, &grad, &grad, &out, &places}, w);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT16, FACULA_FLOAT64}) {
    if (level < 1 && dtype != FACULA_FLOAT32 && dtype != FACULA_BFLOAT16) continue;
    for (const bool last : {false, true}) {
      const int vec = last ? 16 / itemsize(dtype) : 1;
      add(source("facula_max_pool", dtype, FACULA_INT32, last, vec, false));
      add(source("facula_max_pool_backward", dtype, FACULA_INT32, last, vec, false));
      if (level > 0) add(source("facula_max_pool", dtype, FACULA_INT64, last, vec, false));
    }
  }
}
const ListsSources lists(list);

const Registers registers{{"max_pool", forward}, {"max_pool_with_indices", forward}, {"max_pool_backward", backward}};

}  // namespace

}  // namespace facula::cuda
