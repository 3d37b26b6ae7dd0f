// The backward graph: nodes made by generated code, edges to the nodes of their inputs.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/autograd/inline_vector.h"
#include "runtime/autograd/made_once.h"
#include "runtime/autograd/saved_fields.h"
#include "runtime/core/tensor.h"

namespace facula {

class Node;
struct AutogradMeta;

// "Gradient number `output_nr` of `node`"; a null node means that no gradient is wanted.
struct Edge {
  intrusive_ptr<Node> node;
  uint32_t output_nr = 0;
  explicit operator bool() const { return static_cast<bool>(node); }
};

// What the engine must know of a forward output to check and shape its gradient.
class FACULA_API OutputMeta {
 public:
  ScalarType dtype = ScalarType::Float32;
  Device device;

  OutputMeta() = default;
  explicit OutputMeta(const TensorImpl& t);
  OutputMeta(OutputMeta&& o) noexcept { take(o); }
  OutputMeta& operator=(OutputMeta&& o) noexcept {
    if (this != &o) {
      free_heap();
      take(o);
    }
    return *this;
  }
  ~OutputMeta() { free_heap(); }
  DimVector sizes() const;
  bool has_sizes(const DimVector& sizes) const {
    if (sizes.size() != dims_ || dims_ > kFew) [[unlikely]]
      return dims_ == kHeap && has_many(sizes);
    bool same = true;
    for (size_t d = 0; d < dims_; ++d) same = same && sizes[d] == few_[d];
    return same;
  }
  operator Meta() const { return {sizes(), dtype, device, {}}; }  // NOLINT

 private:
  static constexpr uint8_t kHeap = 255;
  static constexpr size_t kFew = 3;
  bool has_many(const DimVector& sizes) const;
  int64_t* heap() const {  // the number of dims, and their sizes
    int64_t* p;
    std::memcpy(&p, few_ + 1, sizeof p);
    return p;
  }
  void free_heap() {
    if (dims_ == kHeap) delete[] heap();
  }
  void take(OutputMeta& o) {
    dtype = o.dtype;
    device = o.device;
    std::memcpy(few_, o.few_, sizeof few_);
    dims_ = std::exchange(o.dims_, uint8_t{0});
  }
  uint8_t dims_ = 0;
  // Graphs of millions of nodes are of tensors with few and small dims; else the last two are a pointer.
  int32_t few_[kFew] = {};
};
static_assert(sizeof(OutputMeta) == 16);

// Sees gradients on their way and may replace them. Kept by shared_ptr; a removal handle sets
// `removed`, which the engine honours wherever the hook is registered.
struct FACULA_API NodeHook {
  virtual ~NodeHook() = default;
  // Tensor hooks get one gradient, pre hooks those of the node's outputs, post hooks those of its
  // inputs; a post-accumulate hook gets the leaf itself.
  virtual void run(std::vector<Tensor>& grads) = 0;
  // Post hooks only: also what had entered the node.
  virtual void run_post(std::vector<Tensor>& grad_inputs, std::span<const Tensor>) { run(grad_inputs); }
  std::atomic<bool> removed{false};
};
using HookList = std::vector<std::shared_ptr<NodeHook>>;

// What a node keeps alive; see Node::kept().
struct Kept {
  std::vector<TensorImpl*> tensors;
  std::vector<Node*> nodes;
  void add(const Tensor& t) {
    if (t.defined()) tensors.push_back(t.impl());
  }
  void add(const SavedTensor& t) { add(t.kept()); }
  template <typename T>
  void add(const std::vector<T>& list) {
    for (const T& t : list) add(t);
  }
};

namespace detail {

// While gradients of chosen inputs are computed: what the node that runs now need not compute.
struct WantedInputs {
  const Node* node = nullptr;
  const bool* wanted = nullptr;
};
extern FACULA_API constinit thread_local WantedInputs tls_wanted __attribute__((tls_model("initial-exec")));

}  // namespace detail

class FACULA_API Node : public RefCounted {
 public:
  Node();
  virtual ~Node();
  // Deletion is iterative: a chain of a million nodes must not use a million stack frames.
  static void dispose(Node* node) noexcept;
  bool drop() const { return weakly_held_ ? RefCounted::drop() : drop_unweak(); }
  static void* operator new(size_t size);
  static void operator delete(void* p, size_t size) noexcept;

  virtual const char* name() const = 0;
  // `grads[i]` belongs to forward output i and may be undefined (only where num_outputs() > 1, or
  // with runs_without_grad()). Sets `results[i]` for every input i with needs(i), or leaves it
  // undefined where the gradient is zero; sums, casts and checks are the engine's.
  virtual void apply(std::span<const Tensor> grads, std::span<Tensor> results) = 0;
  // Hands out what was saved, to be freed; a later apply() raises "backward a second time".
  virtual void release_saved(Released&) {}
  // Adds what this node keeps alive, its edges and hooks aside, for the search for cycles: one entry a reference.
  virtual void kept(Kept&) const {}
  // Adds what is kept of the call.
  virtual void saved(SavedFields&) const {}
  // Must apply() run although no gradient reached the node? (Python functions that materialize.)
  virtual bool runs_without_grad() const { return false; }

  // Larger than that of every node an edge leads to; otherwise in order of creation.
  uint64_t sequence() const { return sequence_; }
  size_t num_inputs() const { return edges_.size(); }
  size_t num_outputs() const { return outputs_.size(); }
  bool needs(size_t input) const {
    return edges_[input].node && (detail::tls_wanted.node != this || detail::tls_wanted.wanted[input]);
  }
  const Edge& edge(size_t input) const { return edges_[input]; }
  std::span<const Edge> edges() const { return edges_; }
  // Edges are set before anything leads to this node, and never changed after.
  void add_edge(Edge edge);
  const OutputMeta& output(size_t i) const { return outputs_[i]; }
  // Returns the new output's number.
  uint32_t add_output(const Tensor& t);
  // Zeros shaped like output i when `grad` is undefined, else `grad`.
  Tensor materialize(const Tensor& grad, size_t i) const;

  // ---- hooks ----
  struct Hooks {
    std::vector<std::pair<uint32_t, std::shared_ptr<NodeHook>>> tensor;  // of one output's gradient
    std::vector<std::pair<uint32_t, AutogradMeta*>> retain;              // whose .grad to fill
    HookList pre, post;
    std::string made_at;              // anomaly mode
    std::shared_ptr<NodeHook> notes;  // never run; Python's, for what the user notes
  };
  Hooks& hooks();  // makes them when absent
  const Hooks* hooks_or_null() const { return hooks_.get(); }
  // Lists of hooks grow while others run the node: they are changed, and copied, under lock_for() their owner.
  void add_pre_hook(std::shared_ptr<NodeHook> hook);
  void add_post_hook(std::shared_ptr<NodeHook> hook);
  void add_tensor_hook(uint32_t output_nr, std::shared_ptr<NodeHook> hook);

  bool accumulates() const { return accumulates_; }  // is it an AccumulateGrad?

  // ---- engine ----
  // Threads may run one node at a time each; what was saved is freed by the last one out.
  void enter() const;
  void leave(bool release);

 protected:
  struct Quietly {};
  explicit Node(Quietly);  // runs nothing of Python's even in anomaly mode
  uint64_t sequence_;

 private:
  friend class GraphTask;
  std::atomic<uint32_t> users_{0};

 protected:
  bool weakly_held_ = false;  // reached through AutogradMeta::accumulator
  bool accumulates_ = false;  // is an AccumulateGrad

 private:
  InlineVector<Edge, 2> edges_;
  InlineVector<OutputMeta, 1> outputs_;
  detail::MadeOnce<Hooks> hooks_;
};

// Adds the gradient into a leaf's `.grad`. Held weakly by the leaf, strongly by edges.
class FACULA_API AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(Tensor leaf);
  ~AccumulateGrad() override;
  const char* name() const override { return "AccumulateGrad"; }
  void apply(std::span<const Tensor> grads, std::span<Tensor> results) override;
  // Takes over `grad` itself where nobody else holds its memory.
  void accumulate(Tensor grad);
  const Tensor& leaf() const { return leaf_; }
  void kept(Kept& out) const override { out.add(leaf_); }

 private:
  Tensor leaf_;
};

}  // namespace facula
