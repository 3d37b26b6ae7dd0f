// Running a pointwise operator: type promotion, broadcasting and layout are decided here, once,
// for every operator; the operator itself is a contiguous loop per compute type.
#pragma once

#include <array>
#include <span>

#include "runtime/core/tensor.h"
#include "runtime/iterate/isa.h"

namespace facula {

struct OperatorEntry;  // passed on to devices

// The non-tensor arguments of a call, in schema order.
struct LoopArgs {
  std::span<const Scalar> values;
  uint32_t present = ~0u;  // bit i: optional argument i was given
  uint32_t promoting = 0;  // bit i: value i takes part in type promotion as a number does
  bool has(size_t i) const { return (present >> i & 1u) != 0; }
  template <typename T>
  T get(size_t i) const {
    return values[i].to<T>();
  }
};

// Contiguous loop; outputs may alias inputs exactly. Types are fixed by the table slot.
using PointwiseLoop = void (*)(int64_t n, void* const* outs, const void* const* ins, const LoopArgs& args);

// One loop per compute type, null where the operator does not compute in it.
struct PointwiseLoops {
  std::array<PointwiseLoop, kNumScalarTypes> by_type = {};
};

enum class Promotion : uint8_t {
  Same,   // the common type of the inputs
  Float,  // the common type; bool and integers become the default float
  Bool,   // computed in the common type, the result is bool
  Real,   // complex in, its real type out
  None,   // inputs must have one type already
};

struct PointwiseOp {
  const OperatorEntry* entry;
  const char* name;                     // public name for messages
  std::span<const char* const> inputs;  // names of the tensor arguments
  uint8_t outputs;                      // number of results
  Promotion promotion;
  // Bit i: input i is a mask. It is read as bool whatever its dtype (the driver converts), and it
  // takes no part in type promotion; it broadcasts like the others.
  uint32_t masks;
  const char* variant;                               // the value of a str argument that chose this formula, or ""
  std::array<const PointwiseLoops*, kNumIsa> loops;  // null ISA: not built
};

inline constexpr int kMaxPointwiseOperands = 8;

// The functional form: allocates results (dense, in the inputs' dim order) on the inputs' device.
FACULA_API void pointwise(const PointwiseOp& op, std::span<const Tensor* const> inputs, std::span<Tensor> results,
                          LoopArgs args);
inline Tensor pointwise(const PointwiseOp& op, std::span<const Tensor* const> inputs, LoopArgs args) {
  Tensor result;
  pointwise(op, inputs, std::span<Tensor>(&result, 1), args);
  return result;
}
// Writes into given tensors (in-place and out= forms). `resize`: out= may be resized when it is
// empty; in-place may not. Checks castability, overlap and writability, bumps versions.
FACULA_API void pointwise_out(const PointwiseOp& op, std::span<const Tensor* const> inputs,
                              std::span<const Tensor* const> outs, LoopArgs args, bool resize);

// What a device does for every pointwise operator: inputs keep their own dtypes and shapes (they
// broadcast to the outputs'), `compute` is the type the formula is evaluated in.
using PointwiseKernel = void (*)(const PointwiseOp& op, std::span<const Tensor* const> inputs,
                                 std::span<const Tensor* const> outs, ScalarType compute, LoopArgs args);
FACULA_API void set_pointwise_kernel(DeviceType type, PointwiseKernel kernel);
// Raises for a device that has none; set by runtime/dispatch.
extern FACULA_API void (*pointwise_missing)(const OperatorEntry& op, Device device);

}  // namespace facula
