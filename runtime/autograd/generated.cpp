#include "runtime/autograd/generated.h"

#include <utility>

#include "runtime/autograd/reversing.h"

namespace facula {

constinit thread_local detail::Reversing detail::tls_reversing __attribute__((tls_model("initial-exec")));

namespace {
Meta meta_of(const Tensor& t) { return {DimVector(t.sizes()), t.dtype(), t.device(), {}}; }
}  // namespace

Tensor tangent_or_zeros(const Tensor& t) {
  if (!t.defined()) return {};
  return has_tangent(t) ? tangent_of(t) : core_operators().zeros(meta_of(t));
}

Tensor zero_tangent(const Tensor& t) { return core_operators().zeros(meta_of(t)); }

std::vector<Tensor> tangents_or_zeros(TensorList list) {
  std::vector<Tensor> tangents;
  tangents.reserve(list.size());
  for (const Tensor& t : list) tangents.push_back(tangent_or_zeros(t));
  return tangents;
}

bool is_recorded(const Tensor& t) {
  if (!t.defined()) return false;
  if (t.requires_grad() || (has_tangent(t) && is_recorded(tangent_of(t)))) return true;
  return t.is_wrapped() && is_recorded(t.impl()->wrapping->inner);
}

Tensor unwritten(const Tensor& self, bool recorded) { return recorded ? core_operators().clone(self) : self; }

Tensor add_tangents(std::initializer_list<Tensor> terms) {
  Tensor sum;
  for (const Tensor& term : terms) {
    if (term.defined()) sum = sum.defined() ? core_operators().accumulate(sum, term) : term;
  }
  return sum;
}

Tensor elementwise_jvp(const Tensor& input, const Tensor& output, const std::function<Tensor(const Tensor&)>& reverse) {
  if (!has_tangent(input)) return {};
  const CoreOperators& core = core_operators();
  Tensor tangent = core.zeros(meta_of(output));
  tangent = core.accumulate(tangent, core.cast(tangent_of(input), output.dtype(), output.device()));
  if (!is_complex(output.dtype())) return reverse(tangent);
  return core.conjugate(reverse(core.conjugate(tangent)));
}

void raise_no_derivative(const char* op, const char* input, const char* reason) {
  raise(ErrorKind::NoDerivative, Operator{op}, Argument{input}, " has no derivative: ", reason,
        "; detach() it, or take the gradient of other inputs alone");
}

namespace {

class Same final : public Node {
 public:
  const char* name() const override { return "Same"; }
  void apply(std::span<const Tensor> grads, std::span<Tensor> results) override { results[0] = grads[0]; }
};

// What `t` is, with a place in the graph of its own, from which gradients go on to that of `t`.
Tensor apart(const Tensor& t) {
  Tensor own = detach(t);
  auto node = make_intrusive<Same>();
  add_edge(*node, t);
  set_history(own, std::move(node));
  return own;
}

}  // namespace

std::vector<Tensor> tangents_by_reverse(std::span<const TensorList> inputs,
                                        const std::function<std::vector<Tensor>(std::span<const TensorList>)>& call) {
  struct Restore {
    bool saved = tls_state.forward_mode;
    detail::Reversing before = std::exchange(detail::tls_reversing, {true, detail::level_now()});
    ~Restore() {
      tls_state.forward_mode = saved;
      detail::tls_reversing = before;
    }
  };
  const bool recorded = tls_state.plain_tangents;
  std::vector<std::vector<Tensor>> fresh;
  std::vector<Tensor> leaves, directions;
  for (const TensorList list : inputs) {
    std::vector<Tensor>& own = fresh.emplace_back();
    for (const Tensor& t : list) {
      own.push_back(recorded && needs_grad(t) ? apart(t) : t.defined() ? detach(t) : t);
      if (!has_tangent(t)) continue;
      leaves.push_back(own.back());
      directions.push_back(tangent_of(t));
    }
  }
  const std::vector<TensorList> given(fresh.begin(), fresh.end());
  const Restore restore;
  tls_state.forward_mode = false;
  const GradMode on(true);
  for (const Tensor& leaf : leaves) set_requires_grad(leaf, true);  // or is of a graph already
  const std::vector<Tensor> results = call(given);
  std::vector<Tensor> tangents(results.size()), roots, seeds;
  std::vector<size_t> places;
  for (size_t i = 0; i < results.size(); ++i) {
    const Tensor& r = results[i];
    if (!r.defined() || !r.requires_grad()) continue;
    roots.push_back(r);
    seeds.push_back(detach(make_as(r, meta_of(r), true)));
    set_requires_grad(seeds.back(), true);
    places.push_back(i);
  }
  if (roots.empty()) return tangents;
  BackwardOptions options;
  options.accumulate = false;
  options.allow_unused = options.keep_graph = options.create_graph = true;
  const std::vector<Tensor> rows = run_backward(roots, seeds, leaves, options);
  std::vector<Tensor> depending, along;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].defined() || !rows[i].requires_grad()) continue;
    depending.push_back(rows[i]);
    along.push_back(directions[i]);
  }
  if (depending.empty()) return tangents;
  options.create_graph = options.keep_graph = recorded;
  const std::vector<Tensor> products = run_backward(depending, along, seeds, options);
  for (size_t i = 0; i < places.size(); ++i) tangents[places[i]] = products[i];
  return tangents;
}

void raise_no_forward(const char* op, const char* reason) {
  raise(ErrorKind::NotImplemented, Operator{op}, "no forward-mode derivative", *reason ? ": " : "", reason,
        "; use reverse mode, or state `forward:` in its ops.yaml entry");
}

}  // namespace facula
