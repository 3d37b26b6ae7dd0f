// What facula.profiler reads: the operators that a thread calls, with their times.
#include "runtime/dispatch/observe.h"

#include "runtime/bindings/types/types.h"

namespace facula::python {

namespace {

constexpr const char* kCapsule = "facula.Observation";
constexpr const char* kKinds[] = {"call", "backward", "range"};
constexpr const char* kSuffixes[kNumVariants] = {"", "_", ".out"};

Observation& observation_of(PyObject* capsule) {
  void* p = PyCapsule_GetPointer(capsule, kCapsule);
  if (p == nullptr) throw PythonError();
  return *static_cast<Observation*>(p);
}

// One that runs still is the thread's: it ends with the process.
void drop(PyObject* capsule) {
  auto* o = static_cast<Observation*>(PyCapsule_GetPointer(capsule, kCapsule));
  if (o->is_running() && o->is_of_this_thread()) o->stop();
  if (!o->is_running()) delete o;
}

PyObject* text_of(std::string_view s) {
  return check(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace"));
}

PyObject* ints_of(IntList list) {
  Ref tuple(check(PyTuple_New(static_cast<Py_ssize_t>(list.size()))));
  for (size_t i = 0; i < list.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), check(PyLong_FromLongLong(list[i])));
  }
  return tuple.release();
}

// A tensor is (sizes, dtype, device).
struct ToPython {
  PyObject* operator()(std::monostate) const { Py_RETURN_NONE; }
  PyObject* operator()(const TensorFacts& t) const {
    return check(Py_BuildValue("(NNN)", ints_of(t.sizes), check(wrap(t.dtype)), check(wrap(t.device))));
  }
  PyObject* operator()(const std::vector<TensorFacts>& list) const {
    Ref all(check(PyList_New(0)));
    for (const TensorFacts& t : list) {
      const Ref one((*this)(t));
      check(PyList_Append(all.get(), one.get()));
    }
    return all.release();
  }
  PyObject* operator()(int64_t v) const { return check(PyLong_FromLongLong(v)); }
  PyObject* operator()(double v) const { return check(PyFloat_FromDouble(v)); }
  PyObject* operator()(bool v) const { return PyBool_FromLong(v); }
  PyObject* operator()(const std::string& s) const { return text_of(s); }
  PyObject* operator()(ScalarType t) const { return check(wrap(t)); }
  PyObject* operator()(const std::vector<int64_t>& list) const {
    Ref all(check(PyList_New(0)));
    for (const int64_t v : list) {
      const Ref one(check(PyLong_FromLongLong(v)));
      check(PyList_Append(all.get(), one.get()));
    }
    return all.release();
  }
};

PyObject* noted_tuple(const std::vector<Noted>& list) {
  Ref tuple(check(PyTuple_New(static_cast<Py_ssize_t>(list.size()))));
  for (size_t i = 0; i < list.size(); ++i) {
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), std::visit(ToPython{}, list[i]));
  }
  return tuple.release();
}

PyObject* event_tuple(const Event& e) {
  static const Event::Details none;
  const Event::Details& details = e.details ? *e.details : none;
  const bool call = e.kind == EventKind::Call;
  const std::string name = concat(e.name, call ? kSuffixes[static_cast<int>(e.variant)] : "");
  const auto stop = static_cast<long long>(e.stop < 0 ? e.start : e.stop);
  return check(Py_BuildValue("(NsILLLNNNz)", text_of(name), kKinds[static_cast<int>(e.kind)], e.depth,
                             static_cast<long long>(e.start), stop, static_cast<long long>(e.bytes),
                             text_of(details.location), noted_tuple(details.arguments), noted_tuple(details.results),
                             call ? e.name : nullptr));
}

PyObject* start(PyObject*, PyObject* args) {
  FACULA_PY_TRY
  int arguments = 0, memory = 0, location = 0;
  if (PyArg_ParseTuple(args, "|ppp:_observe_start", &arguments, &memory, &location) == 0) throw PythonError();
  auto observation = std::make_unique<Observation>(Observation::Options{arguments != 0, memory != 0, location != 0});
  Ref capsule(check(PyCapsule_New(observation.get(), kCapsule, drop)));
  observation.release()->start();
  return capsule.release();
  FACULA_PY_END(nullptr)
}

PyObject* stop(PyObject*, PyObject* capsule) {
  FACULA_PY_TRY
  observation_of(capsule).stop();
  Py_RETURN_NONE;
  FACULA_PY_END(nullptr)
}

// (name, kind, depth, start in ns, stop in ns, bytes, location, arguments, results, operator or None) of each event, in
// order of their starts.
PyObject* events(PyObject*, PyObject* capsule) {
  FACULA_PY_TRY
  const Observation& observation = observation_of(capsule);
  FACULA_CHECK(!observation.is_running(), Runtime, "an observation is read when it has stopped");
  Ref list(check(PyList_New(static_cast<Py_ssize_t>(observation.events().size()))));
  Py_ssize_t i = 0;
  for (const Event& e : observation.events()) PyList_SET_ITEM(list.get(), i++, event_tuple(e));
  return list.release();
  FACULA_PY_END(nullptr)
}

// Whether somebody watches: who entered while nobody did must not leave.
PyObject* enter_range(PyObject*, PyObject* name) {
  FACULA_PY_TRY
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(name, &size);
  if (text == nullptr) throw PythonError();
  const bool seen = is_observed();
  if (seen) begin_range(std::string(text, static_cast<size_t>(size)));
  return PyBool_FromLong(seen);
  FACULA_PY_END(nullptr)
}
PyObject* leave_range(PyObject*, PyObject*) {
  end_range();
  Py_RETURN_NONE;
}

}  // namespace

const PyMethodDef observe_functions[] = {
    {"_observe_start", start, METH_VARARGS, nullptr},    {"_observe_stop", stop, METH_O, nullptr},
    {"_observe_events", events, METH_O, nullptr},        {"_enter_range", enter_range, METH_O, nullptr},
    {"_leave_range", leave_range, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr},
};

}  // namespace facula::python
