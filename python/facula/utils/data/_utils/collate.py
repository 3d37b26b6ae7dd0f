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
        if _array_kind(data) in "SUOVMm":
            return data
        if _is_masked(data):
            _check_array(data, "the sample", "default_convert")
        return facula.as_tensor(data)
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
    for i, t in enumerate(batch):
        if not isinstance(t, facula.Tensor):
            raise _fault(TypeError, _unlike(i, t, "a Tensor"))
        if t.shape != first.shape:
            raise _fault(
                RuntimeError,
                f"sample {i} has shape {tuple(t.shape)}, sample 0 has {tuple(first.shape)}; samples"
                " must have one shape: pad or crop them, or give a collate_fn of your own",
            )
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
    for i, b in enumerate(batch):
        if isinstance(b, (int, float, complex, facula.Tensor)):
            continue
        if not _is_array(b):
            raise _fault(TypeError, _unlike(i, b, "an array"))
        _check_array(b, f"sample {i}")
    return collate_tensor_fn([facula.as_tensor(b) for b in batch])


def _check_array(array: Any, what: str, name: str = "default_collate") -> None:
    if _array_kind(array) in "SUOVMm":
        kind = getattr(array, "dtype", array.__array_interface__["typestr"])
        raise _fault(
            TypeError,
            f"{what} is an array of dtype {kind}, which no tensor has; give numbers, or a list",
            name,
        )
    if _is_masked(array):
        raise _fault(
            TypeError,
            f"{what} is a masked array, whose mask a tensor cannot hold; give array.filled(value), "
            "and array.mask beside it where that is needed",
            name,
        )


def _is_masked(value: Any) -> bool:
    import sys

    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    return masked is not None and isinstance(value, masked)


def _check_numbers(batch: Sequence[Any], what: str, *conversions: str) -> Sequence[Any]:
    """The samples, if all are numbers; text is none, though it may read as one."""
    for i, b in enumerate(batch):
        if not any(hasattr(b, name) for name in conversions):
            raise _fault(TypeError, _unlike(i, b, what))
    return batch


def collate_float_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Python's floats as float64."""
    numbers = _check_numbers(batch, "a float", "__float__")
    return facula.tensor([float(b) for b in numbers], dtype=facula.float64)


def collate_complex_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Python's complex numbers as complex128."""
    numbers = _check_numbers(batch, "a complex number", "__complex__", "__float__")
    return facula.tensor([complex(b) for b in numbers], dtype=facula.complex128)


def collate_int_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Python's integers as int64, truth values as bool."""
    return facula.tensor(list(_check_numbers(batch, "an int", "__float__", "__complex__")))


def collate_str_fn(batch: Sequence[Any], *, collate_fn_map: Any = None) -> Any:
    """Strings and bytes stay a list."""
    kind = str if isinstance(batch[0], str) else bytes
    for i, b in enumerate(batch):
        if not isinstance(b, kind):
            raise _fault(TypeError, _unlike(i, b, f"a {kind.__name__}"))
    return list(batch)


def _unlike(i: int, sample: Any, first: str) -> str:
    kind = type(sample).__name__
    return f"sample {i} is of type {kind}, sample 0 is {first}; samples must be of one structure"


def _fault(kind: type[Exception], text: str, name: str = "default_collate") -> Exception:
    """An error about samples; entries that it lies in are added on its way out."""
    error: Any = kind(f"{name}: {text}")
    error.collated = "", text
    return error


def _entry(where: str, batch: Sequence[Any], collate_fn_map: Any) -> Any:
    """The entries of all samples at one place, joined."""
    try:
        return collate(batch, collate_fn_map=collate_fn_map)
    except Exception as error:
        found: Any = error
        if hasattr(found, "collated"):
            inner, text = found.collated
            found.collated = where + inner, text
            found.args = (f"default_collate: in entry {where}{inner}: {text}",)
        raise


def _check_keys(batch: Sequence[Any]) -> None:
    first = batch[0]
    keys = set(first)
    for i, b in enumerate(batch):
        if not isinstance(b, Mapping):
            raise _fault(TypeError, _unlike(i, b, f"a {type(first).__name__}"))
        missing, more = [k for k in first if k not in b], [k for k in b if k not in keys]
        if missing or more:
            lacks = f" lacks the keys {missing}" if missing else ""
            has = f" has the keys {more} besides" if more else ""
            raise _fault(
                ValueError,
                f"sample {i}{lacks}{' and' if missing and more else ''}{has}; all samples must "
                f"have the keys of sample 0, {list(first)}",
            )


def _check_lengths(batch: Sequence[Any]) -> None:
    first = batch[0]
    fields = getattr(first, "_fields", None)
    for i, b in enumerate(batch):
        if not isinstance(b, Sequence) or isinstance(b, (str, bytes)):
            raise _fault(TypeError, _unlike(i, b, f"a {type(first).__name__}"))
        if len(b) != len(first):
            raise _fault(
                RuntimeError,
                "each element in list of batch should be of equal size, but sample "
                f"{i} has {len(b)} entries and sample 0 {len(first)}",
            )
        if getattr(b, "_fields", None) != fields:
            raise _fault(
                TypeError,
                f"sample {i} is a {type(b).__name__} and sample 0 a {type(first).__name__}; "
                "named tuples of one batch must have the same fields",
            )


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
        ValueError: no samples, or mappings with other keys than the first one's. RuntimeError:
            sequences of unequal length, tensors of unequal shapes. TypeError: samples of another
            type, arrays of objects, texts or records, masked arrays.
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
        _check_keys(batch)
        joined = {k: _entry(f"[{k!r}]", [b[k] for b in batch], collate_fn_map) for k in first}
        return _rebuilt(first, joined)
    if isinstance(first, Sequence) and not isinstance(first, (str, bytes)):
        _check_lengths(batch)
        columns = [
            _entry(f"[{i}]", column, collate_fn_map)
            for i, column in enumerate(zip(*batch, strict=True))
        ]
        if hasattr(first, "_fields"):
            return kind(*columns)
        return columns if isinstance(first, tuple) else _rebuilt(first, columns)
    raise _fault(
        TypeError,
        "batch must contain tensors, numpy arrays, numbers, dicts or lists; found "
        f"{kind.__name__}. Turn samples into these (dataclasses.asdict), add the type to "
        "default_collate_fn_map, or give a collate_fn of your own",
    )


def default_collate(batch: Sequence[Any]) -> Any:
    """Join samples of one structure along a new first dim.

    Tensors and arrays are stacked; float becomes float64, complex complex128 and int int64 of shape
    (N,); strings and bytes stay a list; mappings, named tuples and sequences are joined entry by
    entry. Other types can be added to `default_collate_fn_map`.

    Raises:
        ValueError: no samples, or mappings with other keys than the first one's. RuntimeError:
            sequences of unequal length, tensors of unequal shapes. TypeError: samples of another
            type, arrays of objects, texts or records, masked arrays.
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
