// A reduction that has been taken down: the operator, and all its arguments but the tensor.
#pragma once

#include <optional>
#include <vector>

#include "runtime/dispatch/thunk.h"

namespace facula::detail {

// An argument that is no tensor, kept for later.
struct KeptArgument {
  KernelArg::Kind kind = KernelArg::Kind::Int;
  bool absent = false;
  int64_t integer = 0;  // of Int, Bool and Type
  double number = 0;    // of Float
  Scalar scalar;
  DimVector ints;
};
// Nothing where a call with such an argument is not taken down.
std::optional<KeptArgument> kept_argument(const KernelArg& arg);

struct RecordReduction {
  const OperatorEntry* entry = nullptr;
  std::vector<KeptArgument> arguments;  // behind the tensor
  DimVector sizes, strides;             // of the result
  ScalarType dtype = ScalarType::Float32;
};

// What plans depend on of it.
std::vector<uint64_t> words_of(const RecordReduction& reduction);
// Runs it now: its form that writes to `out`.
void run_reduction(const RecordReduction& reduction, const Tensor& self, const Tensor& out);
// How many last dims these are, if some that stay are before them; else 0.
int last_dims(IntList dims, int64_t ndim);
// Of a call that has been taken down: those that it goes over.
int last_dims(const RecordReduction& reduction, int64_t ndim);
// A call's result: sizes, dtype and strides, without values. Errors are those of the call.
Tensor result_without_values(const OperatorEntry& op, std::span<const KernelArg> args);

}  // namespace facula::detail
