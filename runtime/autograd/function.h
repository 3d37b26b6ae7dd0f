// Functions with a hand-written backward (autograd.Function): what the bindings subclass.
#pragma once

#include "runtime/autograd/meta.h"

namespace facula {

class FACULA_API CustomNode : public Node {
 public:
  // Gradients of the outputs come as zeros where none arrived (unless materialize_grads is off).
  // `results` has one place for each edge; leave those undefined that have no gradient.
  virtual void backward(std::span<const Tensor> grads, std::span<Tensor> results) = 0;

  void apply(std::span<const Tensor> grads, std::span<Tensor> results) final;
  void release_saved(Released& out) override;
  void kept(Kept& out) const override {
    out.add(saved_);
    out.add(to_save);
    out.add(dirty);
    out.add(non_differentiable);
  }
  bool runs_without_grad() const override { return materialize_grads; }
  void saved(SavedFields& out) const override { out.add("tensors", saved_); }

  // ctx.needs_input_grad: also false where this backward pass does not ask for it.
  bool needs_input_grad(size_t input) const { return needs(input); }
  // ctx.saved_tensors: raises when one was changed in place or when they were freed.
  std::vector<Tensor> saved_tensors() const;

  bool materialize_grads = true;
  std::vector<Tensor> to_save;             // ctx.save_for_backward; taken by finish_function
  std::vector<Tensor> dirty;               // ctx.mark_dirty
  std::vector<Tensor> non_differentiable;  // ctx.mark_non_differentiable

 private:
  friend FACULA_API void finish_function(const intrusive_ptr<CustomNode>&, TensorList, std::span<Tensor>, bool);
  std::vector<SavedTensor> saved_;
};

// After forward ran (under no_grad): gives `outputs` their history and saves what is to be saved.
// The node has one edge for each of `inputs` (null where none is wanted). Replaces outputs that are
// inputs by views of them, unless marked dirty. Without `record`, the node gets no history and may
// be dropped.
FACULA_API void finish_function(const intrusive_ptr<CustomNode>& node, TensorList inputs, std::span<Tensor> outputs,
                                bool record);

}  // namespace facula
