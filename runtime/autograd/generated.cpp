#include "runtime/autograd/generated.h"

namespace facula {

namespace {
Meta meta_of(const Tensor& t) { return {DimVector(t.sizes()), t.dtype(), t.device(), {}}; }
}  // namespace

Tensor tangent_or_zeros(const Tensor& t) {
  if (!t.defined()) return {};
  return has_tangent(t) ? tangent_of(t) : core_operators().zeros(meta_of(t));
}

std::vector<Tensor> tangents_or_zeros(TensorList list) {
  std::vector<Tensor> tangents;
  tangents.reserve(list.size());
  for (const Tensor& t : list) tangents.push_back(tangent_or_zeros(t));
  return tangents;
}

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
  raise(ErrorKind::NotImplemented, Operator{op}, Argument{input}, " has no derivative: ", reason,
        "; detach() it, or take the gradient of other inputs alone");
}

void raise_no_forward(const char* op, const char* reason) {
  raise(ErrorKind::NotImplemented, Operator{op}, "no forward-mode derivative", *reason ? ": " : "", reason,
        "; use reverse mode, or state `forward:` in its ops.yaml entry");
}

}  // namespace facula
