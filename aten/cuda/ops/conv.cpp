// Convolution and its gradients: by cuDNN, and by a kernel of our own where it has no plan.
#include <algorithm>
#include <array>

#include "libs/cudnn.h"
#include "launch/kernels.h"
#include "ops/pointwise.h"
#include "ops/reduction.h"
#include "launch/strided_iterator.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

KernelSource source(int32_t dtype, bool transposed) {
  return file_kernel("conv.cu", "facula_conv",
                     std::string("using S = ") + element_type(dtype) + ";\nusing T = " + compute_type(dtype) +
                         ";\n#define FACULA_TRANSPOSED " + (transposed ? "1" : "0") + "\n");
}

// ---- cuDNN ----

// The three tensors of a convolution: `narrow` is what it makes of `wide`, (N, C, ...) both; a transposed
// one goes the other way.
struct Tensors {
  const FaculaTensor *wide, *weight, *narrow;
  const FaculaTensor* of(ConvolutionResult r) const {
    return r == ConvolutionResult::kWide ? wide : r == ConvolutionResult::kWeight ? weight : narrow;
  }
};
struct Window {
  const int64_t *stride, *padding, *dilation;
  int dims;
  explicit Window(const FaculaCall* call, int first, int dims)
      : stride(call->args[first].at.ints),
        padding(call->args[first + 1].at.ints),
        dilation(call->args[first + 2].at.ints),
        dims(dims) {}
};

constexpr int kMaxImageDims = 5;  // dims of an image in a batch

// Dense strides, channels within pixels or before them.
void dense_strides(int ndim, const int64_t* sizes, bool within, int64_t* strides) {
  int64_t step = within ? sizes[1] : 1;
  for (int d = ndim - 1; d >= 2; --d) {
    strides[d] = step;
    step *= sizes[d];
  }
  strides[1] = within ? 1 : step;
  strides[0] = within ? step : step * sizes[1];
}

// Lies as `strides` say and where cuDNN can read whole vectors.
bool lies(const FaculaTensor& t, const int64_t* strides) {
  if (!on_device(t) || reinterpret_cast<uintptr_t>(t.data) % 16 != 0) return false;
  for (int d = 0; d < t.ndim; ++d) {
    if (t.sizes[d] != 1 && t.strides[d] != strides[d]) return false;
  }
  return true;
}

// A tensor in a layout: itself, or a block of memory for it.
struct Laid {
  FaculaTensor block;
  int64_t strides[kMaxImageDims];
  bool moved = false;
  Scratch scratch;
  Laid(int32_t index, void* stream) : scratch(index, stream) {}
  int32_t lay(const FaculaTensor& t, bool within) {
    dense_strides(t.ndim, t.sizes, within, strides);
    block = t;
    if (lies(t, strides)) return FACULA_OK;
    moved = true;
    FACULA_TRY(scratch.allocate(static_cast<size_t>(t.numel) * static_cast<size_t>(itemsize(t.dtype))));
    block.data = scratch.data();
    block.strides = strides;
    block.flags = within ? 0 : uint32_t{FACULA_CONTIGUOUS};
    return FACULA_OK;
  }
};

Plan convolution_plan(const Device& device, ConvolutionResult wanted, const Tensors& x, const Window& w, bool within) {
  const int32_t dtype = x.wide->dtype;
  const int type = graph_type(dtype);
  const int compute = dtype == FACULA_FLOAT64 ? kGraphDouble : kGraphFloat;
  Graph g;
  // images of one dim are those of two with one row
  const bool line = w.dims == 1;
  const auto operand = [&](const FaculaTensor& t) {
    int64_t sizes[kMaxImageDims], strides[kMaxImageDims];
    int n = 0;
    for (int d = 0; d < t.ndim; ++d) {
      if (line && d == 2) sizes[n++] = 1;
      sizes[n++] = t.sizes[d];
    }
    dense_strides(n, sizes, within, strides);
    const auto count = static_cast<size_t>(n);
    return g.tensor(type, {sizes, count}, {strides, count});
  };
  const auto spatial = [&](const int64_t* values, int64_t missing) {
    std::vector<int64_t> v(values, values + w.dims);
    if (line) v.insert(v.begin(), missing);
    return v;
  };
  const int wide = operand(*x.wide), weight = operand(*x.weight), narrow = operand(*x.narrow);
  g.convolution(wanted, compute, wide, weight, narrow, spatial(w.stride, 1), spatial(w.padding, 0),
                spatial(w.dilation, 1));
  return make_plan(device, g, dtype == FACULA_FLOAT32 && !tf32_allowed());
}

int32_t library_convolution(const Device& device, void* stream, ConvolutionResult wanted, const Tensors& x,
                            const Window& w) {
  const int32_t dtype = x.wide->dtype;
  if (graph_type(dtype) < 0 || x.wide->numel == 0 || x.narrow->numel == 0) return FACULA_NOT_SUPPORTED;
  // Margins far beyond the image are not for the library's workspaces and 32-bit places.
  for (int d = 0; d < w.dims; ++d) {
    constexpr int64_t kMany = int64_t{1} << 30;
    if (w.padding[d] > 4 * x.wide->sizes[d + 2] + 4096 || w.stride[d] > kMany || w.dilation[d] > kMany) {
      return FACULA_NOT_SUPPORTED;
    }
  }
  int64_t strides[kMaxImageDims];
  bool any_within = false;
  for (const FaculaTensor* t : {x.wide, x.narrow}) {
    dense_strides(t->ndim, t->sizes, true, strides);
    any_within = any_within || ((t->flags & FACULA_CONTIGUOUS) == 0 && lies(*t, strides));
  }
  // matrix units want the channels side by side
  const bool half = dtype == FACULA_FLOAT16 || dtype == FACULA_BFLOAT16, first = half || any_within;
  for (const bool within : {first, !first}) {
    int64_t key[3 * kMaxImageDims + 3 * 3 + 3];
    size_t n = 0;
    key[n++] = static_cast<int64_t>(wanted);
    key[n++] = dtype;
    key[n++] = within;
    for (const FaculaTensor* t : {x.wide, x.weight, x.narrow})
      n = static_cast<size_t>(std::copy_n(t->sizes, t->ndim, key + n) - key);
    for (const int64_t* v : {w.stride, w.padding, w.dilation})
      n = static_cast<size_t>(std::copy_n(v, w.dims, key + n) - key);
    const PlanData* const plan = find_plan(device, std::string(reinterpret_cast<const char*>(key), n * sizeof(int64_t)),
                                           [&] { return convolution_plan(device, wanted, x, w, within); });
    if (plan == nullptr) continue;
    Laid laid[3] = {{device.index, stream}, {device.index, stream}, {device.index, stream}};
    const FaculaTensor* const given[3] = {x.wide, x.weight, x.narrow};
    void* places[3];
    for (int i = 0; i < 3; ++i) {
      FACULA_TRY(laid[i].lay(*given[i], within));
      const bool read = given[i] != x.of(wanted);
      if (read && laid[i].moved) FACULA_TRY(copy_between(laid[i].block, *given[i], device.index, stream));
      places[i] = laid[i].block.data;
    }
    FACULA_TRY(run_plan(device, *plan, std::array{0, 1, 2}, places, stream));
    for (int i = 0; i < 3; ++i) {
      if (given[i] == x.of(wanted) && laid[i].moved) {
        FACULA_TRY(copy_between(*given[i], laid[i].block, device.index, stream));
      }
    }
    return FACULA_OK;
  }
  return FACULA_NOT_SUPPORTED;
}

// out += bias, one number a channel.
int32_t add_bias(const FaculaTensor& out, const FaculaTensor& bias, int32_t index, void* stream) {
  FaculaTensor spread = bias;
  int64_t strides[kMaxImageDims] = {};
  strides[1] = bias.strides[0];
  spread.ndim = out.ndim;
  spread.sizes = out.sizes;
  spread.strides = strides;
  spread.numel = out.numel;
  spread.flags = 0;
  const FaculaTensor ins[] = {out, spread};
  FaculaValue one{};
  one.kind = FACULA_INT;
  one.at.i = 1;
  FaculaPointwise call{};
  call.op = "add";
  call.variant = "";
  call.ins = ins;
  call.outs = &out;
  call.values = &one;
  call.nins = 2;
  call.nouts = call.nvalues = 1;
  call.compute = out.dtype == FACULA_FLOAT64 ? FACULA_FLOAT64 : FACULA_FLOAT32;
  call.index = index;
  call.stream = stream;
  return pointwise(nullptr, &call);
}

// The sum of each channel.
int32_t sum_channels(const FaculaTensor& grad, const FaculaTensor& out, int32_t index, void* stream) {
  int64_t sizes[kMaxImageDims], strides[kMaxImageDims];
  FaculaTensor turned = grad;
  turned.sizes = sizes;
  turned.strides = strides;
  for (int d = 0; d < grad.ndim; ++d) {
    const int from = d == 0 ? 1 : d == 1 ? 0 : d;
    sizes[d] = grad.sizes[from];
    strides[d] = grad.strides[from];
  }
  turned.flags &= ~uint32_t{FACULA_CONTIGUOUS};
  FaculaReduction call{};
  call.op = "sum";
  call.in = &turned;
  call.out = &out;
  call.nreduced = grad.ndim - 1;
  call.compute = out.dtype == FACULA_FLOAT64 ? FACULA_FLOAT64 : FACULA_FLOAT32;
  call.index = index;
  call.stream = stream;
  return reduction(nullptr, &call);
}

// ---- the operators ----

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
  const Tensors tensors = transposed ? Tensors{&out, &weight, &in} : Tensors{&in, &weight, &out};
  const int32_t status =
      library_convolution(*device, call->stream, transposed ? ConvolutionResult::kWide : ConvolutionResult::kNarrow,
                          tensors, Window(call, 3, dims));
  if (status == FACULA_OK && bias != nullptr) return add_bias(out, *bias, call->index, call->stream);
  if (status != FACULA_NOT_SUPPORTED) return status;
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

// convolution_backward(grad, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, mask,
// grad_input, grad_weight, grad_bias); its formula over convolutions serves where cuDNN does not.
int32_t convolution_backward(void*, const FaculaCall* call) {
  const FaculaTensor &grad = tensor(call, 0), &in = tensor(call, 1), &weight = tensor(call, 2);
  const int dims = in.ndim - 2;
  if (dims < 1 || dims > 3 || grad.dtype != in.dtype || weight.dtype != in.dtype) return FACULA_NOT_SUPPORTED;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const bool transposed = call->args[7].at.i != 0;
  const int64_t* const needed = call->args[10].at.ints;
  const Window window(call, 4, dims);
  const auto run = [&](ConvolutionResult wanted, const FaculaTensor& input, const FaculaTensor& kernel) {
    return library_convolution(*device, call->stream, wanted,
                               transposed ? Tensors{&grad, &kernel, &input} : Tensors{&input, &kernel, &grad}, window);
  };
  if (needed[0] != 0) {
    FACULA_TRY(run(transposed ? ConvolutionResult::kNarrow : ConvolutionResult::kWide, result(call, 0), weight));
  }
  if (needed[1] != 0) FACULA_TRY(run(ConvolutionResult::kWeight, in, result(call, 1)));
  if (needed[2] != 0 && has_result(call, 2) && result(call, 2).numel > 0) {
    return sum_channels(grad, result(call, 2), call->index, call->stream);
  }
  return FACULA_OK;
}

void list(int level, const std::function<void(KernelSource)>& add) {
  if (level == 0) return;
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT16, FACULA_FLOAT64, FACULA_COMPLEX64}) {
    if (level == 1 && dtype != FACULA_FLOAT32) continue;
    for (const bool transposed : {false, true}) add(source(dtype, transposed));
  }
}
const ListsSources lists(list);

const Registers registers{{"convolution", convolution}, {"convolution_backward", convolution_backward}};

}  // namespace

}  // namespace facula::cuda
