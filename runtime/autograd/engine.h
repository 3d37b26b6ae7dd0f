// The backward pass.
#pragma once

#include <string>
#include <vector>

#include "runtime/autograd/meta.h"

namespace facula {

struct BackwardOptions {
  bool keep_graph = false;
  bool create_graph = false;
  bool accumulate = true;  // into leaves' .grad; false: return gradients of `inputs` only
  bool allow_unused = false;
};

// Gradients of `roots` (paired with `grads`; an undefined one, or no grads at all, means ones for
// one-element roots). Nodes run in falling order of sequence number: a node's is larger than those
// of all nodes it depends on, so every consumer has run before it. With accumulate == false, returns
// the gradients of `inputs` (undefined if unused and allowed); with accumulate and `inputs`,
// accumulates into just these. May be called from hooks and from apply(). Takes no Python lock.
FACULA_API std::vector<Tensor> run_backward(TensorList roots, TensorList grads, TensorList inputs,
                                            const BackwardOptions& options);

// What the runtime needs of operators, installed by aten/roles.cpp: the runtime names none itself.
// All go through the whole dispatch, so that they are recorded where gradients are on.
struct EngineRoles {
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
  void (*copy_into)(const Tensor& into, const Tensor& source) = nullptr;  // broadcasts
  // Optional: without them, views between real and complex refuse in-place changes ...
  Tensor (*view_as_real)(const Tensor& t) = nullptr;
  Tensor (*view_as_complex)(const Tensor& t) = nullptr;
  // ... and anomaly mode checks and reports less.
  bool (*has_nan)(const Tensor& t) = nullptr;
  std::string (*location)() = nullptr;  // "file.py:12" of the caller, empty if unknown
};
FACULA_API EngineRoles& engine_roles();

}  // namespace facula
