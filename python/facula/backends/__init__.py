"""Devices of other packages: registration, loading, and what is known of each.

A package brings a device either as a library with the functions of `facula/backend.h` (see
`get_include` and `load_library`) or as an object of a subclass of `Backend` (see `register`). Its
metadata names it in the entry point group `facula.backends`, so that it loads on first use of its
name.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from facula import _C
from facula._exports import VENDORS
from facula._moving import PARAMETERS, add_device
from facula.backends._backend import Backend, Buffer, info

__all__ = [
    "Backend",
    "Buffer",
    "MissingDtypeError",
    "MissingKernelError",
    "Refusal",
    "allow_fallback",
    "current_accelerator",
    "fallbacks",
    "get_include",
    "info",
    "load_library",
    "names",
    "profile",
    "refusals",
    "register",
    "reset_fallbacks",
]

MissingDtypeError: type[TypeError] = _C._MissingDtypeError
MissingKernelError: type[NotImplementedError] = _C._MissingKernelError

_GROUP = "facula.backends"
_loading: set[str] = set()


def get_include() -> str:
    """The folder to compile against: it holds `facula/backend.h`."""
    return os.path.join(os.path.dirname(os.path.dirname(__file__)), "include")


def names() -> list[str]:
    """The devices that packages have registered so far, in order."""
    return _C._backend_names()


def load_library(path: str | os.PathLike[str]) -> list[str]:
    """Load a library that registers devices; returns their names.

    Raises:
        RuntimeError: it cannot be loaded, or was built for another version of `facula/backend.h`.
    """
    found = _C._load_backend_library(path)
    for name in found:
        _publish(name)
    return found


def register(backend: Backend) -> None:
    """Register a device that is written in Python.

    Raises:
        ValueError: its name is not one that a device can have, or is taken in `facula`.
    """
    name = getattr(backend, "name", None)
    if _is_taken(name):
        raise ValueError(f"register(): facula.{name} exists and is no device; name it otherwise")
    if name in PARAMETERS:
        raise ValueError(
            f"register(): '{name}' is taken: modules have parameters of that name, where a device "
            "has its method; name it otherwise"
        )
    _C._register_backend(backend)
    _publish(backend.name)


def fallbacks(name: str) -> dict[str, int]:
    """Operators that ran on the CPU as the device `name` has no kernel for them: calls of each."""
    return dict(sorted(_C._fallbacks(name).items(), key=lambda item: (-item[1], item[0])))


class Refusal(NamedTuple):
    """Calls that a device's kernel or template did not take, and the first reason it gave."""

    calls: int
    reason: str


def refusals(name: str) -> dict[str, Refusal]:
    """Operators for which the device `name` has a kernel or template that refused arguments."""
    return {op: Refusal(*found) for op, found in sorted(_C._refusals(name).items())}


def reset_fallbacks(name: str) -> None:
    """Start counting anew, refusals too."""
    _C._fallbacks(name, True)


class allow_fallback:
    """Let the operators that a device has no kernel for run on the CPU, or make them errors.

    Holds from the call on, or for a `with` block.
    """

    def __init__(self, name: str, allowed: bool = True) -> None:
        self._name, self._before = name, _C._allow_fallback(name, allowed)

    def __enter__(self) -> allow_fallback:
        return self

    def __exit__(self, *exc: object) -> None:
        _C._allow_fallback(self._name, self._before)


class profile:
    """A `with` block in which a device's kernels are named to its profiler."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> profile:
        self._before = _C._profile(self._name, True)
        return self

    def __exit__(self, *exc: object) -> None:
        _C._profile(self._name, self._before)


def current_accelerator() -> Any:
    """The device type that pinned memory and an index alone are for: one of this wheel where there
    is one, else the first registered; None without one."""
    import facula

    own = [name for name in VENDORS if getattr(facula, name).is_available()]
    known = own or [name for name in names() if _C._device_count(name) > 0]
    return _C.device(known[0]) if known else None


def entry_points() -> dict[str, Any]:
    """The devices that installed packages offer, loaded or not, those of this wheel included."""
    from importlib.metadata import EntryPoint
    from importlib.metadata import entry_points as find

    own = {n: EntryPoint(n, f"facula.{n}._vendor:register", _GROUP) for n in VENDORS}
    return own | {point.name: point for point in find(group=_GROUP)}


# For names of devices that nothing offers: registers one that is not there, or gives False.
_absent: Callable[[str], bool] | None = None


def _load(name: str) -> bool:
    """Load the package that offers the device `name`; called when the name is not known."""
    if name in names():
        return True
    if name in _loading:
        return False
    point = entry_points().get(name)
    if point is None:
        return _absent is not None and _absent(name)
    _loading.add(name)
    try:
        start = point.load()
        if callable(start):
            start()
    except Exception as error:
        if _absent is not None and _absent(name):
            return True
        raise RuntimeError(
            f"device '{name}': loading its package ({point.value}) failed: {error}"
        ) from error
    finally:
        _loading.discard(name)
    if name not in names():
        raise RuntimeError(f"device '{name}': {point.value} ran and did not register it")
    return True


def _name_with(key: str, value: Any) -> str | None:
    """The device whose `info` has the value; packages are loaded one by one until one has."""

    def known() -> str | None:
        return next((n for n in names() if _C._backend_info(n)[key] == value), None)

    if (found := known()) is not None:
        return found
    for name in sorted(entry_points(), key=lambda n: n != value):  # a tag is mostly the name
        # one that does not load is not asked for here; `_load` tells when its name is used
        with contextlib.suppress(RuntimeError):
            _load(name)
        if (found := known()) is not None:
            return found
    return None


def _is_taken(name: Any) -> bool:
    """Is `facula.NAME` something else than a device?"""
    import facula

    if name in names() or not isinstance(name, str):
        return False
    return name in facula.__dir__()


def _publish(name: str) -> None:
    """Give a new device its module, `facula.NAME`, and tensors and modules their methods."""
    import facula
    from facula.backends import _device_module

    module = _device_module.DeviceModule(name)
    package = sys.modules.get(f"facula.{name}")
    if package is not None:  # a vendor of this wheel has a folder of that name
        vars(package).update({n: getattr(module, n) for n in (*module.__all__, "__all__")})
    elif name not in facula.__dir__():
        sys.modules[f"facula.{name}"] = module
        setattr(facula, name, module)
    add_device(name)


def _module_or_none(name: str) -> Any:
    """`facula.NAME` of a device, loaded now if a package offers it."""
    if name not in names():
        if name in VENDORS:  # its package loads the device, if it was built
            return importlib.import_module(f"facula.{name}")
        if not _load(name):
            return None
    return sys.modules.get(f"facula.{name}")
