// The backward pass.
#pragma once

#include <vector>

#include "runtime/autograd/meta.h"

namespace facula {

struct BackwardOptions {
  bool keep_graph = false;
  bool create_graph = false;
  bool accumulate = true;      // into leaves' .grad; false: return gradients of `inputs` only
  bool allow_unused = false;
};

// Gradients of `roots` (paired with `grads`; an undefined one means ones, for one-element roots).
// Nodes run in falling order of sequence number: a node is made after all nodes it depends on, so
// every consumer has run before it. With `inputs`, returns their gradients (undefined if unused and
// allowed); backward(inputs=...) accumulates into just these.
FACULA_API std::vector<Tensor> run_backward(TensorList roots, TensorList grads, TensorList inputs,
                                            const BackwardOptions& options);

// What the runtime needs of operators, installed by aten/roles.cpp: the runtime names none itself.
struct EngineRoles {
  Tensor (*accumulate)(const Tensor& a, const Tensor& b);     // a + b, differentiable
  void (*accumulate_into)(const Tensor& into, const Tensor& b);  // in place, no graph
  Tensor (*sum_to)(const Tensor& grad, IntList sizes);
  Tensor (*cast)(const Tensor& t, ScalarType dtype, Device device);
  Tensor (*real_part)(const Tensor& t);
  Tensor (*conjugate)(const Tensor& t);
  Tensor (*zeros)(const OutputMeta& meta);
  Tensor (*ones)(const OutputMeta& meta);
  Tensor (*clone)(const Tensor& t);
  Tensor (*as_strided)(const Tensor& t, IntList sizes, IntList strides, int64_t offset);
  // Storage of the given geometry, zero-filled or a copy of `source`'s elements.
  Tensor (*new_strided_copy)(const Tensor& source, IntList sizes, IntList strides);
  void (*copy_into)(const Tensor& into, const Tensor& source);
};
FACULA_API EngineRoles& engine_roles();

}  // namespace facula
