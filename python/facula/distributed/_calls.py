"""What each process calls, for errors, and whether all call the same, in debug mode."""

from __future__ import annotations

import enum
import os
from collections.abc import Sequence

import facula
from facula import _C, Tensor
from facula.distributed._errors import DistBackendError
from facula.distributed._store import Store

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]


class DebugLevel(enum.IntEnum):
    """OFF: calls are not compared. INFO, DETAIL: before each collective all compare theirs."""

    OFF = 0
    INFO = 1
    DETAIL = 2


def _level_from_env() -> DebugLevel:
    text = os.environ.get("FACULA_DISTRIBUTED_DEBUG") or os.environ.get(
        "TORCH_DISTRIBUTED_DEBUG", ""
    )
    named = {"": DebugLevel.OFF, "0": DebugLevel.OFF, "1": DebugLevel.DETAIL}
    if text in named:
        return named[text]
    try:
        return DebugLevel[text.upper()]
    except KeyError:
        raise ValueError(
            f"FACULA_DISTRIBUTED_DEBUG is {text!r}; give 0, 1, OFF, INFO or DETAIL"
        ) from None


_level: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """Whether calls are compared: of `FACULA_DISTRIBUTED_DEBUG` (1 or DETAIL), or as set."""
    global _level
    if _level is None:
        _level = _level_from_env()
    return _level


def set_debug_level(level: DebugLevel) -> None:
    """Compare calls, or not, from now on; all processes must do so at the same place."""
    global _level
    _level = DebugLevel(level)


def set_debug_level_from_env() -> None:
    """As the environment says now."""
    global _level
    _level = None


class Call:
    """One call of a collective. Its text is made when somebody asks."""

    __slots__ = ("count", "detail", "dtype", "line", "name", "shape")

    def __init__(self, name: str, t: Tensor | None, detail: str, count: int) -> None:
        self.name, self.detail, self.count, self.line = name, detail, count, ""
        self.dtype, self.shape = (None, ()) if t is None else (t.dtype, tuple(t.shape))

    def what(self) -> str:
        """What must be the same in all processes."""
        of = "" if self.dtype is None else f" of {str(self.dtype)[7:]} {self.shape}"
        return f"{self.name}{of}{' ' * bool(self.detail)}{self.detail}"

    def __str__(self) -> str:
        return f"{self.what()} (number {self.count} of its group){self.line}"


def caller() -> str:
    """The line outside of this package that calls it."""
    file, line = _C._user_line()
    return f" at {file}:{line}"


def compare(store: Store, name: str, rank: int, ranks: Sequence[int], call: Call) -> None:
    """Debug mode: shows one's call to the others of the group, and theirs to oneself.

    Raises:
        DistBackendError: they differ; the error names ranks, calls and lines.
    """
    call.line = caller()
    place = f"debug/{name}/{call.count}"
    store.set(f"{place}/{rank}", f"{call.what()}\n{call}")
    said = store.multi_get([f"{place}/{r}" for r in range(len(ranks))])
    store.delete_key(f"debug/{name}/{call.count - 2}/{rank}")
    texts = [text.decode().split("\n", 1) for text in said]
    if any(what != call.what() for what, _ in texts):
        lines = "".join(f"\n  rank {ranks[r]}: {text}" for r, (_, text) in enumerate(texts))
        raise DistBackendError(
            f"{call.name}: the processes of the group call different things:{lines}"
        )


def hang(text: str, calls: dict[int, str]) -> DistBackendError:
    """The error of a collective that does not complete, with what each process did last."""
    lines = "".join(f"\n  rank {r}: {c or 'no collective yet'}" for r, c in sorted(calls.items()))
    return DistBackendError(
        f"{text}. The last call of each process that answers:{lines}"
        "\nWith FACULA_DISTRIBUTED_DEBUG=1 all compare their calls before each collective"
    )


def is_meta(t: Tensor) -> bool:
    """Has the tensor no values? Then a collective checks shapes, and does nothing."""
    return t.device == facula.device("meta")
