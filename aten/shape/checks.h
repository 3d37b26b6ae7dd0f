// Checks of arguments that several families of shape rules share.
#pragma once

#include <string_view>

#include "runtime/core/tensor.h"

namespace facula::shape {

inline void check_floating(const Tensor& t, std::string_view op, const char* name) {
  FACULA_CHECK(t.is_floating_point(), NotImplemented, Operator{op}, Argument{name}, " is ", dtype_name(t.dtype()),
               "; it must have a floating-point dtype");
}

}  // namespace facula::shape
