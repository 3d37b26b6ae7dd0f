// The backward pass.
#pragma once

#include <vector>

#include "runtime/autograd/meta.h"
#include "runtime/dispatch/core_operators.h"

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

namespace detail {

// The node whose apply() runs now; in anomaly mode only.
extern FACULA_API constinit thread_local const Node* tls_running __attribute__((tls_model("initial-exec")));

}  // namespace detail

// Does anomaly mode look for NaN in gradients, beside telling where operations were called? On this thread.
FACULA_API void set_check_nan(bool check);
FACULA_API bool checks_nan();

}  // namespace facula
