// Levels of function transforms, for facula.func.
#include "runtime/autograd/meta.h"
#include "runtime/bindings/autograd/hooks.h"
#include "runtime/bindings/types/types.h"
#include "runtime/core/compound.h"
#include "runtime/dispatch/levels.h"

namespace facula::python {

namespace {

uint64_t number_of(PyObject* o) {
  const uint64_t number = PyLong_AsUnsignedLongLong(o);
  if (PyErr_Occurred() != nullptr) throw PythonError();
  return number;
}

Randomness randomness_of(const char* word) {
  const std::string_view given = word;
  const Randomness randomness = given == "same"        ? Randomness::Same
                                : given == "different" ? Randomness::Different
                                                       : Randomness::Error;
  FACULA_CHECK(randomness != Randomness::Error || given == "error", Value, Argument{"randomness"},
               " must be 'error', 'different' or 'same', not '", given, "'");
  return randomness;
}

// A level for a `with` block, which gives its number. Being C throughout, no signal comes between the level's beginning
// and the block that ends it, or what drops this object.
struct LevelScope {
  PyObject_HEAD  // NOLINT
      uint64_t number;
  uint64_t again;
  int64_t size;  // of a batch; -1: of gradients
  Randomness randomness;
};

PyObject* new_scope(PyTypeObject* type, PyObject* args, PyObject*, bool batch) {
  FACULA_PY_TRY
  long long size = -1;
  uint64_t again = 0;
  Randomness randomness = Randomness::Error;
  if (batch) {
    const char* word = nullptr;
    PyObject* number = Py_None;
    if (PyArg_ParseTuple(args, "Ls|O:_BatchLevel", &size, &word, &number) == 0) throw PythonError();
    if (number != Py_None) again = number_of(number);
    FACULA_CHECK(size >= 0, Value, "the size of a batch must be at least 0, not ", size);
    randomness = randomness_of(word);
  } else {
    PyObject* number = Py_None;
    if (PyArg_ParseTuple(args, "|O:_GradientLevel", &number) == 0) throw PythonError();
    if (number != Py_None) again = number_of(number);
  }
  PyObject* self = check(type->tp_alloc(type, 0));
  auto* scope = reinterpret_cast<LevelScope*>(self);
  scope->number = 0;
  scope->again = again;
  scope->size = size;
  scope->randomness = randomness;
  return self;
  FACULA_PY_END(nullptr)
}
PyObject* new_batch(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return new_scope(type, args, kwargs, true);
}
PyObject* new_gradients(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return new_scope(type, args, kwargs, false);
}
// From Python 3.14 on a signal may come between __enter__ and the block, which then never ends: the level ends here.
void free_scope(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* scope = reinterpret_cast<LevelScope*>(self);
  try {
    if (scope->number != 0) pop_level(std::exchange(scope->number, 0));
  } catch (const Error&) {  // it has ended with one around it, or is another thread's
  }
  type->tp_free(self);
  Py_DECREF(type);
}
PyObject* enter_scope(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  auto* scope = reinterpret_cast<LevelScope*>(self);
  FACULA_CHECK(scope->number == 0, Runtime, "this level of a function transform is open already");
  scope->number = scope->size < 0 ? push_gradient_level(scope->again)
                                  : push_batch_level(scope->size, scope->randomness, scope->again);
  return PyLong_FromUnsignedLongLong(scope->number);
  FACULA_PY_END(nullptr)
}
PyObject* exit_scope(PyObject* self, PyObject* const*, Py_ssize_t) {
  FACULA_PY_TRY
  auto* scope = reinterpret_cast<LevelScope*>(self);
  pop_level(std::exchange(scope->number, 0));
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyMethodDef scope_methods[] = {
    {"__enter__", enter_scope, METH_NOARGS, nullptr},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(exit_scope)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot batch_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_batch)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_scope)},
    {Py_tp_methods, scope_methods},
    {0, nullptr},
};
PyType_Slot gradient_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_gradients)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_scope)},
    {Py_tp_methods, scope_methods},
    {0, nullptr},
};
PyType_Spec batch_spec = {"facula._C._BatchLevel", sizeof(LevelScope), 0, Py_TPFLAGS_DEFAULT, batch_slots};
PyType_Spec gradient_spec = {"facula._C._GradientLevel", sizeof(LevelScope), 0, Py_TPFLAGS_DEFAULT, gradient_slots};

PyObject* depth(PyObject*, PyObject*) {
  FACULA_PY_TRY
  return PyLong_FromSize_t(level_depth());
  FACULA_PY_END(nullptr)
}

// _enter_level(tensor, number, dim), dim None for none
PyObject* enter(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *tensor = nullptr, *number = nullptr, *dim = nullptr;
  if (PyArg_ParseTuple(args, "O!OO:_enter_level", tensor_type, &tensor, &number, &dim) == 0) throw PythonError();
  const Tensor& t = tensor_of(tensor);
  int64_t at = -1;
  if (dim != Py_None) {
    at = PyLong_AsLongLong(dim);
    if (at == -1 && PyErr_Occurred() != nullptr) throw PythonError();
    FACULA_CHECK(t.dim() > 0, Value, "a 0-d tensor has no dim to map over");
    at = wrap_dim(at, t.dim());
  }
  return wrap(enter_level(t, number_of(number), at));
  FACULA_PY_END(nullptr)
}

// _leave_level(tensor, number): the tensor within, and its batch dim or None.
PyObject* leave(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  PyObject *tensor = nullptr, *number = nullptr;
  if (PyArg_ParseTuple(args, "O!O:_leave_level", tensor_type, &tensor, &number) == 0) throw PythonError();
  auto [t, dim] = leave_level(tensor_of(tensor), number_of(number));
  const Ref inner(check(wrap(std::move(t))));
  const Ref at(dim < 0 ? Py_NewRef(Py_None) : check(PyLong_FromLongLong(dim)));
  return PyTuple_Pack(2, inner.get(), at.get());
  FACULA_PY_END(nullptr)
}

// _level_of(tensor): the number of the innermost level that it is of, and its batch dim; None of others.
PyObject* level_of(PyObject*, PyObject* tensor) {
  FACULA_PY_TRY
  FACULA_CHECK(is_tensor(tensor), Type, "expected a Tensor, not ", Py_TYPE(tensor)->tp_name);
  const Tensor& t = tensor_of(tensor);
  if (!t.is_wrapped() || is_compound(t)) Py_RETURN_NONE;
  const Wrapping& w = *t.impl()->wrapping;
  const Ref inner(check(wrap(Tensor(w.inner))));
  return Py_BuildValue("(KLO)", static_cast<unsigned long long>(w.level), static_cast<long long>(w.dim), inner.get());
  FACULA_PY_END(nullptr)
}

const char* const kRandomness[] = {"error", "same", "different"};

// _current_level(): (number, "batch" or "gradients", size, randomness) of the innermost one, or None.
PyObject* current(PyObject*, PyObject*) {
  const Level* level = tls_state.level;
  if (level == nullptr) Py_RETURN_NONE;
  return Py_BuildValue("(KsLs)", static_cast<unsigned long long>(level->number),
                       level->kind == Level::Kind::Batch ? "batch" : "gradients", static_cast<long long>(level->size),
                       kRandomness[static_cast<int>(level->randomness)]);
}

// _open_levels(): of all, the innermost first: (number, "batch" or "gradients", size, randomness, forward mode?).
PyObject* open_levels(PyObject*, PyObject*) {
  FACULA_PY_TRY
  Ref list(check(PyList_New(0)));
  bool forward_mode = tls_state.forward_mode;
  for (const Level* level = tls_state.level; level != nullptr; level = level->outer) {
    const Ref one(check(
        Py_BuildValue("(KsLsO)", static_cast<unsigned long long>(level->number),
                      level->kind == Level::Kind::Batch ? "batch" : "gradients", static_cast<long long>(level->size),
                      kRandomness[static_cast<int>(level->randomness)], forward_mode ? Py_True : Py_False)));
    if (PyList_Append(list.get(), one.get()) < 0) throw PythonError();
    forward_mode = level->forward_mode;
  }
  return list.release();
  FACULA_PY_END(nullptr)
}

// _in_forward_mode(): do tensors have tangents, of an open level or of the program outside of them?
PyObject* in_forward_mode(PyObject*, PyObject*) {
  bool found = tls_state.forward_mode;
  for (const Level* level = tls_state.level; level != nullptr; level = level->outer) {
    found = found || level->forward_mode;
  }
  return PyBool_FromLong(found ? 1 : 0);
}

// _open_tangents(): of every open level, the innermost first, and of the program outside of them: a list of (tensor,
// its tangent), or None where there is no forward mode of its own.
PyObject* open_tangents(PyObject*, PyObject*) {
  FACULA_PY_TRY
  Ref list(check(PyList_New(0)));
  bool forward_mode = tls_state.forward_mode;
  std::shared_ptr<DualLevel> dual = detail::dual_level();
  const auto add = [&](bool own) {
    Ref one(Py_NewRef(Py_None));
    if (own && forward_mode) {
      one = Ref(check(PyList_New(0)));
      for (auto& [t, tangent] : tangents_of(dual)) {
        const Ref of(check(wrap(std::move(t)))), along(check(wrap(std::move(tangent))));
        const Ref pair(check(PyTuple_Pack(2, of.get(), along.get())));
        if (PyList_Append(one.get(), pair.get()) < 0) throw PythonError();
      }
    }
    if (PyList_Append(list.get(), one.get()) < 0) throw PythonError();
  };
  for (const Level* level = tls_state.level; level != nullptr; level = level->outer) {
    add(level->kind == Level::Kind::Gradients);
    if (level->kind != Level::Kind::Gradients) continue;
    forward_mode = level->forward_mode;
    dual = level->dual;
  }
  add(true);
  return list.release();
  FACULA_PY_END(nullptr)
}

// _restore_tangents(list of (tensor, tangent)): those, in the level that is open now.
PyObject* restore_tangents(PyObject*, PyObject* pairs) {
  FACULA_PY_TRY
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(pairs); ++i) {
    PyObject* const pair = PyList_GET_ITEM(pairs, i);
    restore_tangent(tensor_of(PyTuple_GET_ITEM(pair, 0)), tensor_of(PyTuple_GET_ITEM(pair, 1)));
  }
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

// _call_below(function, *args): a call for the next level.
PyObject* call_below(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  FACULA_CHECK(PyTuple_GET_SIZE(args) > 0 && tls_state.level != nullptr, Runtime, Operator{"_call_below"},
               "takes a function, within a function transform");
  const Ref rest(check(PyTuple_GetSlice(args, 1, PyTuple_GET_SIZE(args))));
  const detail::Descent below(*tls_state.level);
  return check(PyObject_Call(PyTuple_GET_ITEM(args, 0), rest.get(), nullptr));
  FACULA_PY_END(nullptr)
}

// _exchange_fallback(mode): what it was, of 'quiet', 'warn' and 'error'.
PyObject* exchange(PyObject*, PyObject* mode) {
  FACULA_PY_TRY
  static const char* const words[] = {"quiet", "warn", "error"};
  const char* const given = PyUnicode_Check(mode) ? PyUnicode_AsUTF8(mode) : nullptr;
  for (int i = 0; i < 3 && given != nullptr; ++i) {
    if (std::string_view(given) != words[i]) continue;
    return PyUnicode_FromString(words[static_cast<int>(exchange_fallback(static_cast<Fallback>(i)))]);
  }
  const Ref shown(check(PyObject_Repr(mode)));
  raise(ErrorKind::Value, "vmap_fallback(): it must be 'warn', 'quiet' or 'error', not ",
        PyUnicode_AsUTF8(shown.get()));
  FACULA_PY_END(nullptr)
}

PyObject* reset_fallbacks(PyObject*, PyObject*) {
  reset_batch_fallbacks();
  Py_RETURN_NONE;
}

PyObject* fallbacks(PyObject*, PyObject*) {
  FACULA_PY_TRY
  Ref found(check(PyDict_New()));
  for (const auto& [name, count] : batch_fallbacks()) {
    const Ref number(check(PyLong_FromUnsignedLongLong(count)));
    if (PyDict_SetItemString(found.get(), name, number.get()) < 0) return nullptr;
  }
  return found.release();
  FACULA_PY_END(nullptr)
}

}  // namespace

bool init_level_types(PyObject* module) {
  return add_type(module, &batch_spec) != nullptr && add_type(module, &gradient_spec) != nullptr;
}

const PyMethodDef level_functions[] = {
    {"_level_depth", depth, METH_NOARGS, nullptr},
    {"_enter_level", enter, METH_VARARGS, nullptr},
    {"_leave_level", leave, METH_VARARGS, nullptr},
    {"_level_of", level_of, METH_O, nullptr},
    {"_current_level", current, METH_NOARGS, nullptr},
    {"_call_below", call_below, METH_VARARGS, nullptr},
    {"_open_levels", open_levels, METH_NOARGS, nullptr},
    {"_in_forward_mode", in_forward_mode, METH_NOARGS, nullptr},
    {"_open_tangents", open_tangents, METH_NOARGS, nullptr},
    {"_restore_tangents", restore_tangents, METH_O, nullptr},
    {"_exchange_fallback", exchange, METH_O, nullptr},
    {"_reset_batch_fallbacks", reset_fallbacks, METH_NOARGS, nullptr},
    {"_batch_fallbacks", fallbacks, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
