// The base type of facula.nn.Module: what every call and every access to a parameter goes through.
#include "runtime/bindings/types/types.h"

namespace facula::python {

namespace {

// Where a module keeps what looks like attributes, and its hooks; interned.
PyObject* kept_names[3];
PyObject* hook_names[4];
PyObject* forward_name;
PyObject* hooked_name;
PyObject* failure_name;

PyObject* missing_attribute(PyObject* self, PyObject* name, bool ready) {
  const char* type = Py_TYPE(self)->tp_name;
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : nullptr;
  const bool special = text != nullptr && std::string_view(text).starts_with("__");
  PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute %R%s", type, name,
               ready || special ? "" : ": was Module.__init__() called first?");
  return nullptr;
}

// What normal lookup did not find: parameters, buffers and submodules.
PyObject* module_getattr(PyObject* self, PyObject* name) {
  const Ref dict(PyObject_GenericGetDict(self, nullptr));
  if (!dict) return nullptr;
  bool ready = false;
  for (PyObject* kind : kept_names) {
    const Ref kept = dict_item(dict.get(), kind);
    if (kept && PyDict_Check(kept.get())) {
      if (Ref found = dict_item(kept.get(), name)) return found.release();
      ready = true;
    }
    if (PyErr_Occurred() != nullptr) return nullptr;
  }
  return missing_attribute(self, name, ready);
}

// 1 or 0, or -1 with the Python error set.
int has_hooks(PyObject* self) {
  const Ref dict(PyObject_GenericGetDict(self, nullptr));
  if (!dict) return -1;
  for (PyObject* name : hook_names) {
    const Ref hooks = dict_item(dict.get(), name);
    int any = 0;
    if (hooks && PyDict_Check(hooks.get())) {
      any = PyDict_Size(hooks.get()) > 0;
    } else {
      if (PyErr_Occurred() != nullptr) return -1;
      const Ref found(PyObject_GetAttr(self, name));
      any = found ? PyObject_IsTrue(found.get()) : -1;
    }
    if (any != 0) return any;
  }
  return 0;
}

// Lets the module add to an exception where it came from.
void note_failure(PyObject* self) {
  if (PyErr_ExceptionMatches(PyExc_Exception) == 0) return;
  const Ref error = take_exception();
  const Ref done(PyObject_CallMethodOneArg(self, failure_name, error.get()));
  if (!done) PyErr_Clear();
  raise_again(error.get());
}

PyObject* call_forward(PyObject* self, PyObject* args, PyObject* kwargs) {
  constexpr Py_ssize_t kFew = 6;
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  if (kwargs == nullptr && n <= kFew) {
    PyObject* stack[kFew + 2] = {nullptr, self};
    for (Py_ssize_t i = 0; i < n; ++i) stack[i + 2] = PyTuple_GET_ITEM(args, i);
    return PyObject_VectorcallMethod(forward_name, stack + 1,
                                     static_cast<size_t>(n + 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  }
  const Ref forward(PyObject_GetAttr(self, forward_name));
  return forward ? PyObject_Call(forward.get(), args, kwargs) : nullptr;
}

PyObject* module_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  PyObject* result = nullptr;
  if (const int hooked = has_hooks(self); hooked == 0) {
    result = call_forward(self, args, kwargs);
  } else if (hooked > 0) {
    const Ref named(kwargs != nullptr ? Py_NewRef(kwargs) : PyDict_New());
    if (named) result = PyObject_CallMethodObjArgs(self, hooked_name, args, named.get(), nullptr);
  }
  if (result == nullptr) note_failure(self);
  return result;
}

PyMethodDef module_methods[] = {
    {"__getattr__", module_getattr, METH_O, "__getattr__($self, name, /)\n--\n\nA parameter, buffer or submodule."},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot module_slots[] = {
    {Py_tp_call, reinterpret_cast<void*>(module_call)},
    {Py_tp_methods, module_methods},
    {Py_tp_doc, const_cast<char*>("Base of facula.nn.Module.")},
    {0, nullptr},
};
PyType_Spec module_spec = {"facula._C._ModuleBase", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                           module_slots};

bool intern(PyObject*& name, const char* text) { return (name = PyUnicode_InternFromString(text)) != nullptr; }

}  // namespace

bool init_module_base(PyObject* module) {
  return intern(kept_names[0], "_parameters") && intern(kept_names[1], "_buffers") &&
         intern(kept_names[2], "_modules") && intern(hook_names[0], "_forward_hooks") &&
         intern(hook_names[1], "_forward_pre_hooks") && intern(hook_names[2], "_backward_hooks") &&
         intern(hook_names[3], "_backward_pre_hooks") && intern(forward_name, "forward") &&
         intern(hooked_name, "_call_with_hooks") && intern(failure_name, "_note_failure") &&
         add_type(module, &module_spec) != nullptr;
}

}  // namespace facula::python
