"""NumPy's element-wise functions of tensors: signs beside an array, in place, and all others."""

from __future__ import annotations

from typing import Any

import facula

# Of NumPy's functions that stand behind a sign: the method, and that of the other side.
_SIGNS = {
    "add": ("__add__", "__radd__"),
    "subtract": ("__sub__", "__rsub__"),
    "multiply": ("__mul__", "__rmul__"),
    "divide": ("__truediv__", "__rtruediv__"),
    "true_divide": ("__truediv__", "__rtruediv__"),
    "floor_divide": ("__floordiv__", "__rfloordiv__"),
    "remainder": ("__mod__", "__rmod__"),
    "power": ("__pow__", "__rpow__"),
    "matmul": ("__matmul__", "__rmatmul__"),
    "bitwise_and": ("__and__", "__rand__"),
    "bitwise_or": ("__or__", "__ror__"),
    "bitwise_xor": ("__xor__", "__rxor__"),
    "left_shift": ("__lshift__", "__rlshift__"),
    "right_shift": ("__rshift__", "__rrshift__"),
    "less": ("__lt__", "__gt__"),
    "less_equal": ("__le__", "__ge__"),
    "equal": ("__eq__", "__eq__"),
    "not_equal": ("__ne__", "__ne__"),
    "greater": ("__gt__", "__lt__"),
    "greater_equal": ("__ge__", "__le__"),
}


def call(ufunc: Any, method: str, inputs: tuple[Any, ...], **kwargs: Any) -> Any:
    """`array + tensor` is a tensor; with `out`, as in `array += tensor`, NumPy computes."""
    if method == "__call__" and not kwargs and ufunc.__name__ in _SIGNS and len(inputs) == 2:
        left, right = _SIGNS[ufunc.__name__]
        a, b = inputs
        first = isinstance(a, facula.Tensor)
        return getattr(a, left)(b) if first else getattr(b, right)(a)
    if any(isinstance(o, facula.Tensor) for o in kwargs.get("out", ())):
        raise TypeError(
            f"{ufunc.__name__}(): NumPy cannot write into a Tensor; pass t.numpy() as out, "
            "which shares its memory"
        )
    given = [_array(x) for x in inputs]
    return getattr(ufunc, method)(*given, **{k: _array(v) for k, v in kwargs.items()})


def _array(value: Any) -> Any:
    return value.__array__() if isinstance(value, facula.Tensor) else value
