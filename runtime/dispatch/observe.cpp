#include "runtime/dispatch/observe.h"

#include <chrono>

#include "runtime/core/allocator.h"
#include "runtime/dispatch/core_operators.h"

namespace facula {

namespace {

int64_t now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

TensorFacts facts_of(const Tensor& t) { return {DimVector(t.sizes()), t.dtype(), t.device()}; }

Noted facts_of(TensorList list) {
  std::vector<TensorFacts> all;
  all.reserve(list.size());
  for (const Tensor& t : list) {
    if (t.defined()) all.push_back(facts_of(t));
  }
  return all;
}

Noted noted(const Scalar& s) {
  switch (s.kind()) {
    case Category::Bool:
      return s.to<bool>();
    case Category::Integral:
      return s.to<int64_t>();
    default:
      return s.as_double();
  }
}

Noted noted(const KernelArg& arg) {
  using Kind = KernelArg::Kind;
  if (arg.at == nullptr) return {};
  switch (arg.kind) {
    case Kind::Tensor:
      return facts_of(*static_cast<const Tensor*>(arg.at));
    case Kind::Tensors:
      return facts_of(*static_cast<const TensorList*>(arg.at));
    case Kind::Int:
      return *static_cast<const int64_t*>(arg.at);
    case Kind::Float:
      return *static_cast<const double*>(arg.at);
    case Kind::Bool:
      return *static_cast<const bool*>(arg.at);
    case Kind::String:
      return std::string(*static_cast<const std::string_view*>(arg.at));
    case Kind::Scalar:
      return noted(*static_cast<const Scalar*>(arg.at));
    case Kind::Type:
      return *static_cast<const ScalarType*>(arg.at);
    case Kind::Ints: {
      const IntList list = *static_cast<const IntList*>(arg.at);
      return std::vector<int64_t>(list.begin(), list.end());
    }
    case Kind::Bools: {
      const auto& list = *static_cast<const std::vector<bool>*>(arg.at);
      return std::vector<int64_t>(list.begin(), list.end());
    }
    default:
      return {};  // devices, formats, generators
  }
}

constexpr LayerSet kObserving = layer_bit(Layer::Observing);

}  // namespace

void Observation::start() {
  FACULA_CHECK(!running_, Runtime, "this observation is running already");
  ThreadState& thread = tls_state;
  outer_ = thread.observation;
  thread.observation = this;
  thread.included |= kObserving;
  running_ = true;
}

bool Observation::is_of_this_thread() const {
  for (const Observation* o = tls_state.observation; o != nullptr; o = o->outer_) {
    if (o == this) return true;
  }
  return false;
}

void Observation::stop() {
  ThreadState& thread = tls_state;
  for (Observation** o = &thread.observation; *o != nullptr; o = &(*o)->outer_) {
    if (*o != this) continue;
    *o = outer_;
    running_ = false;
    for (const uint32_t i : open_) events_[i].stop = now();
    open_.clear();
    if (thread.observation == nullptr) thread.included &= static_cast<LayerSet>(~kObserving);
    return;
  }
  raise(ErrorKind::Runtime, "an observation is stopped by the thread that started it, and while it runs");
}

Event& Observation::open(const char* name, EventKind kind) {
  open_.push_back(static_cast<uint32_t>(events_.size()));
  if (kind != EventKind::Call) name = texts_.emplace_back(name).c_str();
  Event& event = events_.emplace_back(name, kind);
  event.depth = static_cast<uint32_t>(open_.size() - 1);
  if (options_.arguments || options_.location) event.details = std::make_unique<Event::Details>();
  if (options_.location && core_operators().location != nullptr) event.details->location = core_operators().location();
  if (options_.memory) event.bytes = -cpu_memory_stats().live_bytes;
  event.start = now();
  return event;
}

void Observation::close() {
  Event& event = events_[open_.back()];
  event.stop = now();
  if (options_.memory) event.bytes += cpu_memory_stats().live_bytes;
  open_.pop_back();
}

ObservedCall::ObservedCall(const char* name, EventKind kind, Variant variant) {
  for (Observation* o = tls_state.observation; o != nullptr; o = o->outer_) {
    o->open(name, kind).variant = variant;
    wants_arguments_ = wants_arguments_ || o->options_.arguments;
  }
}

ObservedCall::~ObservedCall() {
  for (Observation* o = tls_state.observation; o != nullptr; o = o->outer_) {
    if (!o->open_.empty()) o->close();  // else it started within this call
  }
}

void ObservedCall::arguments(std::span<const KernelArg> list) const {
  for (Observation* o = tls_state.observation; o != nullptr; o = o->outer_) {
    if (!o->options_.arguments || o->open_.empty()) continue;
    Event& event = o->events_[o->open_.back()];
    event.details->arguments.reserve(list.size());
    for (const KernelArg& arg : list) event.details->arguments.push_back(noted(arg));
    event.start = now();  // what was noted is not the operator's time
  }
}

void ObservedCall::result(TensorList list, bool as_list) const {
  for (Observation* o = tls_state.observation; o != nullptr; o = o->outer_) {
    if (!o->options_.arguments || o->open_.empty()) continue;
    std::vector<Noted>& results = o->events_[o->open_.back()].details->results;
    if (as_list) {
      results.push_back(facts_of(list));
    } else {
      results.push_back(list[0].defined() ? Noted(facts_of(list[0])) : Noted());
    }
  }
}

void begin_range(std::string name) {
  for (Observation* o = tls_state.observation; o != nullptr; o = o->outer_) o->open(name.c_str(), EventKind::Range);
}

void end_range() {
  for (Observation* o = tls_state.observation; o != nullptr; o = o->outer_) {
    // Who ends a range within a call, as a hook of backward may, ends none that began outside of it.
    if (!o->open_.empty() && o->events_[o->open_.back()].kind == EventKind::Range) o->close();
  }
}

}  // namespace facula
