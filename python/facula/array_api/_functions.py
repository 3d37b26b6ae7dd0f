"""Functions that torch and the Array API standard give one name and different meanings."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import facula
from facula._standard import summed_dtype
from facula._type_info import finfo as _finfo
from facula._type_info import iinfo as _iinfo

__all__ = [
    "add",
    "all",
    "any",
    "arange",
    "atan2",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "clip",
    "concat",
    "copysign",
    "count_nonzero",
    "divide",
    "equal",
    "eye",
    "finfo",
    "flip",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "iinfo",
    "less",
    "less_equal",
    "linspace",
    "logaddexp",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "minimum",
    "multiply",
    "nextafter",
    "nonzero",
    "not_equal",
    "pow",
    "prod",
    "remainder",
    "reshape",
    "result_type",
    "roll",
    "sign",
    "sort",
    "squeeze",
    "std",
    "subtract",
    "sum",
    "take",
    "tensordot",
    "tril",
    "triu",
    "var",
    "where",
]


def _reduced(
    function: Callable[..., Any], x: Any, axis: Any, keepdims: bool, **options: Any
) -> Any:
    if x.ndim == 0 or axis == ():  # of each element alone
        return function(x.unsqueeze(-1), -1, False, **options)
    dims = tuple(range(x.ndim)) if axis is None else axis
    return function(x, dims, keepdims, **options)


# ---- creation ----


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None
) -> Any:
    """start, start + step, ... short of `stop`, or 0, 1, ... short of `start`; maybe none."""
    if stop is None:
        start, stop = 0, start
    if (stop - start) * step < 0:
        stop = start + 0 * stop  # a float where it was one
    return facula.arange(start, stop, step, dtype=dtype, device=device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None
) -> Any:
    """Zeros with ones on the diagonal `k`, which is above the main one for k > 0."""
    columns = n_rows if n_cols is None else n_cols
    if k == 0:
        return facula.eye(n_rows, columns, dtype=dtype, device=device)
    kind = facula.get_default_dtype() if dtype is None else dtype
    if not -n_rows < k < columns:
        return facula.zeros((n_rows, columns), dtype=kind, device=device)
    rows = facula.arange(n_rows, device=device).unsqueeze(1)
    return (facula.arange(columns, device=device) - rows == k).to(kind)


def tril(x: Any, /, *, k: int = 0) -> Any:
    """Matrices with zeros above the diagonal `k`."""
    return facula.tril(x, k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """Matrices with zeros below the diagonal `k`."""
    return facula.triu(x, k)


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int,
    *,
    dtype: Any = None,
    device: Any = None,
    endpoint: bool = True,
) -> Any:
    """`num` numbers at equal distances from `start` to `stop`, the last only with `endpoint`."""
    if endpoint:
        return facula.linspace(start, stop, num, dtype=dtype, device=device)
    return facula.linspace(start, stop, num + 1, dtype=dtype, device=device)[:num]


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """Grids of coordinates, in a list; the first two dims are swapped unless `indexing` is "ij"."""
    if indexing not in ("xy", "ij"):
        raise ValueError(f"meshgrid(): indexing must be 'xy' or 'ij', not {indexing!r}")
    return list(facula.meshgrid(*arrays, indexing=indexing)) if arrays else []


# ---- dtypes ----


class finfo(_finfo):
    """Limits of a floating-point dtype or tensor; `dtype` is a dtype."""

    def __init__(self, type: Any, /) -> None:
        super().__init__(type)
        self.dtype = getattr(facula, self.dtype)


class iinfo(_iinfo):
    """Limits of an integer dtype or tensor; `dtype` is a dtype."""

    def __init__(self, type: Any, /) -> None:
        super().__init__(type)
        self.dtype = getattr(facula, self.dtype)


# ---- elements ----


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that all promote to; that of a 0-d tensor counts as much as any."""
    dtypes = [getattr(a, "dtype", a) for a in arrays_and_dtypes if not _is_number(a)]
    if not dtypes:
        raise ValueError("result_type(): at least one tensor or dtype is needed")
    kind = functools.reduce(facula.promote_types, dtypes)
    numbers = [a for a in arrays_and_dtypes if _is_number(a)]
    return (
        facula.result_type(facula.empty(1, dtype=kind, device="meta"), *numbers)
        if numbers
        else kind
    )


def _is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float, complex))


def promoted(*arrays: Any) -> list[Any]:
    """Tensors in their common dtype; torch lets the others decide over those of no dims."""
    if functools.reduce(operator.and_, (isinstance(x, facula.Tensor) for x in arrays)):
        kind = result_type(*arrays)
        return [x.to(kind) for x in arrays]
    return list(arrays)


def _of_two(name: str, function: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """A function of two tensors, or one and a number, in the dtype that they promote to."""
    known = getattr(facula, name) if function is None else function

    def both(x1: Any, x2: Any, /) -> Any:
        return known(*promoted(x1, x2))

    both.__name__ = both.__qualname__ = name
    both.__doc__ = f"`facula.{known.__name__}` in the dtype that both promote to, also of no dims."
    return both


add, atan2, bitwise_and, bitwise_left_shift, bitwise_or, bitwise_right_shift = map(
    _of_two, "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift".split()
)
bitwise_xor, copysign, divide, floor_divide, hypot, logaddexp = map(
    _of_two, "bitwise_xor copysign divide floor_divide hypot logaddexp".split()
)
less, less_equal, greater, greater_equal, not_equal = map(
    _of_two, "less less_equal greater greater_equal not_equal".split()
)
maximum, minimum, multiply, nextafter, pow, remainder, subtract = map(
    _of_two, "maximum minimum multiply nextafter pow remainder subtract".split()
)
equal = _of_two("equal", facula.eq)  # torch's says whether all are


def where(condition: Any, x1: Any = None, x2: Any = None, /) -> Any:
    """Elements of `x1` where the condition holds, else of `x2`; without both, as `nonzero`."""
    if x1 is None and x2 is None:
        return nonzero(condition)
    return facula.where(condition, *promoted(x1, x2))


def sign(x: Any, /) -> Any:
    """-1, 0 or 1; z / |z| of complex numbers; NaN stays."""
    if x.dtype.is_complex:
        return facula.sgn(x)
    found = facula.sign(x)
    return facula.where(facula.isnan(x), x, found) if x.dtype.is_floating_point else found


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """Elements brought into [min, max], in the dtype of `x`; NaN stays."""
    if min is None and max is None:
        return facula.clone(x)
    tensors = {n: v for n, v in (("min", min), ("max", max)) if isinstance(v, facula.Tensor)}
    if not tensors:
        return facula.clamp(x, min, max).to(x.dtype)
    found = x
    if min is not None:
        found = facula.maximum(found, facula.asarray(min, device=x.device).to(x.dtype))
    if max is not None:
        found = facula.minimum(found, facula.asarray(max, device=x.device).to(x.dtype))
    return found


# ---- reductions ----


def all(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether all elements along the axes, by default all axes, are not zero."""
    return _reduced(facula.all, x.to(facula.bool), axis, keepdims)


def any(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Whether an element along the axes, by default all axes, is not zero."""
    return _reduced(facula.any, x.to(facula.bool), axis, keepdims)


def max(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The largest element along the axes, by default all axes."""
    return _reduced(facula.amax, x, axis, keepdims)


def min(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """The smallest element along the axes, by default all axes."""
    return _reduced(facula.amin, x, axis, keepdims)


def sum(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Sums along the axes, by default all axes; unsigned integers give uint64."""
    kind = summed_dtype(x) if dtype is None else dtype
    return _reduced(facula.sum, x, axis, keepdims, dtype=kind)


def _products(x: Any, dims: Any, keepdim: bool = False, *, dtype: Any) -> Any:
    axes = sorted({d % x.ndim for d in ((dims,) if isinstance(dims, int) else dims)})
    x = x.to(dtype)
    for axis in reversed(axes):
        x = facula.prod(x, axis, keepdim, dtype=dtype)
    return x


def prod(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
    """Products along the axes, by default all axes; unsigned integers give uint64."""
    kind = summed_dtype(x) if dtype is None else dtype
    return _reduced(_products, x, axis, keepdims, dtype=kind)


def mean(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Means along the axes, by default all axes."""
    return _reduced(facula.mean, x, axis, keepdims)


def _spread(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(x: Any, dims: Any, keepdim: bool = False, *, correction: Any) -> Any:
        return function(x, dims, correction=correction, keepdim=keepdim)

    return reduced


def std(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Standard deviations along the axes: of n elements, divided by n - correction."""
    return _reduced(_spread(facula.std), x, axis, keepdims, correction=correction)


def var(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    """Variances along the axes: of n elements, divided by n - correction."""
    return _reduced(_spread(facula.var), x, axis, keepdims, correction=correction)


def median(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """Medians along the axes, as NumPy has them: of an even number the mean of the middle two."""
    kind = x.dtype if x.dtype.is_floating_point else facula.get_default_dtype()
    axes = tuple(range(x.ndim)) if axis is None else (axis,) if isinstance(axis, int) else axis
    rest = [d for d in range(x.ndim) if d not in {a % x.ndim for a in axes}]
    flat = (
        x.to(kind).movedim(rest, list(range(len(rest)))).flatten(len(rest))
        if x.ndim
        else x.to(kind)
    )
    found = facula.quantile(flat, 0.5, -1) if x.ndim else flat
    if keepdims:
        found = found.reshape([n if d in rest else 1 for d, n in enumerate(x.shape)])
    return found


def count_nonzero(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
    """How many elements along the axes, by default all axes, are not zero."""
    return sum(x != 0, axis=axis, keepdims=keepdims)


# ---- order and places ----


def sort(x: Any, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Any:
    """Elements in order along an axis."""
    return facula.sort(x, dim=axis, descending=descending, stable=stable)[0]


def nonzero(x: Any, /) -> tuple[Any, ...]:
    """For each dim the places of the elements that are not zero."""
    if x.ndim == 0:
        raise ValueError("nonzero(): a 0-d tensor has no places; reshape it to (1,)")
    return tuple(facula.nonzero(x, as_tuple=True))


def take(x: Any, indices: Any, /, *, axis: int | None = None) -> Any:
    """Entries along an axis, which a vector need not name; `indices` are one of integers."""
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"take(): a tensor of {x.ndim} dims needs an axis")
        axis = 0
    size = x.shape[axis]
    places = indices.to(facula.int64)
    return facula.index_select(x, axis, facula.where(places < 0, places + size, places))


# ---- shapes ----


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Any:
    """The elements in another shape: a copy if `copy`, never one if it is False."""
    if copy is False:
        return x.view(shape)
    found = facula.reshape(x, shape)
    return found.clone() if copy else found


def concat(arrays: Sequence[Any], /, *, axis: int | None = 0) -> Any:
    """Tensors one after the other along an axis, or flattened ones without."""
    if axis is None:
        arrays, axis = [facula.reshape(x, (-1,)) for x in arrays], 0
    return facula.cat(list(arrays), axis)


def squeeze(x: Any, /, axis: Any) -> Any:
    """A view without dims of size 1; of another size they are an error."""
    for dim in (axis,) if isinstance(axis, int) else axis:
        if x.shape[dim] != 1:
            raise ValueError(f"squeeze(): dim {dim} has size {x.shape[dim]}, not 1")
    return facula.squeeze(x, axis)


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Any:
    """Entries moved by `shift` along the axes, or flattened; those that leave come in again."""
    return facula.roll(x, shift, () if axis is None else axis)


def flip(x: Any, /, *, axis: Any = None) -> Any:
    """Entries in reverse order along the axes, by default all axes."""
    return facula.flip(x, tuple(range(x.ndim)) if axis is None else axis)


def tensordot(x1: Any, x2: Any, /, *, axes: Any = 2) -> Any:
    """Sums of products over `axes` dims: the last of `x1`, the first of `x2`, or given pairs."""
    return facula.tensordot(*promoted(x1, x2), dims=axes)
