"""The finder of `sys.meta_path` that answers for torch and its submodules."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import Any

from facula.as_torch import _spaces

__all__ = ["Finder"]


class Finder:
    """Finds torch and what is below it in facula; leaves other names alone."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname != "torch" and not fullname.startswith("torch."):
            return None
        inner = fullname[6:]
        if _spaces.exists(inner):
            return _spaces.spec_of(fullname)
        importing, by_from = _who_asks()
        if not importing:  # importlib.util.find_spec: a question, not an import
            return None
        # After `from torch import name` Python swallows a ModuleNotFoundError with its text.
        kind = ImportError if by_from else ModuleNotFoundError
        raise kind(_spaces.lacking(inner), name=fullname)


def _who_asks() -> tuple[bool, bool]:
    """Is a module being imported, and by `from ... import`? Else its spec alone is wanted."""
    importing = by_from = False
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        importing = importing or frame.f_code.co_name == "_find_and_load"
        by_from = by_from or frame.f_code.co_name == "_handle_fromlist"
        frame = frame.f_back  # type: ignore[assignment]
    return importing, by_from
