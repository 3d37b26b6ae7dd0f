// A tensor kept for backward, with the version it had.
#pragma once

#include "runtime/core/tensor.h"

namespace facula {

class Node;

class FACULA_API SavedTensor {
 public:
  SavedTensor() = default;
  // `is_output`: the tensor is an output of the node that saves it; kept without its grad_fn so
  // that node and tensor do not own each other. `output_nr` as set by set_history.
  SavedTensor(const Tensor& t, bool is_output);

  // Raises when the tensor was changed in place since, naming `op` (the node), `name` (the schema
  // name) and the out-of-place way, or when it was released already.
  Tensor unpack(const Node& owner, const char* name) const;
  void release();
  bool defined() const { return defined_; }

 private:
  Tensor tensor_;
  uint32_t version_ = 0;
  uint32_t output_nr_ = 0;
  bool is_output_ = false;
  bool defined_ = false;
  bool released_ = false;
};

}  // namespace facula
