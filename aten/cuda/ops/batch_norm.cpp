// Normalisation of channels by their mean and variance, and the gradients.
#include <algorithm>
#include <bit>

#include "launch/kernels.h"
#include "launch/strided_iterator.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

struct Form {
  int vec = 1, lanes = 0;  // lanes 0: channels are planes
};

KernelSource source(const char* entry, bool backward, int32_t in, int32_t weight, int32_t given, const Form& f) {
  return file_kernel("batch_norm.cu", entry,
                     std::string("using I = ") + element_type(in) + ";\nusing W = " + element_type(weight) +
                         ";\nusing M = " + element_type(given) +
                         ";\nusing T = " + (in == FACULA_FLOAT64 ? "double" : "float") + ";\n#define FACULA_KIND " +
                         (backward ? "1" : "0") + "\n#define FACULA_VEC " + std::to_string(f.vec) +
                         "\n#define FACULA_LANES " + std::to_string(f.lanes) + "\n");
}

struct Channels {
  const void *in = nullptr, *grad = nullptr, *weight = nullptr, *bias = nullptr, *mean = nullptr, *var = nullptr;
  void *out = nullptr, *out_mean = nullptr, *out_var = nullptr, *out_weight = nullptr, *out_bias = nullptr;
  int64_t outer = 0, channels = 0, inner = 0;
  bool training = false, backward = false, within = false, sums = true;
  double eps = 0;
  int32_t dtype = 0, weight_dtype = 0, given_dtype = FACULA_FLOAT32;
};

int32_t run(const Device& device, int32_t index, void* stream, const Channels& x) {
  Form f;
  const int size = itemsize(x.dtype);
  const int64_t line = x.within ? x.channels : x.inner;
  uintptr_t places = 0;
  for (const void* p : {x.in, x.grad, static_cast<const void*>(x.out)}) places |= reinterpret_cast<uintptr_t>(p);
  for (f.vec = 16 / size; f.vec > 1 && (line % f.vec != 0 || places % 16 != 0); f.vec /= 2) {
  }
  int64_t tiles = x.channels;
  if (x.within) {
    f.lanes = static_cast<int>(std::min<uint64_t>(32, std::bit_ceil(static_cast<uint64_t>(x.channels / f.vec))));
    tiles = ceil_div(x.channels, f.lanes * f.vec);
  }
  // rows, or vectors of planes, that a block takes at a time
  const int64_t steps = x.within ? ceil_div(x.outer, 256 / f.lanes) : ceil_div(x.outer * (x.inner / f.vec), 256);
  const int64_t parts =
      std::clamp<int64_t>(int64_t{device.processors} * 8 / tiles, 1, std::clamp<int64_t>(steps / 4, 1, 65535));
  const size_t width = x.dtype == FACULA_FLOAT64 ? 8 : 4;
  Scratch scratch(index, stream);
  FACULA_TRY(scratch.allocate(static_cast<size_t>((3 * parts + 4) * x.channels) * width));
  Params params;
  for (const void* p : {x.in, x.grad, x.weight, x.bias, x.mean, x.var}) params.put(p);
  for (void* p : {x.out, x.out_mean, x.out_var, x.out_weight, x.out_bias}) params.put(p);
  params.put(scratch.data());
  params.put(scratch.data() + static_cast<size_t>(3 * parts * x.channels) * width);
  for (const int64_t n : {x.outer, x.channels, x.inner, x.sums ? parts : 0, static_cast<int64_t>(x.training)}) {
    params.put(n);
  }
  params.put(x.eps);
  void* arguments[] = {params.data()};
  const auto find = [&](const char* entry, int number, Kernel** out) {
    KernelKey key;
    key.name = "batch_norm.cu";
    key.bits[0] = static_cast<uint64_t>(number) | static_cast<uint64_t>(x.backward) << 4 |
                  static_cast<uint64_t>(f.vec) << 8 | static_cast<uint64_t>(f.lanes) << 16;
    key.bits[1] = static_cast<uint64_t>(x.dtype) | static_cast<uint64_t>(x.weight_dtype) << 8 |
                  static_cast<uint64_t>(x.given_dtype) << 16;
    return find_kernel(
        device, key, [&] { return source(entry, x.backward, x.dtype, x.weight_dtype, x.given_dtype, f); }, out);
  };
  const auto across = static_cast<unsigned>(tiles), down = static_cast<unsigned>(parts);
  Kernel* kernel = nullptr;
  if (x.sums) {
    FACULA_TRY(find("facula_batch_sums", 0, &kernel));
    FACULA_TRY(launch(device, *kernel, {across, down}, {256}, 0, stream, arguments));
  }
  FACULA_TRY(find("facula_batch_finish", 1, &kernel));
  FACULA_TRY(launch(device, *kernel, {static_cast<unsigned>(x.channels)}, {64}, 0, stream, arguments));
  if (x.out == nullptr) return FACULA_OK;
  FACULA_TRY(find("facula_batch_apply", 2, &kernel));
  const int64_t elements = x.outer * x.channels * x.inner / f.vec;
  return launch(device, *kernel, x.within ? Grid{across, down} : grid_for(device, elements, 256), {256}, 0, stream,
                arguments);
}

// An image as rows of channels where it lies so, else as planes; copied when it lies otherwise.
bool lies_within(const FaculaTensor& t) {
  if (t.ndim < 3) return true;
  int64_t step = t.sizes[1];
  if (t.sizes[1] != 1 && t.strides[1] != 1) return false;
  for (int d = t.ndim - 1; d != 1; d = d == 2 ? 0 : d - 1) {
    if (t.sizes[d] != 1 && t.strides[d] != step) return false;
    step *= t.sizes[d];
    if (d == 0) break;
  }
  return true;
}

int32_t describe(Channels& x, const FaculaTensor& in, const FaculaTensor& like) {
  if (!is_floating(in.dtype) || in.numel == 0 || in.ndim < 2 || !on_device(in)) return FACULA_NOT_SUPPORTED;
  x.dtype = x.weight_dtype = in.dtype;
  x.channels = in.sizes[1];
  x.outer = in.sizes[0];
  x.inner = 1;
  for (int d = 2; d < in.ndim; ++d) x.inner *= in.sizes[d];
  if (in.ndim == 2 && !is_dense(in)) return FACULA_NOT_SUPPORTED;
  x.within = in.ndim == 2 || (!is_dense(like) && lies_within(like));
  if (!x.within && !is_dense(like)) return FACULA_NOT_SUPPORTED;
  if (x.within) {
    x.outer *= x.inner;
    x.inner = 1;
  }
  return FACULA_OK;
}

// Reads a tensor in the layout that was chosen: itself, or a copy.
class Read {
 public:
  Read(const FaculaCall* call) : scratch_(call->index, call->stream), call_(call) {}
  int32_t operator()(const FaculaTensor& t, const FaculaTensor& like, bool within, const void** data) {
    if (on_device(t) && (within ? t.ndim == 2 ? is_dense(t) : lies_within(t) : is_dense(t))) {
      *data = t.data;
      return FACULA_OK;
    }
    FaculaTensor block = like;
    FACULA_TRY(scratch_.allocate(static_cast<size_t>(t.numel) * static_cast<size_t>(itemsize(t.dtype))));
    block.data = scratch_.data();
    block.dtype = t.dtype;
    *data = block.data;
    return copy_between(block, t, call_->index, call_->stream);
  }

 private:
  Scratch scratch_;
  const FaculaCall* call_;
};

// native_batch_norm(input, weight, bias, running_mean, running_var, training, eps, output, mean, var)
int32_t forward(void*, const FaculaCall* call) {
  const FaculaTensor &in = tensor(call, 0), &out = result(call, 0);
  Channels x;
  FACULA_TRY(describe(x, in, out));
  if (out.dtype != in.dtype || !is_dense(result(call, 1)) || !is_dense(result(call, 2))) return FACULA_NOT_SUPPORTED;
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  x.training = call->args[5].at.i != 0;
  x.sums = x.training;
  x.eps = real_of(call->args[6]);
  Read input(call);
  FACULA_TRY(input(in, out, x.within, &x.in));
  Scratch a(call->index, call->stream), b(call->index, call->stream), c(call->index, call->stream),
      d(call->index, call->stream);
  if (!absent(call, 1)) x.weight_dtype = tensor(call, 1).dtype;
  if (absent(call, 1) && !absent(call, 2)) x.weight_dtype = tensor(call, 2).dtype;
  if (!absent(call, 1)) FACULA_TRY(dense(tensor(call, 1), a, call->index, call->stream, &x.weight));
  if (!absent(call, 2)) FACULA_TRY(dense(tensor(call, 2), b, call->index, call->stream, &x.bias, x.weight_dtype));
  if (!x.training) {
    x.given_dtype = tensor(call, 3).dtype;
    FACULA_TRY(dense(tensor(call, 3), c, call->index, call->stream, &x.mean));
    FACULA_TRY(dense(tensor(call, 4), d, call->index, call->stream, &x.var, x.given_dtype));
  }
  if (!is_floating(x.weight_dtype) || !is_floating(x.given_dtype)) return FACULA_NOT_SUPPORTED;
  x.out = out.data;
  x.out_mean = result(call, 1).data;
  x.out_var = result(call, 2).data;
  return run(*device, call->index, call->stream, x);
}

// batch_norm_backward(grad, input, weight, bias, mean, var, training, eps, mask, grad_input, grad_weight, grad_bias)
int32_t backward(void*, const FaculaCall* call) {
  const FaculaTensor &grad = tensor(call, 0), &in = tensor(call, 1);
  const int64_t* const mask = call->args[8].at.ints;
  const bool wants = mask[0] != 0 && result(call, 0).numel > 0;
  Channels x;
  const FaculaTensor& like = wants ? result(call, 0) : in;
  FACULA_TRY(describe(x, in, like));
  if (grad.dtype != in.dtype || (wants && result(call, 0).dtype != in.dtype)) return FACULA_NOT_SUPPORTED;
  for (int i = 1; i < 3; ++i) {
    if (mask[i] != 0 && has_result(call, i) && !is_dense(result(call, i))) return FACULA_NOT_SUPPORTED;
  }
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  x.backward = true;
  x.training = call->args[6].at.i != 0;
  x.eps = real_of(call->args[7]);
  Read input(call), slope(call);
  FACULA_TRY(input(in, like, x.within, &x.in));
  FACULA_TRY(slope(grad, like, x.within, &x.grad));
  Scratch a(call->index, call->stream), b(call->index, call->stream), c(call->index, call->stream);
  if (!absent(call, 2)) {
    x.weight_dtype = tensor(call, 2).dtype;
    FACULA_TRY(dense(tensor(call, 2), a, call->index, call->stream, &x.weight));
  } else if (!absent(call, 3)) {
    x.weight_dtype = tensor(call, 3).dtype;
  }
  if (!is_floating(x.weight_dtype)) return FACULA_NOT_SUPPORTED;
  const int32_t compute = x.dtype == FACULA_FLOAT64 ? FACULA_FLOAT64 : FACULA_FLOAT32;
  FACULA_TRY(dense(tensor(call, 4), b, call->index, call->stream, &x.mean, compute));
  FACULA_TRY(dense(tensor(call, 5), c, call->index, call->stream, &x.var, compute));
  if (wants) x.out = result(call, 0).data;
  const auto put = [&](int i, void** to) {
    if (mask[i] != 0 && has_result(call, i) && result(call, i).numel > 0) *to = result(call, i).data;
  };
  put(1, &x.out_weight);
  put(2, &x.out_bias);
  for (int i = 1; i < 3; ++i) {
    if (mask[i] != 0 && has_result(call, i) && result(call, i).dtype != x.weight_dtype) return FACULA_NOT_SUPPORTED;
  }
  return run(*device, call->index, call->stream, x);
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT16, FACULA_FLOAT64}) {
    if (level < 1 && dtype != FACULA_FLOAT32 && dtype != FACULA_BFLOAT16) continue;
    const int32_t given = dtype == FACULA_FLOAT64 ? FACULA_FLOAT64 : FACULA_FLOAT32;
    for (const Form& f :
         {Form{16 / itemsize(dtype), 32}, Form{16 / itemsize(dtype), 8}, Form{16 / itemsize(dtype), 0}, Form{1, 0}}) {
      for (const bool back : {false, true}) {
        for (const char* entry : {"facula_batch_sums", "facula_batch_finish", "facula_batch_apply"}) {
          add(source(entry, back, dtype, dtype, given, f));
        }
      }
    }
  }
}
const ListsSources lists(list);

const Registers registers{{"native_batch_norm", forward}, {"batch_norm_backward", backward}};

}  // namespace

}  // namespace facula::cuda
