// A tensor kept for backward, with the version it had.
#pragma once

#include <memory>

#include "runtime/autograd/inline_vector.h"
#include "runtime/core/in_call.h"

namespace facula {

class Node;

// Tensors on their way out of a node. Dropping one may run Python, which may run this very node, so
// that they die once the node is done with.
using Released = InlineVector<Tensor, 4>;

// What a thread does to tensors instead of keeping them.
class FACULA_API SavedHooks {
 public:
  virtual ~SavedHooks() = default;
  // A tensor that stands for what is kept of `t`, of its sizes and dtype; nobody reads its elements.
  virtual Tensor pack(const Tensor& t) = 0;
};
// What pack() stood for, as often as backward asks; set by runtime/bindings.
extern FACULA_API Tensor (*unpack_saved)(const Tensor& packed);

class FACULA_API SavedTensor {
 public:
  SavedTensor() = default;
  // `is_output`: the tensor is an output of the node that saves it; kept without its grad_fn so
  // that node and tensor do not own each other. Call after set_history or rebase_history.
  SavedTensor(const Tensor& t, bool is_output);

  // Raises when the tensor was changed in place since, naming the node, `name` (the schema name)
  // and the out-of-place way, or when it was released already. Undefined if an undefined one was saved.
  Tensor unpack(const Node& owner, const char* name) const {
    const InCall in_call(tensor_);
    if (tensor_.defined() && version_ == tensor_.version() && !is_output_) [[likely]]
      return tensor_;
    return unpack_slow(owner, name);
  }
  void release(Released& out) {
    if (!tensor_.defined()) return;
    released_ = true;
    out.push_back(std::move(tensor_));
  }
  bool defined() const { return tensor_.defined() || released_; }
  // The tensor that is kept alive, as it is now; undefined after release().
  const Tensor& kept() const { return tensor_; }
  // Keeps from now on what `hooks` make of it. Raises when there is nothing to keep, or hooks are there already.
  void register_hooks(SavedHooks& hooks);
  // Did `t.data = ...` give the tensor another shape or dtype?
  bool reshaped() const;

 private:
  Tensor unpack_slow(const Node& owner, const char* name) const;
  Tensor unpack_packed(const Node& owner, const char* name) const;
  void pack(const Tensor& t, SavedHooks& hooks);

  Tensor tensor_;
  uint32_t version_ = 0;
  uint32_t output_nr_ : 28 = 0;
  uint32_t is_output_ : 1 = 0;  // also of one that is packed
  uint32_t is_packed_ : 1 = 0;
  uint32_t is_packed_output_ : 1 = 0;
  uint32_t released_ : 1 = 0;
};

// A tensor whose elements stay as they are, without history: what writes to its memory leaves it a copy before.
class FACULA_API KeptTensor {
 public:
  explicit KeptTensor(const Tensor& t);
  ~KeptTensor();
  KeptTensor(const KeptTensor&) = delete;
  KeptTensor& operator=(const KeptTensor&) = delete;
  Tensor get() const;

 private:
  std::shared_ptr<struct KeptElements> elements_;
};

}  // namespace facula
