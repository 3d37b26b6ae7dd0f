// How a module of an extension begins: it looks whether it fits the facula that is there.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstring>

#include "facula/abi.h"

// Defined where operators were generated: makes them known, and Python's functions of them.
extern "C" __attribute__((weak, visibility("hidden"))) int facula_add_operators(PyObject* module);

namespace facula::extension {

// False with an ImportError set when the extension was built for another facula. To be asked before anything of
// facula's is called: what the other one does not have is a null pointer.
inline bool fits(const char* name) {
  PyObject* core = PyImport_ImportModule("facula._C");
  if (core == nullptr) return false;
  PyObject* stamp = PyObject_GetAttrString(core, "_abi");
  Py_DECREF(core);
  if (stamp == nullptr) PyErr_Clear();
  const char* text = stamp != nullptr ? PyUnicode_AsUTF8(stamp) : "without extensions";
  const bool same = text != nullptr && std::strcmp(text, FACULA_ABI) == 0;
  if (!same && text != nullptr) {
    PyErr_Format(PyExc_ImportError,
                 "%s was built for facula %s, and this is facula %s; build it again with this one installed", name,
                 FACULA_ABI, text);
  }
  Py_XDECREF(stamp);
  return same;
}

}  // namespace facula::extension
