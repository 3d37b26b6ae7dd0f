// What facula.profiler reads: the operators that a thread calls, with their times.
#include "runtime/dispatch/observe.h"

#include "runtime/bindings/types/casters.h"
#include "runtime/bindings/define.h"

namespace py = pybind11;

namespace facula::python {

namespace {

constexpr const char* kCapsule = "facula.Observation";
constexpr const char* kKinds[] = {"call", "backward", "range"};
constexpr const char* kSuffixes[kNumVariants] = {"", "_", ".out"};

Observation& observation_of(const py::object& capsule) {
  void* p = PyCapsule_GetPointer(capsule.ptr(), kCapsule);
  if (p == nullptr) throw PythonError();
  return *static_cast<Observation*>(p);
}

// One that runs still is the thread's: it ends with the process.
void drop(PyObject* capsule) {
  auto* o = static_cast<Observation*>(PyCapsule_GetPointer(capsule, kCapsule));
  if (o->is_running() && o->is_of_this_thread()) o->stop();
  if (!o->is_running()) delete o;
}

py::object text_of(std::string_view s) {
  return py::reinterpret_steal<py::object>(
      check(PyUnicode_DecodeUTF8(s.data(), static_cast<Py_ssize_t>(s.size()), "replace")));
}

// A tensor is (sizes, dtype, device).
struct ToPython {
  py::object operator()(const TensorFacts& t) const {
    const std::vector<int64_t> sizes(t.sizes.begin(), t.sizes.end());
    return py::make_tuple(py::tuple(py::cast(sizes)), t.dtype, t.device);
  }
  py::object operator()(const std::vector<TensorFacts>& list) const {
    py::list all;
    for (const TensorFacts& t : list) all.append((*this)(t));
    return all;
  }
  py::object operator()(const std::string& s) const { return text_of(s); }
  template <typename T>
  py::object operator()(const T& v) const {
    return py::cast(v);
  }
};

py::tuple noted(const std::vector<Noted>& list) {
  py::tuple all(list.size());
  for (size_t i = 0; i < list.size(); ++i) all[i] = std::visit(ToPython{}, list[i]);
  return all;
}

// (name, kind, depth, start in ns, stop in ns, bytes, location, arguments, results, operator or None)
py::tuple event(const Event& e) {
  static const Event::Details none;
  const Event::Details& details = e.details ? *e.details : none;
  const bool call = e.kind == EventKind::Call;
  const std::string name = concat(e.name, call ? kSuffixes[static_cast<int>(e.variant)] : "");
  return py::make_tuple(text_of(name), kKinds[static_cast<int>(e.kind)], e.depth, e.start,
                        e.stop < 0 ? e.start : e.stop, e.bytes, text_of(details.location), noted(details.arguments),
                        noted(details.results), call ? e.name : nullptr);
}

py::capsule start(bool arguments, bool memory, bool location) {
  auto observation = std::make_unique<Observation>(Observation::Options{arguments, memory, location});
  const py::capsule capsule(observation.get(), kCapsule, drop);
  observation.release()->start();
  return capsule;
}

// In order of their starts.
py::list events(const py::object& capsule) {
  const Observation& observation = observation_of(capsule);
  FACULA_CHECK(!observation.is_running(), Runtime, "an observation is read when it has stopped");
  py::list list;
  for (const Event& e : observation.events()) list.append(event(e));
  return list;
}

// Whether somebody watches: who entered while nobody did must not leave.
bool enter_range(std::string name) {
  const bool seen = is_observed();
  if (seen) begin_range(std::move(name));
  return seen;
}

}  // namespace

void define_observe(py::module_& m) {
  define(m, "_observe_start", start, py::arg() = false, py::arg() = false, py::arg() = false);
  define(m, "_observe_stop", [](const py::object& capsule) { observation_of(capsule).stop(); });
  define(m, "_observe_events", events);
  define(m, "_enter_range", enter_range);
  define(m, "_leave_range", end_range);
}

}  // namespace facula::python
