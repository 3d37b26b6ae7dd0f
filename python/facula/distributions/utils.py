"""What distributions share: broadcast parameters, probabilities and logits, lazy attributes."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Number
from typing import Any

import facula
from facula import _C
from facula.autograd._levels import drawn_into

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "euler_constant",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060  # Euler and Mascheroni


def broadcast_all(*values: Any) -> tuple[Any, ...]:
    """Tensors of one shape from tensors and numbers.

    Numbers get dtype and device of the first tensor; where there is none, the default dtype.
    """
    first = None
    for value in values:
        if facula.is_tensor(value):
            first = value if first is None else first
        elif not isinstance(value, Number):
            raise ValueError(
                f"parameters must be tensors or numbers, not {type(value).__name__}: {value!r}"
            )
    dtype = facula.get_default_dtype() if first is None else first.dtype
    device = None if first is None else first.device
    tensors = [
        v if facula.is_tensor(v) else facula.tensor(v, dtype=dtype, device=device) for v in values
    ]
    try:
        return tuple(facula.broadcast_tensors(*tensors))
    except RuntimeError as error:
        text = getattr(error, "text", error)
        raise RuntimeError(f"parameters of a distribution must broadcast: {text}") from None


def in_all_calls(value: Any) -> Any:
    """What a tensor stands for, with the rows of all calls where this runs within vmap.

    For checks of values, which are right for one call where they are for all.
    """
    while facula.is_tensor(value) and (found := _C._level_of(value)) is not None:
        value = found[2]
    return value


def holds(condition: Any) -> bool:
    """Is a tensor of truths true everywhere, in all calls of vmap?"""
    return bool(in_all_calls(condition).all())


def standard_normal(shape: Any, like: Any) -> Any:
    """Standard normal numbers of a shape, in the dtype and on the device of `like`."""
    return facula.randn(shape, dtype=like.dtype, device=like.device)


def new_empty(shape: Any, like: Any) -> Any:
    """Memory to draw into: of a shape, in the dtype and on the device of `like`."""
    return drawn_into(shape, like.dtype, like.device)


def sum_rightmost(value: Any, dims: int) -> Any:
    """The sum over the last `dims` dimensions; the value itself for none."""
    if dims == 0:
        return value
    return value.flatten(-dims).sum(-1)


def clamp_probs(probs: Any) -> Any:
    """Probabilities at least an eps of their dtype away from 0 and 1."""
    eps = facula.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def open_unit(y: Any) -> Any:
    """Numbers in [0, 1] kept off 0 by the least normal number, off 1 by half an eps."""
    info = facula.finfo(y.dtype)
    return y.clamp(min=info.tiny, max=1 - info.eps / 2)


def probs_to_logits(probs: Any, is_binary: bool = False) -> Any:
    """log(p / (1 - p)) of binary, log(p) of categorical probabilities.

    They are finite: 0 counts as the least normal number, and a binary 1 as the number below 1.
    """
    info = facula.finfo(probs.dtype)
    inner = facula.where(probs == 0, info.tiny, probs)
    if not is_binary:
        return inner.log()
    inner = facula.where(probs == 1, 1 - info.eps / 2, inner)
    return inner.log() - (-inner).log1p()


def logits_to_probs(logits: Any, is_binary: bool = False) -> Any:
    """The sigmoid of binary logits, the softmax over the last dimension of categorical ones."""
    return facula.sigmoid(logits) if is_binary else facula.softmax(logits, -1)


def xlogx(x: Any) -> Any:
    """x log(x), 0 at 0."""
    return facula.xlogy(x, x)


def mvlgamma(a: Any, p: int) -> Any:
    """log of the multivariate gamma function of dimension p (DLMF 35.3.4)."""
    offsets = facula.arange(p, dtype=a.dtype, device=a.device) / 2
    return (a.unsqueeze(-1) - offsets).lgamma().sum(-1) + p * (p - 1) / 4 * math.log(math.pi)


def _tril_count(n: int, diag: int) -> int:
    return sum(min(max(row + diag + 1, 0), n) for row in range(n))


def tril_matrix_to_vec(mat: Any, diag: int = 0) -> Any:
    """The elements on and below diagonal `diag` of square matrices (..., n, n), row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag ({diag}) must be in [{-n}, {n - 1}] for matrices of {n} rows")
    rows, cols = facula.tril_indices(n, n, diag, device=mat.device)
    return mat[..., rows, cols]


def vec_to_tril_matrix(vec: Any, diag: int = 0) -> Any:
    """Square matrices whose elements on and below diagonal `diag` are (..., k), row by row.

    It undoes `tril_matrix_to_vec`; a k that no size of a matrix has is a ValueError.
    """
    count = vec.shape[-1]
    n = max(1, -diag, diag + 1)
    while _tril_count(n, diag) < count:
        n += 1
    if _tril_count(n, diag) != count:
        raise ValueError(
            f"the last dimension has {count} elements, which is no number of elements on and"
            f" below diagonal {diag} of a square matrix; a matrix of {n} rows has"
            f" {_tril_count(n, diag)}"
        )
    rows, cols = facula.tril_indices(n, n, diag, device=vec.device)
    mat = facula.zeros((*tuple(vec.shape[:-1]), n, n), dtype=vec.dtype, device=vec.device)
    mat[..., rows, cols] = vec
    return mat


class lazy_property:
    """An attribute that is computed when first asked for, with gradients, and then kept."""

    def __init__(self, wrapped: Callable[[Any], Any]) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.__name__ = wrapped.__name__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            return self
        with facula.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.__name__, value)
        return value


def part_of(place: str, name: str, doc: str | None = None) -> property:
    """A property that is `name` of the distribution in the attribute `place`."""
    return property(lambda self: getattr(getattr(self, place), name), doc=doc)
