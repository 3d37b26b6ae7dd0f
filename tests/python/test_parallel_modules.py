"""`nn.DataParallel` over several names of one device: the numbers are those of the whole batch."""

from __future__ import annotations

import collections
import threading
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.nn import parallel
from facula.nn.modules import Module

BOTH = ["cpu", "cpu"]


def net() -> Any:
    fa.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()


def test_results_and_gradients_are_those_of_the_whole_batch() -> None:
    x = np.random.default_rng(0).standard_normal((5, 3))
    model = net()
    weights = [p.detach().numpy() for p in model.parameters()]
    hidden = np.tanh(x @ weights[0].T + weights[1])
    wrapped = nn.DataParallel(model, BOTH)
    result = wrapped(fa.tensor(x))
    np.testing.assert_allclose(result.detach().numpy(), hidden @ weights[2].T + weights[3])
    result.sum().backward()
    np.testing.assert_allclose(
        model[2].weight.grad.numpy(), np.stack([hidden.sum(0)] * 2), rtol=1e-12
    )
    assert list(wrapped.state_dict()) == ["module." + name for name in model.state_dict()]


def test_a_short_batch_and_keywords() -> None:
    class Scaled(Module):
        def forward(self, x: Any, *, by: Any, names: Any) -> Any:
            assert len(by) == len(x) and names == ["a"]
            return {"y": x * by, "n": x.sum()}

    result = nn.DataParallel(Scaled(), BOTH)(fa.ones(1), by=fa.full((1,), 2.0), names=["a"])
    assert result["y"].tolist() == [2.0]
    with pytest.warns(UserWarning, match="vector"):
        result = nn.DataParallel(Scaled(), BOTH)(fa.ones(3), by=fa.arange(3.0), names=["a"])
    assert result["y"].tolist() == [0.0, 1.0, 2.0] and result["n"].tolist() == [2.0, 1.0]


def test_statistics_are_those_of_the_first_part() -> None:
    norm = nn.BatchNorm1d(1, momentum=1.0)
    nn.DataParallel(norm, BOTH)(fa.tensor([[1.0], [3.0], [10.0], [20.0]]))
    assert norm.running_mean.item() == 2.0 and norm.num_batches_tracked.item() == 1


def test_errors_and_modes_cross_threads() -> None:
    class Fails(Module):
        def forward(self, x: Any) -> Any:
            if not bool((x < 2).all()):
                raise KeyError("the second part")
            return x

    with pytest.raises(KeyError, match="the second part"):
        nn.DataParallel(Fails(), BOTH)(fa.arange(4.0))
    seen = []

    class Looks(Module):
        def forward(self, x: Any) -> Any:
            seen.append((threading.get_ident(), fa.is_grad_enabled()))
            return x

    with fa.no_grad():
        nn.DataParallel(Looks(), BOTH)(fa.ones(2))
    assert len({ident for ident, _ in seen}) == 2 and not any(mode for _, mode in seen)


def test_without_devices_the_module_is_called() -> None:
    linear = nn.Linear(2, 2)
    x = fa.ones(4, 2)
    if not nn.DataParallel(nn.Identity()).device_ids:
        wrapped = nn.DataParallel(linear, [0, 1])  # there is no GPU to number
        assert wrapped.device_ids == []
        assert wrapped(x).equal(linear(x))
    assert parallel.data_parallel(linear, x, ["cpu"]).equal(linear(x))


def test_parts() -> None:
    Pair = collections.namedtuple("Pair", "a b")
    first, second = parallel.scatter(Pair(fa.arange(4), [fa.arange(2), "s"]), BOTH)
    assert isinstance(first, Pair) and first.b[1] == second.b[1] == "s"
    assert second.a.tolist() == [2, 3] and second.b[0].tolist() == [1]
    joined = parallel.gather([(fa.zeros(1), None), (fa.ones(2), None)], "cpu")
    assert joined[0].tolist() == [0.0, 1.0, 1.0] and joined[1] is None
    with pytest.raises(TypeError, match="str"):
        parallel.gather(["a", "b"], "cpu")
    with pytest.raises(ValueError, match="2 modules, 1 inputs"):
        parallel.parallel_apply([nn.Identity(), nn.Identity()], [fa.ones(1)])
    copies = parallel.replicate(net(), BOTH, detach=True)
    assert len(copies) == 2 and not copies[1][0].weight.requires_grad
