// One run of the backward pass: which nodes wait, with what gradients so far.
#pragma once

#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/node_map.h"

namespace facula {

class GraphTask {
 public:
  using Gradients = InlineVector<Tensor, 2>;

  GraphTask() = default;
  GraphTask(const GraphTask&) = delete;
  GraphTask& operator=(const GraphTask&) = delete;

  // Prepares for a new run; `results` has one place for each input.
  void start(const BackwardOptions& options, std::vector<Tensor>* results);
  // Only what leads to these edges will run. `run_target`: an accumulator that is to accumulate.
  void add_target(const Edge& edge, size_t result_index, bool capture, bool run_target);
  // After all targets: finds the nodes between the roots and them.
  void find_wanted(std::span<const Edge> roots);

  // Adds a gradient for an edge, whose node then waits to run.
  void add_gradient(const Edge& edge, Tensor grad);
  bool wants(const Edge& edge) const { return is_wanted(edge.node.get()); }
  void run();

  // ---- for hooks that wait for several gradients ----
  static GraphTask* current();                 // whose node runs on this thread; null outside of a backward pass
  uint64_t number() const { return number_; }  // no other run of the process has it
  // Has this node run, or will it, since this was first asked in the run? The node may be gone.
  bool reaches(const Node* node);
  // Runs when no node waits any more.
  void at_end(std::shared_ptr<NodeHook> callback) { callbacks_.push_back(std::move(callback)); }

  // Drops what is left, also after an exception, so that the task can be used again.
  void finish() noexcept;
  bool is_small() const {
    return pending_.capacity() <= 4096 && meanings_.capacity() <= 4096 && reachable_.capacity() <= 4096;
  }

 private:
  struct Pending {
    Gradients grads;
    uint32_t sums = 0;     // a bit for each gradient of 16 bits that two were added up to; the last ones share one
    bool widened = false;  // some of them go on in float32
  };
  struct Waiting {
    uint64_t sequence;
    Node* node;
    uint32_t slot;
    bool operator<(const Waiting& o) const { return sequence < o.sequence; }
  };
  struct Capture {
    uint32_t output_nr;
    uint32_t result;
  };
  // A node whose gradient must arrive, whether it runs or not.
  struct Target {
    bool runs = false;      // something wanted is behind it, or it is an accumulator to run
    bool searched = false;  // by find_wanted()
    std::vector<Capture> captures;
  };
  // What a node means to a run with chosen inputs. Graphs have millions of nodes and few targets: kTarget + i is
  // that of targets_[i].
  enum Meaning : uint32_t { kSeen, kRuns, kTarget };

  void run_node(Node& node, Gradients& grads);
  void run_leaf(AccumulateGrad& node, Gradients& grads);
  // Hands out what is captured at the node; does it run?
  bool capture(const Node& node, const Gradients& grads);
  void run_function(Node& node, Gradients& grads);
  Pending& place_for(const Edge& edge);
  void add_to(Tensor& sum, Tensor grad);
  bool is_wanted(const Node* node) const {
    const uint32_t meaning = meanings_.find(node);
    return meaning != detail::NodeMap::kNone && meaning != kSeen;
  }

  void run_waiting();

  BackwardOptions options_;
  uint64_t number_ = 0;
  const Node* running_ = nullptr;
  detail::NodeMap reachable_;
  bool reachable_known_ = false;
  std::vector<std::shared_ptr<NodeHook>> callbacks_;
  std::vector<Tensor>* results_ = nullptr;
  bool selective_ = false;
  uint64_t first_sequence_ = 0;  // of the targets: older nodes cannot lead to one
  std::vector<Waiting> heap_;
  std::vector<Pending> pending_;
  std::vector<uint32_t> free_slots_;
  detail::NodeMap slots_;
  std::vector<Target> targets_;
  detail::NodeMap meanings_;
};

}  // namespace facula
