"""A number that is written fits the dtype or raises, whoever writes, on every device."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import facula as fa
import pytest

F = fa.nn.functional
INTS = {
    "uint8": (0, 255), "int8": (-128, 127), "int16": (-(2**15), 2**15 - 1), "int32": (-(2**31),
    2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}  # fmt: skip
MASK = [True, False]


def mask(t: fa.Tensor) -> fa.Tensor:
    return fa.tensor(MASK, device=t.device)


def place(t: fa.Tensor) -> fa.Tensor:
    return fa.tensor([0], device=t.device)


WRITERS: dict[str, Callable[[fa.Tensor, Any], Any]] = {
    "fill_": lambda t, v: t.fill_(v),
    "full": lambda t, v: fa.full((2,), v, dtype=t.dtype, device=t.device),
    "full_like": lambda t, v: fa.full_like(t, v),
    "new_full": lambda t, v: t.new_full((2,), v),
    "masked_fill": lambda t, v: t.masked_fill(mask(t), v),
    "masked_fill_": lambda t, v: t.masked_fill_(mask(t), v),
    "index_fill": lambda t, v: t.index_fill(0, place(t), v),
    "index_fill_": lambda t, v: t.index_fill_(0, place(t), v),
    "scatter": lambda t, v: t.scatter(0, place(t), v),
    "scatter_": lambda t, v: t.scatter_(0, place(t), v),
    "pad": lambda t, v: F.pad(t, (1, 1), value=v),
    "constant_pad_nd": lambda t, v: fa.constant_pad_nd(t, [0, 2], v),
    "cutting pad": lambda t, v: F.pad(t, (-1, 1), value=v),
    "ConstantPad1d": lambda t, v: fa.nn.ConstantPad1d(1, v)(t.reshape(1, 2)),
    "pad_sequence": lambda t, v: fa.nn.utils.rnn.pad_sequence([t, t[:1]], padding_value=v),
    "arange": lambda t, v: fa.arange(v, v + 1, dtype=t.dtype, device=t.device),
    "linspace to": lambda t, v: fa.linspace(0, v, 3, dtype=t.dtype, device=t.device),
    "linspace from": lambda t, v: fa.linspace(v, 0, 3, dtype=t.dtype, device=t.device),
}
STORES: dict[str, Callable[[fa.Tensor, Any], Any]] = {
    "setitem": lambda t, v: t.__setitem__(0, v),
    "setitem by a mask": lambda t, v: t.__setitem__(mask(t), v),
    "tensor": lambda t, v: fa.tensor([v], dtype=t.dtype),
    "scalar_tensor": lambda t, v: fa.scalar_tensor(v, dtype=t.dtype),
}
REAL_ONLY = ("arange", "linspace to", "linspace from")


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("writer", WRITERS)
def test_what_does_not_fit_raises(writer: str, device: str) -> None:
    write = WRITERS[writer]
    for name, (low, high) in INTS.items():
        t = fa.ones(2, dtype=getattr(fa, name), device=device)
        wrong: list[Any] = [1e300, -1e300, 2.0**63]
        if high < 2**62:
            wrong += [low - 1, high + 1, float(high + 1), float(low - 1)]
        for number in wrong:
            with pytest.raises(OverflowError, match=f"does not fit into {name} "):
                write(t, number)
        for number in (nan, inf):
            with pytest.raises((OverflowError, ValueError)):
                write(t, number)
        if writer not in REAL_ONLY:
            with pytest.raises(TypeError, match="complex"):
                write(t, 2 + 0j)
        if device == "cpu":
            assert t.tolist() == [1, 1]
        for number in (low, high if high < 2**62 else 2**62):
            write(t.clone(), number)


@pytest.mark.parametrize("writer", [*WRITERS, *STORES])
def test_what_fits_is_written(writer: str) -> None:
    """Floats are cut for integers, anything is a truth, and a float may become infinite."""
    write = {**WRITERS, **STORES}[writer]

    def written(dtype: fa.dtype, number: Any) -> list[Any]:
        t = fa.ones(2, dtype=dtype)
        result = write(t, number)
        return (t if result is None else result).reshape(-1).tolist()

    assert 2 in written(fa.int32, 2.75)
    assert -2 in written(fa.int32, -2.75)
    assert 255 in written(fa.uint8, 255.5)
    assert inf in written(fa.float16, 1e300) or writer in REAL_ONLY
    if writer not in REAL_ONLY:
        assert any(v != v for v in written(fa.float32, nan))
        assert 2 + 1j in written(fa.complex64, 2 + 1j)
        assert True in written(fa.bool, nan)
        assert written(fa.bool, 0.0)[0] in (True, False)


@pytest.mark.parametrize("writer", STORES)
def test_stores_agree(writer: str) -> None:
    for name, (_, high) in INTS.items():
        t = fa.ones(2, dtype=getattr(fa, name))
        for number in (1e300, nan, inf, *((high + 1,) if high < 2**62 else ())):
            with pytest.raises(OverflowError):
                STORES[writer](t, number)
        with pytest.raises(TypeError, match="complex"):
            STORES[writer](t, 2 + 1j)


def test_tensors_of_one_element_are_read_as_numbers() -> None:
    t = fa.ones(2, dtype=fa.uint8)
    for value in (fa.tensor(300), fa.tensor(-1), fa.tensor(nan)):
        with pytest.raises(OverflowError):
            t.masked_fill(mask(t), value)
        with pytest.raises(OverflowError):
            t.index_fill(0, place(t), value)


def test_ranges_of_integers_end_within_them() -> None:
    assert fa.arange(250, 256, dtype=fa.uint8).tolist() == list(range(250, 256))
    assert fa.arange(3, -1, -1, dtype=fa.uint8).tolist() == [3, 2, 1, 0]
    assert fa.arange(300, 300, dtype=fa.uint8).tolist() == []
    assert fa.linspace(0, 255, 2, dtype=fa.uint8).tolist() == [0, 255]
    assert fa.logspace(0, 2, 3, dtype=fa.uint8).tolist() == [1, 10, 100]
    for call in (
        lambda: fa.arange(250, 257, dtype=fa.uint8),
        lambda: fa.arange(2, -2, -1, dtype=fa.uint8),
        lambda: fa.arange(0, 130, 1.5, dtype=fa.int8),
        lambda: fa.logspace(0, 3, 2, dtype=fa.uint8),
        lambda: fa.logspace(0, 300, 2, dtype=fa.int64),
    ):
        with pytest.raises(OverflowError, match="does not fit"):
            call()
