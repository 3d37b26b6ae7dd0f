// Autocast: operators run in a lower dtype, in float32 or in the widest of their inputs, as their
// entries say for the device. Layer::Autocast of `included` is on while any device type has it.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "runtime/dispatch/registry.h"

namespace facula {

// ---- the settings of this thread ----
struct AutocastSetting {
  bool enabled = false;
  std::optional<ScalarType> dtype;  // none: the device's own
};
FACULA_API bool autocast_enabled(DeviceType type);  // also that no layer hides it
FACULA_API bool autocast_enabled();                 // on any
FACULA_API ScalarType autocast_dtype(DeviceType type);
FACULA_API AutocastSetting autocast_setting(DeviceType type);
// The setting before.
FACULA_API AutocastSetting set_autocast(DeviceType type, AutocastSetting setting);
// Below an operator that is cast, and in backward, the layer is hidden; says whether it was.
FACULA_API bool hide_autocast(bool hide);
FACULA_API bool autocast_cache_enabled();
FACULA_API void set_autocast_cache_enabled(bool enabled);
// Casts of parameters are kept until the outermost context ends.
FACULA_API void clear_autocast_cache();
FACULA_API int autocast_enter();  // the depth after it
FACULA_API int autocast_leave();

// ---- of device types ----
FACULA_API ScalarType default_autocast_dtype(DeviceType type);
FACULA_API void set_default_autocast_dtype(DeviceType type, ScalarType dtype);
// What `op` does on a device type from now on; false when it is never cast (its parts are, or it writes).
FACULA_API bool set_autocast_policy(OperatorEntry& op, DeviceType type, CastPolicy policy);
inline bool is_castable(const OperatorEntry& op) {
  return op.layers[static_cast<int>(Variant::Functional)][static_cast<int>(Layer::Autocast)] != nullptr;
}

// Will a call of the functional form be cast first?
inline bool is_cast(const OperatorEntry& op) {
  return (active_layers(0) & op.layer_mask[static_cast<int>(Variant::Functional)] & layer_bit(Layer::Autocast)) != 0;
}

// A composite in the place of a kernel: its parts are not cast, so that the result does not depend on
// which of the two runs.
template <typename F>
decltype(auto) as_one(F&& call) {
  ExcludeLayers below(layer_bit(Layer::Autocast));
  return call();
}

// ---- the layer ----

// What is to be done to the inputs of one call.
class FACULA_API CastPlan {
 public:
  // `dtype`: the operator has such an argument; `given`: with a value.
  CastPlan(const OperatorEntry& op, std::initializer_list<TensorList> inputs, bool dtype, bool given);
  bool applies() const { return policy_ != CastPolicy::None; }
  bool fills_dtype() const { return fills_dtype_; }
  bool casts() const { return casts_; }
  Tensor cast(const Tensor& t) const;

 private:
  bool eligible(const Tensor& t) const;
  Device device_;
  ScalarType to_ = ScalarType::Float32;
  CastPolicy policy_ = CastPolicy::None;
  bool fills_dtype_ = false, casts_ = false;
};

namespace detail {

// An argument after the casts, for the time of the call.
template <typename T>
struct CastArg {
  const T& value;
  CastArg(const CastPlan&, const T& v) : value(v) {}
  operator const T&() const { return value; }
};
template <>
struct CastArg<Tensor> {
  Tensor value;
  CastArg(const CastPlan& plan, const Tensor& t) : value(plan.casts() ? plan.cast(t) : t) {}
  operator const Tensor&() const { return value; }
};
template <>
struct CastArg<TensorList> {
  std::vector<Tensor> owned;
  TensorList value;
  CastArg(const CastPlan& plan, const TensorList& list) : value(list) {
    if (!plan.casts()) return;
    owned.reserve(list.size());
    for (const Tensor& t : list) owned.push_back(plan.cast(t));
    value = owned;
  }
  operator TensorList() const { return value; }
};
template <>
struct CastArg<std::optional<ScalarType>> {
  std::optional<ScalarType> value;
  CastArg(const CastPlan& plan, const std::optional<ScalarType>& v)
      : value(plan.fills_dtype() ? std::optional(ScalarType::Float32) : v) {}
  operator std::optional<ScalarType>() const { return value; }
};

template <typename T>
TensorList cast_input(const T&) {
  return {};
}
inline TensorList cast_input(const Tensor& t) { return {&t, 1}; }
inline TensorList cast_input(const TensorList& list) { return list; }
template <typename T>
bool gives_dtype(const T&) {
  return false;
}
inline bool gives_dtype(const std::optional<ScalarType>& dtype) { return dtype.has_value(); }

}  // namespace detail

// The functional form of an operator in the autocast layer. `Parts` is the composite that runs, its
// parts cast as they say, where the device leaves the operator itself alone.
template <OperatorEntry* Entry, auto Fn, auto Parts = nullptr, typename = decltype(Fn)>
struct AutocastThunk;
template <OperatorEntry* Entry, auto Fn, auto Parts, typename R, typename... Args>
struct AutocastThunk<Entry, Fn, Parts, R (*)(Args...)> {
  static R call(Args... args) {
    constexpr bool dtype = (std::is_same_v<std::remove_cvref_t<Args>, std::optional<ScalarType>> || ...);
    const CastPlan plan(*Entry, {detail::cast_input(args)...}, dtype, (detail::gives_dtype(args) || ...));
    if constexpr (!std::is_same_v<decltype(Parts), std::nullptr_t>) {
      if (!plan.applies()) return Parts(args...);
    }
    ExcludeLayers below(layer_bit(Layer::Autocast));
    return Fn(detail::CastArg<std::remove_cvref_t<Args>>(plan, args)...);
  }
};

// For generated code: the layer's function, and the policies of the CPU and of other devices.
template <typename Fn>
void set_autocast(OperatorEntry& entry, Fn fn, CastPolicy cpu, CastPolicy device) {
  entry.layers[static_cast<int>(Variant::Functional)][static_cast<int>(Layer::Autocast)] = reinterpret_cast<AnyFn>(fn);
  entry.autocast_device = device;
  set_autocast_policy(entry, kCPU, cpu);
}

}  // namespace facula
