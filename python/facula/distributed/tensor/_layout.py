"""Where the parts of a tensor are: which rows a process has, and how all come together again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import facula
from facula import Tensor
from facula.distributed import _collectives
from facula.distributed._group import ProcessGroup
from facula.distributed.device_mesh import DeviceMesh
from facula.distributed.tensor.placement_types import Placement, Shard

__all__ = ["Layout", "Step", "chunk", "layout_of", "rows_of"]


def chunk(rows: int, parts: int) -> int:
    """How many rows each process has, but for the last ones."""
    return -(-rows // parts)


def rows_of(rows: int, parts: int, index: int) -> tuple[int, int]:
    """From and to which row part `index` goes."""
    size = chunk(rows, parts)
    return min(rows, index * size), min(rows, (index + 1) * size)


class Step(NamedTuple):
    """One cut along a dimension, among the processes of a group."""

    group: ProcessGroup
    dim: int
    shape: tuple[int, ...]  # before it

    @property
    def range(self) -> tuple[int, int]:
        """From and to which row this process's part goes."""
        return rows_of(self.shape[self.dim], self.group.size(), self.group.rank())

    def part(self, whole: Tensor) -> Tensor:
        """This process's part, as a view."""
        first, last = self.range
        return whole.narrow(self.dim, first, last - first)

    def whole(self, part: Tensor) -> Tensor:
        """All parts together; each process of the group calls it."""
        n, rows = self.group.size(), self.shape[self.dim]
        size = chunk(rows, n)
        lead = part.detach().movedim(self.dim, 0)
        padded = lead.new_zeros((size, *lead.shape[1:]))
        padded[: lead.shape[0]].copy_(lead)
        out = padded.new_empty((n * size, *padded.shape[1:]))
        _collectives.all_gather_into_tensor(out, padded, self.group)
        return out[:rows].movedim(0, self.dim).contiguous()


class Layout:
    """How a tensor is spread over processes: cuts, one after the other.

    Attributes:
        mesh, placements: as they were asked for; those of the last cut.
        full_shape: of the whole tensor.
        shape: of this process's part.
        steps: the cuts; along dimensions of the mesh where all have all there is none.
    """

    def __init__(
        self,
        mesh: DeviceMesh,
        placements: Sequence[Placement],
        full_shape: Sequence[int],
        before: Layout | None = None,
    ) -> None:
        self.mesh, self.placements = mesh, tuple(placements)
        if len(self.placements) != mesh.ndim:
            raise ValueError(
                f"placements are {list(placements)} for a mesh of {mesh.ndim} dimensions; give one"
                " a dimension"
            )
        shape = tuple(full_shape)
        self.full_shape = shape if before is None else before.full_shape
        steps = [] if before is None else list(before.steps)
        for i, placement in enumerate(self.placements):
            if not isinstance(placement, Shard):
                continue
            dim = placement.dim + len(shape) if placement.dim < 0 else placement.dim
            if not 0 <= dim < len(shape):
                raise ValueError(f"{placement}: a tensor of shape {shape} has no such dimension")
            step = Step(mesh.get_group(i), dim, shape)
            steps.append(step)
            first, last = step.range
            shape = (*shape[:dim], last - first, *shape[dim + 1 :])
        self.steps, self.shape = tuple(steps), shape

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """From and to which index this process's part goes, for each dimension."""
        found = [(0, n) for n in self.full_shape]
        for step in self.steps:
            start = found[step.dim][0]
            first, last = step.range
            found[step.dim] = (start + first, start + last)
        return tuple(found)

    def part(self, whole: Tensor) -> Tensor:
        """This process's part of a whole tensor, as a view."""
        for step in self.steps:
            whole = step.part(whole)
        return whole

    def whole(self, part: Tensor) -> Tensor:
        """The whole tensor; all processes of the mesh call it."""
        for step in reversed(self.steps):
            part = step.whole(part)
        return part if self.steps else part.detach().clone()

    @staticmethod
    def largest(tensors: Iterable[Tensor], layouts: Iterable[Layout]) -> None:
        """Tensors become, in place, the largest values of all processes that have parts."""
        groups = {s.group.group_name: s.group for layout in layouts for s in layout.steps}
        for _, group in sorted(groups.items()):
            for t in tensors:
                _collectives.all_reduce(t, _collectives.ReduceOp.MAX, group)

    @staticmethod
    def of_all_parts(
        norms: Sequence[Tensor], layouts: Sequence[Layout | None], norm_type: float
    ) -> Tensor:
        """Norms whose norm is that of all whole tensors, from the norm of each part in here.

        Parts in one group of processes become one norm a process, in one message; that keeps the
        range of the values, which sums of powers would not. All processes call it.

        Returns:
            one dimension.
        """
        found = [n for n, layout in zip(norms, layouts, strict=True) if layout is None]
        kinds: dict[tuple[str, ...], tuple[Layout, list[Tensor]]] = {}
        for norm, layout in zip(norms, layouts, strict=True):
            if layout is not None:
                key = tuple(step.group.group_name for step in layout.steps)
                kinds.setdefault(key, (layout, []))[1].append(norm)
        parts = [facula.stack(found)] if found else []
        for _, (layout, here) in sorted(kinds.items()):
            every = facula.linalg.vector_norm(facula.stack(here), norm_type).reshape(1)
            for step in layout.steps:
                out = every.new_empty(step.group.size() * every.numel())
                _collectives.all_gather_into_tensor(out, every, step.group)
                every = out
            parts.append(every)
        return facula.cat(parts)

    def __repr__(self) -> str:
        return f"{self.full_shape} as {self.placements} on {self.mesh}"


def layout_of(t: Any) -> Layout | None:
    """How a tensor is spread, or None: an ordinary tensor of this process."""
    found = getattr(t, "_layout", None)
    return found if isinstance(found, Layout) else None


def empty_like_whole(t: Tensor, layout: Layout) -> Tensor:
    """A tensor of the whole shape, of the dtype and device of a part."""
    return facula.empty(layout.full_shape, dtype=t.dtype, device=t.device)
