// What generated backward nodes and autograd functions share.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/meta.h"
#include "runtime/dispatch/formula.h"

namespace facula {

// Arguments a node keeps: views become owning values.
inline DimVector to_field(IntList l) { return DimVector(l.begin(), l.end()); }
inline std::optional<DimVector> to_field(const std::optional<IntList>& l) {
  return l ? std::optional<DimVector>(to_field(*l)) : std::nullopt;
}
inline std::string to_field(std::string_view s) { return std::string(s); }
inline std::optional<std::string> to_field(const std::optional<std::string_view>& s) {
  return s ? std::optional<std::string>(*s) : std::nullopt;
}
template <typename T>
  requires(std::is_arithmetic_v<T> || std::is_same_v<T, ScalarType> || std::is_same_v<T, Device> ||
           std::is_same_v<T, std::optional<int64_t>>)
T to_field(T v) {
  return v;
}

inline std::vector<SavedTensor> save_list(TensorList list) {
  std::vector<SavedTensor> saved;
  saved.reserve(list.size());
  for (const Tensor& t : list) saved.emplace_back(t, false);
  return saved;
}
inline std::vector<Tensor> unpack_list(const std::vector<SavedTensor>& list, const Node& owner, const char* name) {
  std::vector<Tensor> tensors;
  tensors.reserve(list.size());
  for (const SavedTensor& s : list) tensors.push_back(s.unpack(owner, name));
  return tensors;
}

// Gradients of all outputs, zeros where one is missing.
inline std::vector<Tensor> materialize_all(const Node& node, std::span<const Tensor> grads) {
  std::vector<Tensor> all;
  all.reserve(grads.size());
  for (size_t i = 0; i < grads.size(); ++i) all.push_back(node.materialize(grads[i], i));
  return all;
}

// The gradient of an input stated `zero`.
inline Tensor zero_gradient(const Node& node, size_t input) {
  const Edge& edge = node.edge(input);
  const OutputMeta& meta = edge.node->output(edge.output_nr);
  return core_operators().zeros(meta);
}

// ---- list inputs: one edge an element ----
inline bool needs_any(const Node& node, size_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    if (node.needs(first + i)) return true;
  }
  return false;
}
inline void store_list(std::span<Tensor> results, size_t first, const std::vector<Tensor>& list) {
  for (size_t i = 0; i < list.size(); ++i) results[first + i] = list[i];
}

// ---- forward mode ----
FACULA_API Tensor tangent_or_zeros(const Tensor& t);
FACULA_API Tensor zero_tangent(const Tensor& t);
FACULA_API std::vector<Tensor> tangents_or_zeros(TensorList list);
// Terms of a sum of tangents; undefined ones are left out.
FACULA_API Tensor add_tangents(std::initializer_list<Tensor> terms);
// Makes the tangent of a view that view of the tangent of what it is a view of, so that a write to one is a write to
// both, also where gradients are off; false where that has none, or in no such form.
FACULA_API bool share_tangent(const Tensor& view, const Tensor& of);
// Whether a graph records what is computed of `t` or of its tangent, here or at a level around this one.
FACULA_API bool is_recorded(const Tensor& t);
inline bool is_recorded(TensorList list) {
  return std::any_of(list.begin(), list.end(), [](const Tensor& t) { return is_recorded(t); });
}
// What a call in place of tensors with tangents is computed from. Where that is recorded too, its backward may keep
// what it was given, which must not be what is written to then.
FACULA_API Tensor unwritten(const Tensor& self, bool recorded);
// The tangent of an elementwise operator by its reverse formula. That formula multiplies by the
// conjugated slope, so complex tangents go through conjugated, and it wants a gradient of the
// output's shape and dtype.
FACULA_API Tensor elementwise_jvp(const Tensor& input, const Tensor& output,
                                  const std::function<Tensor(const Tensor&)>& reverse);
// Must what is computed of tangents be recorded?
inline bool needs_tangent_grad(const Tensor& t) { return has_tangent(t) && needs_grad(tangent_of(t)); }
inline bool needs_tangent_grad(TensorList list) {
  return std::any_of(list.begin(), list.end(), [](const Tensor& t) { return needs_tangent_grad(t); });
}
// While the tangent of a result is computed: of a formula that is recorded the calls enter the autograd layer.
class TangentFormula {
 public:
  explicit TangentFormula(bool recorded) : saved_(tls_state.excluded), plain_(tls_state.plain_tangents) {
    if (recorded) {
      tls_state.plain_tangents = true;
    } else {
      tls_state.excluded |= layer_bit(Layer::Autograd);
    }
  }
  ~TangentFormula() {
    tls_state.excluded = saved_;
    tls_state.plain_tangents = plain_;
  }
  TangentFormula(const TangentFormula&) = delete;
  TangentFormula& operator=(const TangentFormula&) = delete;

 private:
  LayerSet saved_;
  bool plain_;
};
// After an in-place change.
inline void write_tangent(const Tensor& t, Tensor tangent, bool recorded) {
  const TangentFormula formula(recorded);
  set_tangent_inplace(t, std::move(tangent));
}
[[noreturn]] FACULA_API void raise_no_derivative(const char* op, const char* input, const char* reason);
// Tangents of the results of `call` by two backward passes (J. Townsend, "A new trick for calculating Jacobian vector
// products", 2017): a product with the transposed Jacobian is linear in its vector, and the transpose of that is what
// is wanted. Undefined where a result depends on no input.
FACULA_API std::vector<Tensor> tangents_by_reverse(
    std::span<const TensorList> inputs, const std::function<std::vector<Tensor>(std::span<const TensorList>)>& call);
inline std::vector<Tensor> listed(const Tensor& t) { return {t}; }
inline std::vector<Tensor> listed(std::vector<Tensor> list) { return list; }
template <typename... Parts>
std::vector<Tensor> listed(const std::tuple<Parts...>& parts) {
  std::vector<Tensor> list;
  const auto add = [&](const auto& part) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(part)>, Tensor>) {
      list.push_back(part);
    } else {
      list.emplace_back();
    }
  };
  std::apply([&](const auto&... part) { (add(part), ...); }, parts);
  return list;
}
[[noreturn]] FACULA_API void raise_no_forward(const char* op, const char* reason);

}  // namespace facula
