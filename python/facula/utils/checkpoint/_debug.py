"""What operators a checkpointed function calls, the first time and again: for its errors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from facula import _C

__all__ = ["both_logs", "debug_enabled", "set_checkpoint_debug_enabled"]

_enabled: bool | None = None


def debug_enabled(debug: bool) -> bool:
    """`debug` of a call, unless `set_checkpoint_debug_enabled` says otherwise."""
    return debug if _enabled is None else _enabled


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Checkpoints made within take `debug` to be this; None leaves it to each call."""
    global _enabled
    before, _enabled = _enabled, enabled
    try:
        yield
    finally:
        _enabled = before


class _Log:
    """Calls of operators while it is open, each a line: results, name, arguments, place."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __enter__(self) -> None:
        self.observation = _C._observe_start(True, False, True)

    def __exit__(self, *error: Any) -> None:
        _C._observe_stop(self.observation)
        self.lines = [
            f"{_shown(results)} = {name}({_shown(arguments)})   {location}"
            for name, kind, depth, _, _, _, location, arguments, results, *_ in (
                _C._observe_events(self.observation)
            )
            if kind == "call" and depth == 0
        ]


def _shown(values: Any) -> str:
    return ", ".join(map(_one, values))


def _one(value: Any) -> str:
    if isinstance(value, tuple) and len(value) == 3 and isinstance(value[0], tuple):
        sizes, dtype, _ = value
        return f"{str(dtype).removeprefix('facula.')}{list(sizes)}"
    return repr(value)


def both_logs(error_type: type) -> tuple[tuple[Any, Any], Callable[[Exception], Exception]]:
    """Contexts of the first run and the second, and what makes an error that shows both logs."""
    first, second = _Log(), _Log()

    def told(error: Exception) -> Exception:
        again = second.lines
        differ = next(
            (i for i, (a, b) in enumerate(zip(first.lines, again, strict=False)) if a != b), None
        )
        where = "" if differ is None else f"\nThe first that differ are number {differ + 1}."
        return error_type(  # type: ignore[no-any-return]
            f"{error}\n\nOperators of the original forward:\n{_numbered(first.lines)}\n\n"
            f"Operators of the recomputation:\n{_numbered(again)}{where}"
        )

    return (first, second), told


def _numbered(lines: list[str]) -> str:
    return "\n".join(f"{i + 1:4} {line}" for i, line in enumerate(lines))
