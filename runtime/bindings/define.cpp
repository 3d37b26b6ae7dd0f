#include "runtime/bindings/define.h"

namespace py = pybind11;

namespace facula::python {

bool define_functions(PyObject* module) {
  try {
    py::options plain;
    plain.disable_function_signatures();
    auto m = py::reinterpret_borrow<py::module_>(module);
    extension::translate_errors();
    m.attr("__module__") = m.attr("__name__");  // what functions ask their scope for first
    define_compounds(m);
    define_graph(m);
    define_interface(m);
    define_collectives(m);
    define_introspection(m);
    define_observe(m);
    define_saved_hooks(m);
    py::delattr(m, "__module__");
    return true;
  } catch (py::error_already_set& e) {
    e.restore();
  }
  return false;
}

}  // namespace facula::python
