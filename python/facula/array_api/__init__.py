"""facula as the Array API standard (2024.12) has it: what `Tensor.__array_namespace__()` gives.

Every name is that of `facula` itself, but for those that torch gives another meaning: `equal` is
elementwise here, `sort` gives the values alone, `max` takes several axes, `std` divides by the
number of elements, and so on. The extensions are `array_api.linalg` and `array_api.fft`.

>>> from facula import array_api as xp
>>> xp.equal(xp.asarray([1, 2]), xp.asarray([1, 3]))
tensor([ True, False])
"""

from __future__ import annotations

from typing import Any

import facula
from facula.array_api import _functions
from facula.array_api._functions import *  # noqa: F403

__array_api_version__ = "2024.12"
__all__ = [*_functions.__all__, "__array_api_version__", "__array_namespace_info__"]


def __getattr__(name: str) -> Any:
    if name in ("fft", "linalg"):
        import importlib

        return importlib.import_module(f"facula.array_api.{name}")
    try:
        return getattr(facula, name)
    except AttributeError:
        message = f"module 'facula.array_api' has no attribute '{name}'"
        raise AttributeError(message) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(facula)})


def __array_namespace_info__() -> Any:
    """Capabilities, dtypes and devices."""
    return facula.__array_namespace_info__()
