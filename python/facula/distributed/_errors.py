"""What goes wrong between processes."""

from __future__ import annotations

__all__ = [
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "LostRankError",
    "QueueEmptyError",
]


class DistError(RuntimeError):
    """An error between the processes of a job."""


class DistBackendError(DistError):
    """A collective could not be completed."""


class DistNetworkError(DistError):
    """The store cannot be reached, or refused this process."""


class DistStoreError(DistError):
    """The store lacks a key within the time given, or is closed."""


class QueueEmptyError(DistStoreError):
    """Nothing is in the store's queue."""


class LostRankError(DistBackendError):
    """A process of the job is gone, or answers no more.

    Attributes:
        ranks: which ranks of the job.
        gave_up: are they there, and ended their part because another did not come?
    """

    def __init__(self, text: str, ranks: tuple[int, ...] = (), gave_up: bool = False) -> None:
        super().__init__(text)
        self.ranks, self.gave_up = ranks, gave_up

    def __reduce__(self) -> tuple[type, tuple[str, tuple[int, ...], bool]]:
        return type(self), (str(self), self.ranks, self.gave_up)
