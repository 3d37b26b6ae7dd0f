"""What a worker process knows about itself."""

from __future__ import annotations

from typing import Any

__all__ = ["WorkerInfo", "get_worker_info"]


class WorkerInfo:
    """What a worker process knows about itself.

    Attributes:
        id: from 0 on. num_workers: of the loader. seed: this worker's, base seed + id.
        dataset: this process's copy of the dataset.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def __setattr__(self, name: str, value: Any) -> None:
        raise RuntimeError(f"Cannot assign attributes to {type(self).__name__} objects")

    def __repr__(self) -> str:
        return f"WorkerInfo({', '.join(f'{k}={v}' for k, v in self.__dict__.items())})"


current: WorkerInfo | None = None  # in a worker process


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a DataLoader its WorkerInfo, else None."""
    return current
