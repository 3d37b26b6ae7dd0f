#include "runtime/autograd/function.h"

#include <algorithm>

namespace facula {

void CustomNode::apply(std::span<const Tensor> grads, std::span<Tensor> results) {
  if (!materialize_grads || std::all_of(grads.begin(), grads.end(), [](const Tensor& g) { return g.defined(); })) {
    backward(grads, results);
    return;
  }
  std::vector<Tensor> whole;
  whole.reserve(grads.size());
  for (size_t i = 0; i < grads.size(); ++i) whole.push_back(materialize(grads[i], i));
  backward(whole, results);
}

void CustomNode::release_saved(Released& out) {
  for (SavedTensor& s : saved_) s.release(out);
}

std::vector<Tensor> CustomNode::saved_tensors() const {
  std::vector<Tensor> tensors;
  tensors.reserve(saved_.size());
  for (const SavedTensor& s : saved_) tensors.push_back(s.unpack(*this, "saved_tensors"));
  return tensors;
}

namespace {

bool contains(TensorList list, const Tensor& t) {
  return std::any_of(list.begin(), list.end(), [&](const Tensor& other) { return other.is_same(t); });
}

// The same elements as a view that is not followed: whether a gradient goes through it is for the
// function's own backward to say.
Tensor opaque_view(const Tensor& t) {
  if (t.is_wrapped()) {
    Tensor same = detach(t);
    same.impl()->base = t.impl()->base ? t.impl()->base : intrusive_ptr<TensorImpl>::share(t.impl());
    same.impl()->no_grad_view = true;
    return same;
  }
  Tensor view = alias(t, t.sizes(), t.strides(), t.offset());
  view.impl()->no_grad_view = true;
  return view;
}

void connect_dirty(const intrusive_ptr<CustomNode>& node, TensorList inputs, const Tensor& out, size_t count) {
  check_inplace(out, node->name(), true);
  FACULA_CHECK(!out.is_view() || (count == 1 && inputs[0].is_same(out)), Runtime, node->name(),
               ": an input that is a view may be marked dirty only if it is the first input and the function has one "
               "output");
  rebase_history(out, node);
}

}  // namespace

void finish_function(const intrusive_ptr<CustomNode>& node, TensorList inputs, std::span<Tensor> outputs, bool record) {
  for (const Tensor& t : node->dirty) {
    FACULA_CHECK(contains(outputs, t), Runtime, node->name(), ": a tensor marked dirty must be returned by forward()");
  }
  std::vector<bool> of_node(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& out = outputs[i];
    if (!out.defined()) {
      if (record) node->add_output(out);
      continue;
    }
    const bool is_input = contains(inputs, out);
    const bool is_dirty = contains(node->dirty, out);
    if (!record) {
      if (is_input && !is_dirty) out = opaque_view(out);
      continue;
    }
    if (contains(node->non_differentiable, out)) {
      node->add_output(out);
      if (is_input || out.requires_grad()) out = detach(out);
      continue;
    }
    of_node[i] = is_differentiable(out.dtype());
    if (is_dirty && is_input) {
      connect_dirty(node, inputs, out, outputs.size());
      continue;
    }
    if (is_input) {
      out = opaque_view(out);
    } else if (out.is_view()) {
      out.impl()->no_grad_view = true;
    }
    set_history(out, node);
  }
  if (record) {
    node->saved_.reserve(node->to_save.size());
    for (const Tensor& t : node->to_save) {
      bool is_output = false;
      for (size_t i = 0; i < outputs.size(); ++i) is_output |= of_node[i] && outputs[i].is_same(t);
      node->saved_.emplace_back(t, is_output);
      for (size_t i = 0; i < outputs.size() && !is_output && t.defined(); ++i) {
        if (of_node[i] && t.impl()->base.get() == outputs[i].impl()) suspect_cycle(outputs[i]);
      }
    }
  }
  node->to_save.clear();
  node->dirty.clear();
  node->non_differentiable.clear();
}

}  // namespace facula
