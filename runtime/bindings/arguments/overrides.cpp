#include "runtime/bindings/arguments/overrides.h"

#include <algorithm>

#include "runtime/bindings/arguments/checks.h"
#include "runtime/bindings/types/types.h"

namespace facula::python {

Flag overrides_in_use;

namespace {

thread_local bool classes_off = false;
thread_local bool modes_off = false;
thread_local Py_ssize_t modes = 0;  // open in this thread; facula.overrides has them

PyObject* attribute_name() {
  static PyObject* const name = PyUnicode_InternFromString("__torch_function__");
  return name;
}
// What the class has in its dict or a base's, not bound; borrowed.
PyObject* declared(PyTypeObject* type) { return _PyType_Lookup(type, attribute_name()); }

PyObject* call_disabled(PyObject*, PyObject* arguments) {
  PyObject *function, *types, *args = nullptr, *kwargs = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO|OO:_disabled_torch_function_impl", &function, &types, &args, &kwargs)) {
    return nullptr;
  }
  if (kwargs == Py_None) kwargs = nullptr;
  const Ref none(PyTuple_New(0));
  const Ref given(args != nullptr ? PySequence_Tuple(args) : Py_NewRef(none.get()));
  if (!given) return nullptr;
  const bool before = std::exchange(classes_off, true);
  PyObject* result = PyObject_Call(function, given.get(), kwargs);
  classes_off = before;
  return result;
}

bool add_overriding(PyObject* o, PyObject* found) {
  if (!is_overriding(Py_TYPE(o))) return true;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(found); ++i) {
    if (Py_TYPE(PyList_GET_ITEM(found, i)) == Py_TYPE(o)) return true;
  }
  return PyList_Append(found, o) == 0;
}
// Of an argument: itself, or what a list or tuple holds.
bool collect(PyObject* o, PyObject* found) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return add_overriding(o, found);
  if (!add_overriding(o, found)) return false;
  const ItemsOf items(o);
  for (Py_ssize_t i = 0; i < items.size(); ++i) {
    if (!add_overriding(items[i], found)) return false;
  }
  return true;
}
// Before a list is made of them: is there any?
bool any_overriding(const PythonCall& call) {
  if (call.self != nullptr && is_overriding(Py_TYPE(call.self))) return true;
  const Py_ssize_t n = call.nargs + (call.kwnames != nullptr ? PyTuple_GET_SIZE(call.kwnames) : 0);
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* const o = call.args[i];
    if (is_overriding(Py_TYPE(o))) return true;
    if (!PyTuple_Check(o) && !PyList_Check(o)) continue;
    const ItemsOf items(o);
    for (Py_ssize_t k = 0; k < items.size(); ++k) {
      if (is_overriding(Py_TYPE(items[k]))) return true;
    }
  }
  return false;
}
Ref collect_all(const PythonCall& call) {
  Ref found(PyList_New(0));
  bool good = static_cast<bool>(found);
  if (good && call.self != nullptr) good = add_overriding(call.self, found.get());
  const Py_ssize_t n = call.nargs + (call.kwnames != nullptr ? PyTuple_GET_SIZE(call.kwnames) : 0);
  for (Py_ssize_t i = 0; good && i < n; ++i) good = collect(call.args[i], found.get());
  return good ? std::move(found) : Ref();
}

// Arguments as a tuple and a dict, `self` first.
PyObject* ask(const PythonCall& call, PyObject* overriding) {
  const Py_ssize_t first = call.self != nullptr;
  const Ref args(PyTuple_New(call.nargs + first));
  const Ref kwargs(PyDict_New());
  if (!args || !kwargs) return nullptr;
  if (first != 0) PyTuple_SET_ITEM(args.get(), 0, Py_NewRef(call.self));
  for (Py_ssize_t i = 0; i < call.nargs; ++i) PyTuple_SET_ITEM(args.get(), i + first, Py_NewRef(call.args[i]));
  for (Py_ssize_t k = 0; call.kwnames != nullptr && k < PyTuple_GET_SIZE(call.kwnames); ++k) {
    if (PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(call.kwnames, k), call.args[call.nargs + k]) < 0) return nullptr;
  }
  const Ref module(PyImport_ImportModule("facula.overrides"));
  if (!module) return nullptr;
  return PyObject_CallMethod(module.get(), "_answer", "sOOOO", call.name, call.self != nullptr ? Py_True : Py_False,
                             overriding, args.get(), kwargs.get());
}

PyObject* overriding_of(PyObject*, PyObject* arguments) {
  PyObject *args, *kwargs;
  if (!PyArg_ParseTuple(arguments, "O!O!:_overriding", &PyTuple_Type, &args, &PyDict_Type, &kwargs)) return nullptr;
  Ref found(PyList_New(0));
  if (!found || classes_off) return found.release();
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    if (!collect(PyTuple_GET_ITEM(args, i), found.get())) return nullptr;
  }
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(kwargs, &at, &key, &value) != 0;) {
    if (!collect(value, found.get())) return nullptr;
  }
  return found.release();
}
PyObject* in_use(PyObject*, PyObject*) { return PyBool_FromLong(overrides_in_use); }
PyObject* use(PyObject*, PyObject*) {
  overrides_in_use.set_if(true);
  Py_RETURN_NONE;
}
// Sets a flag of this thread and gives what it was.
PyObject* exchange(bool& flag, PyObject* o) {
  const int truth = PyObject_IsTrue(o);
  return truth < 0 ? nullptr : PyBool_FromLong(std::exchange(flag, truth != 0));
}
PyObject* set_classes_off(PyObject*, PyObject* o) { return exchange(classes_off, o); }
PyObject* set_modes_off(PyObject*, PyObject* o) { return exchange(modes_off, o); }
PyObject* is_enabled(PyObject*, PyObject*) { return PyBool_FromLong(!classes_off); }
PyObject* count_modes(PyObject*, PyObject* o) {
  modes = PyLong_AsSsize_t(o);
  if (PyErr_Occurred() != nullptr) return nullptr;
  overrides_in_use.set_if(modes > 0);
  Py_RETURN_NONE;
}

}  // namespace

bool overrides_are_off() { return classes_off; }

bool is_disabling(PyTypeObject* type) {
  PyObject* const found = declared(type);
  return found != nullptr && PyCFunction_Check(found) && PyCFunction_GET_FUNCTION(found) == call_disabled;
}

bool is_overriding(PyTypeObject* type) {
  if (type == tensor_type || type == &PyLong_Type || type == &PyFloat_Type || type == &PyBool_Type ||
      type == &PyUnicode_Type || type == &PyTuple_Type || type == &PyList_Type || type == Py_TYPE(Py_None)) {
    return false;
  }
  PyObject* const found = declared(type);
  return found != nullptr && found != declared(tensor_type) && !is_disabling(type);
}

bool answered(const PythonCall& call, PyObject*& result) noexcept {
  const bool by_mode = modes > 0 && !modes_off;
  if (classes_off && !by_mode) return false;
  if (!by_mode && !any_overriding(call)) return false;
  const Ref overriding = classes_off ? Ref(PyList_New(0)) : collect_all(call);
  if (overriding && PyList_GET_SIZE(overriding.get()) == 0 && !by_mode) return false;
  result = overriding ? ask(call, overriding.get()) : nullptr;
  return true;
}

// Lets an error of a call name the call's arguments, where it names those of an inner one; see facula/_errors.py.
static void tell_call(PyObject* failure, const PythonCall& call, std::span<const FunctionSpec* const> specs) {
  if (PyObject_HasAttrString(failure, "operator") == 0) return;
  PyObject* slots[kMaxSlots];
  const auto fits = [&](const FunctionSpec* spec) {
    const bool fit = matches(*spec, call.self, call.args, call.nargs, call.kwnames, slots, false);
    PyErr_Clear();
    return fit;
  };
  const auto found = std::find_if(specs.begin(), specs.end(), fits);
  if (found == specs.end()) return;  // the call's form is wrong: the error is about that, and knows the names
  const std::span<const ParamSpec> params = (*found)->params;
  const Ref given(PyDict_New()), names(PyTuple_New(static_cast<Py_ssize_t>(params.size())));
  if (!given || !names) return;
  for (size_t i = 0; i < params.size(); ++i) {
    const Ref name(PyUnicode_FromString(params[i].name));
    if (!name) return;
    PyTuple_SET_ITEM(names.get(), static_cast<Py_ssize_t>(i), Py_NewRef(name.get()));
    if (slots[i] == nullptr || params[i].varargs) continue;
    if (PyDict_SetItem(given.get(), name.get(), slots[i]) < 0) return;
  }
  const Ref tell = import_attribute("facula._errors", "tell_call");
  if (tell) Ref(PyObject_CallFunctionObjArgs(tell.get(), failure, given.get(), names.get(), nullptr));
}

PyObject* answer_to_failure(const PythonCall& call, bool internal,
                            std::span<const FunctionSpec* const> specs) noexcept {
  set_python_error(internal ? nullptr : call.name);
  const Ref failure = take_exception();
  // Ctrl-C and the like: nobody answers for them.
  const bool is_error = PyErr_GivenExceptionMatches(failure.get(), PyExc_Exception) != 0;
  if (!classes_off && is_error) {
    const Ref overriding = collect_all(call);
    if (overriding && PyList_GET_SIZE(overriding.get()) > 0) {
      overrides_in_use.set_if(true);  // such objects are about: from now on calls are asked about before they run
      return ask(call, overriding.get());
    }
    PyErr_Clear();
  }
  try {
    if (!internal && is_error) tell_call(failure.get(), call, specs);
  } catch (...) {  // then the error stays as it was found
  }
  if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_Exception) == 0) return nullptr;  // Ctrl-C meanwhile
  PyErr_Clear();
  raise_again(failure.get());
  return nullptr;
}

void tell_alias(const char* own, const char* alias) noexcept {
  if (PyErr_Occurred() == nullptr || PyErr_ExceptionMatches(PyExc_Exception) == 0) return;
  const Ref failure = take_exception();
  try {
    const Ref tell = import_attribute("facula._errors", "tell_alias");
    if (tell) Ref(PyObject_CallFunction(tell.get(), "Oss", failure.get(), own, alias));
  } catch (...) {  // then the error stays as it was found
  }
  PyErr_Clear();
  raise_again(failure.get());
}

const PyMethodDef override_functions[] = {
    {"_disabled_torch_function_impl", call_disabled, METH_VARARGS,
     "_disabled_torch_function_impl(func, types, args=(), kwargs=None, /)\n--\n\nCall `func` without asking classes."},
    {"_overriding", overriding_of, METH_VARARGS, nullptr},
    {"_overrides_in_use", in_use, METH_NOARGS, nullptr},
    {"_use_overrides", use, METH_NOARGS, nullptr},
    {"_set_overrides_off", set_classes_off, METH_O, nullptr},
    {"_set_modes_off", set_modes_off, METH_O, nullptr},
    {"_is_torch_function_enabled", is_enabled, METH_NOARGS, nullptr},
    {"_count_modes", count_modes, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
