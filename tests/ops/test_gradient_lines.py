"""Derivatives of pointwise operators over lines and grids of arguments, against differences.

Samples are normal numbers, which seldom come to where a formula takes another branch. Here each
argument takes values on both sides of such points and on them. Where a function has a corner, the
derivative must lie between the slopes of both sides; that of a smooth point lies there too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.testing import _gradients
from facula.testing._samples import OpRecord, operators
from harness import call

Array = np.ndarray
LINE = [-40.0, -7, -3.5, -3, -2.5, -2, -1.5, -1, -0.75, -0.5, -0.1, 0, 0.1, 0.25, 0.5, 0.75]
LINE += [1, 1.5, 2, 2.5, 3, 3.5, 6, 7, 20, 100]
STEP = 1e-5
INSIDE = [0.05, 0.1, 0.25, 0.5, 0.625, 0.75, 0.9]  # for operators that refuse what is not in [0, 1]
PLANE = [complex(a, b) for a in (-2.0, -0.3, 0.4, 3.0) for b in (-2.5, -0.2, 0.6, 1.5)]
# Where differences of the first derivative have no digits left, as it has large terms, or where
# the domain ends: the mixed derivative of gammainc at 0 is NaN, though 0 is the limit above 1.
BESIDE: dict[str, Callable[[dict[str, Array]], Array]] = {
    "gamma_log_slope": lambda given: given["other"] > 6,
    **dict.fromkeys(("gammainc", "gammaincc"), lambda given: given["self"] * given["other"] == 0),
}

POINTWISE = [
    op
    for op in operators()
    if op.scalar and op.samples() and _gradients.is_differentiable(op) and op.kind != "random"
]


def _numbers(op: OpRecord) -> list[dict[str, Any]]:
    """What the samples give for arguments that are no tensors, each but once."""
    names = [a["name"] for a in op.data["arguments"] if not a["type"].startswith("Tensor")]
    found: list[dict[str, Any]] = []
    for sample in op.samples():
        given = {k: v for k, v in op.bound(sample).items() if k in names}
        if given not in found and not any(isinstance(v, np.ndarray) for v in given.values()):
            found.append(given)
    return found[:4]


def _grid(op: OpRecord, line: list[Any]) -> dict[str, Array]:
    names = [a["name"] for a in op.data["arguments"] if a["type"].startswith("Tensor")]
    values = line if len(names) < 3 else line[:: 1 + len(line) // 12]
    points = np.array(list(itertools.product(values, repeat=len(names)))).T
    return dict(zip(names, points, strict=True))


class Slopes:
    """The values of an operator and of its derivatives, as functions of arrays."""

    def __init__(self, op: OpRecord, numbers: dict[str, Any], dtype: fa.dtype) -> None:
        self.op, self.numbers, self.dtype = op, numbers, dtype

    def leaves(self, given: dict[str, Array]) -> dict[str, fa.Tensor]:
        masks = self.op.masks or []
        return {
            n: fa.tensor(v.real > 0) if n in masks else fa.tensor(v).to(self.dtype)
            for n, v in given.items()
        }

    def tensor(self, x: dict[str, fa.Tensor]) -> fa.Tensor:
        return call(self.op, [], {**x, **self.numbers})

    def value(self, given: dict[str, Array]) -> Array:
        return self.tensor(self.leaves(given)).numpy()

    def slope(self, x: dict[str, fa.Tensor], by: str, again: bool = False) -> fa.Tensor | None:
        """The gradient by one argument, if it has one."""
        leaf = x[by].requires_grad_()
        y = self.tensor({**x, by: leaf})
        if not y.requires_grad or y.dtype != self.dtype:
            return None
        try:
            (g,) = fa.autograd.grad(y.sum(), leaf, create_graph=again, allow_unused=True)
        except (NotImplementedError, ValueError):  # which says that it has none
            return None
        return g

    def first(self, given: dict[str, Array], by: str) -> Array:
        g = self.slope(self.leaves(given), by)
        assert g is not None
        return g.numpy()

    def second(self, given: dict[str, Array], by: str, other: str) -> Array | None:
        x = self.leaves(given)
        x[other].requires_grad_()
        g = self.slope(x, by, again=True)
        if g is None or not g.requires_grad:
            return None
        try:
            (found,) = fa.autograd.grad(g.sum(), x[other], allow_unused=True)
        except (NotImplementedError, ValueError):
            return None
        return np.zeros(g.shape) if found is None else found.numpy()


def differ(
    f: Callable[[dict[str, Array]], Array], given: dict[str, Array], by: str, got: Array
) -> Array:
    """Where `got` is no slope of `f` by one of its arguments."""
    h = STEP * np.maximum(1, np.abs(given[by]))
    at, more, less = (f({**given, by: given[by] + s * h}) for s in (0, 1, -1))
    with np.errstate(all="ignore"):
        right, left = (more - at) / h, (at - less) / h
        steep = np.maximum(np.abs(right), np.abs(left))
        loose = 1e-4 * np.maximum(steep, 1e-3) + 1e-13 * np.abs(at) / h
        low, high = np.minimum(left, right) - loose, np.maximum(left, right) + loose
        jumps = steep * h > 0.1 * np.maximum(1e-3, np.abs(at))
        known = np.isfinite(right) & np.isfinite(left) & ~jumps
        return known & ~((got >= low) & (got <= high))


def lines(op: OpRecord, numbers: dict[str, Any]) -> dict[str, Array]:
    """The grid, of numbers in [0, 1] where others are refused."""
    given = _grid(op, LINE)
    try:
        Slopes(op, numbers, fa.float64).value(given)
    except RuntimeError as e:
        assert "all elements must be in" in str(e), e
        return _grid(op, INSIDE)
    return given


def report(op: OpRecord, given: Any, numbers: Any, by: str, wrong: Array, got: Array) -> None:
    if wrong.any():
        at = int(np.argmax(wrong))
        shown = ", ".join(f"{n}={v[at]!r}" for n, v in given.items())
        raise AssertionError(
            f"{op.name}({shown}; {numbers}): {got[at]!r} is no slope by {by} ({wrong.sum()} points)"
        )


REAL = [op for op in POINTWISE if "float" in (op.dtypes or ["float"])]
COMPLEX = [op for op in POINTWISE if "complex" in (op.dtypes or [])]


@pytest.mark.parametrize("op", REAL, ids=lambda op: op.name)
def test_slopes_on_lines(op: OpRecord) -> None:
    for numbers in _numbers(op):
        given = lines(op, numbers)
        f = Slopes(op, numbers, fa.float64)
        for by in (n for n in given if n not in (op.masks or [])):
            if f.slope(f.leaves(given), by) is None:
                continue
            got = f.first(given, by)
            report(op, given, numbers, by, differ(f.value, given, by, got), got)


@pytest.mark.parametrize("op", REAL, ids=lambda op: op.name)
def test_second_slopes_on_lines(op: OpRecord) -> None:
    for numbers in _numbers(op):
        given = lines(op, numbers)
        f = Slopes(op, numbers, fa.float64)
        names = [n for n in given if n not in (op.masks or [])]
        for by, other in itertools.product(names, names):
            got = f.second(given, by, other)
            if got is None:
                continue

            def first(x: dict[str, Array], f: Slopes = f, by: str = by) -> Array:
                return f.first(x, by)

            wrong = differ(first, given, other, got) & np.isfinite(f.value(given))
            if op.name in BESIDE:
                wrong &= ~BESIDE[op.name](given)
            report(op, given, numbers, f"{by}, {other}", wrong, got)


@pytest.mark.parametrize("op", COMPLEX, ids=lambda op: op.name)
def test_slopes_in_the_plane(op: OpRecord) -> None:
    """The gradient of the real part of a weighted sum, along both axes."""
    weight = 0.8 - 0.6j
    for numbers in _numbers(op):
        given = _grid(op, PLANE)
        for by in (n for n in given if n not in (op.masks or [])):
            f = Slopes(op, numbers, fa.complex128)
            x = f.leaves(given)
            y = f.tensor({**x, by: x[by].requires_grad_()})
            if not y.requires_grad:
                continue
            try:
                (g,) = fa.autograd.grad((y * weight).real.sum(), x[by], allow_unused=True)
            except NotImplementedError:
                continue
            for way in (1, 1j):
                h = STEP * way * np.maximum(1, np.abs(given[by]))
                more, less = (f.value({**given, by: given[by] + s * h}) for s in (1, -1))
                want = ((more - less) * weight).real / (2 * np.abs(h))
                got = (np.conj(g.numpy()) * way).real
                size = np.maximum(np.abs(want), np.abs(got)) + 1e-6 * np.abs(f.value(given))
                wrong = ~(np.abs(got - want) <= 1e-4 * np.maximum(size, 1e-3))
                wrong &= np.isfinite(want) & (
                    np.abs(more - less) < 1e-2 * np.maximum(1, np.abs(more))
                )
                report(op, given, numbers, by, wrong, got)
