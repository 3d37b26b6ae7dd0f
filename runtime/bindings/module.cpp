// The extension module facula._C.
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/bindings/devices/interface.h"
#include "runtime/bindings/arguments/function.h"
#include "runtime/bindings/arguments/overrides.h"
#include "runtime/bindings/autograd/hooks.h"
#include "runtime/bindings/define.h"
#include "runtime/bindings/types/types.h"
#include "runtime/core/library.h"

namespace facula {
void register_generated();  // defined by generated code
}

namespace facula::python {

namespace {

bool add_function(PyObject* module, PyObject* module_name, const PyMethodDef* def) {
  // The definition must stay where it is: functions point to it.
  PyObject* f = PyCFunction_NewEx(const_cast<PyMethodDef*>(def), nullptr, module_name);
  if (f == nullptr) return false;
  const bool added = PyModule_AddObjectRef(module, def->ml_name, f) == 0;
  Py_DECREF(f);
  return added;
}

bool has(PyObject* module, const char* name) {
  PyObject* dict = PyModule_GetDict(module);
  return PyDict_GetItemString(dict, name) != nullptr;
}

// "nn.functional" -> _C._nn_functional, made when first met; "" is _C itself.
PyObject* namespace_module(PyObject* module, std::map<std::string, PyObject*>& known, const char* path) {
  if (*path == '\0') return module;
  PyObject*& found = known[path];
  if (found != nullptr) return found;
  std::string attribute = path[0] == '_' ? path : concat("_", path);
  for (char& c : attribute) {
    if (c == '.') c = '_';
  }
  found = PyModule_New(concat("facula.", path).c_str());
  if (found == nullptr || PyModule_AddObjectRef(module, attribute.c_str(), found) < 0) return nullptr;
  return found;
}

bool add_functions(PyObject* module) {
  std::map<std::string, PyObject*> namespaces;
  // Where pickle looks for a function again.
  Ref name(PyUnicode_InternFromString("facula"));
  Ref private_name(PyUnicode_InternFromString("facula._C"));
  if (!name || !private_name) return false;
  for (const NamespacedMethod& f : generated_bindings().functions) {
    PyObject* target = namespace_module(module, namespaces, f.path);
    if (target == nullptr) return false;
    Ref qualified(*f.path == '\0' ? Ref::borrow(name.get()).release()
                                  : PyUnicode_InternFromString(concat("facula.", f.path).c_str()));
    if (!qualified || !add_function(target, qualified.get(), &f.def)) return false;
  }
  for (const PyMethodDef* table : {creation_functions, copy_functions, storage_functions, exchange_functions,
                                   autograd_functions, function_functions, override_functions, state_functions,
                                   user_line_functions, autocast_functions, default_device_functions, level_functions,
                                   capture_functions, pickle_functions, archive_functions, view_functions}) {
    for (; table->ml_name != nullptr; ++table) {
      PyObject* owner = table->ml_name[0] == '_' ? private_name.get() : name.get();
      if (!has(module, table->ml_name) && !add_function(module, owner, table)) return false;
    }
  }
  // The exception that is looked for beside the operators that raise it.
  const Ref linalg_error(PyObject_GetAttrString(module, "_LinAlgError"));
  PyObject* linalg = namespace_module(module, namespaces, "linalg");
  if (!linalg_error || linalg == nullptr || PyModule_AddObjectRef(linalg, "LinAlgError", linalg_error.get()) < 0) {
    return false;
  }
  // Dotted names of the namespaces, for the package to publish.
  Ref paths(PyTuple_New(static_cast<Py_ssize_t>(namespaces.size())));
  Py_ssize_t i = 0;
  for (const auto& [path, ignored] : namespaces) {
    PyObject* text = paths ? PyUnicode_FromString(path.c_str()) : nullptr;
    if (text == nullptr) return false;
    PyTuple_SET_ITEM(paths.get(), i++, text);
  }
  return PyModule_AddObjectRef(module, "_namespaces", paths.get()) == 0;
}

void remember_package_folders() {
  const Ref path = Ref::borrow(PySys_GetObject("path"));
  if (!path || !PyList_Check(path.get())) return set_package_folders({});
  std::vector<std::string> folders;
  const ItemsOf items(path.get());
  for (Py_ssize_t i = 0; i < items.size(); ++i) {
    PyObject* entry = items[i];
    const char* text = PyUnicode_Check(entry) ? PyUnicode_AsUTF8(entry) : nullptr;
    if (text == nullptr) {
      PyErr_Clear();  // not a folder that could hold a package
    } else if (*text != '\0') {
      folders.emplace_back(text);
    }
  }
  set_package_folders(std::move(folders));
}

// Types and locks of the module are the process's, not an interpreter's.
bool in_main_interpreter() {
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return true;
  PyErr_SetString(PyExc_ImportError, "facula cannot be imported in a subinterpreter; use a process of its own");
  return false;
}

// An interpreter that comes second gets a copy of the module without PyInit__C().
PyObject* check_interpreter(PyObject*, PyObject*) {
  if (!in_main_interpreter()) return nullptr;
  Py_RETURN_NONE;
}
const PyMethodDef check_interpreter_def = {"_check_interpreter", check_interpreter, METH_NOARGS, nullptr};

bool init(PyObject* module) {
  register_generated();
  remember_package_folders();
  if (!init_errors(module) || !init_dtype_types(module) || !init_device_type(module) || !init_size_type(module) ||
      !init_return_types(module) || !init_generator_type(module) || !init_storage_type(module) ||
      !init_hook_type(module) || !init_module_base(module) || !init_node_type(module) || !init_function_type(module) ||
      !init_tensor_type(module) || !init_level_types(module) || !init_capture_type(module) || !init_leave() ||
      !init_cycles(module)) {
    return false;
  }
  init_state();
  init_interface();
  init_saved_hooks();
  if (PyModule_AddStringConstant(module, "_abi", abi_stamp()) < 0) return false;
  const Ref owner(PyUnicode_InternFromString("facula._C"));
  return owner && add_function(module, owner.get(), &check_interpreter_def) && add_functions(module) &&
         define_functions(module);
}

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "facula._C",
                          "The compiled part of facula.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

}  // namespace facula::python

PyMODINIT_FUNC PyInit__C() {
  if (!facula::python::in_main_interpreter()) return nullptr;
  PyObject* module = PyModule_Create(&facula::python::definition);
  if (module == nullptr) return nullptr;
#ifdef Py_GIL_DISABLED
  PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  try {
    if (facula::python::init(module)) return module;
  } catch (...) {
    facula::python::set_python_error();
  }
  Py_DECREF(module);
  return nullptr;
}
