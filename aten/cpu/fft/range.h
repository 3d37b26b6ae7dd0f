// Transforms of which sums leave the range of the dtype, though what is asked for may lie in it.
#pragma once

#include <functional>

#include "runtime/core/tensor.h"

namespace facula::cpu {

using Transform = std::function<void(const Tensor& in, const Tensor& out)>;

// Looks at `out`, the transform of `in` over `dims`; where it is not finite although what it is made of is, it is
// computed again from numbers that are smaller by a power of two. Each part of a batch is looked at by itself.
void repair_overflow(const Tensor& in, const Tensor& out, IntList dims, const Transform& transform);

}  // namespace facula::cpu
