"""Calls within vmap that no rule serves, and which run row by row."""

from __future__ import annotations

from types import TracebackType

from facula import _C

__all__ = ["vmap_fallback", "vmap_fallback_counts"]


class vmap_fallback:
    """What a call does that has no rule for vmap and runs row by row: at once, or in a block.

    Args:
        mode: "warn", the default, says so at an operator's first such call; "quiet" says nothing;
            "error" raises in its place. For all threads.

    Raises:
        ValueError: it is another word.

    >>> import facula as fa
    >>> with fa.func.vmap_fallback("error"):
    ...     fa.vmap(fa.linalg.inv)(fa.eye(3).expand(2, 3, 3)).shape
    facula.Size([2, 3, 3])
    """

    __slots__ = ("_before", "_mode")

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._before = _C._exchange_fallback(mode)

    def __enter__(self) -> vmap_fallback:
        _C._exchange_fallback(self._mode)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _C._exchange_fallback(self._before)


def vmap_fallback_counts(*, reset: bool = False) -> dict[str, int]:
    """How many calls within vmap ran row by row, by the operator's name.

    Counted since the start, or since the last call with `reset`, which also lets each operator be
    warned of again.
    """
    found: dict[str, int] = _C._batch_fallbacks()
    if reset:
        _C._reset_batch_fallbacks()
    return found
