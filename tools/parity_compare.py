"""What differs between a result of torch and one of facula; used by parity.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import facula
import numpy as np
import torch

# Relative and absolute error that two right implementations may have beside each other.
CLOSE = {
    "float64": (1e-7, 1e-9),
    "complex128": (1e-7, 1e-9),
    "float32": (2e-4, 2e-5),
    "complex64": (2e-4, 2e-5),
    "float16": (1e-2, 4e-3),
    "bfloat16": (5e-2, 2e-2),
}
Difference = tuple[str, str]  # kind, what


def array_of(x: Any) -> np.ndarray[Any, Any]:
    """Elements of a tensor of either side, 16-bit floats as float32."""
    x = x.detach()
    if isinstance(x, torch.Tensor):
        x = x.resolve_conj().resolve_neg()
        return np.asarray((x.float() if x.dtype == torch.bfloat16 else x).numpy())
    return np.asarray((x.float() if x.dtype == facula.bfloat16 else x).numpy())


# ---- comparing ----


def leaves(value: Any) -> list[Any]:
    """What a result is made of, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value]


def is_tensor(x: Any) -> bool:
    return isinstance(x, (torch.Tensor, facula.Tensor))


def dtype_of(x: Any) -> str:
    return str(x.dtype).split(".")[1]


def values_differ(theirs: Any, ours: Any, dtype: str, scale: float = 1) -> str:
    a, b = array_of(theirs), array_of(ours)
    if a.dtype.kind in "biu":
        same = a == b
    else:
        rtol, atol = CLOSE.get(dtype, (0, 0))
        with np.errstate(all="ignore"):
            same = np.isclose(b, a, rtol=rtol * scale, atol=atol * scale, equal_nan=True)
            if a.dtype.kind == "c":  # NaN and infinity in a part alone
                same |= ~np.isfinite(a) & ~np.isfinite(b)
    if same.all():
        return ""
    where = tuple(int(i[0]) for i in np.nonzero(~np.atleast_1d(same)))
    a, b = np.atleast_1d(a)[where], np.atleast_1d(b)[where]
    return f"at {where}: torch {a}, facula {b}; {int((~same).sum())} of {same.size}"


def compared(
    theirs: Any, ours: Any, *, values: bool = True, scale: float = 1
) -> Iterator[Difference]:
    a, b = leaves(theirs), leaves(ours)
    if len(a) != len(b):
        yield "shape", f"torch has {len(a)} results, facula {len(b)}"
        return
    for x, y in zip(a, b, strict=True):
        if not is_tensor(x) or not is_tensor(y):
            if is_tensor(x) != is_tensor(y):
                yield "shape", f"torch gives {type(x).__name__}, facula {type(y).__name__}"
            elif (
                isinstance(x, (int, float, complex))
                and values
                and not np.isclose(x, y, equal_nan=True)
            ):
                yield "values", f"torch {x}, facula {y}"
            continue
        if x.layout != torch.strided:
            continue
        if dtype_of(x) != dtype_of(y):
            yield "dtype", f"torch {dtype_of(x)}, facula {dtype_of(y)}"
        elif tuple(x.shape) != tuple(y.shape):
            yield "shape", f"torch {tuple(x.shape)}, facula {tuple(y.shape)}"
        elif values and (text := values_differ(x, y, dtype_of(x), scale)):
            yield "values", text


def ties_alone(theirs: Any, ours: Any, source: Any) -> bool:
    """Do the results differ in which of several equal elements an index names, alone?"""
    a, b = leaves(theirs), leaves(ours)
    if len(a) != len(b) or not isinstance(source, torch.Tensor) or not all(map(is_tensor, a + b)):
        return False
    data = np.atleast_1d(array_of(source))
    for x, y in zip(a, b, strict=True):
        if dtype_of(x) != dtype_of(y) or tuple(x.shape) != tuple(y.shape):
            return False
        if dtype_of(x) != "int64" or (len(a) == 2 and x is a[0]):
            if values_differ(x, y, dtype_of(x)):
                return False
            continue
        one, two = np.atleast_1d(array_of(x)), np.atleast_1d(array_of(y))
        for axis in range(data.ndim):
            p, q = (i if i.ndim == data.ndim else np.expand_dims(i, axis) for i in (one, two))
            try:
                same = np.take_along_axis(data, p, axis) == np.take_along_axis(data, q, axis)
            except (ValueError, IndexError):
                continue
            if same.all():
                break
        else:
            return False
    return True


def view_differs(theirs: Any, ours: Any, source: Any, our_source: Any) -> Iterator[Difference]:
    """A result that shares the input's memory in torch must do so in facula, with these strides."""
    for x, y in zip(leaves(theirs), leaves(ours), strict=True):
        if not is_tensor(x) or not is_tensor(y) or x.numel() == 0 or x.layout != torch.strided:
            continue
        shares = x.untyped_storage().data_ptr() == source.untyped_storage().data_ptr()
        if not shares or x.is_conj() or x.is_neg():
            continue
        at = (
            x.data_ptr() - source.data_ptr(),
            tuple(n for n, s in zip(x.stride(), x.shape, strict=True) if s > 1),
        )
        ours_at = (
            y.data_ptr() - our_source.data_ptr(),
            tuple(n for n, s in zip(y.stride(), y.shape, strict=True) if s > 1),
        )
        if at != ours_at:
            yield "strides", f"torch {at}, facula {ours_at} (bytes from the input, strides)"
