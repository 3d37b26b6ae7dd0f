// What stands for Python's lock where an interpreter has none (free-threaded CPython), and is nothing elsewhere.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <atomic>

#if PY_VERSION_HEX < 0x030D0000
#define Py_BEGIN_CRITICAL_SECTION(object) {
#define Py_END_CRITICAL_SECTION() }
#endif

namespace facula::python {

// A setting that every call reads: a plain load.
class Flag {
 public:
  operator bool() const { return set_.load(std::memory_order_relaxed); }  // NOLINT
  void set_if(bool also) {
    if (also) set_.store(true, std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> set_{false};
};

// Gives an object whose last reference is gone, in its tp_dealloc, a new one; and takes that back: false, and it stays,
// when somebody found the object meanwhile.
void revive(PyObject* o);
bool forsake(PyObject* o);

#ifdef Py_GIL_DISABLED
inline constexpr bool kHasGil = false;

// One of a fixed set of locks, by address. For a few instructions: nothing dies and no Python runs meanwhile, and no
// second one is taken.
class ObjectLock {
 public:
  explicit ObjectLock(const void* object) : mutex_(of(object)) { PyMutex_Lock(&mutex_); }
  ~ObjectLock() { PyMutex_Unlock(&mutex_); }
  ObjectLock(const ObjectLock&) = delete;
  ObjectLock& operator=(const ObjectLock&) = delete;

 private:
  static PyMutex& of(const void* object);
  PyMutex& mutex_;
};

// Lets try_reference() find the object although it has been of one thread only so far.
void allow_try_reference(PyObject* o);
// Takes a reference to an object that may be dying on another thread; false if it is.
bool try_reference(PyObject* o);
// Lets the thread that an object dies on go on.
void give_way();
#else
inline constexpr bool kHasGil = true;
class ObjectLock {
 public:
  explicit ObjectLock(const void*) {}
  ~ObjectLock() {}  // NOLINT: not trivial, so that one that is only there to be held counts as used
  ObjectLock(const ObjectLock&) = delete;
  ObjectLock& operator=(const ObjectLock&) = delete;
};
inline void allow_try_reference(PyObject*) {}
inline void revive(PyObject* o) { _Py_NewReference(o); }
inline bool forsake(PyObject* o) {
  Py_SET_REFCNT(o, 0);
  return true;
}
#endif

}  // namespace facula::python
