"""Dtypes that tensors cannot have here: tables name them; a function that gets one raises."""

from __future__ import annotations

from typing import Any

import facula

__all__ = ["ABSENT_DTYPES", "FLOATS", "AbsentDtype"]


class AbsentDtype:
    """A dtype as tables of programs name it; a function that is given one raises TypeError."""

    def __init__(self, name: str, itemsize: int, kind: str, signed: bool) -> None:
        self._name = name
        self.itemsize = itemsize
        self.is_floating_point = kind == "float"
        self.is_complex = kind == "complex"
        self.is_signed = signed

    def __repr__(self) -> str:
        return f"{str(facula.float32).partition('.')[0]}.{self._name}"

    def __reduce__(self) -> str:
        return self._name


# name -> (eps, largest and smallest number, smallest normal number), of the formats of 8 bits that
# the Open Compute Project's specification (2023) defines, and of the variants without -0.
FLOATS = {
    "float8_e4m3fnuz": (2.0**-3, 240.0, -240.0, 2.0**-7),
    "float8_e5m2fnuz": (2.0**-2, 57344.0, -57344.0, 2.0**-15),
    "float8_e8m0fnu": (1.0, 2.0**127, 2.0**-127, 2.0**-127),
}


def _absent() -> dict[str, Any]:
    found = {name: AbsentDtype(name, 1, "float", name[-3:] != "fnu") for name in FLOATS}
    found["float4_e2m1fn_x2"] = AbsentDtype("float4_e2m1fn_x2", 1, "float", True)
    found["complex32"] = AbsentDtype("complex32", 4, "complex", True)
    for bits in range(1, 8):
        found[f"uint{bits}"] = AbsentDtype(f"uint{bits}", 1, "integer", False)
        found[f"int{bits}"] = AbsentDtype(f"int{bits}", 1, "integer", True)
    for name, itemsize in (("qint8", 1), ("qint32", 4), ("quint8", 1), ("quint4x2", 1)):
        found[name] = AbsentDtype(name, itemsize, "quantized", name[0] == "q" and name[1] == "i")
    found["quint2x4"] = AbsentDtype("quint2x4", 1, "quantized", False)
    for name in ("bits1x8", "bits2x4", "bits4x2", "bits8", "bits16"):
        found[name] = AbsentDtype(name, 2 if name == "bits16" else 1, "bits", False)
    return found


ABSENT_DTYPES = _absent()
ABSENT_DTYPES["chalf"] = ABSENT_DTYPES["complex32"]
ABSENT_DTYPES["bit"] = ABSENT_DTYPES["uint1"]
globals().update(ABSENT_DTYPES)


def __getattr__(name: str) -> Any:  # for checkers of types: the names above come from a table
    raise AttributeError(f"there is no dtype {name!r} of that kind")
