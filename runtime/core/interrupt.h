// Ctrl-C and other signals while the program's main thread computes: Python runs their handlers on that thread
// only, and only when it is asked to.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/core/error.h"

namespace facula {

// Runs the handlers of signals that came, and throws what they raise. Called on the main thread, with or without
// Python's lock, and not while the runtime holds a lock of its own.
using InterruptHandler = void (*)();
// Set by the bindings; `main_thread` is the pthread_t of the thread that handles signals.
FACULA_API void set_interrupt_handler(InterruptHandler handler, unsigned long main_thread);
// Is the calling thread the one that handles signals? False without Python.
FACULA_API bool on_main_thread();

namespace detail {

struct Watch {
  int32_t steps = 1;                             // until count_step() looks at the clock
  bool idle = false;                             // this thread handles no signals
  bool known = false;                            // whether it does
  int64_t checked = 0;                           // milliseconds
  uint32_t raised = 0;                           // how often a computation of this thread was ended
  const std::atomic<bool>* cancelled = nullptr;  // of the job that this thread helps with
};
extern FACULA_API constinit thread_local Watch tls_watch __attribute__((tls_model("initial-exec")));
// What ends a helper's part of a job that has failed; it stays within runtime/iterate/parallel.cpp.
struct Cancelled {};
FACULA_API void look_for_signals();
FACULA_API void end_of_steps();

}  // namespace detail

// Between parts of long work, some milliseconds each or less: some ten nanoseconds, and every 50 ms a question to
// Python. May throw, and may run Python. On threads that help the main one it throws when that has stopped.
inline void check_interrupt() {
  if (!detail::tls_watch.idle) detail::look_for_signals();
}
// The same for what is done millions of times: a nanosecond. After 256 steps it looks at the clock; what may take long
// counts for several.
inline void count_step(int32_t steps = 1) {
  if ((detail::tls_watch.steps -= steps) <= 0) [[unlikely]]
    detail::end_of_steps();
}

}  // namespace facula
