#include "runtime/dispatch/autocast.h"

#include <unordered_map>

#include "runtime/dispatch/core_operators.h"

namespace facula {

namespace {

constexpr LayerSet kAutocast = layer_bit(Layer::Autocast);
constexpr int kFunctional = static_cast<int>(Variant::Functional);

// A parameter's cast, good while the parameter has the storage and the version that it was made from.
struct Kept {
  Tensor source;
  Storage storage;
  uint32_t version = 0;
  ScalarType dtype = ScalarType::Float32;
  Tensor cast;
};

struct State {
  AutocastSetting settings[kMaxDeviceTypes];
  bool cache = true;
  int depth = 0;
  std::unordered_map<const TensorImpl*, Kept> kept;
};
State& state() {
  thread_local State s;
  return s;
}

ScalarType default_dtypes[kMaxDeviceTypes] = {ScalarType::BFloat16};

// Layers of inputs in the mode: on while one device type has it.
void show_layer() {
  ThreadState& t = thread_state();
  bool any = false;
  for (const AutocastSetting& s : state().settings) any |= s.enabled;
  t.included = static_cast<LayerSet>(any ? t.included | kAutocast : t.included & ~kAutocast);
}

bool is_shown() { return (thread_state().included & ~thread_state().excluded & kAutocast) != 0; }

Tensor kept_cast(const Tensor& t, ScalarType to) {
  State& s = state();
  const bool kept = s.cache && s.depth > 0 && t.requires_grad() && core_operators().is_leaf(t) && !t.is_view() &&
                    !thread_state().inference && !thread_state().forward_mode;
  if (!kept) return core_operators().cast(t, to, t.device());
  Kept& k = s.kept[t.impl()];
  const bool good = k.cast.defined() && k.dtype == to && k.storage == t.storage() && k.version == t.version() &&
                    (k.cast.requires_grad() || !GradMode::enabled());
  if (!good) k = {t, t.storage(), t.version(), to, core_operators().cast(t, to, t.device())};
  return k.cast;
}

}  // namespace

bool autocast_enabled(DeviceType type) { return state().settings[type].enabled && is_shown(); }
bool autocast_enabled() { return is_shown(); }
ScalarType autocast_dtype(DeviceType type) {
  return state().settings[type].dtype.value_or(default_autocast_dtype(type));
}
AutocastSetting autocast_setting(DeviceType type) { return state().settings[type]; }
AutocastSetting set_autocast(DeviceType type, AutocastSetting setting) {
  const AutocastSetting before = std::exchange(state().settings[type], setting);
  show_layer();
  return before;
}
bool hide_autocast(bool hide) {
  ThreadState& t = thread_state();
  const bool hidden = (t.excluded & kAutocast) != 0;
  t.excluded = static_cast<LayerSet>(hide ? t.excluded | kAutocast : t.excluded & ~kAutocast);
  return hidden;
}
bool autocast_cache_enabled() { return state().cache; }
void set_autocast_cache_enabled(bool enabled) { state().cache = enabled; }
void clear_autocast_cache() {
  auto kept = std::exchange(state().kept, {});  // what ends with it may look into the cache
}
int autocast_enter() { return ++state().depth; }
int autocast_leave() {
  if (--state().depth == 0) clear_autocast_cache();
  return state().depth;
}

ScalarType default_autocast_dtype(DeviceType type) { return default_dtypes[type]; }
void set_default_autocast_dtype(DeviceType type, ScalarType dtype) { default_dtypes[type] = dtype; }

bool set_autocast_policy(OperatorEntry& op, DeviceType type, CastPolicy policy) {
  if (!is_castable(op)) return false;
  op.autocast[type] = policy;
  // Once there it stays: an operator may be cast on another device.
  if (policy != CastPolicy::None) op.layer_mask[kFunctional] |= kAutocast;
  return true;
}

CastPlan::CastPlan(const OperatorEntry& op, std::initializer_list<TensorList> inputs, bool dtype, bool given) {
  const Tensor* lead = nullptr;  // a 0-d CPU tensor gives way to the others
  for (TensorList list : inputs) {
    for (const Tensor& t : list) {
      if (t.defined() && (lead == nullptr || (lead->is_cpu() && !t.is_cpu()))) lead = &t;
    }
  }
  if (lead == nullptr) return;
  device_ = lead->device();
  const AutocastSetting& setting = state().settings[device_.type];
  if (!setting.enabled) return;
  policy_ = op.autocast[device_.type];
  if (policy_ == CastPolicy::None) return;
  if (policy_ == CastPolicy::Float32 && dtype) {
    fills_dtype_ = !given && eligible(*lead);  // the operator converts by itself
    return;
  }
  casts_ = true;
  if (policy_ == CastPolicy::Lower) to_ = autocast_dtype(device_.type);
  if (policy_ != CastPolicy::Widest) return;
  std::optional<ScalarType> widest;
  for (TensorList list : inputs) {
    for (const Tensor& t : list) {
      if (eligible(t)) widest = widest ? promote_types(*widest, t.dtype()) : t.dtype();
    }
  }
  casts_ = widest.has_value();
  to_ = widest.value_or(to_);
}

// As in torch, what is float64 stays so; a number has no dtype of its own.
bool CastPlan::eligible(const Tensor& t) const {
  return t.defined() && t.is_floating_point() && t.dtype() != ScalarType::Float64 && t.device().type == device_.type &&
         !t.is_wrapped_number();
}

Tensor CastPlan::cast(const Tensor& t) const {
  if (!eligible(t) || t.dtype() == to_) return t;
  if (policy_ == CastPolicy::Lower && t.dtype() == ScalarType::Float32) return kept_cast(t, to_);
  return core_operators().cast(t, to_, t.device());
}

}  // namespace facula
