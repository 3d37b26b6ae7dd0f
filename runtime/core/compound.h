// Compounds: tensors whose elements do not lie by strides, such as sparse ones. They are made of others, and a class of
// Python's computes with them; here they have a shape, a dtype, a device and a place in the autograd graph.
#pragma once

#include <memory>
#include <vector>

#include "runtime/core/tensor.h"

namespace facula {

struct Compound {
  std::vector<Tensor> parts;  // the first has its dtype, device and version
  int64_t kind = 0;           // the class's own
};

// Calls with a compound pass the layer of levels, as those with a tensor of a level do; it is of none.
inline constexpr uint64_t kCompoundLevel = ~uint64_t{0};
struct CompoundWrapping final : Wrapping {
  std::shared_ptr<const Compound> compound;
};

inline bool is_compound(const Tensor& t) { return t.is_wrapped() && t.impl()->wrapping->level == kCompoundLevel; }
inline const std::shared_ptr<const Compound>& compound_of(const Tensor& t) {
  return static_cast<const CompoundWrapping*>(t.impl()->wrapping)->compound;
}
FACULA_API Tensor make_compound(IntList sizes, Compound compound);
FACULA_API Wrapping* copy_wrapping(const Wrapping& w);

}  // namespace facula
