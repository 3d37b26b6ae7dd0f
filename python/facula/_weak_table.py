"""A table of objects that it does not keep alive, and that does nothing when they go."""

from __future__ import annotations

import weakref
from typing import Any

__all__ = ["WeakTable"]

_FEW = 64


class WeakTable:
    """As `weakref.WeakValueDictionary`, but forgets the dead when it grows, without callbacks.

    A callback is Python code that runs where an object goes, often right after a long computation:
    there it is the first to meet Ctrl-C, and what is raised in a callback is dropped. Keys stay
    until then, so that they must be plain values.
    """

    def __init__(self) -> None:
        self._references: dict[Any, weakref.ref[Any]] = {}
        self._most = _FEW

    def get(self, key: Any) -> Any:
        """The living object under a key, or None."""
        reference = self._references.get(key)
        return None if reference is None else reference()

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self._references) >= self._most:
            for old, reference in list(self._references.items()):
                if reference() is None:
                    self._references.pop(old, None)
            self._most = max(_FEW, 2 * len(self._references))
        self._references[key] = weakref.ref(value)

    def keys(self) -> list[Any]:
        """Those of all living objects."""
        return [k for k, reference in list(self._references.items()) if reference() is not None]

    def values(self) -> list[Any]:
        """All living objects."""
        found = [reference() for reference in list(self._references.values())]
        return [value for value in found if value is not None]

    def __len__(self) -> int:
        return len(self.values())
