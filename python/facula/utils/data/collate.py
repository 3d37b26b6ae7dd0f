"""Turn a list of samples into one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import facula

__all__ = ["default_collate", "default_convert"]


def _is_array(value: Any) -> bool:
    # By its protocol, so that NumPy is not imported to find out. NumPy's strings are Python's too.
    if isinstance(value, (str, bytes)):
        return False
    return hasattr(value, "__array_interface__") and not isinstance(value, facula.Tensor)


def _array_kind(value: Any) -> str:
    return value.__array_interface__["typestr"][1:2]


def default_convert(data: Any) -> Any:
    """Turn arrays within `data` into tensors; containers keep their type, the rest stays."""
    if isinstance(data, (facula.Tensor, str, bytes)):
        return data
    if _is_array(data):
        return data if _array_kind(data) in "SUOV" else facula.as_tensor(data)
    if isinstance(data, Mapping):
        return {key: default_convert(value) for key, value in data.items()}
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, Sequence):
        return [default_convert(d) for d in data]
    return data


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples of one structure along a new first dim.

    Tensors and arrays are stacked; float becomes float64 and int int64 of shape (N,); strings and
    bytes stay a list; mappings, named tuples and sequences are joined entry by entry.

    Raises:
        RuntimeError: sequences of unequal length. TypeError: samples of another type.
    """
    first = batch[0]
    if isinstance(first, facula.Tensor):
        return facula.stack(list(batch), 0)
    if _is_array(first):
        if _array_kind(first) in "SUOV":
            raise TypeError(f"default_collate: cannot join arrays of dtype {first.dtype}")
        return facula.stack([facula.as_tensor(b) for b in batch], 0)
    if isinstance(first, bool):
        return facula.tensor(list(batch))
    if isinstance(first, float):
        return facula.tensor([float(b) for b in batch], dtype=facula.float64)
    if isinstance(first, int):
        return facula.tensor(list(batch))
    if isinstance(first, (str, bytes)):
        return list(batch)
    if isinstance(first, Mapping):
        joined = {key: default_collate([b[key] for b in batch]) for key in first}
        return _as_type(type(first), joined)
    if isinstance(first, Sequence):
        if any(len(b) != len(first) for b in batch):
            lengths = sorted({len(b) for b in batch})
            raise RuntimeError(
                f"each element in list of batch should be of equal size, got lengths {lengths}"
            )
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        if hasattr(first, "_fields"):
            return type(first)(*columns)
        return columns if isinstance(first, tuple) else _as_type(type(first), columns)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {type(first).__name__}"
    )


def _as_type(kind: Callable[..., Any], value: Any) -> Any:
    try:
        return kind(value)
    except TypeError:
        # A container whose constructor takes something else.
        return value
