// Autograd for the package's own Python: edges of the graph, the backward pass that runs, forward mode.
#include "runtime/autograd/engine.h"
#include "runtime/autograd/graph_task.h"
#include "runtime/bindings/autograd/hooks.h"
#include "runtime/bindings/define.h"
#include "runtime/bindings/types/casters.h"
#include "runtime/dispatch/core_operators.h"

namespace py = pybind11;

namespace facula::python {

namespace {

const Tensor& tensor_argument(const py::object& o, const char* who) {
  FACULA_CHECK(is_tensor(o.ptr()), Type, Operator{who}, "argument '", Argument{"tensor"}, "' must be a Tensor, not ",
               Py_TYPE(o.ptr())->tp_name);
  return tensor_of(o.ptr());
}

py::object object_of(const intrusive_ptr<Node>& node) { return py::reinterpret_steal<py::object>(check(wrap(node))); }

// Its node and output number.
py::tuple edge_of(const py::object& tensor) {
  const Edge edge = gradient_edge(tensor_argument(tensor, "get_gradient_edge"));
  FACULA_CHECK(edge, Runtime, Operator{"get_gradient_edge"}, "the tensor does not require grad");
  return py::make_tuple(object_of(edge.node), edge.output_nr);
}

// As if it had been written to.
void increment_version(const py::object& tensor) {
  const Tensor& t = tensor_argument(tensor, "increment_version");
  check_not_inference(t, "increment_version");
  t.bump_version({"increment_version"});
}

// ---- the backward pass that runs on this thread ----

GraphTask& current_task(const char* who) {
  GraphTask* task = GraphTask::current();
  FACULA_CHECK(task != nullptr, Runtime, Operator{who}, "no backward pass runs on this thread");
  return *task;
}

uint64_t task_number() {
  const GraphTask* task = GraphTask::current();
  return task == nullptr ? 0 : task->number();
}

// For each leaf or address of a node, whether it runs.
py::list task_reaches(const py::iterable& items) {
  GraphTask& task = current_task("_task_reaches");
  py::list found;
  for (const py::handle item : py::tuple(items)) {
    const void* node =
        is_tensor(item.ptr()) ? gradient_edge(tensor_of(item.ptr())).node.get() : PyLong_AsVoidPtr(item.ptr());
    if (PyErr_Occurred() != nullptr) throw PythonError();
    found.append(task.reaches(static_cast<const Node*>(node)));
  }
  return found;
}

// ---- forward mode ----

// A view that autograd follows, tangents aside.
Tensor plain_view(const Tensor& t) {
  struct Restore {
    bool saved = tls_state.forward_mode;
    ~Restore() { tls_state.forward_mode = saved; }
  } restore;
  tls_state.forward_mode = false;
  return core_operators().view(t, t.sizes());
}

Tensor make_dual(const py::object& primal, const py::object& tangent) {
  const Tensor& p = tensor_argument(primal, "make_dual");
  FACULA_CHECK(is_tensor(tangent.ptr()), Type, Operator{"make_dual"}, "argument '", Argument{"tangent"},
               "' must be a Tensor, not ", Py_TYPE(tangent.ptr())->tp_name);
  const Tensor& t = tensor_of(tangent.ptr());
  FACULA_CHECK(p.sizes() == t.sizes(), Value, Operator{"make_dual"}, Argument{"tensor"}, " has shape ",
               shape_string(p.sizes()), ", tangent has shape ", shape_string(t.sizes()));
  FACULA_CHECK(p.dtype() == t.dtype() && is_differentiable(p.dtype()), Value, Operator{"make_dual"}, Argument{"tensor"},
               " has dtype ", dtype_name(p.dtype()), ", tangent has ", dtype_name(t.dtype()),
               "; both must be the same floating-point or complex one");
  Tensor dual = plain_view(p);
  set_tangent(dual, t);
  return dual;
}

std::pair<Tensor, Tensor> unpack_dual(const py::object& tensor) {
  const Tensor& t = tensor_argument(tensor, "unpack_dual");
  return {has_tangent(t) ? plain_view(t) : t, tangent_of(t)};
}

}  // namespace

void define_graph(py::module_& m) {
  define(m, "_gradient_edge", edge_of);
  define(m, "_increment_version", increment_version);
  define(m, "_task_number", task_number);
  define(m, "_task_reaches", task_reaches);
  // function(()) when the pass is done.
  define(m, "_task_at_end", [](const py::object& function) {
    current_task("queue_callback").at_end(make_hook(HookKind::NodePre, function.ptr()));
  });
  define(m, "_set_check_nan", [](bool check) { set_check_nan(check); });
  define(m, "_checks_nan", [] { return checks_nan(); });
  define(m, "_enter_dual_level", [] { enter_dual_level(); });
  define(m, "_exit_dual_level", [] { exit_dual_level(); });
  define(m, "_make_dual", make_dual);
  define(m, "_unpack_dual", unpack_dual);
}

}  // namespace facula::python
