"""What `torch.serialization` has beside facula's: names of types, for annotations."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import IO, Any, TypeAlias

import facula

__all__ = ["DEFAULT_PROTOCOL", "FILE_LIKE", "MAP_LOCATION", "FileLike", "SourceChangeWarning"]

DEFAULT_PROTOCOL = 2

FileLike: TypeAlias = str | os.PathLike[str] | IO[bytes]
FILE_LIKE: TypeAlias = FileLike
MAP_LOCATION: TypeAlias = (
    Callable[[Any, str], Any] | facula.device | str | dict[str, str] | None  # type: ignore[valid-type]
)


class SourceChangeWarning(Warning):
    """That the source of a class is another than when its module was saved; never warned of."""
