"""Names of layers and marks of operators, as programs hand them on: most mean nothing here."""

from __future__ import annotations

import enum
from typing import Any

import facula

__all__ = ["DispatchKey", "DispatchKeySet", "ExcludeDispatchKeyGuard", "Tag"]


class Tag(enum.Enum):
    """Marks that an operator of a program may have (`custom_op(..., tags=)`): they are kept."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace = 6
    inplace_view = 7
    maybe_aliasing_or_mutating = 8
    needs_contiguous_strides = 9
    needs_exact_strides = 10
    needs_fixed_stride_order = 11
    nondeterministic_bitwise = 12
    nondeterministic_seeded = 13
    out = 14
    out_variant = 15
    pointwise = 16
    pt2_compliant_tag = 17
    reduction = 18
    view_copy = 19


class _Keys(type):
    def __getattr__(cls, name: str) -> str:
        if name[:1] == "_":
            raise AttributeError(name)
        return name


class DispatchKey(metaclass=_Keys):
    """The names of torch's layers of dispatch, as texts; facula has layers of its own."""


class DispatchKeySet(frozenset[str]):
    """Several of those names."""

    def __new__(cls, key: Any = ()) -> DispatchKeySet:
        return super().__new__(cls, [key] if isinstance(key, str) else key)

    def __or__(self, other: Any) -> DispatchKeySet:
        return DispatchKeySet(frozenset(self) | frozenset(other))

    def has(self, k: str) -> bool:
        """Is it one of them?"""
        return k in self


class ExcludeDispatchKeyGuard:
    """Leaves autocasting off within it, where its key is among those given."""

    def __init__(self, keys: Any) -> None:
        kinds = [k.lower().removeprefix("autocast") or "cuda" for k in keys if "Autocast" in k]
        self._switches = [facula.autocast(k, enabled=False) for k in kinds if k in ("cpu", "cuda")]

    def __enter__(self) -> None:
        for switch in self._switches:
            switch.__enter__()

    def __exit__(self, *error: Any) -> None:
        for switch in reversed(self._switches):
            switch.__exit__(*error)
