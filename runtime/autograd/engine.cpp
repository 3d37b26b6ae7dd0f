#include "runtime/autograd/engine.h"

#include <exception>
#include <memory>
#include <thread>

#include "runtime/autograd/graph_task.h"
#include "runtime/autograd/validate.h"

namespace facula {

namespace {

// A finished task of this thread, whose memory the next run takes over.
thread_local std::unique_ptr<GraphTask> tls_task;
constinit thread_local int tls_depth __attribute__((tls_model("initial-exec"))) = 0;

// Nested runs (from hooks and custom functions) sit on the stack of those that called them, and so do
// the interpreter's frames between; from here on a fresh thread takes over.
constexpr int kMaxDepth = 48;

class TaskHolder {
 public:
  TaskHolder() : task_(std::move(tls_task)) {
    if (!task_) task_ = std::make_unique<GraphTask>();
    ++tls_depth;
  }
  ~TaskHolder() {
    --tls_depth;
    task_->finish();
    if (task_->is_small()) tls_task = std::move(task_);
  }
  TaskHolder(const TaskHolder&) = delete;
  TaskHolder& operator=(const TaskHolder&) = delete;
  GraphTask* operator->() { return task_.get(); }

 private:
  std::unique_ptr<GraphTask> task_;
};

Tensor root_gradient(const Tensor& root, const Tensor& grad, size_t i) {
  if (!grad.defined()) {
    FACULA_CHECK(root.numel() == 1, Runtime, "grad can be implicitly created only for scalar outputs; output ", i,
                 " has shape ", shape_string(root.sizes()),
                 ". Pass a gradient of that shape, or reduce the output "
                 "first, e.g. with .sum()");
    FACULA_CHECK(!root.is_complex(), Runtime, "grad can be implicitly created only for real scalar outputs; output ", i,
                 " is ", dtype_name(root.dtype()), ". Pass a gradient, or differentiate a real function of it");
    return core_operators().ones(Meta{DimVector(root.sizes()), root.dtype(), root.device(), {}});
  }
  FACULA_CHECK(grad.sizes() == root.sizes(), Runtime, "Mismatch in shape: gradient ", i, " has shape ",
               shape_string(grad.sizes()), " and output ", i, " has shape ", shape_string(root.sizes()));
  FACULA_CHECK(grad.is_complex() == root.is_complex(), Runtime,
               "For complex tensors, gradient and output must both "
               "be complex or both be real; gradient ",
               i, " is ", dtype_name(grad.dtype()), " and output ", i, " is ", dtype_name(root.dtype()));
  return grad;
}

std::vector<Tensor> run_here(TensorList roots, TensorList grads, TensorList inputs, const BackwardOptions& options) {
  FACULA_CHECK(grads.empty() || grads.size() == roots.size(), Runtime, "got ", roots.size(), " tensors and ",
               grads.size(), " gradients; give one gradient (or None) for each tensor");
  InlineVector<Edge, 2> edges;
  for (size_t i = 0; i < roots.size(); ++i) {
    FACULA_CHECK(roots[i].defined(), Runtime, "element ", i, " of tensors is undefined");
    Edge edge = gradient_edge(roots[i]);
    FACULA_CHECK(edge, Runtime, "element ", i, " of tensors does not require grad and does not have a grad_fn");
    edges.push_back(std::move(edge));
  }
  std::vector<Tensor> results;
  if (!options.accumulate) results.resize(inputs.size());
  // Keeps alive what is looked up by address.
  InlineVector<Edge, 2> targets;
  TaskHolder task;
  task->start(options, &results);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& input = inputs[i];
    FACULA_CHECK(input.defined() && input.requires_grad(), Runtime,
                 "One of the differentiated Tensors does not require grad (element ", i, " of inputs)");
    if (options.accumulate) retain_grad(input);
    targets.push_back(gradient_edge(input));
    task->add_target(targets.back(), i, !options.accumulate, options.accumulate && is_leaf(input));
  }
  if (!inputs.empty()) task->find_wanted(edges);

  ExcludeLayers plain(layer_bit(Layer::Autocast));  // gradients have the dtypes that the forward chose
  GradMode mode(options.create_graph);
  for (size_t i = 0; i < roots.size(); ++i) {
    Tensor grad = root_gradient(roots[i], grads.empty() ? Tensor() : grads[i], i);
    detail::validate_gradient(grad, edges[i].node->output(edges[i].output_nr), *edges[i].node, edges[i].output_nr);
    if (inputs.empty() || task->wants(edges[i])) task->add_gradient(edges[i], std::move(grad));
  }
  task->run();
  if (!options.accumulate && !options.allow_unused) {
    for (size_t i = 0; i < results.size(); ++i) {
      FACULA_CHECK(results[i].defined(), Runtime,
                   "One of the differentiated Tensors appears to not have been used in the graph (element ", i,
                   " of inputs). Set allow_unused=True if this is the desired behavior.");
    }
  }
  return results;
}

}  // namespace

std::vector<Tensor> run_backward(TensorList roots, TensorList grads, TensorList inputs,
                                 const BackwardOptions& options) {
  if (tls_depth < kMaxDepth) [[likely]]
    return run_here(roots, grads, inputs, options);
  std::vector<Tensor> results;
  std::exception_ptr error;
  const ThreadState state = tls_state;
  const auto level = state.forward_mode ? detail::dual_level() : nullptr;
  const bool check_nan = checks_nan();
  std::thread helper([&] {
    tls_state = state;
    set_check_nan(check_nan);
    detail::set_dual_level(level);
    try {
      results = run_here(roots, grads, inputs, options);
    } catch (...) {
      error = std::current_exception();
    }
  });
  helper.join();
  if (error) std::rethrow_exception(error);
  return results;
}

}  // namespace facula
