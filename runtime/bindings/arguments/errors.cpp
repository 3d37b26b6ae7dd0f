// facula::Error and Python exceptions, translated both ways.
#include <cstring>
#include <initializer_list>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "runtime/bindings/arguments/generated.h"
#include "runtime/bindings/types/types.h"
#include "runtime/core/warning.h"

namespace facula::python {

namespace {
PyObject* out_of_memory_error = nullptr;
PyObject* missing_dtype_error = nullptr;
PyObject* missing_kernel_error = nullptr;
PyObject* linalg_error = nullptr;

// The exception of a kind and the name that it has there.
std::pair<PyObject*, const char*> python_kind(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Runtime:
      return {PyExc_RuntimeError, "runtime"};
    case ErrorKind::Shape:
      return {PyExc_RuntimeError, "shape"};
    case ErrorKind::Dtype:
      return {PyExc_RuntimeError, "dtype"};
    case ErrorKind::UnfitDtype:
      return {PyExc_TypeError, "dtype"};
    case ErrorKind::Layout:
      return {PyExc_TypeError, "layout"};
    case ErrorKind::Device:
      return {PyExc_RuntimeError, "device"};
    case ErrorKind::Values:
      return {PyExc_NotImplementedError, "values"};
    case ErrorKind::Aliasing:
      return {PyExc_RuntimeError, "aliasing"};
    case ErrorKind::Value:
      return {PyExc_ValueError, "value"};
    case ErrorKind::Type:
      return {PyExc_TypeError, "type"};
    case ErrorKind::Index:
      return {PyExc_IndexError, "index"};
    case ErrorKind::NotImplemented:
      return {PyExc_NotImplementedError, "unsupported"};
    case ErrorKind::NoDerivative:
      return {PyExc_NotImplementedError, "derivative"};
    case ErrorKind::OutOfMemory:
      return {out_of_memory_error, "memory"};
    case ErrorKind::ZeroDivision:
      return {PyExc_ZeroDivisionError, "zero_division"};
    case ErrorKind::Overflow:
      return {PyExc_OverflowError, "overflow"};
    case ErrorKind::Buffer:
      return {PyExc_BufferError, "buffer"};
    case ErrorKind::LinAlg:
      return {linalg_error, "linalg"};
  }
  return {PyExc_RuntimeError, "runtime"};
}
}  // namespace

bool interpreter_alive() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsInitialized() && !Py_IsFinalizing();
#else
  return Py_IsInitialized() && !_Py_IsFinalizing();
#endif
}

struct PythonError::State {
  PyObject* type = nullptr;
  PyObject* value = nullptr;
  PyObject* traceback = nullptr;
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if ((type == nullptr && value == nullptr) || !interpreter_alive()) return;
    AcquireGil gil;
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
  }
};

PythonError::PythonError() : state_(std::make_shared<State>()) {
#if PY_VERSION_HEX >= 0x030C0000
  state_->value = PyErr_GetRaisedException();
#else
  PyErr_Fetch(&state_->type, &state_->value, &state_->traceback);
#endif
}

void PythonError::restore() const noexcept {
#if PY_VERSION_HEX >= 0x030C0000
  Py_XINCREF(state_->value);
  PyErr_SetRaisedException(state_->value);
#else
  Py_XINCREF(state_->type);
  Py_XINCREF(state_->value);
  Py_XINCREF(state_->traceback);
  PyErr_Restore(state_->type, state_->value, state_->traceback);
#endif
}

using Facts = std::initializer_list<std::pair<const char*, std::string_view>>;

// Attributes of an exception, so that nobody has to read its text.
static void set_facts(PyObject* error, Facts facts) {
  for (const auto& [name, fact] : facts) {
    const Ref value(fact.empty() ? Py_NewRef(Py_None)
                                 : PyUnicode_FromStringAndSize(fact.data(), static_cast<Py_ssize_t>(fact.size())));
    if (!value || PyObject_SetAttrString(error, name, value.get()) < 0) PyErr_Clear();
  }
}

// Sets the exception of an error, which names the operator that the user called; `type` where it is not the kind's.
static void set_exception(const Error& e, const char* caller, Facts more = {}, PyObject* type = nullptr) {
  const auto [own_type, kind] = python_kind(e.kind());
  // A check that knows that it is about the in-place form says so.
  const bool in_place = caller != nullptr && e.op().size() == std::strlen(caller) + 1 && e.op().ends_with('_') &&
                        e.op().starts_with(caller);
  const std::string_view op = caller == nullptr || in_place ? std::string_view(e.op()) : std::string_view(caller);
  PyErr_SetString(type != nullptr ? type : own_type, e.message_of(op).c_str());
  const Ref error = take_exception();
  set_facts(error.get(), {{"operator", op}, {"argument", e.argument()}, {"kind", kind}, {"text", e.text()}});
  set_facts(error.get(), more);
  raise_again(error.get());
}

// Of lists and tables, not of tensors.
static void set_out_of_memory(const char* caller) noexcept {
  try {
    set_exception(Error(ErrorKind::OutOfMemory, "cannot allocate what is needed besides tensors on cpu"), caller);
  } catch (...) {
    PyErr_NoMemory();
  }
}

void set_python_error(const char* caller) noexcept {
  try {
    throw;
  } catch (const PythonError& e) {
    e.restore();
  } catch (const MissingDtype& e) {
    set_exception(e, caller, {{"device", e.device}, {"dtype", e.dtype}}, missing_dtype_error);
  } catch (const MissingKernel& e) {
    set_exception(e, caller, {{"op", e.kernel}, {"device", e.device}, {"refusal", e.refusal}}, missing_kernel_error);
  } catch (const Error& e) {
    set_exception(e, caller);
  } catch (const std::bad_alloc&) {
    set_out_of_memory(caller);
  } catch (const std::length_error&) {  // a list longer than memory could hold
    set_out_of_memory(caller);
  } catch (const std::exception& e) {
    PyErr_SetString(PyExc_RuntimeError, e.what());
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "internal error: unknown C++ exception");
  }
}

bool init_errors(PyObject* module) {
  warning_handler() = [](const std::string& text) {
    const AcquireGil gil;
    if (PyErr_WarnEx(PyExc_UserWarning, text.c_str(), 1) < 0) throw PythonError();
  };
  // Caught both by handlers written for MemoryError and by those for RuntimeError.
  Ref bases(PyTuple_Pack(2, PyExc_RuntimeError, PyExc_MemoryError));
  if (!bases) return false;
  out_of_memory_error = PyErr_NewExceptionWithDoc(
      "facula.OutOfMemoryError", "A device has no memory left for what was asked.", bases.get(), nullptr);
  missing_dtype_error = PyErr_NewExceptionWithDoc(
      "facula.backends.MissingDtypeError", "A device has no tensors of a dtype: `device` and `dtype` are their names.",
      PyExc_TypeError, nullptr);
  missing_kernel_error = PyErr_NewExceptionWithDoc(
      "facula.backends.MissingKernelError",
      "Nothing computes `op` on `device` for these arguments. `refusal` says what the device has for it and why that "
      "did not take them, None where it has nothing.",
      PyExc_NotImplementedError, nullptr);
  linalg_error = PyErr_NewExceptionWithDoc(
      "facula.linalg.LinAlgError",
      "Linear algebra has no result for these values: a matrix is singular, not positive definite, or a method did not "
      "converge.",
      PyExc_RuntimeError, nullptr);
  const auto added = [&](const char* name, PyObject* type) {
    return type != nullptr && PyModule_AddObjectRef(module, name, type) == 0;
  };
  return added("OutOfMemoryError", out_of_memory_error) && added("_MissingDtypeError", missing_dtype_error) &&
         added("_MissingKernelError", missing_kernel_error) && added("_LinAlgError", linalg_error);
}

Ref take_exception() {
#if PY_VERSION_HEX >= 0x030C0000
  return Ref(PyErr_GetRaisedException());
#else
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (traceback != nullptr) PyException_SetTraceback(value, traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  return Ref(value);
#endif
}

void raise_again(PyObject* exception) {
#if PY_VERSION_HEX >= 0x030C0000
  PyErr_SetRaisedException(Py_NewRef(exception));
#else
  PyErr_Restore(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(exception))), Py_NewRef(exception),
                PyException_GetTraceback(exception));
#endif
}

Ref import_attribute(const char* module, const char* name) {
  // Not by the builtins of the frame that runs: where code was compiled without any, as that of named tuples is, there
  // is no __import__.
  const Ref names(check(Py_BuildValue("(s)", name)));
  Ref m(check(PyImport_ImportModuleLevel(module, nullptr, nullptr, names.get(), 0)));
  return Ref(check(PyObject_GetAttrString(m.get(), name)));
}

PyTypeObject* add_type(PyObject* module, PyType_Spec* spec, PyObject* bases) {
  PyObject* type = bases != nullptr ? PyType_FromSpecWithBases(spec, bases) : PyType_FromSpec(spec);
  if (type == nullptr) return nullptr;
  const std::string_view name(spec->name);
  if (PyModule_AddObjectRef(module, spec->name + name.rfind('.') + 1, type) < 0) return nullptr;
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace facula::python
