// facula::Error and Python exceptions, translated both ways.
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

#include "runtime/bindings/types/types.h"
#include "runtime/core/warning.h"

namespace facula::python {

namespace {
PyObject* out_of_memory_error = nullptr;
PyObject* missing_dtype_error = nullptr;
PyObject* missing_kernel_error = nullptr;

PyObject* exception_type(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Runtime:
      return PyExc_RuntimeError;
    case ErrorKind::Value:
      return PyExc_ValueError;
    case ErrorKind::Type:
      return PyExc_TypeError;
    case ErrorKind::Index:
      return PyExc_IndexError;
    case ErrorKind::NotImplemented:
      return PyExc_NotImplementedError;
    case ErrorKind::OutOfMemory:
      return out_of_memory_error;
    case ErrorKind::ZeroDivision:
      return PyExc_ZeroDivisionError;
    case ErrorKind::Overflow:
      return PyExc_OverflowError;
    case ErrorKind::Buffer:
      return PyExc_BufferError;
  }
  return PyExc_RuntimeError;
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

// Is `caller` the name that the text begins with, but for a namespace and the sign of an in-place form?
static bool names(std::string_view text, std::string_view caller) {
  const auto bare = [](std::string_view name) {
    name.remove_prefix(name.rfind('.') + 1);  // npos + 1 is 0
    return name.substr(0, name.size() - (name.ends_with('_') ? 1 : 0));
  };
  return bare(text.substr(0, text.find_first_of(":(' "))) == bare(caller);
}

// The text without `operator(): ` at its beginning: who called one operator is not told of those that it is made of.
static const char* without_operator(const char* text) {
  const auto is_name = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
  };
  const char* end = text;
  while (is_name(*end)) ++end;
  return end > text && std::string_view(end).starts_with("(): ") ? end + 4 : text;
}

static void set_text(PyObject* type, const Error& e, const char* caller) {
  if (caller == nullptr || names(e.message(), caller)) {
    PyErr_SetString(type, e.what());
  } else {
    PyErr_Format(type, "%s(): %s", caller, without_operator(e.what()));
  }
}

// Attributes of the exception that is set, so that nobody has to read its text.
static void set_facts(std::initializer_list<std::pair<const char*, std::string>> facts) {
  const Ref error = take_exception();
  for (const auto& [name, text] : facts) {
    const Ref value(text.empty() ? Py_NewRef(Py_None) : PyUnicode_FromString(text.c_str()));
    if (!value || PyObject_SetAttrString(error.get(), name, value.get()) < 0) PyErr_Clear();
  }
  raise_again(error.get());
}

// Of lists and tables, not of tensors.
static void set_out_of_memory(const char* caller) noexcept {
  const bool named = caller != nullptr;
  PyErr_Format(out_of_memory_error, "%s%scannot allocate what is needed besides tensors on cpu", named ? caller : "",
               named ? "(): " : "");
}

void set_python_error(const char* caller) noexcept {
  try {
    throw;
  } catch (const PythonError& e) {
    e.restore();
  } catch (const MissingDtype& e) {
    set_text(missing_dtype_error, e, caller);
    set_facts({{"device", e.device}, {"dtype", e.dtype}});
  } catch (const MissingKernel& e) {
    set_text(missing_kernel_error, e, caller);
    set_facts({{"op", e.op}, {"device", e.device}, {"refusal", e.refusal}});
  } catch (const Error& e) {
    set_text(exception_type(e.kind()), e, caller);
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

void name_in_place(const char* called) noexcept {
  const Ref error = take_exception();
  const Ref args(error ? PyObject_GetAttrString(error.get(), "args") : nullptr);
  PyObject* first = args && PyTuple_Check(args.get()) && PyTuple_GET_SIZE(args.get()) == 1
                        ? PyTuple_GET_ITEM(args.get(), 0)
                        : nullptr;
  const char* text = first != nullptr && PyUnicode_Check(first) ? PyUnicode_AsUTF8(first) : nullptr;
  if (text != nullptr) {
    std::string message(text);
    const std::string call = std::string(called) + "(";
    // where the message begins, and in the signature below it
    for (const std::string& before : {std::string(), std::string("signature: ")}) {
      const size_t at = before.empty() ? 0 : message.find(before + call);
      if (at == std::string::npos || message.compare(at, before.size() + call.size(), before + call) != 0) continue;
      message.insert(at + before.size() + call.size() - 1, "_");
    }
    const Ref changed(Py_BuildValue("(s)", message.c_str()));
    if (!changed || PyObject_SetAttrString(error.get(), "args", changed.get()) < 0) PyErr_Clear();
  } else {
    PyErr_Clear();
  }
  if (error) raise_again(error.get());
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
  const auto added = [&](const char* name, PyObject* type) {
    return type != nullptr && PyModule_AddObjectRef(module, name, type) == 0;
  };
  return added("OutOfMemoryError", out_of_memory_error) && added("_MissingDtypeError", missing_dtype_error) &&
         added("_MissingKernelError", missing_kernel_error);
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
  Ref m(check(PyImport_ImportModule(module)));
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
