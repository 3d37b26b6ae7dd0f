"""Functions of order whose results depend on flags."""

from __future__ import annotations

from typing import Any

from facula import _C
from facula.overrides import overridable

__all__ = ["unique", "unique_consecutive"]


@overridable
def unique(
    input: Any,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Distinct elements in ascending order, or distinct slices along `dim` in lexicographic order.

    With `return_inverse` also where each element (slice) is among them, with `return_counts` how
    often each occurs. NaNs are distinct from each other. The result is sorted in any case.

    >>> fa.unique(fa.tensor([3, 1, 3]))
    tensor([1, 3])
    """
    if dim is None:
        found = _C._ops._unique(input, sorted, return_inverse, return_counts)
    else:
        found = _C._ops._unique_dim(input, dim, sorted, return_inverse, return_counts)
    return _wanted(found, return_inverse, return_counts)


@overridable
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equal elements, or of equal slices along `dim`.

    >>> fa.unique_consecutive(fa.tensor([1, 1, 2, 1]))
    tensor([1, 2, 1])
    """
    found = _C._ops._unique_consecutive(input, return_inverse, return_counts, dim)
    return _wanted(found, return_inverse, return_counts)


def _wanted(found: Any, inverse: bool, counts: bool) -> Any:
    values = [found[0], *([found[1]] if inverse else []), *([found[2]] if counts else [])]
    return values[0] if len(values) == 1 else tuple(values)
