// What core has to do with capture (runtime/dispatch/capture.h), which takes calls down and runs them later.
#pragma once

#include <atomic>

#include "runtime/core/thread_state.h"

namespace facula {

// Capture is the layer that would see calls of any kind before they are differentiated. It is among the modes of a
// thread that captures, and of tensors that calls which were taken down are to read or write.
inline constexpr LayerSet kCaptureLayer = layer_bit(Layer::Tracing);

// How many captures go on: where none does, no tensor waits for its values.
extern FACULA_API constinit std::atomic<size_t> active_captures;

// Runs what was taken down that has to do with `t`, before its memory or a value is shown. Set by runtime/dispatch.
extern void (*settle_captured)(const Tensor& t);

}  // namespace facula
