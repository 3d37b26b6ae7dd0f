// For C++ that Python calls: functions over tensors, numbers, dtypes, devices and lists of them become Python's.
//
//   #include <facula/extension.h>
//   facula::Tensor twice(const facula::Tensor& x) { return x * 2; }
//   FACULA_EXTENSION(my_module, m) { m.def("twice", &twice); }
//
// facula.utils.cpp_extension writes the last line where it is told the functions' names.
#pragma once

#include "runtime/bindings/types/casters.h"
#include "facula/module.h"
#include "facula/ops.h"
#include "runtime/autograd/meta.h"
#include "runtime/iterate/strided.h"

namespace facula::extension {

inline void begin(pybind11::module_& m) {
  if (!fits(PyModule_GetName(m.ptr()))) throw pybind11::error_already_set();
  translate_errors();
  if (facula_add_operators != nullptr && facula_add_operators(m.ptr()) < 0) throw pybind11::error_already_set();
}

}  // namespace facula::extension

// As PYBIND11_MODULE, with its options, such as pybind11::mod_gil_not_used(); the module refuses another facula than
// that it was built for, and facula's errors become Python's.
#define FACULA_EXTENSION(name, variable, ...)                             \
  static void facula_fill_##name(pybind11::module_& variable);            \
  PYBIND11_MODULE(name, facula_module_ __VA_OPT__(, ) __VA_ARGS__) {      \
    ::facula::extension::begin(facula_module_);                           \
    facula_fill_##name(facula_module_);                                   \
  }                                                                       \
  void facula_fill_##name([[maybe_unused]] pybind11::module_& variable)
