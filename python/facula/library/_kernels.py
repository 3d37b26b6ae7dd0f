"""Kernels as objects, and the one that stands for none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from facula.library import _operator

__all__ = ["Kernel", "fallthrough_kernel", "get_kernel"]


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """A mark for `Library.impl`: no kernel for a key, so that the next one serves. Not called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


class Kernel:
    """A kernel of an operator, by itself."""

    def __init__(self, name: str, key: str, function: Callable[..., Any]) -> None:
        self._name, self._key, self._function = name, key, function

    def __repr__(self) -> str:
        return f"<kernel of {self._name} for {self._key!r}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def call_boxed(self, keyset: Any, *args: Any, **kwargs: Any) -> Any:
        """Run it; the set of keys is not looked at."""
        return self._function(*args, **kwargs)


def get_kernel(op: Any, dispatch_key: Any) -> Kernel:
    """The kernel of an operator for a type of device, or for a key: what a new one can call.

    Raises:
        RuntimeError: there is no such operator, or it has no kernel for that.
    """
    name = op if isinstance(op, str) else op.name()
    key = _operator.key_of(str(dispatch_key).rpartition(".")[2])
    operator = _operator.found(name)
    function = operator._kernels.get(key)
    if function is None:
        raise RuntimeError(
            f"get_kernel(): {name} has no kernel for {key!r}; it has kernels for "
            f"{sorted(operator._kernels) or 'nothing'}"
        )
    return Kernel(name, key, function)
