// Arguments of a call in the place of others.
#pragma once

#include <memory>
#include <vector>

#include "runtime/dispatch/thunk.h"

namespace facula::detail {

template <typename F>
void for_each_tensor(const KernelArg& arg, F&& f) {
  if (arg.kind == KernelArg::Kind::Tensor) {
    if (arg.at != nullptr) f(*static_cast<const Tensor*>(arg.at));
  } else if (arg.kind == KernelArg::Kind::Tensors) {
    for (const Tensor& t : *static_cast<const TensorList*>(arg.at)) {
      if (t.defined()) f(t);
    }
  }
}

// Is argument `i` of a form written to?
inline bool is_written(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, size_t i) {
  if (variant == Variant::InPlace && i == 0) return true;
  if (variant == Variant::Out && i + op.outputs >= args.size()) return true;
  return (op.writes >> i & 1u) != 0;
}

class ArgumentList {
 public:
  explicit ArgumentList(std::span<const KernelArg> from) : args_(from.begin(), from.end()), slots_(from.size()) {}
  // Every tensor as `f` has it.
  template <typename F>
  ArgumentList(std::span<const KernelArg> from, F&& f) : ArgumentList(from) {
    for (size_t i = 0; i < args_.size(); ++i) change(i, f);
  }
  ArgumentList(const ArgumentList&) = delete;
  ArgumentList& operator=(const ArgumentList&) = delete;

  size_t size() const { return args_.size(); }
  const KernelArg& operator[](size_t i) const { return args_[i]; }
  operator std::span<const KernelArg>() const { return args_; }  // NOLINT

  template <typename F>
  void change(size_t i, F&& f) {
    if (args_[i].at == nullptr) return;
    if (args_[i].kind == KernelArg::Kind::Tensor) {
      set(i, f(*static_cast<const Tensor*>(args_[i].at)));
    } else if (args_[i].kind == KernelArg::Kind::Tensors) {
      std::vector<Tensor> list;
      for (const Tensor& t : *static_cast<const TensorList*>(args_[i].at)) {
        list.push_back(t.defined() ? f(t) : Tensor());
      }
      set(i, std::move(list));
    }
  }
  void set(size_t i, Tensor t) {
    slots_[i].tensor = std::move(t);
    args_[i].at = slots_[i].tensor.defined() ? &slots_[i].tensor : nullptr;
  }
  void set(size_t i, std::vector<Tensor> list) {
    Lists& to = lists(i);
    to.tensors = std::move(list);
    to.tensor_list = to.tensors;
    args_[i].at = &to.tensor_list;
    args_[i].count = to.tensors.size();
  }
  void set(size_t i, int64_t v) {
    slots_[i].number = v;
    args_[i].kind = KernelArg::Kind::Int;
    args_[i].at = &slots_[i].number;
  }
  void set(size_t i, DimVector v) {
    Lists& to = lists(i);
    to.ints = std::move(v);
    to.int_list = to.ints;
    args_[i].kind = KernelArg::Kind::Ints;
    args_[i].at = &to.int_list;
    args_[i].count = to.ints.size();
  }

 private:
  struct Lists {
    std::vector<Tensor> tensors;
    TensorList tensor_list;
    DimVector ints;
    IntList int_list;
  };
  struct Slot {
    Tensor tensor;
    int64_t number = 0;
    std::unique_ptr<Lists> lists;
  };
  Lists& lists(size_t i) {
    if (!slots_[i].lists) slots_[i].lists = std::make_unique<Lists>();
    return *slots_[i].lists;
  }
  std::vector<KernelArg> args_;
  std::vector<Slot> slots_;
};

}  // namespace facula::detail
