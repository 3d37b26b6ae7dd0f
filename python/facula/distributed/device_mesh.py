"""A grid of processes, with a group along each of its dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import facula
from facula import Tensor
from facula.distributed._group import GroupMember, ProcessGroup, current, is_initialized, new_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Processes in a grid.

    Args:
        device_type: of the tensors that they work on, such as "cpu".
        mesh: the ranks in the job, as a tensor of integers or nested lists; each at most once.
        mesh_dim_names: names of its dimensions.

    All processes of the job make it, in the same order.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Tensor | Sequence[Any],
        *,
        mesh_dim_names: Sequence[str] | None = None,
        _groups: Sequence[Any] | None = None,
    ) -> None:
        self.device_type = device_type
        self.mesh = facula.as_tensor(mesh, dtype=facula.int64, device="cpu")
        ranks = self.mesh.flatten().tolist()
        if len(set(ranks)) != len(ranks) or not ranks:
            raise ValueError(f"DeviceMesh: mesh is {self.mesh.tolist()}; each rank comes once")
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if self.mesh_dim_names is not None and (
            len(set(self.mesh_dim_names)) != self.mesh.ndim
            or len(self.mesh_dim_names) != self.mesh.ndim
        ):
            raise ValueError(
                f"DeviceMesh: mesh_dim_names is {self.mesh_dim_names}; give {self.mesh.ndim}"
                " different"
                " names"
            )
        job = current()
        self._rank = job.rank
        self._at = (self.mesh == job.rank).nonzero().tolist()
        self._groups = list(_groups) if _groups is not None else self._made()

    def _made(self) -> list[Any]:
        groups = []
        for dim in range(self.mesh.ndim):
            mine: Any = GroupMember.NON_GROUP_MEMBER
            for ranks in self.mesh.movedim(dim, -1).reshape(-1, self.mesh.size(dim)).tolist():
                made = new_group(ranks)
                if made != GroupMember.NON_GROUP_MEMBER:
                    mine = made
            groups.append(mine)
        return groups

    @property
    def ndim(self) -> int:
        """How many dimensions it has."""
        return self.mesh.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return tuple(self.mesh.shape)

    def size(self, mesh_dim: int | None = None) -> int:
        """How many processes it has, in all or along a dimension."""
        return self.mesh.numel() if mesh_dim is None else self.mesh.size(mesh_dim)

    def _dim(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(
                    f"DeviceMesh: give mesh_dim, as there are {self.ndim} dimensions"
                )
            return 0
        if isinstance(mesh_dim, str):
            names = self.mesh_dim_names or ()
            if mesh_dim not in names:
                raise KeyError(f"DeviceMesh: no dimension {mesh_dim!r}; there are {names}")
            return names.index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise IndexError(f"DeviceMesh: dimension {mesh_dim} of {self.ndim}")
        return mesh_dim % self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """The group along a dimension that this process is in."""
        found = self._groups[self._dim(mesh_dim)]
        if not isinstance(found, ProcessGroup):
            raise RuntimeError(f"DeviceMesh: rank {self._rank} is not in the mesh")
        return found

    def get_all_groups(self) -> list[ProcessGroup]:
        """The group of each dimension."""
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_rank(self) -> int:
        """This process's rank in the job."""
        return self._rank

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's rank along a dimension."""
        return self.get_group(mesh_dim).rank()

    def get_coordinate(self) -> list[int] | None:
        """Where this process is in the mesh, or None."""
        return [int(i) for i in self._at[0]] if self._at else None

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The part of the mesh along the named dimensions that this process is in."""
        chosen = [self._dim(n) for n in ([names] if isinstance(names, str) else names)]
        place = self.get_coordinate()
        if place is None:
            raise RuntimeError(f"DeviceMesh: rank {self._rank} is not in the mesh")
        index = tuple(slice(None) if d in chosen else place[d] for d in range(self.ndim))
        kept = [d for d in range(self.ndim) if d in chosen]
        part = self.mesh[index].permute([kept.index(d) for d in chosen])
        known = self.mesh_dim_names or ()
        return DeviceMesh(
            self.device_type,
            part,
            mesh_dim_names=[known[d] for d in chosen],
            _groups=[self._groups[d] for d in chosen],
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, DeviceMesh)
            and self.device_type == other.device_type
            and self.mesh.tolist() == other.mesh.tolist()
            and self.mesh_dim_names == other.mesh_dim_names
        )

    def __hash__(self) -> int:
        return hash((self.device_type, str(self.mesh.tolist()), self.mesh_dim_names))

    def __repr__(self) -> str:
        names = "" if self.mesh_dim_names is None else f", mesh_dim_names={self.mesh_dim_names}"
        return f"DeviceMesh({self.device_type!r}, {self.mesh.tolist()}{names})"


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """A mesh of all processes of the job, in order; begins the job by the environment if it must.

    Raises:
        ValueError: the sizes' product is not the number of processes.
    """
    if not is_initialized():
        from facula.distributed._group import init_process_group

        init_process_group()
    size = current().size
    shape = tuple(int(s) for s in mesh_shape)
    count = 1
    for s in shape:
        count *= s
    if count != size:
        raise ValueError(
            f"init_device_mesh: a mesh of {shape} has {count} places for {size} processes"
        )
    mesh = facula.arange(size).reshape(shape)
    return DeviceMesh(device_type, mesh, mesh_dim_names=mesh_dim_names)
