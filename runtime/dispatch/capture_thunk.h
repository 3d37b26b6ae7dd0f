// The layer of capture over a form of an operator that is no formula of elements: what has been taken down and has to
// do with its arguments runs first, or the call is taken down too.
#pragma once

#include "runtime/core/captured.h"
#include "runtime/dispatch/level_thunk.h"

namespace facula {

namespace detail {

// True: the call was taken down, and its results are in `results`. Else it is to run now.
FACULA_API bool capture_call(const OperatorEntry& op, Variant variant, std::span<const KernelArg> args, Stack& results);
// The operator's formula refuses elements outside of limits, so that it runs when it is called.
FACULA_API void refuse_capture(const OperatorEntry& op);

inline LayerSet layers_of_argument(const Tensor& t, bool written) {
  return written ? layers_of_written(t) : layers_of(t);
}
inline LayerSet layers_of_argument(TensorList list, bool) { return layers_of(list); }
template <typename T>
LayerSet layers_of_argument(const T&, bool) {
  return 0;
}

}  // namespace detail

template <OperatorEntry* Entry, Variant Form, typename Fn>
struct CaptureThunk;
template <OperatorEntry* Entry, Variant Form, typename R, typename... Args>
struct CaptureThunk<Entry, Form, R (*)(Args...)> {
  static R call(Args... args) {
    // The layers below come first: they call the form again.
    constexpr LayerSet kBelow = kCaptureLayer - 1;
    LayerSet layers = 0;
    bool written = Form == Variant::InPlace;
    ((layers |= detail::layers_of_argument(args, written), written = false), ...);
    layers = static_cast<LayerSet>(active_layers(layers) & Entry->layer_mask[static_cast<int>(Form)] & kBelow);
    if (layers != 0) {
      return reinterpret_cast<R (*)(Args...)>(Entry->layers[static_cast<int>(Form)][top_layer(layers)])(args...);
    }
    const KernelArg list[] = {detail::kernel_arg(args)..., KernelArg{}};
    Stack results;
    if (detail::capture_call(*Entry, Form, std::span<const KernelArg>(list, sizeof...(Args)), results)) {
      return detail::answer<R>(results, args...);
    }
    const ExcludeLayers now(kCaptureLayer);
    return reinterpret_cast<R (*)(Args...)>(Entry->forms[static_cast<int>(Form)])(args...);
  }
};

// For generated code.
template <OperatorEntry* Entry, Variant Form, typename Fn>
void set_capture(OperatorEntry& entry) {
  Fn call = &CaptureThunk<Entry, Form, Fn>::call;
  entry.layers[static_cast<int>(Form)][static_cast<int>(Layer::Tracing)] = reinterpret_cast<AnyFn>(call);
  entry.layer_mask[static_cast<int>(Form)] |= kCaptureLayer;
}

}  // namespace facula
