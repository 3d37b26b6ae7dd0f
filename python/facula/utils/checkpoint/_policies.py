"""Names for what is kept and what is computed again; facula's checkpoints compute all again."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointPolicy",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "set_checkpoint_debug_enabled",
]

#: Operators that a policy is not asked about: there is no policy.
SAC_IGNORED_OPS: set[Any] = set()


class CheckpointPolicy(enum.Enum):
    """Whether a result is kept in forward, or computed again in backward."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


class SelectiveCheckpointContext:
    """What a policy is told: is it the second time?"""

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


class GraphExecGroup:
    """Raises NotImplementedError: each backward computes a checkpoint's results again."""

    def __init__(self) -> None:
        raise NotImplementedError(
            "GraphExecGroup(): each backward through a checkpoint computes it again here; call "
            "backward once, on the sum"
        )


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Within it a checkpoint that is not computed again alike says more.

    Raises:
        NotImplementedError: it is switched on; the error has each tensor's shape and dtype anyway.
    """
    if enabled:
        raise NotImplementedError(
            "set_checkpoint_debug_enabled(): CheckpointError has all that is known; "
            "autograd.detect_anomaly() tells where operations were called"
        )
    yield
