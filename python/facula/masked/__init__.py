"""Reductions and normalizations of the elements that a mask picks.

>>> x = fa.tensor([[1., 2., 3.], [4., 5., 6.]])
>>> mask = fa.tensor([[True, False, True], [False, False, False]])
>>> fa.masked.sum(x, 1, mask=mask)
tensor([4., 0.])

`mask` is bool and broadcasts to the input; elements where it is False do not count, and take no
gradient. Without a mask all count. Where nothing counts a sum is 0, a product 1, the largest
element the least number of the dtype, a mean NaN. `dim` is an int, a tuple, or None for all dims.
"""

from __future__ import annotations

from typing import Any

import facula
from facula._errors import tell_all

__all__ = [
    "amax",
    "amin",
    "argmax",
    "argmin",
    "cumprod",
    "cumsum",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]


def _mask_of(who: str, input: Any, mask: Any) -> Any:
    if mask.dtype != facula.bool:
        raise TypeError(f"masked.{who}(): mask must be bool, not {mask.dtype}")
    if mask.dim() > input.dim():
        raise IndexError(
            f"masked.{who}(): mask has {mask.dim()} dims, more than the {input.dim()} of the input"
        )
    return mask.expand(input.shape)


def _filled(who: str, input: Any, mask: Any, value: Any) -> Any:
    """The input with a number where the mask is False."""
    if mask is None:
        return input
    there = _mask_of(who, input, mask)
    return facula.where(there, input, facula.full_like(input.detach(), value))


def _dims(input: Any, dim: Any) -> tuple[int, ...]:
    """Dims to reduce, from 0 on, in order."""
    count = input.dim()
    if dim is None or (isinstance(dim, tuple | list) and not dim):
        return tuple(range(count))
    given = (dim,) if isinstance(dim, int) else tuple(dim)
    for d in given:
        if not -max(count, 1) <= d < max(count, 1):
            raise IndexError(
                f"dim {d} is out of range for a tensor of {count} dims "
                f"(expected {-max(count, 1)} to {max(count, 1) - 1})"
            )
    found = [d % max(count, 1) for d in given]
    if len(set(found)) < len(found):
        raise RuntimeError(f"dim {given} names a dim twice")
    return tuple(sorted(found)) if count else ()


def _sum_dtype(input: Any, dtype: Any) -> Any:
    """Sums and products of integers and bools are int64."""
    if dtype is not None:
        return dtype
    plain = input.is_floating_point() or input.is_complex()
    return input.dtype if plain else facula.int64


def _least(dtype: Any) -> Any:
    if dtype == facula.bool:
        return False
    return -facula.inf if dtype.is_floating_point else facula.iinfo(dtype).min


def _most(dtype: Any) -> Any:
    if dtype == facula.bool:
        return True
    return facula.inf if dtype.is_floating_point else facula.iinfo(dtype).max


def _as(input: Any, dtype: Any) -> Any:
    return input if dtype is None else input.to(dtype)


def sum(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Sum of the elements that count, along `dim`.

    >>> fa.masked.sum(fa.tensor([1, 2, 4]), mask=fa.tensor([True, False, True]))
    tensor(5)
    """
    dtype = _sum_dtype(input, dtype)
    kept, dims = _filled("sum", input.to(dtype), mask, 0), _dims(input, dim)
    return kept.sum(dims, keepdim=bool(keepdim), dtype=dtype) if dims else kept.clone()


def prod(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Product of the elements that count, along `dim`.

    >>> fa.masked.prod(fa.tensor([3, 2, 4]), mask=fa.tensor([True, False, True]))
    tensor(12)
    """
    dtype = _sum_dtype(input, dtype)
    result = _filled("prod", input.to(dtype), mask, 1)
    for d in reversed(_dims(input, dim)):
        result = result.prod(d, keepdim=bool(keepdim), dtype=dtype)
    return result


def cumsum(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running sums along `dim`; elements that do not count add 0."""
    return _filled("cumsum", input, mask, 0).cumsum(dim, dtype=dtype)


def cumprod(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Running products along `dim`; elements that do not count are 1."""
    return _filled("cumprod", input, mask, 1).cumprod(dim, dtype=dtype)


def amax(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Largest of the elements that count, along `dim`."""
    input = _as(input, dtype)
    kept = _filled("amax", input, mask, _least(input.dtype))
    return kept.amax(_dims(input, dim), keepdim=bool(keepdim))


def amin(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Smallest of the elements that count, along `dim`."""
    input = _as(input, dtype)
    kept = _filled("amin", input, mask, _most(input.dtype))
    return kept.amin(_dims(input, dim), keepdim=bool(keepdim))


def argmax(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """Place of the largest of the elements that count, along `dim` or of all."""
    input = _as(input, dtype)
    return _filled("argmax", input, mask, _least(input.dtype)).argmax(dim, keepdim=bool(keepdim))


def argmin(
    input: Any,
    dim: int | None = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """Place of the smallest of the elements that count, along `dim` or of all."""
    input = _as(input, dtype)
    return _filled("argmin", input, mask, _most(input.dtype)).argmin(dim, keepdim=bool(keepdim))


def _count(who: str, input: Any, dim: Any, keepdim: bool, mask: Any) -> Any:
    there = (
        facula.ones(input.shape, dtype=facula.bool, device=input.device)
        if mask is None
        else _mask_of(who, input, mask)
    )
    return sum(there, dim, keepdim=keepdim)


def mean(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Mean of the elements that count, along `dim`; NaN where none do.

    >>> fa.masked.mean(fa.tensor([1., 2., 4.]), mask=fa.tensor([True, False, True]))
    tensor(2.5000)
    """
    total = sum(
        input, dim, keepdim=keepdim, dtype=input.dtype if dtype is None else dtype, mask=mask
    )
    return total / _count("mean", input, dim, keepdim, mask)


def median(
    input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Median of the elements that count, along `dim`, the lower of two; NaN where none do.

    Raises:
        ValueError: integers in rows of which none counts.
    """
    input = _as(input, dtype)
    if mask is None:
        return input.median(dim, keepdim=keepdim).values
    there = _mask_of("median", input, mask)
    if input.is_floating_point():
        return _filled("median", input, mask, facula.nan).nanmedian(dim, keepdim=keepdim).values
    counts = there.sum(dim, keepdim=True)
    if bool((counts == 0).any()):
        raise ValueError("masked.median(): integers have no median of rows that are masked whole")
    ordered = _filled("median", input, mask, _most(input.dtype)).sort(dim).values
    found = ordered.gather(dim, (counts - 1) // 2)
    return found if keepdim else found.squeeze(dim)


def logsumexp(
    input: Any, dim: Any = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """Logarithm of the sum of exponentials of the elements that count, along `dim`."""
    input = _as(input, dtype)
    if not (input.is_floating_point() or input.is_complex()):
        input = input.to(facula.get_default_dtype())
    return _filled("logsumexp", input, mask, -facula.inf).logsumexp(
        _dims(input, dim), keepdim=keepdim
    )


def logaddexp(
    input: Any,
    other: Any,
    *,
    dtype: Any = None,
    input_mask: Any = None,
    other_mask: Any = None,
) -> Any:
    """log(exp(input) + exp(other)) of the elements that count in each."""
    input, other = _as(input, dtype), _as(other, dtype)
    return facula.logaddexp(
        _filled("logaddexp", input, input_mask, -facula.inf),
        _filled("logaddexp", other, other_mask, -facula.inf),
    )


def norm(
    input: Any,
    ord: Any = 2.0,
    dim: Any = None,
    *,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """Vector norm of the elements that count, along `dim`.

    >>> fa.masked.norm(fa.tensor([3., 9., 4.]), mask=fa.tensor([True, False, True]))
    tensor(5.)
    """
    input = _as(input, dtype)
    kept = _filled("norm", input, mask, facula.inf if ord < 0 else 0)
    return facula.linalg.vector_norm(kept, ord, _dims(input, dim), bool(keepdim))


def _spread(
    who: str,
    input: Any,
    dim: Any,
    unbiased: bool | None,
    correction: Any,
    keepdim: bool,
    dtype: Any,
    mask: Any,
) -> Any:
    if unbiased is not None and correction is not None:
        raise RuntimeError(f"masked.{who}(): give unbiased or correction, not both")
    less = (1 if unbiased in (None, True) else 0) if correction is None else correction
    if dtype is None:
        plain = input.is_floating_point() or input.is_complex()
        dtype = input.dtype if plain else facula.get_default_dtype()
    x = input.to(dtype)
    middle = mean(x, dim, keepdim=True, mask=mask)
    away = _filled(who, x - middle, mask, 0)
    square = away * away.conj()
    square = square.real if square.is_complex() else square
    total = sum(square, dim, keepdim=keepdim)
    count = _count(who, input, dim, keepdim, mask).to(total.dtype) - less
    return total / count.clamp(min=0)


def var(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """Variance of the elements that count, along `dim`, divided by their number - correction.

    `correction` is 1, or 0 with `unbiased=False`.
    """
    return _spread("var", input, dim, unbiased, correction, bool(keepdim), dtype, mask)


def std(
    input: Any,
    dim: Any = None,
    unbiased: bool | None = None,
    *,
    correction: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    mask: Any = None,
) -> Any:
    """Standard deviation: the root of `var`."""
    return _spread("std", input, dim, unbiased, correction, bool(keepdim), dtype, mask).sqrt()


def softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmax along `dim` over the elements that count; 0 where they do not.

    >>> fa.masked.softmax(fa.tensor([0., 9., 0.]), 0, mask=fa.tensor([True, False, True]))
    tensor([0.5000, 0.0000, 0.5000])
    """
    return _filled("softmax", _as(input, dtype), mask, -facula.inf).softmax(dim)


def log_softmax(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Logarithm of `softmax`; -inf where elements do not count."""
    return _filled("log_softmax", _as(input, dtype), mask, -facula.inf).log_softmax(dim)


def softmin(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
    """Softmax of the negated elements that count, along `dim`; 0 where they do not."""
    return (-_filled("softmin", _as(input, dtype), mask, facula.inf)).softmax(dim)


def normalize(
    input: Any, ord: Any, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None
) -> Any:
    """Elements that count divided by their `norm` along `dim`, or by `eps` if that is larger."""
    input = _as(input, dtype)
    size = norm(input, ord, dim, keepdim=True, mask=mask).clamp(min=eps)
    return _filled("normalize", input, mask, 0) / size


tell_all(globals(), __all__)
