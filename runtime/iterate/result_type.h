// Type promotion among tensors, 0-d tensors and numbers, as torch documents it: the highest
// category wins, and within a category dimensioned tensors win over 0-d ones, those over numbers.
#pragma once

#include <optional>
#include <span>

#include "runtime/core/tensor.h"

namespace facula {

class FACULA_API ResultType {
 public:
  void add(const Tensor& t);
  void add(const Scalar& s);
  ScalarType get() const;

 private:
  void merge(int level, ScalarType t);
  std::optional<ScalarType> levels_[3];  // dimensioned, 0-d, numbers
};

FACULA_API ScalarType result_type(std::span<const Tensor* const> tensors);

}  // namespace facula
