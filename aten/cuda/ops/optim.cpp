// Optimizer steps: many parameters in one kernel.
#include <algorithm>
#include <array>
#include <cmath>

#include "launch/kernels.h"
#include "launch/strided_iterator.h"
#include "launch/precompile.h"

namespace facula::cuda {

namespace {

// As kernels/optim.cu has them; a launch takes at most 4096 bytes of arguments.
constexpr int kTensors = 48;
constexpr int64_t kChunk = 8192;
struct StepTensor {
  void* param;
  const void* grad;
  void *mean, *square, *largest;
  const double* step;
  double rate, root;
  int64_t n;
};
struct StepParams {
  StepTensor tensors[kTensors];
  int32_t begin[kTensors];
  int32_t count, flags;
  double lr, beta1, beta2, eps, decay;
};
static_assert(sizeof(StepParams) <= 4096);

using Types = std::array<int32_t, 4>;  // of parameters, gradients and what is kept

// Complex parameters are pairs of real numbers.
int32_t real_type(int32_t dtype) {
  return dtype == FACULA_COMPLEX64 ? FACULA_FLOAT32 : dtype == FACULA_COMPLEX128 ? FACULA_FLOAT64 : dtype;
}

KernelSource source(const char* entry, const Types& types, int vec) {
  const bool wide = std::find(types.begin(), types.end(), FACULA_FLOAT64) != types.end();
  std::string text;
  for (size_t i = 0; i < 4; ++i) text += std::string("using ") + "PGMV"[i] + " = " + element_type(types[i]) + ";\n";
  text += std::string("using T = ") + (wide ? "double" : "float") + ";\n#define FACULA_VEC " + std::to_string(vec);
  return file_kernel("optim.cu", entry, text + "\n");
}
int32_t find(const Device& device, const char* entry, int number, const Types& types, int vec, Kernel** out) {
  KernelKey key;
  key.name = "optim.cu";
  key.bits[0] = static_cast<uint64_t>(number) | static_cast<uint64_t>(vec) << 8;
  for (size_t i = 0; i < 4; ++i) key.bits[1] |= static_cast<uint64_t>(types[i]) << (8 * i);
  return find_kernel(device, key, [&] { return source(entry, types, vec); }, out);
}

// Elements at the same places, which fill a block of memory in whatever order of dims.
bool same_block(const FaculaTensor& a, const FaculaTensor& b) {
  if (a.ndim != b.ndim || a.numel != b.numel || !on_device(b)) return false;
  int64_t reach = 1;
  for (int d = 0; d < a.ndim; ++d) {
    if (a.sizes[d] != b.sizes[d] || (a.sizes[d] != 1 && a.strides[d] != b.strides[d])) return false;
    if (a.strides[d] < 0) return false;
    reach += (a.sizes[d] - 1) * a.strides[d];
  }
  return a.numel == 0 || reach == a.numel;
}

// What one step does to all of its parameters, in as few launches as their dtypes and number allow.
class Step {
 public:
  Step(const Device& device, const char* entry, int number, void* stream)
      : device_(device), entry_(entry), number_(number), stream_(stream) {}
  StepParams params{};

  int32_t add(const StepTensor& tensor, const Types& types) {
    if (tensor.n == 0) return FACULA_OK;
    int size = 1;
    for (const int32_t t : types) size = std::max(size, itemsize(t));
    int vec = 1;
    if (std::ranges::all_of(types, [&](int32_t t) { return itemsize(t) <= 4; })) {
      const auto places = reinterpret_cast<uintptr_t>(tensor.param) | reinterpret_cast<uintptr_t>(tensor.grad) |
                          reinterpret_cast<uintptr_t>(tensor.mean) | reinterpret_cast<uintptr_t>(tensor.square) |
                          reinterpret_cast<uintptr_t>(tensor.largest);
      if (places % 16 == 0 && tensor.n % 8 == 0) vec = size == 2 ? 8 : 4;
    }
    if (params.count > 0 && (types != types_ || vec != vec_ || params.count == kTensors)) FACULA_TRY(run());
    types_ = types;
    vec_ = vec;
    params.begin[params.count] = blocks_;
    params.tensors[params.count++] = tensor;
    blocks_ += static_cast<int32_t>(ceil_div(tensor.n, kChunk));
    return FACULA_OK;
  }
  int32_t run() {
    if (params.count == 0) return FACULA_OK;
    Kernel* kernel = nullptr;
    FACULA_TRY(find(device_, entry_, number_, types_, vec_, &kernel));
    void* arguments[] = {&params};
    const int32_t status = launch(device_, *kernel, {static_cast<unsigned>(blocks_)}, {256}, 0, stream_, arguments);
    params.count = blocks_ = 0;
    return status;
  }

 private:
  const Device& device_;
  const char* entry_;
  int number_;
  void* stream_;
  Types types_{};
  int vec_ = 1;
  int32_t blocks_ = 0;
};

const FaculaTensor& item(const FaculaCall* call, int list, int32_t i) { return call->args[list].at.tensors[i]; }

// Are the tensors of each place in the first `lists` lists in one block form? An empty list has none.
bool in_blocks(const FaculaCall* call, int lists) {
  for (int list = 0; list < lists; ++list) {
    for (int32_t i = 0; i < call->args[list].count; ++i) {
      if (!same_block(item(call, 0, i), item(call, list, i))) return false;
    }
  }
  return true;
}

int64_t numbers_of(const FaculaTensor& p) { return p.numel * (is_complex(p.dtype) ? 2 : 1); }

// sgd_step(params, grads, momentum_buffers, lr, momentum, dampening, weight_decay, nesterov, maximize, first)
int32_t sgd(void*, const FaculaCall* call) {
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const int32_t count = call->args[0].count;
  const bool kept = call->args[2].count > 0;
  if (!in_blocks(call, 3)) return FACULA_NOT_SUPPORTED;
  Step step(*device, "facula_sgd", 2, call->stream);
  StepParams& s = step.params;
  s.lr = real_of(call->args[3]);
  s.beta1 = real_of(call->args[4]);
  s.beta2 = real_of(call->args[5]);
  s.decay = real_of(call->args[6]);
  for (int bit = 0; bit < 3; ++bit) s.flags |= (call->args[7 + bit].at.i != 0) << bit;
  for (int32_t i = 0; i < count; ++i) {
    const FaculaTensor &p = item(call, 0, i), &g = item(call, 1, i);
    const int32_t type = real_type(p.dtype), buffer = kept ? real_type(item(call, 2, i).dtype) : type;
    StepTensor t{};
    t.param = p.data;
    t.grad = g.data;
    t.mean = kept ? item(call, 2, i).data : nullptr;
    t.n = numbers_of(p);
    FACULA_TRY(step.add(t, {type, real_type(g.dtype), buffer, buffer}));
  }
  return step.run();
}

// adam_step(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, steps, lr, beta1, beta2, eps, weight_decay,
//           decoupled, maximize)
int32_t adam(void*, const FaculaCall* call) {
  const Device* device = nullptr;
  FACULA_TRY(enter(call->index, &device));
  const int32_t count = call->args[0].count;
  const bool has_largest = call->args[4].count > 0;
  if (!in_blocks(call, 5)) return FACULA_NOT_SUPPORTED;
  bool counts_here = false;
  for (int32_t i = 0; i < count; ++i) {
    const FaculaTensor& steps = item(call, 5, i);
    if (!on_device(steps) && steps.dtype < FACULA_FLOAT32) return FACULA_NOT_SUPPORTED;
    if (has_largest && item(call, 4, i).dtype != item(call, 3, i).dtype) return FACULA_NOT_SUPPORTED;
    counts_here = counts_here || on_device(steps);
  }
  Scratch counts(call->index, call->stream);
  if (counts_here) FACULA_TRY(counts.allocate(static_cast<size_t>(count) * 8));
  Step step(*device, "facula_adam", 0, call->stream);
  StepParams& s = step.params;
  s.lr = real_of(call->args[6]);
  s.beta1 = real_of(call->args[7]);
  s.beta2 = real_of(call->args[8]);
  s.eps = real_of(call->args[9]);
  s.decay = real_of(call->args[10]);
  for (int bit = 0; bit < 2; ++bit) s.flags |= (call->args[11 + bit].at.i != 0) << bit;
  double known = -1, rate = 0, root = 0;  // of the step before: most are the same
  for (int32_t i = 0; i < count; ++i) {
    const FaculaTensor &p = item(call, 0, i), &steps = item(call, 5, i);
    StepTensor t{};
    if (on_device(steps)) {
      double* const counter = reinterpret_cast<double*>(counts.data()) + i;
      t.step = counter;
      Kernel* kernel = nullptr;
      FACULA_TRY(find(*device, "facula_step", 1, {steps.dtype, steps.dtype, steps.dtype, steps.dtype}, 1, &kernel));
      void* arguments[] = {const_cast<void**>(&steps.data), const_cast<double**>(&counter)};
      FACULA_TRY(launch(*device, *kernel, {1}, {1}, 0, call->stream, arguments));
    } else {
      const double now = steps.dtype == FACULA_FLOAT32 ? *static_cast<float*>(steps.data) += 1
                                                       : *static_cast<double*>(steps.data) += 1;
      if (now != known) {
        known = now;
        rate = s.lr / (1 - std::pow(s.beta1, now));
        root = std::sqrt(1 - std::pow(s.beta2, now));
      }
      t.rate = rate;
      t.root = root;
    }
    t.param = p.data;
    t.grad = item(call, 1, i).data;
    t.mean = item(call, 2, i).data;
    t.square = item(call, 3, i).data;
    t.largest = has_largest ? item(call, 4, i).data : nullptr;
    t.n = numbers_of(p);
    FACULA_TRY(step.add(t, {real_type(p.dtype), real_type(item(call, 1, i).dtype), real_type(item(call, 2, i).dtype),
                            real_type(item(call, 3, i).dtype)}));
  }
  return step.run();
}

void list(int level, const std::function<void(KernelSource)>& add) {
  for (const int32_t dtype : {FACULA_FLOAT32, FACULA_BFLOAT16, FACULA_FLOAT64, FACULA_FLOAT16}) {
    if (level == 0 && dtype > FACULA_FLOAT32) continue;
    for (const int vec : {itemsize(dtype) == 8 ? 1 : 16 / itemsize(dtype), 1}) {
      if (vec == 1 && level == 0) continue;
      for (const char* entry : {"facula_adam", "facula_sgd"}) add(source(entry, {dtype, dtype, dtype, dtype}, vec));
      if (vec == 1 && itemsize(dtype) == 8) break;
    }
  }
  add(source("facula_step", {FACULA_FLOAT32, FACULA_FLOAT32, FACULA_FLOAT32, FACULA_FLOAT32}, 1));
}
const ListsSources lists(list);

const Registers registers{{"adam_step", adam}, {"sgd_step", sgd}};

}  // namespace

}  // namespace facula::cuda
