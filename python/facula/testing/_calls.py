"""From records of operators to calls, references and comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np

import facula
from facula.testing._samples import Named, OpRecord, Sample, Varying

FLOATS = ("float64", "float32", "float16", "bfloat16")
INTS = ("int64", "int32", "int16", "int8", "uint8")
COMPLEX = ("complex128", "complex64")
# (relative, absolute): a few units in the last place of a short chain of operations.
TOLERANCE = {
    "float64": (1e-9, 1e-11),
    "float32": (2e-5, 2e-6),
    "float16": (4e-3, 2e-3),
    "bfloat16": (3e-2, 2e-2),
    "complex128": (1e-9, 1e-11),
    "complex64": (3e-5, 5e-6),
}


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
        return np.array(value.tolist(), dtype=str(value.dtype).removeprefix("facula.")).reshape(
            value.shape
        )
    if isinstance(value, tuple | list):
        return [to_numpy(v) for v in value]
    return value


def compare(op: OpRecord, got: Any, want: Any, dtype: str) -> None:
    """Shapes must agree exactly, values to the tolerance of the dtype."""
    if isinstance(got, list):
        want = list(want)
        assert len(got) == len(want), (
            f"{op.name}: {len(got)} results, the reference has {len(want)}"
        )
        for g, w in zip(got, want, strict=True):
            compare(op, g, w, dtype)
        return
    want = np.asarray(want)
    got = np.asarray(got)
    assert got.shape == want.shape, f"{op.name}: shape {got.shape}, the reference has {want.shape}"
    if got.dtype.kind in "fc":
        result_dtype = str(got.dtype)  # integers give float32, whatever the test's dtype
        if result_dtype in ("float32", "complex64") and dtype in ("float64", "complex128"):
            dtype = result_dtype
        rtol, atol = TOLERANCE.get(dtype, TOLERANCE["float32"])
        stated = (op.tolerance or {}).get(dtype)
        if stated is not None:
            rtol, atol = max(rtol, stated), max(atol, stated)
        np.testing.assert_allclose(
            got, want.astype(got.dtype), rtol=rtol, atol=atol, err_msg=op.name
        )
    else:
        np.testing.assert_array_equal(got, want, err_msg=op.name)
