// What the files of capture share.
#pragma once

#include <string>

#include "runtime/core/captured.h"
#include "runtime/core/in_call.h"
#include "runtime/dispatch/core_operators.h"

namespace facula::detail {

// The main thread's signals wait while a record is locked: what was called before is done, and their handlers want
// Python's lock, whose holder may want the record.
class NoSignals {
 public:
  NoSignals() : idle_(tls_watch.idle), known_(tls_watch.known), steps_(tls_watch.steps) {
    tls_watch.idle = true;
    tls_watch.known = true;
  }
  ~NoSignals() {
    tls_watch.idle = idle_;
    tls_watch.known = known_;
    tls_watch.steps = steps_;
  }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  bool idle_, known_;
  int32_t steps_;
};

// A Python number, in whatever tensor.
inline bool is_number(const Tensor& t) { return t.is_wrapped_number() && t.dim() == 0; }

// The line of Python that calls, where anybody asks for it.
inline std::string caller() {
  const auto location = core_operators().location;
  return location != nullptr ? location() : std::string();
}

}  // namespace facula::detail
