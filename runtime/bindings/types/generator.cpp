// facula.Generator.
#include <cstring>
#include <random>

#include "runtime/bindings/types/types.h"

namespace facula::python {

PyTypeObject* generator_type = nullptr;

namespace {

constexpr uint64_t kDefaultSeed = 67280421310721;  // torch's, so that programs see a familiar number

struct GeneratorObject {
  PyObject_HEAD Generator value;
};

Generator& generator(PyObject* o) { return reinterpret_cast<GeneratorObject*>(o)->value; }

PyObject* generator_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  static const char* const names[] = {"device", nullptr};
  PyObject* device = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(names), &device)) return nullptr;
  FACULA_PY_TRY
  const Device d = device != nullptr && device != Py_None ? device_value(device) : Device{};
  return wrap(make_intrusive<GeneratorImpl>(d, kDefaultSeed));
  FACULA_PY_END(nullptr)
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  generator(self).~Generator();
  type->tp_free(self);
  Py_DECREF(type);
}

// Any Python int: negative ones wrap, as torch has it.
uint64_t seed_value(PyObject* o) {
  Ref index(check(PyNumber_Index(o)));
  uint64_t v = PyLong_AsUnsignedLongLong(index.get());
  if (v == static_cast<uint64_t>(-1) && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    int overflow = 0;
    v = static_cast<uint64_t>(PyLong_AsLongLongAndOverflow(index.get(), &overflow));
    FACULA_CHECK(overflow == 0, Overflow, Operator{"manual_seed"}, "argument '", Argument{"seed"},
                 "' must be in [-2**63, 2**64)");
  }
  return v;
}

PyObject* generator_manual_seed(PyObject* self, PyObject* seed) {
  FACULA_PY_TRY
  generator(self)->manual_seed(seed_value(seed));
  Py_INCREF(self);
  return self;
  FACULA_PY_END(nullptr)
}
PyObject* generator_initial_seed(PyObject* self, PyObject*) {
  return PyLong_FromUnsignedLongLong(generator(self)->initial_seed());
}
PyObject* generator_seed(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  std::random_device source;
  const uint64_t seed = (uint64_t{source()} << 32) | source();
  generator(self)->manual_seed(seed);
  return PyLong_FromUnsignedLongLong(seed);
  FACULA_PY_END(nullptr)
}
// The state is a uint8 tensor of 16 bytes: seed and offset.
PyObject* generator_get_state(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  const GeneratorImpl::State state = generator(self)->state();
  Tensor t = make_empty({16}, ScalarType::UInt8);
  std::memcpy(t.raw(), &state.seed, 8);
  std::memcpy(t.data<char>() + 8, &state.offset, 8);
  return wrap(std::move(t));
  FACULA_PY_END(nullptr)
}
PyObject* generator_set_state(PyObject* self, PyObject* o) {
  FACULA_PY_TRY
  FACULA_CHECK(is_tensor(o), Type, Operator{"set_state"}, "argument '", Argument{"new_state"},
               "' must be a Tensor, not ", Py_TYPE(o)->tp_name);
  const Tensor& t = tensor_of(o);
  FACULA_CHECK(t.is_cpu() && t.dtype() == ScalarType::UInt8 && t.numel() == 16 && t.is_contiguous(), Value,
               Operator{"set_state"}, "argument '", Argument{"new_state"},
               "' must be what get_state() gave: 16 contiguous uint8 on cpu");
  GeneratorImpl::State state;
  std::memcpy(&state.seed, with_data(t, "set_state").raw(), 8);
  std::memcpy(&state.offset, t.data<char>() + 8, 8);
  generator(self)->set_state(state);
  Py_INCREF(self);
  return self;
  FACULA_PY_END(nullptr)
}
PyObject* generator_clone(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  Generator copy = make_intrusive<GeneratorImpl>(generator(self)->device(), generator(self)->initial_seed());
  copy->set_state(generator(self)->state());
  return wrap(copy);
  FACULA_PY_END(nullptr)
}
PyObject* generator_device(PyObject* self, void*) { return wrap(generator(self)->device()); }
PyObject* generator_reduce(PyObject* self, PyObject*) {
  const GeneratorImpl::State state = generator(self)->state();
  return Py_BuildValue("O(N)(KK)", reinterpret_cast<PyObject*>(generator_type), wrap(generator(self)->device()),
                       static_cast<unsigned long long>(state.seed), static_cast<unsigned long long>(state.offset));
}
PyObject* generator_setstate(PyObject* self, PyObject* state) {
  unsigned long long seed = 0, offset = 0;
  if (!PyTuple_Check(state)) {
    PyErr_SetString(PyExc_TypeError, "__setstate__(): the state must be a tuple of two ints");
    return nullptr;
  }
  if (!PyArg_ParseTuple(state, "KK:__setstate__", &seed, &offset)) return nullptr;
  generator(self)->set_state({seed, offset});
  Py_RETURN_NONE;
}

PyMethodDef generator_methods[] = {
    {"manual_seed", generator_manual_seed, METH_O,
     "manual_seed($self, seed, /)\n--\n\nStart the stream that belongs to `seed`; returns the generator."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, "initial_seed($self, /)\n--\n\nThe seed last set."},
    {"seed", generator_seed, METH_NOARGS, "seed($self, /)\n--\n\nTake a seed from the system and return it."},
    {"get_state", generator_get_state, METH_NOARGS, "get_state($self, /)\n--\n\nThe state as a uint8 tensor."},
    {"set_state", generator_set_state, METH_O, "set_state($self, new_state, /)\n--\n\nGo on from a state."},
    {"clone_state", generator_clone, METH_NOARGS, "clone_state($self, /)\n--\n\nA generator in the same state."},
    {"__reduce__", generator_reduce, METH_NOARGS, nullptr},
    {"__setstate__", generator_setstate, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyGetSetDef generator_properties[] = {
    {"device", generator_device, nullptr, "The device it draws for.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot generator_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(generator_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    {Py_tp_methods, generator_methods},
    {Py_tp_getset, generator_properties},
    {Py_tp_doc, const_cast<char*>("Generator(device='cpu')\n--\n\nA stream of random numbers.")},
    {0, nullptr},
};
PyType_Spec generator_spec = {"facula.Generator", sizeof(GeneratorObject), 0, Py_TPFLAGS_DEFAULT, generator_slots};

}  // namespace

PyObject* wrap(const Generator& g) {
  auto* o = reinterpret_cast<GeneratorObject*>(generator_type->tp_alloc(generator_type, 0));
  if (o != nullptr) new (&o->value) Generator(g);
  return reinterpret_cast<PyObject*>(o);
}
const Generator& generator_value(PyObject* o) { return generator(o); }

bool init_generator_type(PyObject* module) {
  generator_type = add_type(module, &generator_spec);
  if (generator_type == nullptr) return false;
  Ref g(wrap(default_generator()));
  return g && PyModule_AddObjectRef(module, "default_generator", g.get()) == 0;
}

}  // namespace facula::python
