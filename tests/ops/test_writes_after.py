"""What a backward keeps: writes to results and inputs before it, tangents of writes in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.func import grad, jvp
from facula.testing import _gradients
from facula.testing._samples import OpRecord, operators
from harness import call

POINTWISE = [
    op
    for op in operators()
    if op.scalar
    and op.samples()
    and len(op.data["returns"]) == 1
    and _gradients.is_differentiable(op)
    and op.kind != "random"
]


def _after(op: OpRecord, write: str) -> list[np.ndarray | None] | None:
    """Gradients of the first sample by its float tensors, with `write` overwritten before."""
    given = dict(op.bound(op.samples()[0]))
    smooth = [k for k, how in op.data["derivative"].items() if "_no_second_slope" not in how]
    smooth = [k for k in smooth if not op.data["derivative"][k].startswith("none")]
    arrays = [k for k in smooth if isinstance(given[k], np.ndarray)]
    floats = [k for k in arrays if given[k].dtype.kind in "fc"]
    leaves = {k: fa.tensor(given[k], requires_grad=True) for k in floats}
    inputs = {k: leaf * 1 for k, leaf in leaves.items()}
    arguments = {k: fa.tensor(v) if isinstance(v, np.ndarray) else v for k, v in given.items()}
    result = call(op, [], {**arguments, **inputs})
    if not result.requires_grad or not result.numel():
        return None
    if write == "result":
        result.add_(1)
    elif write == "inputs":
        for tensor in inputs.values():
            tensor.add_(1)
    total = result.sum()
    (total.real if total.is_complex() else total).backward()
    return [None if leaf.grad is None else leaf.grad.numpy() for leaf in leaves.values()]


@pytest.mark.parametrize("op", POINTWISE, ids=lambda op: op.name)
def test_a_derivative_keeps_inputs_or_the_result(op: OpRecord) -> None:
    """Not both: one of them may be written to, and gradients are as without that."""
    want = _after(op, "")
    if want is None:
        pytest.skip("nothing to differentiate")
    served = []
    for write in ("result", "inputs"):
        try:
            got = _after(op, write)
        except RuntimeError as error:
            assert "modified by an inplace operation" in str(error)
            continue
        served.append(write)
        assert got is not None
        for mine, plain in zip(got, want, strict=True):
            np.testing.assert_array_equal(mine, plain)
    assert served, f"{op.name} keeps its inputs and its result"


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "exp", "exp2", "sqrt", "rsqrt", "reciprocal"])
def test_the_input_may_be_written_to(name: str) -> None:
    """As in `x.mul_(x.sigmoid())`, which gates an activation in its own memory."""
    leaf = fa.tensor([0.3, 1.7, 2.5], dtype=fa.float64, requires_grad=True)
    x = leaf * 1
    x.mul_(getattr(x, name)())
    x.sum().backward()
    mine, leaf.grad = leaf.grad, None
    (leaf * getattr(leaf, name)()).sum().backward()
    np.testing.assert_allclose(mine.numpy(), leaf.grad.numpy(), rtol=1e-14)


def test_a_quotient_may_be_written_to() -> None:
    a, b = (fa.tensor(v, requires_grad=True) for v in ([6.0, 1.0], [2.0, 4.0]))
    y = a / b
    y += 1
    y.sum().backward()
    assert a.grad.tolist() == [0.5, 0.25]
    assert b.grad.tolist() == [-1.5, -0.0625]


SCATTERS: dict[str, tuple[Callable[..., fa.Tensor], tuple[int, ...]]] = {
    "select_scatter": (lambda x, s: fa.select_scatter(x, s, 0, 1), (3,)),
    "slice_scatter": (lambda x, s: fa.slice_scatter(x, s, 0, 0, 1), (1, 3)),
    "diagonal_scatter": (lambda x, s: fa.diagonal_scatter(x, s), (3,)),
    "as_strided_scatter": (lambda x, s: fa.as_strided_scatter(x, s, (2,), (2,)), (2,)),
}


@pytest.mark.parametrize("name", SCATTERS)
def test_what_was_scattered_may_be_written_to(name: str) -> None:
    """Only its shape counts for gradients."""
    function, shape = SCATTERS[name]
    x = fa.zeros(3, 3, requires_grad=True)
    source = fa.ones(shape)
    y = function(x, source)
    source.zero_()
    y.sum().backward()
    assert x.grad.sum().item() == 9 - source.numel()


IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "sin_": lambda x: x.sin(),
    "sigmoid_": lambda x: x.sigmoid(),
    "tanh_": lambda x: x.tanh(),
    "log_": lambda x: x.log(),
    "abs_": lambda x: x.abs(),
    "square_": lambda x: x.square(),
    "exp_": lambda x: x.exp(),
}


@pytest.mark.parametrize("name", IN_PLACE)
def test_gradients_of_tangents_of_writes(name: str) -> None:
    """grad(jvp(f)) is f'' times the tangent, though each write goes over what was computed from."""
    function = IN_PLACE[name]

    def written(x: Any) -> Any:
        y = x * 1
        getattr(y, name)()
        getattr(y, name if name != "log_" else "exp_")()
        y.clamp_(-50, 50)
        return y * x

    def plain(x: Any) -> Any:
        y = function(x)
        return (function(y) if name != "log_" else y.exp()).clamp(-50, 50) * x

    x, v = (fa.tensor(n, dtype=fa.float64) for n in (0.7, 1.3))
    got = grad(lambda x: jvp(written, (x,), (v,))[1])(x)
    want = grad(lambda x: grad(plain)(x))(x) * v
    np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12, atol=1e-12)
