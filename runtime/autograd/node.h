// The backward graph: nodes made by generated code, edges to the nodes of their inputs.
#pragma once

#include <memory>
#include <vector>

#include "runtime/autograd/saved_tensor.h"
#include "runtime/core/tensor.h"

namespace facula {

class Node;

// "Gradient number `output_nr` of `node`"; a null node means that no gradient is wanted.
struct Edge {
  intrusive_ptr<Node> node;
  uint32_t output_nr = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

// What the engine must know of a forward output to check and shape its gradient.
struct OutputMeta {
  DimVector sizes;
  ScalarType dtype = ScalarType::Float32;
  Device device;
};

// Runs on the gradients that enter a node (pre) or leave it (post); may replace them.
struct NodeHook {
  virtual ~NodeHook() = default;
  // `grads` are those of the node's outputs (pre) or inputs (post).
  virtual void run(std::vector<Tensor>& grads) = 0;
};

class FACULA_API Node : public RefCounted {
 public:
  Node();
  virtual ~Node() = default;
  // Deletion is iterative: a chain of a million nodes must not use a million stack frames.
  static void dispose(Node* node) noexcept;

  virtual const char* name() const = 0;
  // `grads[i]` belongs to forward output i and may be undefined (only where outputs() > 1).
  // Sets `results[i]` for every input i with needs(i); sums, casts and checks are the engine's.
  virtual void apply(std::span<const Tensor> grads, std::span<Tensor> results) = 0;
  // Frees what was saved; a later apply() raises "backward a second time".
  virtual void release_saved() {}
  // Tensors saved under their schema names, for Python's `grad_fn._saved_*` and for messages.
  virtual std::vector<std::pair<const char*, const SavedTensor*>> saved() const { return {}; }

  uint64_t sequence() const { return sequence_; }
  size_t num_inputs() const { return edges_.size(); }
  size_t num_outputs() const { return outputs_.size(); }
  bool needs(size_t input) const { return static_cast<bool>(edges_[input].node); }
  const Edge& edge(size_t input) const { return edges_[input]; }
  const OutputMeta& output(size_t i) const { return outputs_[i]; }
  std::vector<Edge>& edges() { return edges_; }
  // Returns the new output's number.
  uint32_t add_output(const Tensor& t);
  void set_output(uint32_t i, const Tensor& t);
  // Zeros shaped like output i when `grad` is undefined, else `grad`.
  Tensor materialize(const Tensor& grad, size_t i) const;

  std::vector<std::unique_ptr<NodeHook>>& pre_hooks();
  std::vector<std::unique_ptr<NodeHook>>& post_hooks();
  bool has_hooks() const { return static_cast<bool>(hooks_); }

 protected:
  uint64_t sequence_;

 private:
  struct Hooks {
    std::vector<std::unique_ptr<NodeHook>> pre, post;
  };
  std::vector<Edge> edges_;
  std::vector<OutputMeta> outputs_;
  std::unique_ptr<Hooks> hooks_;
};

// Adds the gradient into a leaf's `.grad`. Held weakly by the leaf, strongly by edges.
class FACULA_API AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(Tensor leaf);
  ~AccumulateGrad() override;
  const char* name() const override { return "AccumulateGrad"; }
  void apply(std::span<const Tensor> grads, std::span<Tensor> results) override;
  const Tensor& leaf() const { return leaf_; }

 private:
  Tensor leaf_;
};

}  // namespace facula
