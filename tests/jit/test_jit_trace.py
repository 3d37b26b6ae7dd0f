"""facula.jit.trace: graphs of what ran, against the programs that they were made of."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import facula as fa
import facula.nn.functional as F
import pytest
from facula import jit, nn


class Net(nn.Module):
    """Convolution, normalisation, recurrence and attention, with results in containers."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.tail = nn.Sequential(nn.Linear(4 * 36, 10), nn.ReLU())
        self.lstm, self.attention = nn.LSTM(10, 5), nn.MultiheadAttention(5, 1)
        self.factor = fa.tensor([2.0])

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        y = self.tail(x.view(x.size(0), -1))[:, :10]
        z, (h, _) = self.lstm(y)
        z = z.unsqueeze(1)
        a, w = self.attention(z, z, z)
        top = a.max(0)
        return {"a": a * self.factor, "b": [w, top.values, h], "n": y.shape[0] * 2}


@pytest.fixture
def net():
    fa.manual_seed(0)
    return Net()


def same(a, b):
    if isinstance(a, fa.Tensor):
        return fa.allclose(a, b, rtol=1e-6, atol=1e-6)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def test_a_traced_module_computes_the_same_for_other_sizes(net):
    traced = jit.trace(net, fa.randn(3, 1, 8, 8))
    x = fa.randn(5, 1, 8, 8)
    with fa.random.fork_rng():
        expected = copy.deepcopy(net)(x)
    assert same(traced(x), expected)
    assert "nn.functional.batch_norm" in str(traced.graph) and "test_jit_trace.py:" in str(
        traced.graph
    )


def test_parameters_are_shared_and_trained(net):
    traced = jit.trace(net.tail, fa.randn(2, 144))
    assert traced.state_dict().keys() == net.tail.state_dict().keys()
    assert next(traced.parameters()) is next(net.tail.parameters())
    x = fa.randn(2, 144)
    traced(x).sum().backward()
    grads = [p.grad.clone() for p in traced.parameters()]
    net.tail.zero_grad()
    net.tail(x).sum().backward()
    assert all(fa.equal(g, p.grad) for g, p in zip(grads, net.tail.parameters(), strict=True))
    other = nn.Sequential(nn.Linear(144, 10), nn.ReLU())
    traced.load_state_dict(other.state_dict())
    assert fa.equal(traced(x), other(x))


def test_buffers_change_once_while_tracing_and_at_each_call():
    norm = nn.BatchNorm1d(3)
    traced = jit.trace(norm, fa.randn(4, 3))
    assert int(norm.num_batches_tracked) == 1
    traced(fa.randn(4, 3))
    assert int(traced.num_batches_tracked) == 2
    assert traced.running_mean is norm.running_mean


def test_control_flow_on_data_names_its_line():
    def f(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        traced = jit.trace(f, fa.tensor([3.0, -1.0]))
    assert len(found) == 1 and issubclass(found[0].category, jit.TracerWarning)
    assert found[0].lineno == f.__code__.co_firstlineno + 1
    assert "the truth of a traced tensor is read" in str(found[0].message)
    assert fa.equal(traced(fa.tensor([-3.0])), fa.tensor([-2.0]))  # the branch that was taken


def test_other_values_are_tried():
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        jit.trace(lambda x: x * int(x[0]), fa.tensor([2.0, 5.0]))
    assert "a value of a traced tensor is read" in str(found[0].message)
    assert "something in the program depends on values" in str(found[1].message)


def test_check_inputs_that_differ_raise():
    def f(x):
        return x * len(x.tolist())

    with pytest.raises(jit.TracingCheckError, match="other values"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jit.trace(f, fa.ones(2), check_inputs=[(fa.ones(3),)])


def test_what_is_random_draws_as_the_program_does():
    def f(x):
        return F.dropout(x, 0.5) + fa.randn(x.shape[0], 2)

    traced = jit.trace(f, fa.ones(3, 2))
    fa.manual_seed(5)
    expected = f(fa.ones(4, 2))
    fa.manual_seed(5)
    assert fa.equal(traced(fa.ones(4, 2)), expected)


def test_inputs_of_several_kinds():
    def f(pair, table, n, *, scale=None):
        a, (b, c) = pair
        return a * n + b - c + table["x"], n * 2

    example = ((fa.ones(2), [fa.ones(2), fa.zeros(2)]), {"x": fa.ones(1)}, 3)
    traced = jit.trace(f, example)
    other = ((fa.full((2,), 5.0), [fa.ones(2), fa.ones(2)]), {"x": fa.zeros(1)}, 7)
    result, twice = traced(*other)
    assert fa.equal(result, f(*other)[0]) and twice == 14
    named = jit.trace(lambda x, y: x - y, example_kwarg_inputs={"y": fa.ones(1), "x": fa.ones(1)})
    assert named(y=fa.tensor([3.0]), x=fa.tensor([1.0])).item() == -2


@pytest.mark.parametrize("bad", ["text", True, object()])
def test_inputs_that_cannot_vary_are_named(bad):
    with pytest.raises(TypeError, match="the example input 'y' is a"):
        jit.trace(lambda x, y: x, (fa.ones(1), bad))


def test_in_place_operations_views_and_items():
    def f(x):
        y = x.clone()
        y[0] = 7
        y[1:] += x[:-1]
        view = y.view(-1)
        view.mul_(2)
        a, b = y.chunk(2)
        return y, a + b, y.T.sum(), [row * 2 for row in y.unbind(0)]

    traced = jit.trace(f, fa.randn(4, 3))
    x = fa.randn(4, 3)
    assert same(traced(x), f(x))


def test_scripted_parts_stay_calls():
    @jit.script
    def many(x: fa.Tensor, n: int) -> fa.Tensor:
        for _ in range(n):
            x = x + 1
        return x

    class Part(nn.Module):
        def forward(self, x):
            return x * 2 if bool(x.sum() > 0) else x

    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = jit.script(Part())

        def forward(self, x):
            return many(self.part(x), x.size(0))

    traced = jit.trace(Whole(), fa.ones(2))
    for x in (fa.ones(3), -fa.ones(4)):
        assert fa.equal(traced(x), Whole()(x))


def test_a_function_that_is_scripted_when_traced():
    @jit.script_if_tracing
    def shrunk(x):
        while bool(x.sum() > 1):
            x = x / 2
        return x

    assert not isinstance(shrunk, jit.ScriptFunction)
    traced = jit.trace(lambda x: shrunk(x), fa.tensor([8.0]))
    assert traced(fa.tensor([100.0])).item() == 0.78125


def test_methods_are_traced_together():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(fa.tensor([2.0]))

        def forward(self, x):
            return x * self.w

        def other(self, x, y):
            return x + y * self.w

    both = jit.trace_module(Two(), {"forward": fa.ones(2), "other": (fa.ones(2), fa.ones(2))})
    assert both(fa.ones(3)).tolist() == [2, 2, 2]
    assert both.other(fa.ones(1), fa.ones(1)).tolist() == [3]
    with pytest.raises(AttributeError, match="no graph of its own for 'missing'"):
        both.get_method("missing")


def test_parts_of_a_traced_module_say_what_they_are():
    traced = jit.trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), fa.ones(1, 2))
    with pytest.raises(RuntimeError, match="Linear is a part of a traced module"):
        getattr(traced, "0")(fa.ones(1, 2))


def test_is_tracing_and_errors_leave_nothing_behind():
    seen = []

    def f(x):
        seen.append(jit.is_tracing())
        raise KeyError("stop")

    with pytest.raises(KeyError):
        jit.trace(f, fa.ones(1))
    assert seen == [True] and not jit.is_tracing()
    assert type(fa.ones(1) + 1) is fa.Tensor


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_sizes_of_images_stay_those_of_inputs(mode: str) -> None:
    traced = jit.trace(lambda x: F.interpolate(x, scale_factor=1.5, mode=mode), fa.ones(1, 1, 4, 4))
    x = fa.randn(1, 1, 6, 7)
    assert fa.equal(traced(x), F.interpolate(x, scale_factor=1.5, mode=mode))
    doubled = jit.trace(lambda x: F.interpolate(x, size=(2 * x.shape[2], 9)), fa.ones(1, 1, 4, 4))
    assert doubled(x).shape == (1, 1, 12, 9)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_margins_stay_those_of_inputs(mode: str) -> None:
    traced = jit.trace(lambda x: F.pad(x, (x.shape[-1] - 3, 1), mode=mode), fa.ones(1, 1, 5))
    x = fa.randn(1, 1, 6)
    assert fa.equal(traced(x), F.pad(x, (3, 1), mode=mode))


def test_rounded_sizes_are_recorded() -> None:
    traced = jit.trace(
        lambda x: x * math.floor(x.shape[0] / 2) + math.ceil(x.shape[1] / 2), fa.ones(2, 3)
    )
    assert traced(fa.ones(9, 5)).tolist() == [[7.0] * 5] * 9


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x / math.sqrt(x.shape[1]),
        lambda x: x * float(x.shape[0]),
        lambda x: x * int(x.shape[0] * 0.5),
        lambda x: x * min(x.shape[0], 4),
        lambda x: x if x.shape[0] > 2 else -x,
    ],
)
def test_sizes_that_become_plain_numbers_are_told(f: Any) -> None:
    with pytest.warns(jit.TracerWarning, match="a number that comes from sizes"):
        jit.trace(f, fa.ones(2, 3))


def test_shapes_that_are_changed_in_place() -> None:
    def turned(x: fa.Tensor) -> fa.Tensor:
        y = x.clone()
        y.t_()
        y.unsqueeze_(0).squeeze_(0)
        return y.sum(0)

    traced = jit.trace(turned, fa.ones(3, 3))
    assert traced(fa.arange(9.0).view(3, 3)).tolist() == [3.0, 12.0, 21.0]
