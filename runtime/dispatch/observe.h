// Watching the calls of operators. A thread that is watched passes Layer::Observing first, in the branch that looks for
// layers anyway: a call costs nothing more while nobody watches.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "runtime/dispatch/registry.h"
#include "runtime/dispatch/thunk.h"

namespace facula {

// What is kept of a tensor that was given or returned.
struct TensorFacts {
  DimVector sizes;
  ScalarType dtype;
  Device device;
};
// Of an argument or a result: absent, or what it was.
using Noted = std::variant<std::monostate, TensorFacts, std::vector<TensorFacts>, int64_t, double, bool, std::string,
                           ScalarType, std::vector<int64_t>>;

enum class EventKind : uint8_t { Call, Backward, Range };

struct Event {
  const char* name;
  EventKind kind;
  Variant variant = Variant::Functional;
  uint32_t depth;  // how many of the events before it, begun and not ended, are around it
  int64_t start = 0, stop = -1;
  int64_t bytes = 0;  // of memory of the CPU that were held more at its end than at its start
  struct Details {
    std::string location;  // "file.py:12" of who called
    std::vector<Noted> arguments, results;
  };
  std::unique_ptr<Details> details;  // null where none were asked for
};

// What a thread does from when it starts until it stops, and what threads do for which it waits meanwhile.
class FACULA_API Observation {
 public:
  struct Options {
    bool arguments = false, memory = false, location = false;
  };
  explicit Observation(Options options) : options_(options) {}
  ~Observation() = default;
  Observation(const Observation&) = delete;
  Observation& operator=(const Observation&) = delete;
  void start();  // in the thread that calls
  void stop();   // in that thread
  bool is_running() const { return running_; }
  bool is_of_this_thread() const;
  const std::vector<Event>& events() const { return events_; }

 private:
  friend class ObservedCall;
  friend FACULA_API void begin_range(std::string name);
  friend FACULA_API void end_range();
  Event& open(const char* name, EventKind kind);
  void close();
  Options options_;
  bool running_ = false;
  Observation* outer_ = nullptr;
  std::deque<std::string> texts_;  // names that may be gone when they are read
  std::vector<Event> events_;
  std::vector<uint32_t> open_;
};

// From when an event begins until it ends, for every observation of the thread.
class FACULA_API ObservedCall {
 public:
  ObservedCall(const char* name, EventKind kind, Variant variant = Variant::Functional);
  ~ObservedCall();
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;
  bool wants_arguments() const { return wants_arguments_; }
  void arguments(std::span<const KernelArg> list) const;
  void result(const Tensor& t) const { result(TensorList(&t, 1), false); }
  void result(const std::vector<Tensor>& list) const { result(TensorList(list), true); }
  template <typename... Parts>
  void result(const std::tuple<Parts...>& parts) const {
    std::apply([this](const auto&... part) { (result(part), ...); }, parts);
  }
  template <typename T>
  void result(const T&) const {}  // numbers

 private:
  void result(TensorList list, bool as_list) const;
  bool wants_arguments_ = false;
};

// A named range of the user's; ends the innermost one.
FACULA_API void begin_range(std::string name);
FACULA_API void end_range();

inline bool is_observed() { return (active_layers(0) & layer_bit(Layer::Observing)) != 0; }

// The layer's function over a form of an operator. Within an operator with kernels nothing more is noted; of a
// composite (`Parts`) its parts are.
template <OperatorEntry* Entry, Variant Form, auto Fn, bool Parts = false, typename = decltype(Fn)>
struct ObservedThunk;
template <OperatorEntry* Entry, Variant Form, auto Fn, bool Parts, typename R, typename... Args>
struct ObservedThunk<Entry, Form, Fn, Parts, R (*)(Args...)> {
  static R call(Args... args) {
    const ObservedCall call(Entry->name, EventKind::Call, Form);
    if (call.wants_arguments()) [[unlikely]] {
      const KernelArg list[] = {detail::kernel_arg(args)..., KernelArg{}};
      call.arguments(std::span<const KernelArg>(list, sizeof...(Args)));
    }
    ExcludeLayers below(Parts ? LayerSet{0} : layer_bit(Layer::Observing));
    if constexpr (std::is_void_v<R>) {
      Fn(args...);
    } else {
      R result = Fn(args...);
      if (call.wants_arguments()) [[unlikely]]
        call.result(result);
      return result;
    }
  }
};

}  // namespace facula
