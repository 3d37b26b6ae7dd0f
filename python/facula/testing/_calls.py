"""From records of operators to calls, references and comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import facula
from facula.testing._samples import Named, OpRecord, Sample, Varying

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTS = ("int64", "int32", "int16", "int8", "uint8")
COMPLEX = ("complex128", "complex64")
# Digits of the significand behind the point, and the exponent of the smallest normal number.
FORMATS = {
    **{"float64": (52, -1022), "float32": (23, -126), "float16": (10, -14), "bfloat16": (7, -126)},
    **{"complex128": (52, -1022), "complex64": (23, -126)},
}
# What results may be off in units of the last place where the schema's key `ulp` says nothing: of
# each element of a formula; of the largest number of all that is there for what adds up many, and
# for formulas in double precision, which the reference has too (limits of `ulp` count elements).
FORMULA, SUMS = 4.0, 8.0


def dtypes_of(op: OpRecord) -> list[str]:
    """The dtypes an operator's varying inputs are tested in."""
    if not op.dtypes:
        return ["float64", "float32"]
    groups = {"float": FLOATS, "int": INTS, "complex": COMPLEX, "bool": ("bool",)}
    return [d for group in op.dtypes for d in groups[group]]


def call(op: OpRecord, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """What the operator returns; for one that returns nothing, the arguments that it wrote."""
    result = op.function()(*args, **kwargs)
    if op.returns:
        return result
    given = dict(zip(op.argument_names, args, strict=False)) | kwargs
    return [given[a["name"]] for a in op.data["arguments"] if "!" in a["type"]]


def convert(value: Any, dtype: str | None) -> Any:
    """A sample value in a given dtype, still NumPy; bfloat16 and float16 as rounded float32."""
    if isinstance(value, list | tuple):
        return type(value)(convert(v, dtype) for v in value)
    if not isinstance(value, np.ndarray):
        return value
    if not isinstance(value, Varying) or dtype is None:
        return np.asarray(value)
    array = np.asarray(value)
    return np.asarray(_cast(array, dtype))  # arithmetic turns 0-d arrays into scalars


def _cast(array: np.ndarray, dtype: str) -> Any:
    if dtype == "bool":
        return np.asarray(array > 0)
    if dtype in INTS:
        whole = np.rint(array * 3)
        return np.asarray(np.abs(whole) if dtype == "uint8" else whole, dtype)
    if dtype in COMPLEX:
        rng = np.random.default_rng(array.size)
        return np.asarray(array + 1j * rng.uniform(-1, 1, array.shape), dtype)
    if dtype == "bfloat16":
        bits = np.atleast_1d(array.astype(np.float32)).view(np.uint32)
        rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16
        return rounded.astype(np.uint32).view(np.float32).reshape(array.shape)
    if dtype == "float16":
        return array.astype(np.float16).astype(np.float32)
    return array.astype(dtype)


def to_facula(value: Any, varying: Any, dtype: str | None) -> Any:
    """The facula argument for a NumPy one; `varying` is the sample's own value."""
    if isinstance(value, list | tuple):
        return type(value)(to_facula(v, w, dtype) for v, w in zip(value, varying, strict=True))
    if isinstance(value, Named):
        return getattr(facula, value)
    if isinstance(value, np.ndarray):
        tensor = facula.tensor(value.tolist(), dtype=getattr(facula, str(value.dtype))).reshape(
            value.shape
        )
        if isinstance(varying, Varying) and dtype in ("float16", "bfloat16"):
            tensor = tensor.to(getattr(facula, dtype))
        return tensor
    return value


def arguments(sample: Sample, dtype: str | None) -> tuple[Sample, list[Any], dict[str, Any]]:
    """(NumPy sample in the dtype, facula positional, facula keyword arguments)."""
    numpy = Sample(
        [convert(a, dtype) for a in sample.args],
        {k: convert(v, dtype) for k, v in sample.kwargs.items()},
    )
    args = [to_facula(a, s, dtype) for a, s in zip(numpy.args, sample.args, strict=True)]
    kwargs = {k: to_facula(v, sample.kwargs[k], dtype) for k, v in numpy.kwargs.items()}
    return numpy, args, kwargs


def reference(op: OpRecord, numpy: Sample, references: Any = None) -> Any:
    """The NumPy/SciPy value; 16- and 32-bit inputs are evaluated in float64.

    `references` is what the name `ref` stands for.
    """
    import scipy
    import scipy.signal
    import scipy.special

    values = {k: _widen(v) for k, v in op.bound(numpy).items()}
    with np.errstate(all="ignore"):
        return eval(op.reference, {"np": np, "scipy": scipy, "ref": references, **values}, values)


def _widen(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_widen(v) for v in value)
    if isinstance(value, Named):
        return np.float32 if value == "bfloat16" else getattr(np, value, value)
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        return value.astype(np.float64)
    if isinstance(value, np.ndarray) and value.dtype == np.complex64:
        return value.astype(np.complex128)
    return value


def to_numpy(value: Any) -> Any:
    if isinstance(value, facula.Tensor):
        value = value.detach()
        if value.dtype in (facula.bfloat16, facula.float16):
            value = value.to(facula.float32)
        return np.array(value.tolist(), dtype=str(value.dtype).rpartition(".")[2]).reshape(
            value.shape
        )
    if isinstance(value, tuple | list):
        return [to_numpy(v) for v in value]
    return value


def off(got: Any, want: Any, dtype: str, terms: float = 0.0) -> np.ndarray:
    """How far elements are off, in units of the last place of `dtype` of `want`, or of `terms`."""
    digits, least = FORMATS[dtype]
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(want), np.maximum(terms, 2.0**least))
        unit = 2.0 ** (np.floor(np.log2(size)) - digits)
        distance = np.abs(got - want) / unit
    same = (got == np.asarray(want).astype(got.dtype)) | (np.isnan(got) & np.isnan(want))
    return np.where(same, 0, np.where(np.isnan(distance), np.inf, distance))


def largest(value: Any) -> float:
    """The largest finite magnitude of floats anywhere in a value, at most that of float32."""
    if isinstance(value, list | tuple):
        return max(map(largest, value), default=0.0)
    sizes = np.abs(value) if isinstance(value, np.ndarray) and value.dtype.kind in "fc" else 0.0
    return float(np.max(sizes, where=np.isfinite(sizes), initial=0.0))


def compare(op: OpRecord, got: Any, want: Any, dtype: str, inputs: Sample | None = None) -> None:
    """Shapes must agree exactly, values to some units in the last place."""
    if isinstance(got, list):
        want = list(want)
        assert len(got) == len(want), (
            f"{op.name}: {len(got)} results, the reference has {len(want)}"
        )
        for g, w in zip(got, want, strict=True):
            compare(op, g, w, dtype, inputs)
        return
    want = np.asarray(want)
    got = np.asarray(got)
    assert got.shape == want.shape, f"{op.name}: shape {got.shape}, the reference has {want.shape}"
    if got.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, want, err_msg=op.name)
        return
    if got.dtype.kind == "f":
        want = want.real  # as NumPy casts
    stored = str(got.dtype)  # integers give float32, whatever the test's dtype
    if dtype in ("float16", "bfloat16") and stored == "float32":
        stored = dtype
    stated = (op.ulp or {}).get(stored)
    formula = op.scalar and FORMATS[stored][0] < 52
    terms = 0.0 if formula else max(largest(want), largest(list(_values(inputs))))
    most = stated or (FORMULA if formula else SUMS)
    error = off(got, want, stored, terms)
    relative = (op.tolerance or {}).get(dtype)
    if relative is not None:  # sums of terms that cancel, rounded to 16 bits
        error = np.where(np.abs(got - want) <= relative * (1 + np.abs(want)), 0, error)
    if error.size and not error.max() <= most:
        at = np.unravel_index(np.argmax(error), error.shape)
        raise AssertionError(
            f"{op.name} in {dtype}: {got[at]!r} at {tuple(map(int, at))} is not {want[at]!r}, "
            f"{error[at]:.3g} units in the last place off, allowed are {most:g}"
        )


def _values(inputs: Sample | None) -> Iterator[Any]:
    if inputs is not None:
        yield from (*inputs.args, *inputs.kwargs.values())
