// A tensor kept for backward, with the version it had.
#pragma once

#include "runtime/core/tensor.h"

namespace facula {

class Node;

class FACULA_API SavedTensor {
 public:
  SavedTensor() = default;
  // `is_output`: the tensor is an output of the node that saves it; kept without its grad_fn so
  // that node and tensor do not own each other. Call after set_history or rebase_history.
  SavedTensor(const Tensor& t, bool is_output);

  // Raises when the tensor was changed in place since, naming the node, `name` (the schema name)
  // and the out-of-place way, or when it was released already. Undefined if an undefined one was saved.
  Tensor unpack(const Node& owner, const char* name) const {
    if (tensor_.defined() && version_ == tensor_.version() && !is_output_) [[likely]]
      return tensor_;
    return unpack_slow(owner, name);
  }
  void release() {
    released_ |= tensor_.defined();
    tensor_.reset();
  }
  bool defined() const { return tensor_.defined() || released_; }

 private:
  Tensor unpack_slow(const Node& owner, const char* name) const;

  Tensor tensor_;
  uint32_t version_ = 0;
  uint32_t output_nr_ : 30 = 0;
  uint32_t is_output_ : 1 = 0;
  uint32_t released_ : 1 = 0;
};

}  // namespace facula
