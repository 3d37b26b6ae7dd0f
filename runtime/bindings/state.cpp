// Settings of the process and the thread: grad mode, default dtype, threads; dtype promotion.
#include "runtime/autograd/engine.h"
#include "runtime/bindings/types/types.h"
#include "runtime/core/in_call.h"
#include "runtime/dispatch/levels.h"
#include "runtime/iterate/parallel.h"
#include "runtime/iterate/result_type.h"

#include <atomic>
#include <string>
#include <utility>

namespace facula::python {

namespace {

bool truth(PyObject* o) {
  const int t = PyObject_IsTrue(o);
  check(t);
  return t != 0;
}

PyObject* is_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(GradMode::enabled()); }
// The user's switch; gives what held before, for _restore_grad_mode.
PyObject* set_grad_enabled(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  const bool enabled = truth(o);
  const long before = (GradMode::enabled() ? 1 : 0) + (exchange_halted(!enabled) ? 2 : 0);
  GradMode::set(enabled);
  return PyLong_FromLong(before);
  FACULA_PY_END(nullptr)
}
PyObject* restore_grad_mode(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  const long before = PyLong_AsLong(o);
  if (before == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  GradMode::set((before & 1) != 0);
  exchange_halted((before & 2) != 0);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* is_inference_mode(PyObject*, PyObject*) { return PyBool_FromLong(thread_state().inference); }
PyObject* set_inference_mode(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  thread_state().inference = truth(o);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* is_anomaly(PyObject*, PyObject*) { return PyBool_FromLong(thread_state().anomaly); }
PyObject* set_anomaly(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  thread_state().anomaly = truth(o);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

ScalarType dtype_argument(PyObject* o, const char* who) {
  if (Py_TYPE(o) == dtype_type) return dtype_value(o);
  raise(ErrorKind::Type, Operator{who}, "argument must be a dtype such as facula.float32, not ", Py_TYPE(o)->tp_name);
}

PyObject* default_dtype(PyObject*, PyObject*) { return wrap(get_default_dtype()); }
PyObject* set_default(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  set_default_dtype(dtype_argument(o, "set_default_dtype"));
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* promote(PyObject*, PyObject* args) {
  PyObject *a, *b;
  if (!PyArg_ParseTuple(args, "OO:promote_types", &a, &b)) return nullptr;
  FACULA_PY_TRY
  return wrap(promote_types(dtype_argument(a, "promote_types"), dtype_argument(b, "promote_types")));
  FACULA_PY_END(nullptr)
}
PyObject* castable(PyObject*, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"from_", "to", nullptr};
  PyObject *a, *b;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO:can_cast", const_cast<char**>(names), &a, &b)) return nullptr;
  FACULA_PY_TRY
  return wrap(can_cast(dtype_argument(a, "can_cast"), dtype_argument(b, "can_cast")));
  FACULA_PY_END(nullptr)
}
PyObject* result_dtype(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  ResultType type;
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  FACULA_CHECK(n > 0, Type, Operator{"result_type"}, "takes at least one tensor, number or dtype");
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    if (is_tensor(o)) {
      type.add(tensor_of(o));
    } else if (Py_TYPE(o) == dtype_type) {
      type.add(make_empty({1}, dtype_value(o), Device{kMeta}));
    } else {
      const NumberKind kind = number_kind(o);
      FACULA_CHECK(kind != NumberKind::None, Type, Operator{"result_type"}, "argument ", i,
                   " must be a Tensor, a number or a dtype, not ", Py_TYPE(o)->tp_name);
      type.add(number_value(o, kind));
    }
  }
  return wrap(type.get());
  FACULA_PY_END(nullptr)
}

PyObject* get_threads(PyObject*, PyObject*) { return PyLong_FromLong(get_num_threads()); }
PyObject* set_threads(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  const long n = PyLong_AsLong(o);
  if (n == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  FACULA_CHECK(n >= 1 && n <= 4096, Value, Operator{"set_num_threads"},
               "the number of threads must be in [1, 4096], but got ", n);
  set_num_threads(static_cast<int>(n));
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

// Who waits for a thread without Python's lock must not keep it.
void wait_without_gil(void (*wait)(void* context), void* context) {
  const ReleaseGil gil(interpreter_alive() && PyGILState_Check() != 0);
  wait(context);
}

}  // namespace

const char* spoken_name = "facula";
int64_t release_gil_numel = kReleaseGilNumel;
std::atomic<int> ReleaseGil::threads_{0};
constinit thread_local uint64_t ReleaseGil::number_ __attribute__((tls_model("initial-exec"))) = 0;

void init_state() {
  init_user_lines();
  wait_aside = wait_without_gil;
}

const PyMethodDef state_functions[] = {
    {"is_grad_enabled", is_grad_enabled, METH_NOARGS, "is_grad_enabled()\n--\n\nDoes this thread record operations?"},
    {"_set_grad_enabled", set_grad_enabled, METH_O, nullptr},
    {"_restore_grad_mode", restore_grad_mode, METH_O, nullptr},
    {"is_inference_mode_enabled", is_inference_mode, METH_NOARGS,
     "is_inference_mode_enabled()\n--\n\nIs this thread in inference mode?"},
    {"_set_inference_mode", set_inference_mode, METH_O, nullptr},
    {"is_anomaly_enabled", is_anomaly, METH_NOARGS, "is_anomaly_enabled()\n--\n\nIs anomaly mode on in this thread?"},
    {"_set_anomaly", set_anomaly, METH_O, nullptr},
    {"get_default_dtype", default_dtype, METH_NOARGS,
     "get_default_dtype()\n--\n\nThe dtype of tensors made from Python floats."},
    {"set_default_dtype", set_default, METH_O, "set_default_dtype(d, /)\n--\n\nSet it to a floating-point dtype."},
    {"promote_types", promote, METH_VARARGS,
     "promote_types(type1, type2, /)\n--\n\nThe smallest dtype that both convert to."},
    {"can_cast", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(castable)), METH_VARARGS | METH_KEYWORDS,
     "can_cast(from_, to)\n--\n\nMay a result of one dtype be stored in another?"},
    {"result_type", result_dtype, METH_VARARGS,
     "result_type(*arrays_and_dtypes)\n--\n\nThe dtype of an arithmetic result of tensors, numbers and "
     "dtypes."},
    {"get_num_threads", get_threads, METH_NOARGS, "get_num_threads()\n--\n\nThreads that one operation may use."},
    {"set_num_threads", set_threads, METH_O, "set_num_threads(n, /)\n--\n\nSet how many threads an operation may use."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
