"""The handle that removes a registered hook."""

from __future__ import annotations

import itertools
import weakref
from collections import OrderedDict
from typing import Any

__all__ = ["RemovableHandle"]

_ids = itertools.count()


class RemovableHandle:
    """Removes one hook from the dictionaries that hold it; also a context manager.

    Args:
        hooks_dict: the dictionary that the hook is stored in, under `handle.id`.
        extra_dict: further dictionaries that carry a flag under the same id.
    """

    def __init__(self, hooks_dict: OrderedDict[int, Any], *, extra_dict: Any = None) -> None:
        self.id = next(_ids)
        extra = extra_dict if isinstance(extra_dict, (list, tuple)) else [extra_dict]
        # Weak, so that a handle does not keep a module alive.
        self._refs = [weakref.ref(d) for d in (hooks_dict, *extra) if d is not None]

    def remove(self) -> None:
        """Remove the hook; a second call does nothing."""
        for ref in self._refs:
            hooks = ref()
            if hooks is not None:
                hooks.pop(self.id, None)

    # A copy of a module with its handles: those of the copy remove hooks of the copy.
    def __getstate__(self) -> tuple[Any, ...]:
        return (self.id, [ref() for ref in self._refs])

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.id, held = state
        self._refs = [weakref.ref(OrderedDict() if d is None else d) for d in held]

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()
