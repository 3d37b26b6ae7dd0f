// The operator table: per operator its kernels by device type and its functions by layer.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/core/thread_state.h"
#include "runtime/dispatch/value.h"

namespace facula {

enum class Variant : uint8_t { Functional, InPlace, Out };
inline constexpr int kNumVariants = 3;
inline constexpr int8_t kNoReduction = -1;

using AnyFn = void (*)();  // cast back to the operator's own type by generated code

// What autocast does to the inputs of an operator: nothing, to the lower dtype, to float32, to the widest of them.
enum class CastPolicy : uint8_t { None, Lower, Float32, Widest };

struct KernelArg;

// What a batch of calls does to an argument of one call; the key `batch` of the schema.
enum class BatchRole : uint8_t {
  None,      // as it is
  Front,     // a tensor: the batch dim comes first, whether it had one or not
  Aligned,   // the same, and dims of 1 behind it, until all tensors have as many
  Fold,      // as Front, and joins the first dim; results come apart again
  Channels,  // the same with the second dim
  Alone,     // a tensor that all calls share: with a batch dim of its own the rule does not serve
  Groups,    // a number that counts channels' groups
  Dim,       // a dim of the first tensor, or several
  Reduced,   // the same; none stands for all
  NewDim,    // a place between the dims of the first tensor
  Order,     // all of its dims
  Sizes,     // of a result
  Expanded,  // of a result, to which the first tensor is broadcast
  Strides,   // of a result
};
enum class BatchKind : uint8_t { None, Elements, Roles, Rows };  // None: by its decomposition, or row by row
// Roles of the arguments and of the results.
struct BatchRule {
  std::span<const BatchRole> arguments, results;
};

struct OperatorEntry {
  const char* name;                             // "add", "max.dim"
  const char* schema;                           // the signature as written in ops.yaml
  void (*boxed)(Stack&);                        // the functional form through the whole dispatch
  AnyFn forms[kNumVariants] = {};               // by variant, through the whole dispatch; null where there is none
  AnyFn kernels[kMaxDeviceTypes] = {};          // by device type
  AnyFn any_kernel = nullptr;                   // one for all devices, where there is one
  AnyFn layers[kNumVariants][kNumLayers] = {};  // by variant and layer
  LayerSet layer_mask[kNumVariants] = {};       // layers that have a function
  // Of operators with kernels, for devices of packages; see dispatch/thunk.h.
  AnyFn interface_kernel = nullptr;     // a kernel that hands its arguments on as a list
  AnyFn device_kernel = nullptr;        // what such a device has without a kernel of its own
  uint32_t writes = 0;                  // bit i: argument i is written to
  int8_t outs = 0;                      // the last arguments of the kernel, its results
  int8_t reduction_dim = kNoReduction;  // the argument that says which dims a reduction takes away
  bool reduction_index = false;         // the reduction gives the place of an element
  uint32_t number = 0;                  // place among all operators
  // The decomposition of an operator with kernels, called as a kernel of a package's device is.
  void (*decomposed)(std::span<const KernelArg> args, const KernelArg& result) = nullptr;
  CastPolicy autocast[kMaxDeviceTypes] = {};      // by device type
  CastPolicy autocast_device = CastPolicy::None;  // of a device that says nothing else
  // For levels; see dispatch/levels.h.
  void (*invoke[kNumVariants])(AnyFn fn, std::span<const KernelArg> args, Stack& results) = {};  // of a form's type
  AnyFn decomposition = nullptr;                // its composite form, of the functional form's type
  std::span<const BatchRule> batch_rules = {};  // of which the first that serves is taken
  BatchKind batch = BatchKind::None;
  uint32_t masks = 0;    // bit i: argument i takes no part in promotion
  uint8_t outputs = 0;   // results of the functional form
  bool is_view = false;  // the result is a view of the first argument
  bool is_random = false;
  bool gives_numbers = false;      // results are Python numbers, read from elements
  bool through_composite = false;  // gradients are recorded by running the decomposition
};

// `again`: an extension that was built anew takes the place of the one loaded before.
FACULA_API void register_operator(OperatorEntry* entry, bool again = false);
FACULA_API OperatorEntry* find_operator(std::string_view name);  // null when unknown
FACULA_API std::span<OperatorEntry* const> all_operators();
// For extensions: a form of an operator, or a shape rule, which must be of the signature that the extension was built
// for.
FACULA_API AnyFn operator_form(std::string_view name, std::string_view signature, Variant variant);
FACULA_API AnyFn shape_rule(std::string_view signature);
struct ShapeRuleEntry {
  const char* signature;
  AnyFn function;
};
void set_shape_rules(std::span<const ShapeRuleEntry> rules);

// For a call whose kernel is missing: says what device, operator and options there are, and `refusal`, what was there
// and did not take these arguments.
[[noreturn]] FACULA_API void raise_missing_kernel(const OperatorEntry& op, Device device,
                                                  const std::string& refusal = {});

// What dispatch needs of devices of packages; set by runtime/device.
struct DeviceOperators {
  // Runs a vendor's kernel, the operator's reduction or the CPU's. `result` is where a number goes that the operator
  // returns.
  void (*call)(const OperatorEntry& op, std::span<const KernelArg> args, KernelArg result) = nullptr;
  // The way through the CPU where the device allows it; else raises.
  AnyFn (*missing_kernel)(const OperatorEntry& op, Device device) = nullptr;
  // Whether devices of the type compute it themselves, rather than by other operators or on the CPU.
  bool (*has_own_kernel)(const OperatorEntry& op, DeviceType type) = [](const OperatorEntry& op, DeviceType type) {
    return op.kernels[type] != nullptr;
  };
  ScalarType (*widest_float)(std::optional<Device> device) = nullptr;
};
extern FACULA_API constinit DeviceOperators device_operators;

// Layers to pass for inputs whose layers were OR-ed together.
inline LayerSet active_layers(LayerSet from_inputs) {
  const ThreadState& s = thread_state();
  return static_cast<LayerSet>((from_inputs | s.included) & ~s.excluded);
}
inline int top_layer(LayerSet layers) { return 31 - __builtin_clz(static_cast<unsigned>(layers)); }

template <typename Fn>
Fn kernel_for(const OperatorEntry& op, Device device) {
  AnyFn fn = op.kernels[device.type];
  if (fn == nullptr) [[unlikely]]
    fn = device_operators.missing_kernel(op, device);
  return reinterpret_cast<Fn>(fn);
}

template <typename Fn>
Fn form_of(std::string_view name, std::string_view signature, Variant variant) {
  return reinterpret_cast<Fn>(operator_form(name, signature, variant));
}
template <typename Fn>
Fn rule_of(std::string_view signature) {
  return reinterpret_cast<Fn>(shape_rule(signature));
}

}  // namespace facula
