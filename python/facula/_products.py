"""Products whose arguments come in several forms: einsum, tensordot, chain_matmul."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from facula import _C
from facula.overrides import overridable

__all__ = ["chain_matmul", "einsum", "tensordot"]


def _letter(label: int) -> str:
    if not 0 <= label < 52:
        raise ValueError(f"einsum(): labels are integers from 0 to 51, not {label}")
    return chr(ord("A") + label) if label < 26 else chr(ord("a") + label - 26)


def _subscript(labels: Sequence[Any]) -> str:
    return "".join("..." if v is Ellipsis else _letter(int(v)) for v in labels)


def _one_by_one(args: Any) -> Any:
    """The operands of an equation, that may come in one list, as arguments of their own."""
    if len(args) == 2 and isinstance(args[0], str) and isinstance(args[1], list | tuple):
        return (args[0], *args[1])
    return args


@functools.partial(overridable, arrange=_one_by_one)
def einsum(*args: Any) -> Any:
    """einsum(equation, *operands) -> Tensor

    Sum of products by Einstein's convention: one letter a dim; letters that the output lacks are
    summed, `...` stands for any further dims. Also einsum(operand, labels, ..., [output labels])
    with lists of integers, as NumPy has it.

    >>> fa.einsum("ij,j->i", fa.ones(2, 3), fa.tensor([1., 2., 3.]))
    tensor([6., 6.])
    """
    if len(args) < 2:
        raise ValueError("einsum(): expected an equation and at least one operand")
    if isinstance(args[0], str):
        return _C._ops.einsum(args[0], args[1:])
    pairs, output = args[: len(args) // 2 * 2], args[len(args) // 2 * 2 :]
    equation = ",".join(_subscript(labels) for labels in pairs[1::2])
    if output:
        equation += "->" + _subscript(output[0])
    return _C._ops.einsum(equation, pairs[::2])


@overridable
def tensordot(a: Any, b: Any, dims: Any = 2, out: Any = None) -> Any:
    """Sum of products over `dims` dims: the last of `a` with the first of `b`, or given pairs.

    Args:
        dims: a number, or two lists: dims of `a` and the dims of `b` that go with them.
        out: written to instead of a new tensor.

    >>> fa.tensordot(fa.ones(2, 3), fa.ones(3, 4), 1).shape
    facula.Size([2, 4])
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot(): dims is {dims}, a has {a.ndim} dims and b {b.ndim}")
        dims_a, dims_b = list(range(a.ndim - dims, a.ndim)), list(range(dims))
    else:
        pair = dims.tolist() if _C.is_tensor(dims) else dims
        if len(pair) != 2:
            raise RuntimeError("tensordot(): dims is a number or two lists of dims")
        dims_a, dims_b = ([v] if isinstance(v, int) else list(v) for v in pair)
    return _C._ops.tensordot_dims(a, b, dims_a, dims_b, out=out)


@overridable
def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """Product of matrices in the order that needs the fewest multiplications."""
    return _C._ops.chain_matmul(list(matrices), out=out)
