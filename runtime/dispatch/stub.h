// What generated dispatch stubs share.
#pragma once

#include <initializer_list>

#include "runtime/core/in_call.h"
#include "runtime/dispatch/autocast.h"
#include "runtime/dispatch/boxing.h"
#include "runtime/dispatch/decomposed.h"
#include "runtime/dispatch/formula.h"
#include "runtime/dispatch/observe.h"
#include "runtime/dispatch/registry.h"
#include "runtime/dispatch/core_operators.h"
#include "runtime/dispatch/thunk.h"
#include "runtime/iterate/pointwise.h"
#include "runtime/iterate/strided.h"

// The loops of the higher x86-64 levels, where they were built: here all or none, and of an extension those that its
// build says.
#ifdef FACULA_LOOPS_V3
#elif defined(FACULA_X86_LEVELS)
#define FACULA_LOOPS_V3(name) &v3::name##_loops
#define FACULA_LOOPS_V4(name) &v4::name##_loops
#else
#define FACULA_LOOPS_V3(name) nullptr
#define FACULA_LOOPS_V4(name) nullptr
#endif

namespace facula {

inline const Tensor* first_of(const Tensor& t) { return t.defined() ? &t : nullptr; }
inline const Tensor* first_of(TensorList list) {
  for (const Tensor& t : list) {
    if (t.defined()) return &t;
  }
  return nullptr;
}

// The device of the first tensor that is there; a 0-d CPU tensor gives way to the others.
template <typename... Inputs>
Device device_of(const Inputs&... inputs) {
  Device device{};
  bool found = false;
  auto look = [&](const Tensor* t) {
    if (t != nullptr && (!found || (device.type == kCPU && t->device().type != kCPU))) {
      device = t->device();
      found = true;
    }
  };
  (look(first_of(inputs)), ...);
  return device;
}

template <typename Fn>
Fn layer_function(const OperatorEntry& entry, Variant variant, LayerSet layers) {
  return reinterpret_cast<Fn>(entry.layers[static_cast<int>(variant)][top_layer(layers)]);
}
inline LayerSet layers_to_pass(const OperatorEntry& entry, Variant variant, LayerSet from_inputs) {
  return static_cast<LayerSet>(active_layers(from_inputs) & entry.layer_mask[static_cast<int>(variant)]);
}
template <typename Fn>
void set_layer(OperatorEntry& entry, Variant variant, Layer layer, Fn fn) {
  entry.layers[static_cast<int>(variant)][static_cast<int>(layer)] = reinterpret_cast<AnyFn>(fn);
  entry.layer_mask[static_cast<int>(variant)] |= layer_bit(layer);
}

// `out` itself when a kernel may write to it directly, else a fresh tensor of the right shape.
// Resizes an empty `out`; raises when shape, dtype or device do not fit, naming operator and both.
FACULA_API Tensor prepare_out(const Tensor& out, const Meta& meta, const char* op,
                              std::initializer_list<TensorList> inputs);
// Copies a fresh target into `out`, and marks the write.
FACULA_API void finish_out(const Tensor& out, const Tensor& target, WriterName writer = {});
// The same for in-place forms of structured operators: never resizes.
// `direct`: the kernel may write to self itself.
FACULA_API Tensor prepare_inplace(const Tensor& self, const Meta& meta, const char* op, bool direct = false);
// In-place forms of composites: `result` over `self`, recorded.
FACULA_API void write_inplace(const Tensor& self, const Tensor& result, const char* op);
// out= of composites: `result` into `out`.
FACULA_API void write_out(const Tensor& out, const Tensor& result, const char* op);

// A composite's in-place form writes the result over `self`, which its backward may need as it was, that of a level
// further out too.
inline Tensor kept(const Tensor& self, LayerSet layers) {
  const LayerSet active = active_layers(layers);
  const bool recorded = tls_state.grad_enabled && (active & layer_bit(Layer::Autograd)) != 0;
  return recorded || (active & layer_bit(Layer::Batching)) != 0 ? core_operators().clone(self) : self;
}

namespace detail {
[[noreturn]] FACULA_API void raise_recorded_out(const char* op);
[[noreturn]] FACULA_API void raise_mixed_devices(const char* op, Device device,
                                                 std::initializer_list<const char*> names,
                                                 std::initializer_list<TensorList> inputs);
// May a kernel of `device` read `t`? A 0-d CPU tensor stands for a number elsewhere.
inline bool is_readable_on(const Tensor& t, Device device) {
  return !t.defined() || t.device() == device || (t.is_cpu() && t.dim() == 0);
}
}  // namespace detail

// A write through out= leaves no history.
inline void check_unrecorded(const Tensor& out, const char* op) {
  if (needs_grad(out)) [[unlikely]]
    detail::raise_recorded_out(op);
}

// Kernels read memory of their own device only.
inline void check_devices(const char* op, Device device, std::initializer_list<const char*> names,
                          std::initializer_list<TensorList> inputs) {
  for (TensorList list : inputs) {
    for (const Tensor& t : list) {
      if (!detail::is_readable_on(t, device)) [[unlikely]]
        detail::raise_mixed_devices(op, device, names, inputs);
    }
  }
}

// ---- written arguments, single ones and lists; absent ones are left alone ----
inline void check_written(const Tensor& t, const char* op) {
  if (t.defined()) check_writable(t, op);
}
inline void check_written(TensorList list, const char* op) {
  for (const Tensor& t : list) check_written(t, op);
}
// While several tensors are marked that one call wrote: what is said of the first is said of all.
class OneWrite {
 public:
  OneWrite() { tls_write_ = {true, nullptr}; }
  ~OneWrite() { tls_write_ = {}; }
  OneWrite(const OneWrite&) = delete;
  OneWrite& operator=(const OneWrite&) = delete;
  // Where the text is kept meanwhile; null outside.
  static const char** text() { return tls_write_.is_one ? &tls_write_.text : nullptr; }

 private:
  struct Write {
    bool is_one = false;
    const char* text = nullptr;
  };
  FACULA_API static constinit thread_local Write tls_write_ __attribute__((tls_model("initial-exec")));
};
inline void mark_written(const Tensor& t, const char* op) {
  if (t.defined()) t.bump_version({op});
}
inline void mark_written(TensorList list, const char* op) {
  const OneWrite write;
  for (const Tensor& t : list) mark_written(t, op);
}
inline bool is_meta(const Tensor& t) { return t.is_meta(); }
inline bool is_meta(TensorList list) {
  for (const Tensor& t : list) {
    if (t.defined() && !t.is_meta()) return false;
  }
  return true;
}

inline TensorList as_list(const Tensor& t) { return {&t, 1}; }
inline TensorList as_list(TensorList list) { return list; }

}  // namespace facula
