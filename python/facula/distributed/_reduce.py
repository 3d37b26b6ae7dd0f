"""Kinds of reduction between processes, and what each does with each dtype."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import NamedTuple

import facula
from facula import Tensor

__all__ = ["ReduceOp"]


class ReduceOp(enum.Enum):
    """How values of several processes become one.

    NaN stays NaN in each of them. AVG is of floats and complex numbers alone, BAND, BOR and BXOR of
    integers and bool.
    """

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


# The class of its members, by torch's name.
ReduceOp.RedOpType = ReduceOp  # type: ignore[attr-defined]


class Reduction(NamedTuple):
    """A reduction as an engine can do it: of `encoded` values, whose result is `decoded`."""

    op: ReduceOp
    encode: Callable[[Tensor], Tensor]
    decode: Callable[[Tensor], Tensor]
    is_plain: bool  # nothing is encoded: the tensor's own memory serves


def _same(t: Tensor) -> Tensor:
    return t


_BITS = {facula.float32: facula.int32, facula.float64: facula.int64}
_OF_BOOL = {
    ReduceOp.SUM: ReduceOp.MAX, ReduceOp.MAX: ReduceOp.MAX, ReduceOp.BOR: ReduceOp.MAX,
    ReduceOp.PRODUCT: ReduceOp.MIN, ReduceOp.MIN: ReduceOp.MIN, ReduceOp.BAND: ReduceOp.MIN,
    ReduceOp.BXOR: ReduceOp.BXOR,
}  # fmt: skip
_BITWISE = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


def _ordered(dtype: facula.dtype, op: ReduceOp) -> Reduction:
    """The least or largest float as that of integers in the same order, with NaN at the end."""
    bits = _BITS[dtype]
    ends = facula.iinfo(bits)
    shift = ends.bits - 1
    end = ends.max if op is ReduceOp.MAX else ends.min

    def encode(t: Tensor) -> Tensor:
        raw = t.view(bits)
        return facula.where(t.isnan(), end, raw ^ ((raw >> shift) & ends.max))

    def decode(keys: Tensor) -> Tensor:
        raw = keys ^ ((keys >> shift) & ends.max)
        return facula.where(keys == end, facula.nan, raw.view(dtype))

    return Reduction(op, encode, decode, False)


def reduction(
    what: str,
    op: ReduceOp,
    dtype: facula.dtype,
    size: int,
    reduces: Callable[[ReduceOp, facula.dtype], bool],
) -> Reduction:
    """How a reduction of a dtype over `size` processes is done.

    Args:
        reduces: does the engine do it itself?

    Raises:
        TypeError: `op` is no ReduceOp, or has no meaning for the dtype.
        NotImplementedError: the engine has no way to do it.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{what}: op is {op!r}; give a distributed.ReduceOp, such as ReduceOp.SUM")
    wide = dtype.is_floating_point or dtype.is_complex
    if (op in _BITWISE and wide) or (op is ReduceOp.AVG and not wide):
        of = "integers and bool" if op in _BITWISE else "floats and complex numbers"
        raise TypeError(f"{what}: ReduceOp.{op.name} is of {of}, not of {dtype}")
    if dtype.is_complex and op in (ReduceOp.MIN, ReduceOp.MAX):
        raise TypeError(f"{what}: complex numbers have no order, so no ReduceOp.{op.name}")
    if reduces(op, dtype):
        return Reduction(op, _same, _same, True)
    if dtype == facula.bool:
        if op is ReduceOp.BXOR and not reduces(op, facula.uint8):  # is the number of ones odd?
            return Reduction(
                ReduceOp.SUM, lambda t: t.view(facula.uint8), lambda t: (t & 1) != 0, False
            )
        return Reduction(_OF_BOOL[op], lambda t: t.view(facula.uint8), lambda t: t != 0, False)
    if dtype.itemsize < 4 and not dtype.is_complex:  # floats: added in float32, rounded once
        middle = facula.float32 if dtype.is_floating_point else facula.int32
        inner = reduction(what, op, middle, size, reduces)
        return Reduction(
            inner.op,
            lambda t: inner.encode(t.to(middle)),
            lambda t: inner.decode(t).to(dtype),
            False,
        )
    if dtype in _BITS and op in (ReduceOp.MIN, ReduceOp.MAX):
        return _ordered(dtype, op)
    if op is ReduceOp.AVG and reduces(ReduceOp.SUM, dtype):
        return Reduction(ReduceOp.SUM, _same, lambda t: t.div_(size), True)
    raise NotImplementedError(
        f"{what}: the engine of this device has no ReduceOp.{op.name} of {dtype}; gather the"
        " tensors and reduce them, or give a tensor on the CPU"
    )
