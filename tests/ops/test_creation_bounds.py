"""Tensors that are made at the bounds: of none or one element, of numbers that just fit."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest

REFUSED = (RuntimeError, ValueError, TypeError, IndexError, OverflowError)


def refused(*calls: Callable[[], Any]) -> None:
    for number, call in enumerate(calls):
        with pytest.raises(REFUSED):
            call()
            pytest.fail(f"call {number} was taken")


def test_sizes() -> None:
    x = fa.ones(2)
    for size in ((0,), (2, 0), (0, 0, 3), ()):
        for made in (fa.empty(size), fa.full(size, 7), x.new_empty(size), x.new_full(size, 7)):
            assert made.shape == size
    assert fa.empty_strided((0, 2), (5, 1)).shape == (0, 2)
    refused(
        lambda: fa.empty(-1),
        lambda: fa.empty(2, -3),
        lambda: fa.full((2, -3), 1),
        lambda: x.new_empty((2, -1)),
        lambda: x.new_full((-2,), 1),
        lambda: fa.empty_strided((2, -1), (1, 1)),
        lambda: fa.empty_strided((2,), (1, 1)),
        lambda: fa.empty_strided((2, 3), (1,)),
    )


def test_identities() -> None:
    for n, m in ((0, None), (0, 3), (3, 0), (1, 2), (2, 1), (3, None)):
        got = fa.eye(n) if m is None else fa.eye(n, m)
        np.testing.assert_array_equal(got.numpy(), np.eye(n, m, dtype=np.float32))
    for n, m in ((-1, None), (3, -1), (-1, 3), (-1, -1)):
        with pytest.raises(RuntimeError, match=r"^eye\(\): n and m must not be negative"):
            fa.eye(n) if m is None else fa.eye(n, m)


def test_triangles() -> None:
    for shape in ((1, 1), (2, 3), (3, 2), (0, 2), (2, 0), (2, 3, 3)):
        x = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
        for diagonal in (-4, -1, 0, 1, 4):
            for name in ("tril", "triu"):
                got = getattr(fa, name)(fa.tensor(x), diagonal)
                np.testing.assert_array_equal(got.numpy(), getattr(np, name)(x, diagonal))
    refused(lambda: fa.ones(3).tril(), lambda: fa.ones(3).triu(), lambda: fa.tensor(1.0).tril())


LAST = {"uint8": 255, "int8": 127, "int16": 32767, "int32": 2**31 - 1}


@pytest.mark.parametrize("dtype", LAST)
def test_ranges_of_integers(dtype: str) -> None:
    """The first and the last number must fit, the end need not; where there is none, none need."""
    kind, last = getattr(fa, dtype), LAST[dtype]
    least = 0 if dtype == "uint8" else -last - 1
    for start, end, step in (
        (last, last + 1, 1),
        (last - 1, last + 1, 1),
        (last - 4, last + 2, 3),
        (least, least + 2, 1),
        (least + 1, least - 1, -1),
        (last + 5, last + 5, 1),
        (least - 5, least - 5, -1),
    ):
        got = fa.arange(start, end, step, dtype=kind)
        assert got.dtype == kind and got.tolist() == list(range(start, end, step))
        real = fa.arange(start + 0.0, float(end), float(step), dtype=kind)
        assert real.tolist() == list(range(start, end, step))
    refused(
        lambda: fa.arange(last + 1, last + 2, dtype=kind),
        lambda: fa.arange(last, last + 2, dtype=kind),
        lambda: fa.arange(last + 1.0, last + 2.0, dtype=kind),
        lambda: fa.arange(least - 1, least, dtype=kind),
        lambda: fa.arange(least, least - 2, -1, dtype=kind),
    )


def test_ways_of_ranges() -> None:
    for start, end, step in ((3, 3, 1), (3, 3, -1), (3, 4, 5), (4, 3, -5), (0, 7, 2), (7, 0, -2)):
        for scale in (1, 0.5):
            got = fa.arange(start * scale, end * scale, step * scale)
            assert got.tolist() == [v * scale for v in range(start, end, step)]
    refused(
        lambda: fa.arange(3, 2),
        lambda: fa.arange(2, 3, -1),
        lambda: fa.arange(2.0, 3.0, -0.5),
        lambda: fa.arange(2, 3, 0),
        lambda: fa.arange(0, 1j),
        lambda: fa.arange(0, float("inf")),
        lambda: fa.arange(0, float("nan")),
        lambda: fa.arange(-(2**63), 2**63 - 1),
    )


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_spaced_integers(dtype: str) -> None:
    """Ends that are not among the numbers need not fit."""
    kind = getattr(fa, dtype)
    assert fa.linspace(300, 300, 0, dtype=kind).tolist() == []
    assert fa.linspace(100, 300, 1, dtype=kind).tolist() == [100]
    assert fa.linspace(100, 102, 3, dtype=kind).tolist() == [100, 101, 102]
    assert fa.logspace(300, 300, 0, dtype=kind).tolist() == []
    assert fa.logspace(1, 300, 1, dtype=kind).tolist() == [10]
    # the exponents are no numbers of the result
    assert fa.logspace(300, 301, 2, base=1.0, dtype=kind).tolist() == [1, 1]
    refused(
        lambda: fa.linspace(300, 0, 1, dtype=kind),
        lambda: fa.linspace(0, 300, 2, dtype=kind),
        lambda: fa.logspace(3, 0, 1, dtype=kind),
        lambda: fa.logspace(0, 3, 2, dtype=kind),
        lambda: fa.linspace(0, 1, -1),
        lambda: fa.logspace(0, 1, -1),
        lambda: fa.linspace(0, 1j, 2, dtype=kind),
        lambda: fa.linspace(1j, 0, 2, dtype=fa.float32),
    )


def test_numbers_that_fill() -> None:
    x = fa.ones(2, dtype=fa.int8)
    assert fa.full((2,), 127, dtype=fa.int8).tolist() == fa.full_like(x, 127).tolist() == [127] * 2
    refused(
        lambda: fa.full((2,), 128, dtype=fa.int8),
        lambda: fa.full_like(x, 128),
        lambda: x.new_full((2,), 128),
        lambda: x.fill_(128),
        lambda: fa.full((2,), 1j, dtype=fa.float32),
    )
    assert fa.full_like(x, 128, dtype=fa.int16).tolist() == [128] * 2


def test_parts_of_complex_numbers() -> None:
    for kind, wide in ((fa.float32, fa.complex64), (fa.float64, fa.complex128)):
        a, b = fa.tensor([[1.0], [2.0]]).to(kind), fa.tensor([3.0, 4.0, 5.0]).to(kind)
        got = fa.complex(a, b)
        assert got.dtype == wide
        assert got.tolist() == [[1 + 3j, 1 + 4j, 1 + 5j], [2 + 3j, 2 + 4j, 2 + 5j]]
    one = fa.ones(2)
    refused(
        lambda: fa.complex(one, one.double()),
        lambda: fa.complex(one.double(), one),
        lambda: fa.complex(one.half(), one.half()),
        lambda: fa.complex(one.long(), one.long()),
        lambda: fa.complex(one, fa.ones(3)),
    )


def test_copies_into_a_shape() -> None:
    for shape in ((2, 3), (1, 3), (2, 1), (1, 1), (3,), (1,), ()):
        other = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        got = fa.zeros(2, 3).copy_(fa.tensor(other))
        np.testing.assert_array_equal(got.numpy(), np.broadcast_to(other, (2, 3)))
    x = fa.zeros(2, 3)
    refused(
        *(lambda s=s: x.copy_(fa.ones(s)) for s in ((2,), (2, 2), (3, 3), (1, 2, 3), (1, 1, 1))),
        lambda: x.copy_(fa.ones(2, 3, device="meta")),
    )
    line = fa.arange(6.0)
    refused(lambda: line[1:].copy_(line[:-1]), lambda: line[:-1].copy_(line[1:]))
    assert line[:3].copy_(line[3:]).tolist() == line[3:].tolist() == [3, 4, 5]
    assert line.copy_(line).tolist() == [3, 4, 5, 3, 4, 5]
    there = fa.ones(2, 3, device="meta")
    assert there.copy_(x).shape == there.copy_(fa.ones(3, device="meta")).shape == (2, 3)


def test_sizes_are_refused_before_work() -> None:
    """What does not fit the memory, however it is made: no loop over its parts first.

    Such a loop would run for hours, in C++ where no signal ends it: in a process of its own.
    """
    subprocess.run([sys.executable, __file__], check=True, timeout=300)


def make_what_does_not_fit() -> None:
    x, wide = fa.ones(3), fa.ones(1)
    many = wide.reshape(1, 1).expand(2**22, 1)
    calls: list[Callable[[], Any]] = [
        lambda: fa.vander(x, N=2**40),
        lambda: fa.vander(x, N=2**62),
        lambda: fa.linalg.vander(x, N=2**40),
        lambda: fa.nn.functional.pdist(many),
        lambda: fa.cdist(many, many),
        lambda: fa.tril_indices(2**31, 2**31),
        lambda: fa.triu_indices(2**62, 2**62),
        lambda: fa.combinations(fa.arange(60), r=30),
        lambda: fa.combinations(fa.arange(9), r=2**40, with_replacement=True),
        lambda: fa.cartesian_prod(*[fa.arange(1000)] * 8),
        lambda: fa.nn.functional.one_hot(fa.tensor([0]), num_classes=2**40),
        lambda: fa.nn.functional.one_hot(fa.tensor([2**62])),
        lambda: fa.linspace(0, 1, 2**40),
        lambda: fa.logspace(0, 1, 2**62),
        lambda: fa.arange(0, 1e300, 1),
        lambda: x.repeat(2**40, 2**40),
        lambda: x.repeat_interleave(2**40),
        lambda: fa.tile(x, (2**40,)),
        lambda: fa.meshgrid(*[fa.arange(1000)] * 10, indexing="ij")[0].clone(),
        lambda: fa.block_diag(*[wide.expand(2**20, 2**20)] * 2),
        lambda: fa.bartlett_window(2**40),
        lambda: fa.hann_window(2**62),
        lambda: fa.kaiser_window(2**40),
        lambda: fa.signal.windows.gaussian(2**40),
        lambda: fa.nn.functional.unfold(fa.ones(1, 1, 4, 4), 2**31, padding=2**31),
        lambda: fa.nn.functional.fold(fa.ones(1, 1, 4), (2**40, 2**40), 1),
        lambda: fa.diag_embed(x, offset=2**40),
        lambda: fa.diagflat(x, -(2**62)),
    ]
    for number, call in enumerate(calls):
        with pytest.raises((MemoryError, *REFUSED)) as caught:
            call()
            pytest.fail(f"call {number} was taken")
        assert str(caught.value), number


def test_vandermonde_matrices() -> None:
    for given in (np.array([2, -3, 0]), np.array([0.5, -2.0]), np.array([1j, 2.0])):
        for n, increasing in ((0, False), (1, True), (3, False), (4, True), (None, False)):
            got = fa.vander(fa.tensor(given), n, increasing)
            np.testing.assert_array_equal(got.numpy(), np.vander(given, n, increasing))
    small = np.array([7, -8], np.int8)
    np.testing.assert_array_equal(
        fa.vander(fa.tensor(small), 4).numpy(), np.vander(small, 4).astype(np.int8)
    )
    assert fa.vander(fa.tensor(small), 4).dtype == fa.int8
    x = fa.tensor([0.0, 2.0], dtype=fa.float64, requires_grad=True)
    fa.vander(x, 4).sum().backward()
    assert x.grad.tolist() == [1.0, 1 + 4 + 12]


if __name__ == "__main__":
    make_what_does_not_fit()
