"""`torch.ops`: operators by the space that they are of."""

from __future__ import annotations

from typing import Any

import facula
from facula.as_torch._spaces import lacking
from facula.library._operator import space
from facula.overrides import overridable

__all__ = ["load_library"]
FIRST = ("aten", "load_library", "profiler")


def load_library(path: Any) -> None:
    """Raises OSError: libraries built for torch hold code for its own tensors."""
    raise OSError(
        f"torch.ops.load_library({str(path)!r}): a library built for torch cannot be loaded; "
        f"facula.utils.cpp_extension builds extensions"
    )


class _Packet:
    """An operator of torch by its name; `.default` and its like are the same function."""

    def __init__(self, name: str, function: Any) -> None:
        self.__name__, self._function = name, function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> Any:
        if overload[:2] == "__":
            raise AttributeError(overload)
        return self

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self.__name__}')>"


class _Aten:
    """torch's own operators: those of them that facula has as functions or methods."""

    def __getattr__(self, name: str) -> Any:
        places = (facula, facula.nn.functional, facula.special, facula.Tensor)
        function = next((getattr(p, name) for p in places if hasattr(p, name)), None)
        if function is None:
            raise AttributeError(lacking("ops.aten." + name))
        packet = self.__dict__[name] = _Packet(name, function)
        return packet


aten = _Aten()


class _Profiler:
    """Marks of the profiler as operators, which graphs call."""

    @staticmethod
    def _record_function_enter(name: str, args: str | None = None) -> Any:
        mark = facula.profiler.record_function(name, args)
        mark.__enter__()
        return mark

    _record_function_enter_new = _record_function_enter

    @staticmethod
    @overridable  # tracers hand on what stands for a mark
    def _record_function_exit(mark: Any) -> None:
        mark.__exit__(None, None, None)


profiler = _Profiler()


def __getattr__(name: str) -> Any:
    if name[:1] == "_":
        raise AttributeError(name)
    return space(name)
