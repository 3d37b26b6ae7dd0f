"""Compiling by lazy capture: what `facula.compile` does, seen and steered.

>>> import facula
>>> f = facula.compile(lambda x: (x * 2 + 1).relu())
>>> f(facula.tensor([-1.0, 1.0]))
tensor([0., 3.])

`FACULA_COMPILE` in the environment, read when a function is compiled: `0` leaves functions as they
are; `check` runs every plan both ways and raises where a bit differs.
"""

from __future__ import annotations

from facula.compiler._compile import (
    CacheInfo,
    cache_clear,
    cache_info,
    compile,
    disable,
    is_compiling,
)
from facula.compiler._explain import Explanation, Group, Record, explain

__all__ = [
    "CacheInfo",
    "Explanation",
    "Group",
    "Record",
    "cache_clear",
    "cache_info",
    "compile",
    "disable",
    "explain",
    "is_compiling",
]
