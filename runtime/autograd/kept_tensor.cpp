// Tensors that stay as they are by copies that are made when somebody writes.
#include <algorithm>
#include <unordered_map>
#include <vector>

#include "runtime/autograd/meta.h"
#include "runtime/autograd/saved_tensor.h"
#include "runtime/core/compound.h"
#include "runtime/dispatch/core_operators.h"

namespace facula {

struct KeptElements {
  Tensor tensor;
  const StorageImpl* memory = nullptr;  // the owner of its memory; null of a copy
};

namespace {

// By the memory that they are in.
struct KeptOnes {
  detail::YieldLock lock;
  std::unordered_map<const StorageImpl*, std::vector<std::shared_ptr<KeptElements>>> of;
};
KeptOnes& all_kept() {
  static auto* const made = new KeptOnes;  // tensors may die late
  return *made;
}

Tensor with_tangent_of(Tensor t, const Tensor& from, Tensor (*as)(const Tensor&)) {
  if (tls_state.forward_mode && has_tangent(from)) set_tangent(t, as(tangent_of(from)));
  return t;
}

Tensor copy_of(const Tensor& t) {
  return with_tangent_of(core_operators().clone(detach(t)), t, core_operators().clone);
}

bool same_elements(const Tensor& a, const Tensor& b) {
  return a.impl()->data == b.impl()->data && a.offset() == b.offset() && a.dtype() == b.dtype() &&
         a.sizes() == b.sizes() && a.strides() == b.strides() && !has_tangent(a) && !has_tangent(b);
}

void forget(KeptOnes& all, const StorageImpl* memory, const KeptElements* one) {
  const auto found = all.of.find(memory);
  if (found == all.of.end()) return;
  std::erase_if(found->second, [&](const auto& e) { return e.get() == one; });
  if (!found->second.empty()) return;
  const_cast<StorageImpl*>(memory)->set_kept(false);
  all.of.erase(found);
}

void leave_copies(const StorageImpl& storage) {
  const StorageImpl* const memory = storage.owner();
  KeptOnes& all = all_kept();
  std::vector<std::shared_ptr<KeptElements>> list;
  {
    std::lock_guard lock(all.lock);
    const auto found = all.of.find(memory);
    if (found == all.of.end()) return const_cast<StorageImpl&>(storage).set_kept(false);
    list = found->second;
  }
  const GradMode off(false);
  Tensor before, copy;  // a tensor that several operations have saved has one copy
  for (const auto& one : list) {
    Tensor now;
    {
      std::lock_guard lock(all.lock);
      if (one->memory == nullptr) continue;
      now = one->tensor;
    }
    if (!before.defined() || !same_elements(before, now)) copy = copy_of(now);
    std::lock_guard lock(all.lock);
    if (one->memory == nullptr) continue;  // another thread was there first
    before = std::exchange(one->tensor, copy);
    one->memory = nullptr;
    forget(all, memory, one.get());
  }
}
[[maybe_unused]] const bool told = (detail::leave_copies = leave_copies, true);

}  // namespace

KeptTensor::KeptTensor(const Tensor& t) : elements_(std::make_shared<KeptElements>()) {
  const StorageImpl* const memory = t.is_wrapped() || is_compound(t) || !t.storage() ? nullptr : t.storage()->owner();
  elements_->tensor = memory == nullptr ? copy_of(t) : with_tangent_of(detach(t), t, [](const Tensor& v) { return v; });
  if (memory == nullptr) return;
  elements_->memory = memory;
  std::lock_guard lock(all_kept().lock);
  all_kept().of[memory].push_back(elements_);
  const_cast<StorageImpl*>(memory)->set_kept(true);
  const_cast<StorageImpl*>(t.storage().get())->set_kept(true);
}

KeptTensor::~KeptTensor() {
  std::lock_guard lock(all_kept().lock);
  if (elements_->memory != nullptr) forget(all_kept(), elements_->memory, elements_.get());
}

Tensor KeptTensor::get() const {
  std::lock_guard lock(all_kept().lock);
  return elements_->tensor;
}

}  // namespace facula
