"""Writes in place within transforms, views by strides, batches of nothing, levels that end."""

from __future__ import annotations

import signal
from typing import Any

import facula as fa
import pytest
from facula.func import grad, vmap


def test_tensors_from_outside_are_not_written_to() -> None:
    outside = fa.zeros(2)

    def f(x: fa.Tensor) -> fa.Tensor:
        outside[0] = x[0]
        return outside.sum()

    with pytest.raises(RuntimeError, match="from outside"):
        grad(f)(fa.ones(2))
    with pytest.raises(RuntimeError, match="from outside"):  # nor those of a transform around
        grad(_around)(fa.ones(2))
    assert outside.tolist() == [0.0, 0.0]


def _writes(y: fa.Tensor, z: fa.Tensor) -> fa.Tensor:
    y[0] = z[0]
    return y.sum()


def _around(x: fa.Tensor) -> fa.Tensor:
    mine = fa.zeros(2)
    return grad(lambda z: _writes(mine, z))(x).sum()


def test_constants_outlive_their_transform() -> None:
    """As tables do that a module makes when it is first called."""
    kept: dict[str, fa.Tensor] = {}

    def f(x: fa.Tensor) -> fa.Tensor:
        if "table" not in kept:
            kept["table"] = fa.arange(3.0) * 2
        return (kept["table"] * x).sum()

    x = fa.ones(3)
    for _ in range(2):
        assert grad(f)(x).tolist() == [0.0, 2.0, 4.0]
    assert (kept["table"] + 1).tolist() == [1.0, 3.0, 5.0]
    assert vmap(lambda r: r * kept["table"])(fa.ones(2, 3)).tolist() == [[0.0, 2.0, 4.0]] * 2
    assert vmap(grad(f))(fa.ones(2, 3)).tolist() == [[0.0, 2.0, 4.0]] * 2
    kept["table"].mul_(2)
    assert f(x).item() == 12.0
    y = x.clone().requires_grad_()
    f(y).backward()
    assert y.grad is not None and y.grad.tolist() == [0.0, 4.0, 8.0]


def test_values_that_are_differentiated_do_not_outlive_it() -> None:
    kept = []

    def f(x: fa.Tensor) -> fa.Tensor:
        kept.append(x * 2)
        return kept[0].sum()

    grad(f)(fa.ones(2))
    with pytest.raises(RuntimeError, match="has ended"):
        kept[0] + 1


def test_views_by_strides_stay_in_their_row() -> None:
    x = fa.arange(24.0).reshape(2, 3, 4)
    rows = x[:, :2]  # the third line of each is no part of the batch
    assert vmap(lambda r: r.as_strided((2, 2), (4, 1)))(rows).tolist() == [
        [[0.0, 1.0], [4.0, 5.0]],
        [[12.0, 13.0], [16.0, 17.0]],
    ]
    assert vmap(lambda r: r[1].as_strided((2,), (1,), 0))(rows).tolist() == [[0, 1], [12, 13]]
    assert vmap(lambda r: r.as_strided((2, 2), (4, 1)), in_dims=2)(x).shape == (4, 2, 2)
    for size, stride, offset in [((3,), (4,), None), ((2,), (4,), 4), ((9,), (1,), None)]:
        with pytest.raises(RuntimeError, match="must stay within its row"):
            vmap(lambda r, a=size, b=stride, c=offset: r.as_strided(a, b, c))(rows)
    with pytest.raises(RuntimeError, match="must stay within its row"):
        vmap(vmap(lambda r: r.as_strided((5,), (1,))))(rows)


def test_batches_of_nothing() -> None:
    none = fa.zeros(0, 3, 4)
    assert vmap(fa.argmax)(none).shape == (0,)
    assert vmap(fa.argmin)(none).dtype == fa.int64
    assert vmap(lambda x: fa.argmax(x, keepdim=True))(none).shape == (0, 1, 1)
    with pytest.raises((IndexError, RuntimeError), match="no elements"):
        vmap(fa.argmax)(fa.zeros(2, 0))


def test_signals_leave_no_level_open() -> None:
    """Whenever one comes, the level it meets is closed."""

    def interrupt(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    x = fa.ones(2, 2)
    caught = 0
    try:
        for i in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, 1e-6 * (20 + i))
                while True:
                    vmap(grad(lambda t: (t * t).sum()))(x)
            except KeyboardInterrupt:
                caught += 1
            assert fa._C._level_depth() == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert caught == 300
