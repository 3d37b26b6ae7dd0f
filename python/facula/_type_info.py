"""Limits of dtypes: `finfo` and `iinfo`."""

from __future__ import annotations

import facula
from facula._absent_dtypes import FLOATS

__all__ = ["finfo", "iinfo"]

# dtype name -> bits of the significand after the first, largest and smallest normal exponent of 2
_FLOATS = {
    "float8_e4m3fn": (3, 8, -6),
    "float8_e5m2": (2, 15, -14),
    "float16": (10, 15, -14),
    "bfloat16": (7, 127, -126),
    "float32": (23, 127, -126),
    "float64": (52, 1023, -1022),
}


def _name(dtype):
    return repr(dtype).rpartition(".")[2]


def _dtype_of(given):
    return given.dtype if isinstance(given, facula.Tensor) else given


class finfo:
    """Limits of a floating-point or complex dtype, or a tensor's; without, of the default dtype.

    A complex dtype has the limits of its parts.

    Attributes: bits, eps (distance from 1 to the next number), max, min, tiny and smallest_normal
    (smallest number with full precision), resolution (10 ** -(decimal digits)), dtype.
    """

    def __init__(self, type=None):
        dtype = facula.get_default_dtype() if type is None else _dtype_of(type)
        if getattr(dtype, "_name", None) in FLOATS:  # one that can be named alone
            self.dtype, self.bits, self.resolution = dtype._name, 8, 1.0
            self.eps, self.max, self.min, self.tiny = FLOATS[dtype._name]
            self.smallest_normal = self.tiny
            return
        if not isinstance(dtype, facula.dtype):
            raise TypeError(f"finfo(): expected a dtype, not {dtype!r}")
        name = _name(dtype.to_real())
        if name not in _FLOATS:
            raise TypeError(f"finfo(): {dtype} is not a floating-point dtype; use facula.iinfo")
        digits, high, low = _FLOATS[name]
        self.dtype = name
        self.bits = 8 * dtype.to_real().itemsize
        self.eps = 2.0**-digits
        # The largest significand of e4m3fn is its NaN.
        spare = 2 * self.eps if name == "float8_e4m3fn" else self.eps
        self.max = (2.0 - spare) * 2.0**high
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**low
        decimal = int(digits * 0.30102999566398120)
        self.resolution = 10.0**-decimal

    def __repr__(self):
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, "
            f"eps={self.eps:g}, smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, "
            f"dtype={self.dtype})"
        )

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)


class iinfo:
    """Limits of an integer dtype, or a tensor's. Attributes: bits, max, min, dtype."""

    def __init__(self, type):
        type = _dtype_of(type)
        if not isinstance(type, facula.dtype):
            raise TypeError(f"iinfo(): expected a dtype, not {type!r}")
        if type.is_floating_point or type.is_complex or type == facula.bool:
            raise TypeError(f"iinfo(): {type} is not an integer dtype")
        self.dtype = _name(type)
        self.bits = 8 * type.itemsize
        self.min = -(2 ** (self.bits - 1)) if type.is_signed else 0
        self.max = 2 ** (self.bits - 1) - 1 if type.is_signed else 2**self.bits - 1

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)
