"""Modules whose calls are captured; see `facula.compile`."""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any


def compiled_class(module: Any, capture: Callable[[], Any]) -> type:
    """A subclass of the module's that captures its calls; copies and pickles are plain."""
    plain = getattr(type(module), "_plain_class", type(module))

    def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
        with capture():
            return plain.__call__(self, *args, **kwargs)

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        made, *rest = sharing(plain, self).__reduce_ex__(protocol)
        return (new_of if made is copyreg.__newobj__ else made, *rest)  # type: ignore[attr-defined]

    names = {
        "__call__": __call__,
        "__reduce_ex__": __reduce_ex__,
        "__module__": plain.__module__,
        "__qualname__": plain.__qualname__,
        "__doc__": plain.__doc__,
        "_plain_class": plain,
        "_orig_mod": property(lambda self: module),
    }
    return type(plain.__name__, (plain,), names)


def new_of(cls: type, *args: Any) -> Any:
    """What `copyreg.__newobj__` does, which pickle takes of an object's own class only."""
    return cls.__new__(cls, *args)


def sharing(cls: type, module: Any) -> Any:
    """Another object, of that class, that has all that the module has."""
    made = cls.__new__(cls)
    object.__setattr__(made, "__dict__", module.__dict__)
    return made
