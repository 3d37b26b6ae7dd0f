#include "runtime/bindings/types/free_threading.h"

#ifdef Py_GIL_DISABLED

#include <sched.h>

namespace facula::python {

// Reference counts as free-threaded CPython has them (PEP 703): one of the thread that made the object, and one of all
// others, whose low bits tell whether an object may be found without holding it.

PyMutex& ObjectLock::of(const void* object) {
  struct alignas(64) Padded {
    PyMutex mutex;
  };
  static constinit Padded locks[64] = {};
  return locks[(reinterpret_cast<uintptr_t>(object) >> 6) % 64].mutex;
}

void allow_try_reference(PyObject* o) {
  Py_ssize_t shared = _Py_atomic_load_ssize_relaxed(&o->ob_ref_shared);
  while ((shared & _Py_REF_SHARED_FLAG_MASK) == 0) {
    if (_Py_atomic_compare_exchange_ssize(&o->ob_ref_shared, &shared, shared | _Py_REF_MAYBE_WEAKREF)) return;
  }
}

bool try_reference(PyObject* o) {
  const uint32_t local = _Py_atomic_load_uint32_relaxed(&o->ob_ref_local);
  if (local == UINT32_MAX) return true;  // immortal
  if (_Py_IsOwnedByCurrentThread(o) != 0) {
    _Py_atomic_store_uint32_relaxed(&o->ob_ref_local, local + 1);
    return true;
  }
  Py_ssize_t shared = _Py_atomic_load_ssize_relaxed(&o->ob_ref_shared);
  while (shared != 0 && shared != _Py_REF_MERGED) {
    const Py_ssize_t more = shared + (Py_ssize_t{1} << _Py_REF_SHARED_SHIFT);
    if (_Py_atomic_compare_exchange_ssize(&o->ob_ref_shared, &shared, more)) return true;
  }
  return false;
}

void revive(PyObject* o) {
  _Py_atomic_store_uintptr_relaxed(&o->ob_tid, _Py_ThreadId());
  _Py_atomic_store_uint32_relaxed(&o->ob_ref_local, 1);
  _Py_atomic_store_ssize_release(&o->ob_ref_shared, _Py_REF_MAYBE_WEAKREF);
}

bool forsake(PyObject* o) {
  Py_ssize_t shared = _Py_REF_MAYBE_WEAKREF;
  if (!_Py_atomic_compare_exchange_ssize(&o->ob_ref_shared, &shared, _Py_REF_MERGED)) return false;
  _Py_atomic_store_uintptr_relaxed(&o->ob_tid, 0);
  _Py_atomic_store_uint32_relaxed(&o->ob_ref_local, 0);
  return true;
}

void give_way() {
  Py_BEGIN_ALLOW_THREADS sched_yield();
  Py_END_ALLOW_THREADS
}

}  // namespace facula::python

#endif
