// Boxed arguments: what a call looks like to code that does not know the operator.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/core/generator.h"
#include "runtime/core/tensor.h"

namespace facula {

enum class MemoryFormat : uint8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };

using Value = std::variant<std::monostate, Tensor, std::vector<Tensor>, int64_t, double, bool, std::string, Scalar,
                           ScalarType, Device, MemoryFormat, Generator, std::vector<int64_t>, std::vector<bool>>;
// Arguments in schema order; after the call, the results.
using Stack = std::vector<Value>;

}  // namespace facula
