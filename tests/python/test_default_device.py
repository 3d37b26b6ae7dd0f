"""`with facula.device(...)` and facula.set_default_device; the device `meta` stands for another."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import facula as fa
import numpy as np
import pytest

META = fa.device("meta")
MAKERS = {
    "empty": lambda: fa.empty(2),
    "zeros": lambda: fa.zeros(2, 3),
    "ones": lambda: fa.ones((2,)),
    "full": lambda: fa.full((2,), 1.5),
    "arange": lambda: fa.arange(3),
    "arange with a start": lambda: fa.arange(1, 3),
    "linspace": lambda: fa.linspace(0, 1, 3),
    "logspace": lambda: fa.logspace(0, 1, 3),
    "eye": lambda: fa.eye(3),
    "rand": lambda: fa.rand(2),
    "randn": lambda: fa.randn(2),
    "randint": lambda: fa.randint(3, (2,)),
    "randperm": lambda: fa.randperm(3),
    "scalar_tensor": lambda: fa.scalar_tensor(1.0),
    "empty_strided": lambda: fa.empty_strided((2,), (1,)),
    "tensor": lambda: fa.tensor([1.0, 2.0]),
    "asarray": lambda: fa.asarray([1.0]),
    "as_tensor": lambda: fa.as_tensor([1.0]),
    "Linear": lambda: fa.nn.Linear(2, 3).weight,
    "BatchNorm": lambda: fa.nn.BatchNorm1d(2).running_mean,
}


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    yield
    fa.set_default_device(None)
    assert fa.get_default_device() == fa.device("cpu")


@pytest.mark.parametrize("name", MAKERS)
def test_factories(name: str) -> None:
    with META as entered:
        assert entered is META and fa.get_default_device() == META
        assert MAKERS[name]().device == META
        fa.set_default_device("cpu")  # the block goes first
        assert MAKERS[name]().device == META
    assert MAKERS[name]().device == fa.device("cpu")
    fa.set_default_device("meta")
    assert MAKERS[name]().device == META
    with fa.device("cpu"):
        assert MAKERS[name]().device == fa.device("cpu")
    assert MAKERS[name]().device == META


def test_what_is_told_stays_where_it_is_told() -> None:
    here = fa.ones(2)
    with META:
        assert fa.ones(2, device="cpu").is_cpu and fa.tensor([1.0], device="cpu").is_cpu
        assert fa.zeros_like(here).is_cpu and here.new_zeros(3).is_cpu and fa.rand_like(here).is_cpu
        assert (here + 1).is_cpu and fa.from_numpy(np.ones(2)).is_cpu
        assert fa.zeros(2, out=here) is here and here.tolist() == [0, 0]
        assert fa.as_tensor(here).device == META


def test_blocks_nest_and_end_with_exceptions() -> None:
    with META, fa.device("cpu"), META, pytest.raises(ZeroDivisionError), fa.device("cpu"):
        assert fa.empty(1).is_cpu
        _ = 1 / 0
    with pytest.raises(ZeroDivisionError), META:
        _ = 1 / 0
    assert fa.empty(1).is_cpu


def test_decorator() -> None:
    @fa.device("meta")
    def make(n: int) -> list[fa.device]:
        return [fa.empty(1).device, *(make(n - 1) if n else [])]

    assert make(2) == [META] * 3 and fa.empty(1).is_cpu and make.__name__ == "make"


def test_other_threads_are_left_alone() -> None:
    seen = []
    fa.set_default_device("meta")
    with META:
        thread = threading.Thread(target=lambda: seen.append(fa.empty(1).device))
        thread.start()
        thread.join()
    assert seen == [fa.device("cpu")]


def test_what_is_refused() -> None:
    with pytest.raises(RuntimeError, match="'nowhere' is not a device"):
        fa.set_default_device("nowhere")
    with pytest.raises(TypeError, match="a device such as 'cpu' or None"):
        fa.set_default_device(2.5)


def test_training_is_not_disturbed() -> None:
    """Counters, orders and seeds stay on the CPU."""
    from facula.utils.data import DataLoader

    data = [(float(i), i) for i in range(6)]
    p = fa.ones(2, requires_grad=True)
    fa.set_default_device("meta")
    optimizer = fa.optim.NAdam([p], lr=0.1)
    p.grad = fa.ones(2, device="cpu")
    optimizer.step()
    assert p.is_cpu and p[0].item() < 1
    with fa.device("cpu"):
        seen = [y for _, ys in DataLoader(data, batch_size=2, shuffle=True) for y in ys.tolist()]
    assert sorted(seen) == list(range(6))
    sampler = fa.utils.data.WeightedRandomSampler([0.0, 1.0], 3)
    assert list(sampler) == [1, 1, 1]
    assert fa.nn.utils.clip_grad_norm_([p], 1.0).item() > 0
