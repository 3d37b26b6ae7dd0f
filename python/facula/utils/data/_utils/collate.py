"""Turn a list of samples into one batch."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping, MutableSequence, Sequence
from typing import Any

import facula

__all__ = ["collate", "default_collate", "default_collate_fn_map", "default_convert"]

# Set in a worker process: (shape, dtype) -> an empty tensor in shared memory, or None.
allocate: Callable[[tuple[int, ...], Any], Any] | None = None


def _is_array(value: Any) -> bool:
    # By its protocol, so that NumPy is not imported to find out. NumPy's strings are Python's too.
    if isinstance(value, (str, bytes)):
        return False
    return hasattr(value, "__array_interface__") and not isinstance(value, facula.Tensor)


def _array_kind(value: Any) -> str:
    return value.__array_interface__["typestr"][1:2]


def _rebuilt(sample: Any, entries: Any) -> Any:
    """A container like `sample` that holds `entries` (a dict, or a list)."""
    try:
        if isinstance(sample, MutableMapping):
            # A copy keeps what the class knows beside its entries, a default factory for example.
            clone = copy.copy(sample)
            clone.update(entries)
            return clone
        if isinstance(sample, MutableSequence):
            clone = copy.copy(sample)
            for i, entry in enumerate(entries):
                clone[i] = entry
            return clone
        return type(sample)(entries)
    except TypeError:
        # A container whose constructor takes something else.
        return entries


def default_convert(data: Any) -> Any:
    """Turn arrays within `data` into tensors; containers keep their type, the rest stays."""
    if isinstance(data, (facula.Tensor, str, bytes)):
        return data
    if _is_array(data):
        return data if _array_kind(data) in "SUOVMm" else facula.as_tensor(data)
    if isinstance(data, Mapping):
        return _rebuilt(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(d) for d in data))
    if isinstance(data, tuple):
        return [default_convert(d) for d in data]
    if isinstance(data, Sequence):
        return _rebuilt(data, [default_convert(d) for d in data])
    return data


def collate_tensor_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Tensors of one shape, stacked along a new first dim."""
    first = batch[0]
    if allocate is not None and first.device.type == "cpu":
        # Where the main process will read them, without a copy.
        shape, dtype = (len(batch), *first.shape), first.dtype
        if not any(t.requires_grad or t.dtype != dtype for t in batch):
            out = allocate(shape, dtype)
            if out is not None:
                return facula.stack(list(batch), 0, out=out)
    return facula.stack(list(batch), 0)


def collate_numpy_array_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Arrays of numbers, stacked as tensors."""
    if _array_kind(batch[0]) in "SUOVMm":
        raise TypeError(f"default_collate: cannot join arrays of dtype {batch[0].dtype}")
    return collate_tensor_fn([facula.as_tensor(b) for b in batch])


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Python's floats as float64."""
    return facula.tensor([float(b) for b in batch], dtype=facula.float64)


def collate_complex_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Python's complex numbers as complex128."""
    return facula.tensor([complex(b) for b in batch], dtype=facula.complex128)


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Python's integers as int64, truth values as bool."""
    return facula.tensor(list(batch))


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Strings and bytes stay a list."""
    return list(batch)


# Type of a sample -> how such samples are joined; looked up by the exact type first.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {
    facula.Tensor: collate_tensor_fn,
    float: collate_float_fn,
    int: collate_int_fn,
    complex: collate_complex_fn,
    str: collate_str_fn,
    bytes: collate_str_fn,
}


def collate(batch: Sequence[Any], *, collate_fn_map: Mapping[Any, Any] | None = None) -> Any:
    """Join samples of one structure along a new first dim, each leaf by a function of its type.

    Args:
        batch: the samples, at least one.
        collate_fn_map: type (or tuple of types) -> function of (batch, *, collate_fn_map), used for
            samples of exactly that type, else for those of a subclass. Mappings, named tuples and
            sequences that it does not name are joined entry by entry.

    Raises:
        ValueError: no samples. RuntimeError: sequences of unequal length. TypeError: samples of
            another type.
    """
    if len(batch) == 0:
        raise ValueError(
            "default_collate: the batch has no samples, so that neither shape nor dtype is known;"
            " give at least one"
        )
    first = batch[0]
    kind = type(first)
    functions = collate_fn_map or {}
    if kind in functions:
        return functions[kind](batch, collate_fn_map=collate_fn_map)
    if facula.Tensor in functions and _is_array(first):
        return collate_numpy_array_fn(batch)
    for known, function in functions.items():
        if isinstance(first, known):
            return function(batch, collate_fn_map=collate_fn_map)
    if isinstance(first, Mapping):
        joined = {k: collate([b[k] for b in batch], collate_fn_map=collate_fn_map) for k in first}
        return _rebuilt(first, joined)
    if isinstance(first, Sequence) and not isinstance(first, (str, bytes)):
        if any(len(b) != len(first) for b in batch):
            lengths = sorted({len(b) for b in batch})
            raise RuntimeError(
                f"each element in list of batch should be of equal size, got lengths {lengths}"
            )
        columns = [
            collate(column, collate_fn_map=collate_fn_map) for column in zip(*batch, strict=True)
        ]
        if hasattr(first, "_fields"):
            return kind(*columns)
        return columns if isinstance(first, tuple) else _rebuilt(first, columns)
    raise TypeError(
        "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; "
        f"found {kind.__name__}"
    )


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples of one structure along a new first dim.

    Tensors and arrays are stacked; float becomes float64, complex complex128 and int int64 of shape
    (N,); strings and bytes stay a list; mappings, named tuples and sequences are joined entry by
    entry. Other types can be added to `default_collate_fn_map`.

    Raises:
        ValueError: no samples. RuntimeError: sequences of unequal length. TypeError: samples of
            another type.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
