// The operator table: per operator its kernels by device type and its functions by layer.
#pragma once

#include <span>
#include <string_view>

#include "runtime/core/thread_state.h"
#include "runtime/dispatch/value.h"

namespace facula {

enum class Variant : uint8_t { Functional, InPlace, Out };
inline constexpr int kNumVariants = 3;

using AnyFn = void (*)();  // cast back to the operator's own type by generated code

struct OperatorEntry {
  const char* name;                             // "add", "max.dim"
  const char* schema;                           // the signature as written in ops.yaml
  void (*boxed)(Stack&);                        // the functional form through the whole dispatch
  AnyFn kernels[kMaxDeviceTypes] = {};          // by device type
  AnyFn layers[kNumVariants][kNumLayers] = {};  // by variant and layer
  LayerSet layer_mask[kNumVariants] = {};       // layers that have a function
  AnyFn decomposition = nullptr;                // same type as the functional form
};

FACULA_API void register_operator(OperatorEntry* entry);
FACULA_API OperatorEntry* find_operator(std::string_view name);  // null when unknown
FACULA_API std::span<OperatorEntry* const> all_operators();

// For a call whose kernel is missing: says what device, operator and options there are.
[[noreturn]] FACULA_API void raise_missing_kernel(const OperatorEntry& op, Device device);

// Layers to pass for inputs whose layers were OR-ed together.
inline LayerSet active_layers(LayerSet from_inputs) {
  const ThreadState& s = thread_state();
  return static_cast<LayerSet>((from_inputs | s.included) & ~s.excluded);
}
inline int top_layer(LayerSet layers) { return 31 - __builtin_clz(static_cast<unsigned>(layers)); }

template <typename Fn>
Fn kernel_for(const OperatorEntry& op, Device device) {
  const AnyFn fn = op.kernels[device.type];
  if (fn == nullptr) [[unlikely]]
    raise_missing_kernel(op, device);
  return reinterpret_cast<Fn>(fn);
}

}  // namespace facula
