// Autocast for Python: what facula.autocast is made of, and torch's functions around it.
#include "runtime/dispatch/autocast.h"

#include "runtime/bindings/types/types.h"

namespace facula::python {

namespace {

bool truth(PyObject* o) {
  const int t = PyObject_IsTrue(o);
  check(t);
  return t != 0;
}

DeviceType type_argument(PyObject* o, const char* who) {
  FACULA_CHECK(PyUnicode_Check(o), Value, Operator{who}, "device_type must be a str such as 'cpu', not ",
               Py_TYPE(o)->tp_name);
  const Device d = device_value(o);
  FACULA_CHECK(d.index < 0, Runtime, Operator{who}, "device_type is a type such as '", device_type_name(d.type),
               "', without an index, not '", to_string(d), "'");
  FACULA_CHECK(d.type != kMeta, Runtime, Operator{who}, "device type 'meta' has no autocast");
  return d.type;
}
std::optional<ScalarType> dtype_argument(PyObject* o, const char* who) {
  if (o == Py_None) return std::nullopt;
  FACULA_CHECK(Py_TYPE(o) == dtype_type, Type, Operator{who}, Argument{"dtype"},
               " must be a dtype such as facula.bfloat16, not ", Py_TYPE(o)->tp_name);
  return dtype_value(o);
}
struct Two {
  PyObject *first, *second;
  Two(PyObject* args, const char* format) {
    if (PyArg_ParseTuple(args, format, &first, &second) == 0) throw PythonError();
  }
};

PyObject* is_enabled(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject* type = nullptr;
  if (PyArg_ParseTuple(args, "|O:is_autocast_enabled", &type) == 0) throw PythonError();
  const bool any = type == nullptr || type == Py_None;
  return wrap(any ? autocast_enabled() : autocast_enabled(type_argument(type, "is_autocast_enabled")));
  FACULA_PY_END(nullptr)
}
PyObject* get_dtype(PyObject*, PyObject* type) {
  FACULA_PY_TRY
  return wrap(autocast_dtype(type_argument(type, "get_autocast_dtype")));
  FACULA_PY_END(nullptr)
}
PyObject* set_enabled(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  const Two two(args, "OO:set_autocast_enabled");
  const DeviceType type = type_argument(two.first, "set_autocast_enabled");
  const bool enabled = truth(two.second);
  AutocastSetting now = autocast_setting(type);
  now.enabled = enabled;
  set_autocast(type, now);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* set_dtype(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  const Two two(args, "OO:set_autocast_dtype");
  const DeviceType type = type_argument(two.first, "set_autocast_dtype");
  const std::optional<ScalarType> dtype = dtype_argument(two.second, "set_autocast_dtype");
  AutocastSetting now = autocast_setting(type);
  now.dtype = dtype;
  set_autocast(type, now);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* cache_enabled(PyObject*, PyObject*) { return PyBool_FromLong(autocast_cache_enabled()); }
PyObject* set_cache(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  set_autocast_cache_enabled(truth(o));
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* clear_cache(PyObject*, PyObject*) {
  FACULA_PY_TRY
  clear_autocast_cache();
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* increment(PyObject*, PyObject*) { return PyLong_FromLong(autocast_enter()); }
PyObject* decrement(PyObject*, PyObject*) {
  FACULA_PY_TRY
  return PyLong_FromLong(autocast_leave());
  FACULA_PY_END(nullptr)
}

// _enter_autocast(device_type, dtype, enabled, cache): what _exit_autocast takes.
PyObject* enter(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *type_object, *dtype_object;
  int enabled = 0, cache = 0;
  if (PyArg_ParseTuple(args, "OOpp:_enter_autocast", &type_object, &dtype_object, &enabled, &cache) == 0) {
    throw PythonError();
  }
  const DeviceType type = type_argument(type_object, "autocast");
  const std::optional<ScalarType> dtype = dtype_argument(dtype_object, "autocast");
  const bool cached = autocast_cache_enabled();
  const bool hidden = hide_autocast(false);
  if (enabled == 0) hide_autocast(hidden);  // other device types stay as they are
  const AutocastSetting before = set_autocast(type, {enabled != 0, dtype});
  set_autocast_cache_enabled(cache != 0);
  autocast_enter();
  Ref dtype_before(before.dtype ? check(wrap(*before.dtype)) : Py_NewRef(Py_None));
  return Py_BuildValue("(OiOii)", type_object, before.enabled ? 1 : 0, dtype_before.get(), cached ? 1 : 0,
                       hidden ? 1 : 0);
  FACULA_PY_END(nullptr)
}
PyObject* leave(PyObject*, PyObject* state) {
  FACULA_PY_TRY
  PyObject *type, *dtype;
  int enabled = 0, cached = 0, hidden = 0;
  if (PyArg_ParseTuple(state, "OiOii:_exit_autocast", &type, &enabled, &dtype, &cached, &hidden) == 0) {
    throw PythonError();
  }
  set_autocast(type_argument(type, "autocast"), {enabled != 0, dtype_argument(dtype, "autocast")});
  set_autocast_cache_enabled(cached != 0);
  hide_autocast(hidden != 0);
  autocast_leave();
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

}  // namespace

const PyMethodDef autocast_functions[] = {
    {"is_autocast_enabled", is_enabled, METH_VARARGS,
     "is_autocast_enabled(device_type=None, /)\n--\n\nIs autocast on in this thread, for a device type or for any?"},
    {"get_autocast_dtype", get_dtype, METH_O,
     "get_autocast_dtype(device_type, /)\n--\n\nThe lower dtype of autocast on a device type."},
    {"set_autocast_enabled", set_enabled, METH_VARARGS,
     "set_autocast_enabled(device_type, enabled, /)\n--\n\nSwitch autocast for this thread; see facula.autocast."},
    {"set_autocast_dtype", set_dtype, METH_VARARGS,
     "set_autocast_dtype(device_type, dtype, /)\n--\n\nSet its lower dtype for this thread."},
    {"is_autocast_cache_enabled", cache_enabled, METH_NOARGS,
     "is_autocast_cache_enabled()\n--\n\nAre casts of parameters kept until the outermost autocast ends?"},
    {"set_autocast_cache_enabled", set_cache, METH_O,
     "set_autocast_cache_enabled(enabled, /)\n--\n\nKeep them, or cast each time."},
    {"clear_autocast_cache", clear_cache, METH_NOARGS, "clear_autocast_cache()\n--\n\nForget the casts that are kept."},
    {"autocast_increment_nesting", increment, METH_NOARGS, "autocast_increment_nesting()\n--\n\nEnter a context."},
    {"autocast_decrement_nesting", decrement, METH_NOARGS, "autocast_decrement_nesting()\n--\n\nLeave a context."},
    {"_enter_autocast", enter, METH_VARARGS, nullptr},
    {"_exit_autocast", leave, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
