"""Tangents have memory of their own: a write to a result is none to what it was computed from.

Where a call in place is recorded for backward and has tangents too, both are right.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import facula as fa
import facula.autograd.forward_ad as fwad
import numpy as np
import pytest
from facula.func import hessian, jvp
from facula.testing._samples import OpRecord, operators
from harness import arguments

OPERATORS = [
    op
    for op in operators()
    if op.samples()
    and op.differentiable
    and op.kind != "view"
    and (not op.dtypes or "float" in op.dtypes)
]
IN_PLACE = [op for op in OPERATORS if "inplace" in (op.variants or ()) and not op.internal]


def floats_of(args: list[Any]) -> list[int]:
    kept = [isinstance(a, fa.Tensor) and a.is_floating_point() and a.numel() > 0 for a in args]
    return [i for i, given in enumerate(kept) if given]


def calls(op: OpRecord) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    for index in range(len(op.data["samples"])):
        _, args, kwargs = arguments(op.sample(index), "float64")
        yield args, kwargs


@pytest.mark.parametrize("op", OPERATORS, ids=lambda op: op.name)
def test_results_share_no_tangent(op: OpRecord) -> None:
    for args, kwargs in calls(op):
        for at in floats_of(args):
            with fwad.dual_level():
                mine = list(args)
                x = mine[at] = fwad.make_dual(args[at], fa.ones_like(args[at]))
                try:
                    found = op.function()(*mine, **kwargs)
                except (RuntimeError, TypeError, ValueError):  # no derivative by this one
                    continue
                for y in [found] if isinstance(found, fa.Tensor) else found or ():
                    if (
                        not isinstance(y, fa.Tensor)
                        or not y.is_floating_point()
                        or fwad.unpack_dual(y).tangent is None
                        or y is x
                        or y._base is not None
                    ):
                        continue
                    y.mul_(10.0)
                    assert (fwad.unpack_dual(x).tangent == 1).all(), (op.name, at)


@pytest.mark.parametrize("op", IN_PLACE, ids=lambda op: op.name)
def test_in_place_forward_over_reverse(op: OpRecord) -> None:
    """The same as out of place: gradients and their tangents."""
    for args, kwargs in calls(op):
        floats = floats_of(args)
        if 0 not in floats or not hasattr(fa.Tensor, op.base_name + "_"):
            continue
        want = op.function()(*args, **kwargs)
        if want.shape != args[0].shape or want.dtype != args[0].dtype:
            continue
        found = []
        for in_place in (False, True):
            with fwad.dual_level():
                mine = list(args)
                for i in floats:
                    leaf = args[i].clone().requires_grad_()
                    mine[i] = fwad.make_dual(leaf, fa.full_like(args[i], 0.5))
                y = mine[0].clone()
                try:
                    if in_place:
                        getattr(y, op.base_name + "_")(*mine[1:], **kwargs)
                    else:
                        y = op.function()(y, *mine[1:], **kwargs)
                except (RuntimeError, NotImplementedError) as error:
                    assert not in_place or not found, error
                    break
                duals = [mine[i] for i in floats]
                try:
                    grads = fa.autograd.grad((y * y).sum(), duals, allow_unused=True)
                except RuntimeError as error:
                    assert "forward-mode" in str(error), error
                    break
                found.append(
                    [
                        None if t is None else t.detach().numpy()
                        for g in grads
                        if g is not None
                        for t in fwad.unpack_dual(g)
                    ]
                )
        for a, b in zip(*found, strict=True) if len(found) == 2 else ():
            np.testing.assert_equal(a is None, b is None)
            if a is not None:
                np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12, err_msg=op.name)


def test_hessians_through_writes() -> None:
    """Second derivatives of x0^2 + x1^6, by hand."""

    def whole(x: fa.Tensor) -> fa.Tensor:
        y = x.clone()
        y[1:] = x[1:] ** 3
        return (y * y).sum()

    def copied(x: fa.Tensor) -> fa.Tensor:
        y = x * 1
        y[1:].copy_(x[1:] ** 3)
        return (y**2).sum()

    def filled(x: fa.Tensor) -> fa.Tensor:
        y = fa.zeros(2, dtype=x.dtype)
        y[0] = x[0]
        y[1] = x[1]
        y[1:].pow_(3)
        return y.square_().sum()

    x = fa.tensor([2.0, 3.0], dtype=fa.float64)
    for f in (whole, copied, filled):
        np.testing.assert_allclose(hessian(f)(x).numpy(), [[2, 0], [0, 30 * 3.0**4]])


def test_what_is_copied_keeps_its_tangent() -> None:
    with fwad.dual_level():
        x = fwad.make_dual(fa.tensor([2.0, 3.0]), fa.tensor([1.0, 1.0]))
        for write in (
            lambda y: y.copy_(x),
            lambda y: y.__setitem__(slice(None), x),
            lambda y: y.add_(x),
            lambda y: y.sub_(x),
        ):
            y = fa.zeros(2)
            write(y)
            y.mul_(10.0)
            assert fwad.unpack_dual(x).tangent.tolist() == [1.0, 1.0]
            assert fwad.unpack_dual(y).tangent.abs().tolist() == [10.0, 10.0]


def test_writes_to_views_without_gradients() -> None:
    """Tangents follow where gradients are off: within no_grad, and in a backward pass."""
    x, v = fa.tensor([3.0, 5.0]), fa.tensor([1.0, 10.0])

    @fa.no_grad()
    def filled(x: fa.Tensor) -> fa.Tensor:
        y = fa.zeros(2)
        y[0] = x[0] * x[1]
        return y

    assert jvp(filled, (x,), (v,))[1].tolist() == [35.0, 0.0]

    def zeroed(d: fa.Tensor) -> fa.Tensor:
        y = d * d
        y[:1].zero_()
        return (y * d).sum()

    def doubled(d: fa.Tensor) -> fa.Tensor:
        y = d * d
        y[:1].mul_(2)
        return (y * d).sum()

    def multiplied(d: fa.Tensor) -> fa.Tensor:
        y = d * 1
        y[:1].mul_(d[1])
        return (y * y).sum()

    def turned(d: fa.Tensor) -> fa.Tensor:
        y = fa.stack([d, d * d]).T
        y[0].mul_(d)
        return (y * y).sum()

    # H v by hand; that of the last is of a^4 + a^4 b^2 + b^2 + b^4 at (3, 5), with v = (1, 10)
    wants = [0.0, 300.0], [36.0, 300.0], [650.0, 260.0], [13608.0, 5720.0]
    for f, want in zip((zeroed, doubled, multiplied, turned), wants, strict=True):
        with fwad.dual_level():
            d = fwad.make_dual(x.clone().requires_grad_(), v)
            (g,) = fa.autograd.grad(f(d), d)
            assert fwad.unpack_dual(g).tangent.tolist() == want, f
