"""How a tensor lies on the processes along one dimension of a mesh."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """One of `Shard`, `Replicate` and `Partial`."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Is it in parts (along `dim`)?"""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Has each process all of it?"""
        return isinstance(self, Replicate)

    def is_partial(self) -> bool:
        """Is it the sum of what the processes have?"""
        return isinstance(self, Partial)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part along `dim`: of n rows ceil(n / processes), the last ones less."""

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has all of it."""


@dataclass(frozen=True)
class Partial(Placement):
    """Each process has a summand; the tensor is their reduction ("sum" or "avg")."""

    reduce_op: str = "sum"

    def __post_init__(self) -> None:
        if self.reduce_op not in ("sum", "avg"):
            raise ValueError(f"Partial: reduce_op is {self.reduce_op!r}; give 'sum' or 'avg'")
