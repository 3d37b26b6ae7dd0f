// What a thread carries from call to call: which layers are off, and why.
#pragma once

#include "runtime/core/tensor.h"

namespace facula {

class Observation;  // runtime/dispatch/observe.h
class SavedHooks;   // runtime/autograd/saved_tensor.h
class Level;        // runtime/dispatch/levels.h

struct ThreadState {
  LayerSet excluded = 0;     // layers not to enter now
  LayerSet included = 0;     // layers to enter whatever the inputs say (modes)
  bool grad_enabled = true;  // what the user asked for; Autograd in `excluded` follows it
  bool inference = false;
  bool anomaly = false;
  bool forward_mode = false;           // a dual level is open: tangents travel even without gradients
  bool plain_tangents = false;         // a tangent is computed, and recorded: calls compute none of their own
  Observation* observation = nullptr;  // the innermost one that watches this thread
  SavedHooks* saved_hooks = nullptr;   // what packs the tensors that nodes save
  Level* level = nullptr;              // the one that calls are for; Layer::Batching of `included` is on while there is
};

// One per thread; initial-exec TLS and constant initialisation, so that reading it is one instruction.
extern FACULA_API constinit thread_local ThreadState tls_state __attribute__((tls_model("initial-exec")));

inline ThreadState& thread_state() { return tls_state; }

// Layers a call on `t` must pass. A view follows its base.
inline LayerSet layers_of(const Tensor& t) {
  const TensorImpl* i = t.impl();
  if (i == nullptr) return 0;
  return i->base && !i->no_grad_view ? static_cast<LayerSet>(i->layers | i->base->layers) : i->layers;
}
FACULA_API LayerSet layers_of(TensorList list);
// The same of a tensor that is written to: a change of a view made under no_grad is refused there.
inline LayerSet layers_of_written(const Tensor& t) {
  const TensorImpl* i = t.impl();
  if (i == nullptr) return 0;
  return i->base ? static_cast<LayerSet>(i->layers | i->base->layers) : i->layers;
}
// Must a call on `t` be recorded now?
inline bool needs_grad(const Tensor& t) { return t.defined() && t.requires_grad() && tls_state.grad_enabled; }
inline bool needs_grad(TensorList list) {
  for (const Tensor& t : list) {
    if (needs_grad(t)) return true;
  }
  return false;
}

// Turns layers off for a scope: what a layer does before it calls the layers below.
class ExcludeLayers {
 public:
  explicit ExcludeLayers(LayerSet layers) : saved_(tls_state.excluded) { tls_state.excluded |= layers; }
  ~ExcludeLayers() { tls_state.excluded = saved_; }
  ExcludeLayers(const ExcludeLayers&) = delete;
  ExcludeLayers& operator=(const ExcludeLayers&) = delete;

 private:
  LayerSet saved_;
};

struct BelowAutograd : ExcludeLayers {
  BelowAutograd() : ExcludeLayers(layer_bit(Layer::Autograd)) {}
};

// The user's switch (no_grad, enable_grad, set_grad_enabled).
class GradMode {
 public:
  explicit GradMode(bool enabled) : saved_grad_(tls_state.grad_enabled), saved_(tls_state.excluded) { set(enabled); }
  ~GradMode() {
    tls_state.grad_enabled = saved_grad_;
    tls_state.excluded = saved_;
  }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;
  static bool enabled() { return tls_state.grad_enabled; }
  static void set(bool enabled) {
    tls_state.grad_enabled = enabled;
    if (enabled || tls_state.forward_mode) {
      tls_state.excluded &= static_cast<LayerSet>(~layer_bit(Layer::Autograd));
    } else {
      tls_state.excluded |= layer_bit(Layer::Autograd);
    }
  }

 private:
  bool saved_grad_;
  LayerSet saved_;
};

}  // namespace facula
