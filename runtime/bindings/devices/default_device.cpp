#include "runtime/bindings/devices/default_device.h"

#include <vector>

#include "runtime/bindings/types/types.h"

namespace facula::python {

constinit thread_local std::optional<Device> tls_default_device __attribute__((tls_model("initial-exec")));

namespace {

struct Defaults {
  std::optional<Device> standing;  // of set_default_device()
  std::vector<Device> blocks;      // of `with` blocks, the innermost last
};
Defaults& defaults() {
  thread_local Defaults d;
  return d;
}
void show(const Defaults& d) { tls_default_device = d.blocks.empty() ? d.standing : std::optional(d.blocks.back()); }

PyObject* get_default(PyObject*, PyObject*) {
  FACULA_PY_TRY
  const Device d = tls_default_device.value_or(Device{});
  return wrap(d.type > kMeta ? place_on_device(d, ScalarType::Float32) : d);
  FACULA_PY_END(nullptr)
}
PyObject* set_default(PyObject*, PyObject* o) {
  FACULA_PY_TRY
  FACULA_CHECK(o == Py_None || Py_TYPE(o) == device_type || PyUnicode_Check(o) || PyLong_Check(o), Type,
               Operator{"set_default_device"}, "a device such as 'cpu' or None is expected, not ", Py_TYPE(o)->tp_name);
  Defaults& d = defaults();
  d.standing = o == Py_None ? std::nullopt : std::optional(device_value(o));
  show(d);
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

}  // namespace

void push_default_device(Device device) {
  Defaults& d = defaults();
  d.blocks.push_back(device);
  show(d);
}
void pop_default_device() {
  Defaults& d = defaults();
  if (!d.blocks.empty()) d.blocks.pop_back();
  show(d);
}

const PyMethodDef default_device_functions[] = {
    {"get_default_device", get_default, METH_NOARGS,
     "get_default_device()\n--\n\nWhere this thread makes tensors that are made without a device."},
    {"set_default_device", set_default, METH_O,
     "set_default_device(device, /)\n--\n\nLet this thread make tensors there, where no `device` and no `with device:` "
     "says otherwise; None for the CPU."},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
