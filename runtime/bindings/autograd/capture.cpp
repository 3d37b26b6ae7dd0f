// Scopes of capture, for facula.compiler.
#include "runtime/bindings/arguments/arguments.h"
#include "runtime/bindings/autograd/hooks.h"
#include "runtime/bindings/types/types.h"
#include "runtime/dispatch/capture.h"

namespace facula::python {

namespace {

// _Capture(symbolic, check, places, wait=False) for a `with` block. Being C throughout, no signal comes between the
// beginning and the block that ends it.
struct ScopeObject {
  PyObject_HEAD  // NOLINT
      CaptureOptions options;
  CaptureScope* scope;
  std::vector<CaptureReport>* reports;
};

PyObject* new_scope(PyTypeObject* type, PyObject* args, PyObject*) {
  FACULA_PY_TRY
  int symbolic = 0, check_plans = 0, places = 0, wait = 0;
  if (PyArg_ParseTuple(args, "ppp|p:_Capture", &symbolic, &check_plans, &places, &wait) == 0) throw PythonError();
  PyObject* self = check(type->tp_alloc(type, 0));
  auto* o = reinterpret_cast<ScopeObject*>(self);
  o->options = {symbolic != 0, check_plans != 0, places != 0, wait != 0};
  o->scope = nullptr;
  o->reports = nullptr;
  return self;
  FACULA_PY_END(nullptr)
}

void free_scope(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto* o = reinterpret_cast<ScopeObject*>(self);
  delete o->scope;
  delete o->reports;
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* enter_scope(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  auto* o = reinterpret_cast<ScopeObject*>(self);
  FACULA_CHECK(o->scope == nullptr, Runtime, "this capture is running already");
  o->scope = new CaptureScope(o->options);
  return Py_NewRef(self);
  FACULA_PY_END(nullptr)
}

PyObject* exit_scope(PyObject* self, PyObject* const*, Py_ssize_t) {
  FACULA_PY_TRY
  auto* o = reinterpret_cast<ScopeObject*>(self);
  FACULA_CHECK(o->scope != nullptr, Runtime, "this capture is not running");
  const std::unique_ptr<CaptureScope> scope(std::exchange(o->scope, nullptr));
  std::vector<CaptureReport> reports;
  {
    const ReleaseGil released(scope->has_work());
    reports = scope->end();
  }
  if (o->options.places) {
    delete o->reports;
    o->reports = new std::vector<CaptureReport>(std::move(reports));
  }
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

Ref list_of(const auto& items, const auto& made) {
  Ref list(check(PyList_New(0)));
  for (const auto& item : items) {
    const Ref one(check(made(item)));
    if (PyList_Append(list.get(), one.get()) < 0) throw PythonError();
  }
  return list;
}

// For each record that ran: (reason, dead, common, groups), a group (operators, sizes, bytes before, bytes after,
// memory saved, why it is apart, groups whose results it reads).
PyObject* reports_of(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  auto* o = reinterpret_cast<ScopeObject*>(self);
  const std::vector<CaptureReport> none;
  return list_of(o->reports != nullptr ? *o->reports : none,
                 [](const CaptureReport& r) {
                   const Ref groups = list_of(r.groups, [](const CaptureReport::Group& g) {
                     const Ref operators = list_of(g.operators, [](const std::string& text) {
                       return PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
                     });
                     const Ref sizes(check(wrap(IntList(g.sizes))));
                     const Ref uses = list_of(g.uses, [](uint32_t use) { return PyLong_FromUnsignedLong(use); });
                     return Py_BuildValue("(OOLLLsO)", operators.get(), sizes.get(), static_cast<long long>(g.before),
                                          static_cast<long long>(g.after), static_cast<long long>(g.memory),
                                          g.apart.c_str(), uses.get());
                   });
                   return Py_BuildValue("(sIIO)", r.reason.c_str(), r.dead, r.common, groups.get());
                 })
      .release();
  FACULA_PY_END(nullptr)
}

PyMethodDef scope_methods[] = {
    {"__enter__", enter_scope, METH_NOARGS, nullptr},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(exit_scope)), METH_FASTCALL, nullptr},
    {"reports", reports_of, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot scope_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_scope)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_scope)},
    {Py_tp_methods, scope_methods},
    {0, nullptr},
};
PyType_Spec scope_spec = {"facula._C._Capture", sizeof(ScopeObject), 0, Py_TPFLAGS_DEFAULT, scope_slots};

// _NoCapture() for a `with` block whose operators run at once.
struct PauseObject {
  PyObject_HEAD  // NOLINT
      CapturePause* pause;
};
PyObject* new_pause(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) reinterpret_cast<PauseObject*>(self)->pause = nullptr;
  return self;
}
void free_pause(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<PauseObject*>(self)->pause;
  type->tp_free(self);
  Py_DECREF(type);
}
PyObject* enter_pause(PyObject* self, PyObject*) {
  FACULA_PY_TRY
  auto* o = reinterpret_cast<PauseObject*>(self);
  FACULA_CHECK(o->pause == nullptr, Runtime, "this pause of a capture is running already");
  o->pause = new CapturePause;
  return Py_NewRef(self);
  FACULA_PY_END(nullptr)
}
PyObject* exit_pause(PyObject* self, PyObject* const*, Py_ssize_t) {
  delete std::exchange(reinterpret_cast<PauseObject*>(self)->pause, nullptr);
  Py_RETURN_NONE;
}
PyMethodDef pause_methods[] = {
    {"__enter__", enter_pause, METH_NOARGS, nullptr},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(exit_pause)), METH_FASTCALL, nullptr},
    {nullptr, nullptr, 0, nullptr},
};
PyType_Slot pause_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(new_pause)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_pause)},
    {Py_tp_methods, pause_methods},
    {0, nullptr},
};
PyType_Spec pause_spec = {"facula._C._NoCapture", sizeof(PauseObject), 0, Py_TPFLAGS_DEFAULT, pause_slots};

// _plan_counts(): hits, misses, how many are kept, how many may be.
PyObject* counts(PyObject*, PyObject*) {
  FACULA_PY_TRY
  const detail::PlanCounts c = detail::plan_counts();
  return Py_BuildValue("(KKKK)", static_cast<unsigned long long>(c.hits), static_cast<unsigned long long>(c.misses),
                       static_cast<unsigned long long>(c.size), static_cast<unsigned long long>(c.limit));
  FACULA_PY_END(nullptr)
}
PyObject* clear(PyObject*, PyObject*) {
  FACULA_PY_TRY
  detail::clear_plans();
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}
PyObject* is_capturing(PyObject*, PyObject*) { return PyBool_FromLong(facula::is_capturing() ? 1 : 0); }

}  // namespace

bool init_capture_type(PyObject* module) {
  return add_type(module, &scope_spec) != nullptr && add_type(module, &pause_spec) != nullptr;
}

const PyMethodDef capture_functions[] = {
    {"_plan_counts", counts, METH_NOARGS, nullptr},
    {"_clear_plans", clear, METH_NOARGS, nullptr},
    {"_is_capturing", is_capturing, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
