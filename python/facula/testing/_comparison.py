"""`assert_close`: are two results equal up to rounding?"""

from __future__ import annotations

import cmath
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import facula

__all__ = ["assert_allclose", "assert_close", "default_tolerances"]

# As torch.testing has them: rtol and atol, by dtype name.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def default_tolerances(*dtypes: Any) -> tuple[float, float]:
    """The largest rtol and atol of the dtypes; 0 for exact ones."""
    pairs = [_TOLERANCES.get(str(dtype).rpartition(".")[2], (0.0, 0.0)) for dtype in dtypes]
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless |actual - expected| <= atol + rtol |expected| everywhere.

    Args:
        actual, expected: tensors, numbers, or sequences and mappings of these.
        rtol, atol: both or neither; by default they follow from the dtype: float16 1e-3 and 1e-5,
            bfloat16 1.6e-2 and 1e-5, float32 1.3e-6 and 1e-5, float64 1e-7 and 1e-7, others 0.
        msg: replaces the text, or makes it from the text.

    The text says how many elements differ, and where the largest difference is.
    """
    if (rtol is None) != (atol is None):
        raise ValueError("rtol and atol must both be given, or neither")
    options = {
        "rtol": rtol,
        "atol": atol,
        "equal_nan": equal_nan,
        "check_device": check_device,
        "check_dtype": check_dtype,
        "check_stride": check_stride,
        "allow_subclasses": allow_subclasses,
    }
    fault = _compare(actual, expected, "", options)
    if fault is None:
        return
    if msg is not None:
        fault = msg(fault) if callable(msg) else msg
    raise AssertionError(fault)


def _compare(actual: Any, expected: Any, path: str, options: dict[str, Any]) -> str | None:
    where = f"\nThe failure occurred at item {path}" if path else ""
    if isinstance(actual, facula.Tensor) and isinstance(expected, facula.Tensor):
        if not options["allow_subclasses"] and type(actual) is not type(expected):
            return f"types differ: {type(actual).__name__} != {type(expected).__name__}{where}"
        fault = _tensors(actual, expected, options)
        return None if fault is None else fault + where
    numbers = (bool, int, float, complex)
    if isinstance(actual, numbers) and isinstance(expected, numbers):
        fault = _numbers(actual, expected, options)
        return None if fault is None else fault + where
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return (
                "The keys of the mappings do not match: missing "
                f"{sorted(map(repr, set(expected) - set(actual)))}, unexpected "
                f"{sorted(map(repr, set(actual) - set(expected)))}{where}"
            )
        pairs: Any = ((f"{path}[{k!r}]", actual[k], expected[k]) for k in expected)
    elif _sequence(actual) and _sequence(expected):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}"
        both = zip(actual, expected, strict=True)
        pairs = ((f"{path}[{i}]", a, e) for i, (a, e) in enumerate(both))
    elif actual is None and expected is None:
        return None
    else:
        raise TypeError(
            f"assert_close(): cannot compare {type(actual).__name__} with "
            f"{type(expected).__name__}; expected two tensors, numbers, sequences or mappings"
            + where
        )
    for name, a, e in pairs:
        fault = _compare(a, e, name, options)
        if fault is not None:
            return fault
    return None


def _sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _numbers(actual: Any, expected: Any, options: dict[str, Any]) -> str | None:
    exact = all(isinstance(v, int) for v in (actual, expected))
    if options["check_dtype"] and type(actual) is not type(expected):
        mine, other = type(actual).__name__, type(expected).__name__
        return f"types differ: {mine} {actual} != {other} {expected}"
    rtol, atol = options["rtol"], options["atol"]
    if rtol is None:
        rtol, atol = (0.0, 0.0) if exact else (1e-7, 1e-7)
    if actual == expected:
        return None
    if cmath.isnan(actual) and cmath.isnan(expected) and options["equal_nan"]:
        return None
    if cmath.isfinite(actual) and cmath.isfinite(expected):
        difference = abs(actual - expected)
        if difference <= atol + rtol * abs(expected):
            return None
        return (
            f"Scalars are not close! Expected {expected} but got {actual}: absolute difference "
            f"{difference} (up to {atol} + {rtol} * |expected| allowed)"
        )
    return f"Scalars are not close! Expected {expected} but got {actual}"


def _tensors(actual: Any, expected: Any, options: dict[str, Any]) -> str | None:
    if tuple(actual.shape) != tuple(expected.shape):
        return (
            "The values for attribute 'shape' do not match: "
            f"{tuple(actual.shape)} != {tuple(expected.shape)}"
        )
    for name in ("device", "dtype"):
        mine, other = getattr(actual, name), getattr(expected, name)
        if options[f"check_{name}"] and mine != other:
            return f"The values for attribute {name!r} do not match: {mine} != {other}"
    if options["check_stride"] and tuple(actual.stride()) != tuple(expected.stride()):
        return (
            "The values for attribute 'stride()' do not match: "
            f"{tuple(actual.stride())} != {tuple(expected.stride())}"
        )
    rtol, atol = options["rtol"], options["atol"]
    if rtol is None:
        rtol, atol = default_tolerances(actual.dtype, expected.dtype)
    a, e = actual.detach().cpu(), expected.detach().cpu()
    if a.dtype != e.dtype:
        common = facula.promote_types(a.dtype, e.dtype)
        a, e = a.to(common), e.to(common)
    close = facula.isclose(a, e, rtol=rtol, atol=atol, equal_nan=options["equal_nan"])
    if bool(close.all()):
        return None
    return _explain(a, e, close, rtol, atol)


def _explain(a: Any, e: Any, close: Any, rtol: float, atol: float) -> str:
    wrong = int((~close).sum())
    total = close.numel()
    wide = facula.complex128 if a.is_complex() else facula.float64
    difference = (a.to(wide) - e.to(wide)).abs().reshape(-1)
    hidden = close.reshape(-1)
    # A NaN difference is the worst there is.
    worst = facula.where(
        difference != difference, facula.full_like(difference, float("inf")), difference
    )
    worst = facula.where(hidden, facula.full_like(worst, -1.0), worst)
    flat = int(worst.argmax())
    index: list[int] = []
    rest = flat
    for size in reversed(tuple(a.shape)):
        index.insert(0, rest % size)
        rest //= size
    return (
        f"Tensor-likes are not close!\n\nMismatched elements: {wrong} / {total} "
        f"({100 * wrong / total:.1f}%)\nGreatest difference at index {tuple(index)}: "
        f"{a.reshape(-1)[flat].item()} is not {e.reshape(-1)[flat].item()}, absolute difference "
        f"{difference[flat].item()} (up to {atol} + {rtol} * |expected| allowed)"
    )


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None, **rest: Any
) -> None:
    """`assert_close` of values alone, by its older name: dtypes may differ."""
    assert_close(actual, expected, rtol=rtol, atol=atol, check_dtype=False, **rest)
