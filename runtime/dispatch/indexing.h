// The meaning of index expressions: what x[...] reads and writes.
#pragma once

#include <span>

#include "runtime/core/tensor.h"

namespace facula::indexing {

enum class Kind : uint8_t { Int, Slice, NewAxis, Ellipsis, Bool, Tensor };

// One item of an index expression.
struct Item {
  static constexpr int64_t kUnset = INT64_MIN;
  Kind kind = Kind::Ellipsis;
  int64_t start = kUnset;  // the index of Int, the value of Bool
  int64_t stop = kUnset;
  int64_t step = 1;
  ::facula::Tensor tensor;  // integers, or a mask
};

// Set by aten/indexing.cpp.
struct Operators {
  // x[i] and x[start:stop:step] along one dim; unset bounds mean the whole range.
  Tensor (*select)(const Tensor& self, int64_t dim, int64_t index) = nullptr;
  Tensor (*slice)(const Tensor& self, int64_t dim, int64_t start, int64_t stop, int64_t step) = nullptr;
  Tensor (*get)(const Tensor& self, std::span<const Item> items) = nullptr;
  // `value` broadcasts to the selection and is converted to self's dtype.
  void (*set)(const Tensor& self, std::span<const Item> items, const Tensor& value) = nullptr;
};
extern FACULA_API constinit Operators operators;

}  // namespace facula::indexing
