"""What the Array API standard asks of a namespace: `__array_namespace_info__()`."""

from __future__ import annotations

import facula

__all__ = ["Info"]

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class Info:
    """Capabilities, dtypes and devices; of dtypes those that the standard names."""

    def capabilities(self):
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self):
        return facula.device("cpu")

    def default_dtypes(self, *, device=None):
        real = facula.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": facula.int64,
            "indexing": facula.int64,
        }

    def devices(self):
        return [facula.device("cpu"), facula.device("meta")]

    def dtypes(self, *, device=None, kind=None):
        kinds = (kind,) if isinstance(kind, str) else kind
        if kinds is None:
            kinds = ("bool", "numeric")
        names = dict.fromkeys(name for k in kinds for name in _KINDS[k])
        return {name: getattr(facula, name) for name in names}
