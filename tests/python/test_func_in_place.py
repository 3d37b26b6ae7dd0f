"""Writes in place within transforms, views by strides, batches of nothing, levels that end."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

Transform = Callable[[Callable[..., Any]], Callable[..., Any]]
SECOND: dict[str, Transform] = {
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(f)),
    "jacfwd of jacrev": lambda f: jacfwd(jacrev(f)),
    "jacrev of jacfwd": lambda f: jacrev(jacfwd(f)),
    "jacrev of jacrev": lambda f: jacrev(jacrev(f)),
    "jacfwd of grad": lambda f: jacfwd(grad(f)),
    "hessian": hessian,
}


def filled(x: fa.Tensor) -> fa.Tensor:
    y = fa.zeros(3, dtype=x.dtype)
    y[0] = x[0] * x[1]
    y[1:] = x[1:] ** 3
    y += x
    return (y * y).sum()


def second_by_hand(x: np.ndarray) -> np.ndarray:
    """Second derivatives of (x0 x1 + x0)^2 + (x1^3 + x1)^2 + (x2^3 + x2)^2."""
    a, b, c = x
    own = [2 * (3 * t**2 + 1) ** 2 + 2 * (t**3 + t) * 6 * t for t in (b, c)]
    mixed = 4 * a * (b + 1)
    return np.array([[2 * (b + 1) ** 2, mixed, 0], [mixed, 2 * a**2 + own[0], 0], [0, 0, own[1]]])


@pytest.mark.parametrize("how", SECOND)
def test_second_derivatives_through_what_is_made_within(how: str) -> None:
    fa.manual_seed(0)
    x = fa.randn(3, dtype=fa.float64)
    np.testing.assert_allclose(SECOND[how](filled)(x).numpy(), second_by_hand(x.numpy()))


@pytest.mark.parametrize("make", [
    lambda x: fa.zeros(2),
    lambda x: fa.tensor([0.0, 0.0]),
    lambda x: fa.empty(2).fill_(0),
    lambda x: fa.ones(2).mul(0),
    lambda x: fa.full((2,), 0.0).clone(),
])  # fmt: skip
def test_new_tensors_are_written_to(make: Callable[[fa.Tensor], fa.Tensor]) -> None:
    def f(x: fa.Tensor) -> fa.Tensor:
        y = make(x)
        y[1] = x[0] ** 2
        return y.sum()

    x = fa.tensor([3.0, 1.0])
    assert grad(f)(x).tolist() == [6.0, 0.0]
    with pytest.raises(RuntimeError, match="that all rows of the batch share"):
        vmap(grad(f))(fa.stack([x, 2 * x]))
    assert jvp(f, (x,), (fa.ones(2),))[1].item() == 6.0
    assert vjp(f, x)[1](fa.tensor(2.0))[0].tolist() == [12.0, 0.0]


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


WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "power": lambda y, t: y.pow_(3),
    "square": lambda y, t: y.pow_(2),
    "power by a tensor": lambda y, t: y.pow_(t),
    "number to a power": lambda y, t: y.float_power_(t),
    "product": lambda y, t: y.mul_(t),
    "exponential": lambda y, t: y.exp_(),
    "sigmoid": lambda y, t: y.sigmoid_(),
    "running product": lambda y, t: y.cumprod_(0),
    "running sum": lambda y, t: y.cumsum_(0),
    "norms": lambda y, t: y.renorm_(2, 0, 1.5),
    "triangle": lambda y, t: y.tril_(),
    "mask": lambda y, t: y.masked_fill_(t > 1.2, 0.5),
    "products": lambda y, t: y.addmm_(t, t),
    "batches": lambda y, t: y[None].baddbmm_(t[None], t[None]),
    "ranks": lambda y, t: y.addr_(t[0], t[1]),
    "quotients": lambda y, t: y.addcdiv_(t, t + 1),
    "put": lambda y, t: y.put_(fa.tensor([0, 3]), t[0, :2]),
    "added rows": lambda y, t: y.index_add_(0, fa.tensor([1, 1]), t[:2]),
    "scattered": lambda y, t: y.scatter_(1, fa.tensor([[0, 1, 2]]), t[:1]),
    "products of rows": lambda y, t: y.scatter_reduce_(0, fa.tensor([[1, 0, 1]]), t[:1], "prod"),
    "diagonal": lambda y, t: y.fill_diagonal_(2.0).mul_(t),
}


@pytest.mark.parametrize("which", WRITES)
def test_gradients_around_batches_of_writes(which: str) -> None:
    """What is kept at a level further out is not what the row's write changes."""
    rng = np.random.default_rng(0)
    x = fa.tensor(rng.uniform(0.5, 2.0, (2, 3, 3)))
    v = fa.tensor(rng.standard_normal((2, 3, 3)))

    def loss(t: fa.Tensor) -> fa.Tensor:
        y = t.sin() + 2
        WRITES[which](y, t)
        return (y * y * y).sum()

    got = grad(lambda x: vmap(loss)(x).sum())(x)
    leaf = x.clone().requires_grad_()
    (outside,) = fa.autograd.grad(vmap(loss)(leaf).sum(), leaf)
    for row in range(2):
        step = 1e-6 * v[row]
        slope = (loss(x[row] + step) - loss(x[row] - step)).item() / 2e-6
        for g in (got, outside, vmap(grad(loss))(x)):
            assert (g[row] * v[row]).sum().item() == pytest.approx(slope, rel=1e-6)
    tangent = jvp(vmap(loss), (x,), (v,))[1]
    np.testing.assert_allclose(tangent.numpy(), (got * v).sum((1, 2)).numpy(), rtol=1e-9)
    twice = jvp(grad(lambda x: vmap(loss)(x).sum()), (x,), (v,))[1]
    back = grad(lambda x: jvp(vmap(loss), (x,), (v,))[1].sum())(x)
    np.testing.assert_allclose(twice.numpy(), back.numpy(), rtol=1e-8, atol=1e-9)


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


def test_a_level_ends_with_the_block_that_did_not_begin() -> None:
    """From Python 3.14 on a signal may come between __enter__ and the block."""
    scopes = fa._C._GradientLevel(), fa._C._BatchLevel(3, "error")
    for scope in scopes:
        scope.__enter__()
    assert fa._C._level_depth() == 2
    del scope, scopes
    assert fa._C._level_depth() == 0


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
