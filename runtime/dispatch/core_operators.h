// What lower layers need of higher ones: tables of functions that those fill when the module is loaded.
#pragma once

#include <string>

#include "runtime/core/tensor.h"

namespace facula {

// What the runtime, the autograd engine above all, needs of operators, installed by aten/core_operators.cpp: it names
// none itself. All go through the whole dispatch, so that they are recorded where gradients are on.
struct CoreOperators {
  Tensor (*accumulate)(const Tensor& a, const Tensor& b) = nullptr;        // a + b
  void (*accumulate_into)(const Tensor& into, const Tensor& b) = nullptr;  // into += b
  Tensor (*sum_to)(const Tensor& grad, IntList sizes) = nullptr;
  Tensor (*cast)(const Tensor& t, ScalarType dtype, Device device) = nullptr;
  Tensor (*real_part)(const Tensor& t) = nullptr;
  Tensor (*conjugate)(const Tensor& t) = nullptr;
  Tensor (*zeros)(const Meta& meta) = nullptr;  // also of strided geometry
  Tensor (*ones)(const Meta& meta) = nullptr;
  Tensor (*clone)(const Tensor& t) = nullptr;
  Tensor (*as_strided)(const Tensor& t, IntList sizes, IntList strides, int64_t offset) = nullptr;
  Tensor (*view)(const Tensor& t, IntList sizes) = nullptr;
  void (*copy_into)(const Tensor& into, const Tensor& source) = nullptr;  // broadcasts
  // For batches of calls.
  Tensor (*move_dim)(const Tensor& t, int64_t from, int64_t to) = nullptr;
  Tensor (*add_dim)(const Tensor& t, int64_t dim) = nullptr;
  Tensor (*expand)(const Tensor& t, IntList sizes) = nullptr;
  Tensor (*reshape)(const Tensor& t, IntList sizes) = nullptr;
  Tensor (*row)(const Tensor& t, int64_t dim, int64_t index) = nullptr;
  Tensor (*stack)(TensorList list) = nullptr;  // along a new first dim
  // Optional: without them, views between real and complex refuse in-place changes ...
  Tensor (*view_as_real)(const Tensor& t) = nullptr;
  Tensor (*view_as_complex)(const Tensor& t) = nullptr;
  // ... and anomaly mode checks and reports less.
  bool (*has_nan)(const Tensor& t) = nullptr;
  std::string (*location)() = nullptr;         // "file.py:12" of the caller, empty if unknown
  bool (*is_leaf)(const Tensor& t) = nullptr;  // by runtime/autograd
};
FACULA_API CoreOperators& core_operators();

}  // namespace facula
