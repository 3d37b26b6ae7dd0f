// How computations end early: by signals, and by the end of the interpreter.
#include <pthread.h>
#include <unistd.h>
#include <unwind.h>

#include "runtime/bindings/types/types.h"
#include "runtime/core/interrupt.h"
#include "runtime/core/thread_state.h"

namespace facula::python {

namespace {

// ---- threads that outlive the interpreter ----

[[noreturn]] void wait_for_the_end() noexcept {
  for (;;) pause();
}

// Daemon threads go on while the main thread takes the interpreter down; Python's lock is not for them any more.
bool is_left_behind() { return !interpreter_alive() && !on_main_thread(); }

// ---- signals ----

// Handlers are the program's code: they find the modes that it has chosen, not those of an operator's inside.
class AsCalled {
 public:
  AsCalled() {
    ThreadState& s = tls_state;
    s.excluded = s.grad_enabled || s.forward_mode ? LayerSet{0} : layer_bit(Layer::Autograd);
  }
  ~AsCalled() { tls_state = saved_; }
  AsCalled(const AsCalled&) = delete;
  AsCalled& operator=(const AsCalled&) = delete;

 private:
  const ThreadState saved_ = tls_state;
};

void handle_signals() {
  if (!interpreter_alive()) return;
  const AcquireGil gil;
  if (PyErr_Occurred() != nullptr) return;
  const AsCalled mode;
  check(PyErr_CheckSignals());
}

}  // namespace

PyGILState_STATE ensure_gil() noexcept {
  if (is_left_behind()) wait_for_the_end();
  return PyGILState_Ensure();
}

void restore_thread(PyThreadState* state) noexcept {
  if (is_left_behind()) wait_for_the_end();
  PyEval_RestoreThread(state);
}

bool init_leave() {
  const Ref threading(PyImport_ImportModule("threading"));
  const Ref main(threading ? PyObject_CallMethod(threading.get(), "main_thread", nullptr) : nullptr);
  const Ref ident(main ? PyObject_GetAttrString(main.get(), "ident") : nullptr);
  if (!ident) return false;
  const unsigned long thread = PyLong_AsUnsignedLong(ident.get());
  if (PyErr_Occurred() != nullptr) return false;
  set_interrupt_handler(handle_signals, thread);
  pthread_atfork(nullptr, nullptr, ReleaseGil::forget_others);
  return true;
}

}  // namespace facula::python

// Before 3.14, Python ends a daemon thread that asks for its lock too late by pthread_exit(), wherever that is: in a
// destructor, in a call of a hook. The stack is unwound, through functions that may not throw and handlers that must
// not swallow, without the lock that destructors of Python references need. Later Pythons let such a thread wait for
// the process to end, and so do we for all of them: the linker puts this in the place of the routine that the unwinder
// asks about each C++ function of this library, and the first that has anything to clean up stops it.
extern "C" {

_Unwind_Reason_Code __real___gxx_personality_v0(int, _Unwind_Action, _Unwind_Exception_Class, _Unwind_Exception*,
                                                _Unwind_Context*);

__attribute__((visibility("hidden"))) _Unwind_Reason_Code __wrap___gxx_personality_v0(int version,
                                                                                      _Unwind_Action actions,
                                                                                      _Unwind_Exception_Class kind,
                                                                                      _Unwind_Exception* exception,
                                                                                      _Unwind_Context* context) {
  if ((actions & _UA_FORCE_UNWIND) != 0 && !facula::python::interpreter_alive()) {
    facula::python::wait_for_the_end();
  }
  return __real___gxx_personality_v0(version, actions, kind, exception, context);
}

}  // extern "C"
