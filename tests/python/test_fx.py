"""facula.fx: tracing, graphs, code, interpreters, patterns."""

from __future__ import annotations

import copy
import math
import operator
import pickle

import facula as fa
import facula.nn.functional as F
import pytest
from facula import fx, nn
from facula.fx.proxy import TraceError


def helper(x, n):
    return x * n if n > 0 else x


fx.wrap("helper")
fx.wrap("len")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(fa.full((4,), 2.0))
        self.register_buffer("shift", fa.ones(4))
        self.tail = nn.Sequential(nn.ReLU(), nn.Linear(4, 2))

    def forward(self, x):
        y = F.relu(self.linear(x)) * self.scale + self.shift
        y = fa.cat([y, y], dim=1)[:, :4]
        y = F.max_pool1d(y, 2).repeat(1, 2).view(-1, x.shape[1])
        return {"out": self.tail(y), "mean": y.mean(dim=0)}


@pytest.fixture
def traced():
    fa.manual_seed(0)
    block = Block()
    return block, fx.symbolic_trace(block), fa.randn(3, 4)


def same(a, b):
    return all(fa.equal(a[k], b[k]) for k in a)


def test_a_traced_module_computes_the_same(traced):
    block, graph, x = traced
    assert same(graph(x), block(x))
    kinds = [n.op for n in graph.graph.nodes]
    assert kinds[0] == "placeholder" and kinds[-1] == "output"
    called = [n.target for n in graph.graph.nodes if n.op == "call_module"]
    assert called == ["linear", "tail.0", "tail.1"]
    functions = [n.target for n in graph.graph.nodes if n.op == "call_function"]
    assert F.relu in functions and F.max_pool1d in functions and fa.cat in functions
    assert graph.linear is block.linear and graph.scale is block.scale
    graph.graph.lint()


@pytest.mark.parametrize("way", ["deepcopy", "copy", "pickle", "interpreter", "transformer"])
def test_copies_compute_the_same(traced, way):
    block, graph, x = traced
    made = {
        "deepcopy": lambda: copy.deepcopy(graph),
        "copy": lambda: copy.copy(graph),
        "pickle": lambda: pickle.loads(pickle.dumps(graph)),
        "interpreter": lambda: fx.Interpreter(graph).run,
        "transformer": lambda: fx.Transformer(graph).transform(),
    }[way]()
    assert same(made(x), block(x))


def test_gradients_flow(traced):
    block, graph, x = traced
    graph(x)["out"].sum().backward()
    assert block.scale.grad is not None and block.linear.weight.grad is not None


def test_the_code_is_python():
    def function(x, y=2):
        return fa.sin(x) @ x.t() - y

    graph = fx.symbolic_trace(function)
    lines = graph.code.splitlines()
    assert lines[0] == "def forward(self, x, y = 2):"
    assert lines[1] == "    sin = facula.sin(x)"
    assert lines[-1] == "    return sub"
    x = fa.rand(2, 3)
    assert fa.equal(graph(x), function(x)) and fa.equal(graph(x, 5), function(x, 5))


def test_a_graph_is_changed(traced):
    block, graph, x = traced
    for node in graph.graph.nodes:
        if node.target is F.relu:
            with graph.graph.inserting_after(node):
                new = graph.graph.call_function(fa.tanh, (node.args[0],))
            node.replace_all_uses_with(new)
            graph.graph.erase_node(node)
    graph.graph.lint()
    graph.recompile()
    assert "tanh" in graph.code and "relu" not in graph.code.replace("tail", "")
    assert not same(graph(x), block(x))


def test_dead_code_goes():
    def function(x):
        unused = x + 1  # noqa: F841
        x.add_(1)
        return x * 2

    graph = fx.symbolic_trace(function)
    assert graph.graph.eliminate_dead_code()
    graph.recompile()
    assert [n.target for n in graph.graph.nodes][1:3] == ["add_", operator.mul]
    assert graph(fa.ones(1)).item() == 4


def test_users_are_kept():
    graph = fx.Graph()
    x = graph.placeholder("x")
    a = graph.call_function(fa.add, (x, [x, 1]))
    assert list(x.users) == [a] and a.all_input_nodes == [x]
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(x)
    a.args = (1, 2)
    assert not x.users
    graph.output(a)
    with pytest.raises(NotImplementedError, match="cannot be changed"):
        graph.call_function(fa.cat, ([x],)).args[0].append(x)


def test_lint_finds_a_wrong_order():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(fa.sin, (x,))
    x._prev.append(y)
    with pytest.raises(RuntimeError, match="before it has been defined"):
        graph.lint()


def test_control_flow_is_refused():
    def branch(x):
        return x if x.sum() > 0 else -x

    def loop(x):
        return list(x)

    def count(x):
        return float(x)

    for function in (branch, loop, count):
        with pytest.raises(TraceError):
            fx.symbolic_trace(function)
    assert fx.tracer.is_fx_tracing() is False


def test_unpacking_into_names_is_traced():
    def function(x):
        a, b = x.chunk(2)
        return a - b

    x = fa.tensor([3.0, 1.0])
    assert fx.symbolic_trace(function)(x).tolist() == [2.0]


def test_concrete_arguments_are_followed():
    def function(x, double):
        return x * 2 if double else x

    graph = fx.symbolic_trace(function, {"double": True})
    assert graph(fa.ones(1)).item() == 2


def test_stars_are_handed_on():
    def function(x, *args, **kwargs):
        return helper(x, args[0]) + kwargs["k"]

    graph = fx.symbolic_trace(function)
    assert graph(fa.ones(1), 3, k=1).item() == 4


def test_wrapped_functions_are_nodes():
    def function(x):
        return helper(x, len(x)) + math.sqrt(x.shape[0])

    graph = fx.symbolic_trace(function)
    targets = [n.target for n in graph.graph.nodes if n.op == "call_function"]
    assert helper in targets and len in targets and math.sqrt in targets
    assert graph(fa.ones(4)).tolist() == [6.0] * 4
    with pytest.raises(NotImplementedError, match="top level"):
        fx.wrap("abs")


def test_leaves_are_the_tracers_choice():
    class All(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Block()

        def forward(self, x):
            return self.inner(x)

    graph = All().trace(Outer())
    assert [n.target for n in graph.nodes] == ["x", "inner", "output"]


def test_constants_become_attributes():
    def function(x):
        return x + fa.tensor([1.0, 2.0])

    graph = fx.symbolic_trace(function)
    assert graph(fa.ones(2)).tolist() == [2.0, 3.0]
    assert "_tensor_constant0" in graph.state_dict()


def test_patterns_are_replaced():
    def function(x, w):
        return fa.relu(x + w) + fa.relu(x + x)

    graph = fx.symbolic_trace(function)
    found = fx.replace_pattern(graph, lambda a, b: fa.relu(a + b), lambda a, b: fa.sigmoid(a - b))
    assert len(found) == 2
    graph.graph.lint()
    x, w = fa.rand(3), fa.rand(3)
    assert fa.equal(graph(x, w), fa.sigmoid(x - w) + fa.sigmoid(x - x))


def test_an_interpreter_sees_every_node(traced):
    _, graph, x = traced
    seen = []

    class Watching(fx.Interpreter):
        def run_node(self, n):
            seen.append(n.name)
            return super().run_node(n)

    Watching(graph).run(x)
    assert seen == [n.name for n in graph.graph.nodes]


def test_an_interpreter_tells_where_it_failed(traced):
    _, graph, _ = traced
    with pytest.raises(RuntimeError) as caught:
        fx.Interpreter(graph).run(fa.ones(3, 5))
    assert any("While executing %linear" in note for note in caught.value.__notes__)


def test_unused_modules_go(traced):
    block, graph, x = traced
    graph.add_submodule("a.b", nn.ReLU())
    assert graph.get_submodule("a.b") is not None
    graph.delete_all_unused_submodules()
    assert "a" not in dict(graph.named_modules())
    assert same(graph(x), block(x))


def test_a_dict_is_a_root():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_module("net.first", (x,)))
    module = fx.GraphModule({"net.first": nn.Identity()}, graph)
    assert module(fa.ones(1)).item() == 1
    with pytest.raises(RuntimeError, match="lacks"):
        fx.GraphModule({}, graph)


def test_lambdas_have_no_code():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(lambda v: v, (x,)))
    with pytest.raises(RuntimeError, match="lambda"):
        graph.python_code("self")
