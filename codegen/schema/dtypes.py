"""The dtypes of tensors, in the order of C++ (`FACULA_FORALL_TYPES`), and their further names."""

from __future__ import annotations

DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
    *("uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"),
)
ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "short": "int16",
    "int": "int32",
    "long": "int64",
    "cfloat": "complex64",
    "cdouble": "complex128",
}
