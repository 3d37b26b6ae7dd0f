"""From one placement to another, with gradients.

A gradient is placed as its tensor is; that of a summand (`Partial`) is the gradient of the sum,
which all processes have. So reading a part of what all have has as its gradient the gathering of
parts, and the reverse; and what each process adds its own gradient to sums these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula
from facula import Tensor
from facula.autograd import Function
from facula.distributed import _collectives
from facula.distributed._group import ProcessGroup
from facula.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["convert", "shared"]


def _divided(t: Tensor, dim: int, group: ProcessGroup) -> int:
    n = group.size()
    if not -t.dim() <= dim < t.dim() or t.shape[dim] % n:
        raise ValueError(
            f"tensor.parallel: a tensor of shape {tuple(t.shape)} does not divide along dimension"
            f" {dim} among {n} processes"
        )
    return int(t.shape[dim]) // n


def _sliced(t: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    size = _divided(t, dim, group)
    part = t.detach().narrow(dim, group.rank() * size, size)
    return part.clone(memory_format=facula.contiguous_format)


def _gathered(t: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    lead = t.detach().movedim(dim, 0).contiguous()
    out = lead.new_empty((group.size() * lead.shape[0], *lead.shape[1:]))
    _collectives.all_gather_into_tensor(out, lead, group)
    return out.movedim(0, dim).contiguous()


def _summed(t: Tensor, group: ProcessGroup) -> Tensor:
    out = t.detach().clone(memory_format=facula.contiguous_format)
    _collectives.all_reduce(out, group=group)
    return out


def _scattered(t: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    size = _divided(t, dim, group)
    lead = t.detach().movedim(dim, 0).contiguous()
    out = lead.new_empty((size, *lead.shape[1:]))
    _collectives.reduce_scatter_tensor(out, lead, group=group)
    return out.movedim(0, dim).contiguous()


class _Slice(Function):
    """What all have -> a part each."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, dim: int, group: ProcessGroup) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return _sliced(t, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Gather.apply(grad, ctx.dim, ctx.group), None, None


class _Gather(Function):
    """A part each -> what all have."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, dim: int, group: ProcessGroup) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return _gathered(t, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Slice.apply(grad, ctx.dim, ctx.group), None, None


class _Sum(Function):
    """Summands -> what all have."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return _summed(t, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Share.apply(grad, ctx.group), None


class _Share(Function):
    """What all have, for work of which each does a part: the gradients are summands."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        return t.detach()

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Sum.apply(grad, ctx.group), None


class _SumScatter(Function):
    """Summands -> a part of the sum each."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, dim: int, group: ProcessGroup) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return _scattered(t, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _GatherShared.apply(grad, ctx.dim, ctx.group), None, None


class _GatherShared(Function):
    """A part each -> what all have, whose gradients are summands."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, dim: int, group: ProcessGroup) -> Tensor:
        ctx.dim, ctx.group = dim, group
        return _gathered(t, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _SumScatter.apply(grad, ctx.dim, ctx.group), None, None


def convert(t: Tensor, have: Placement, want: Placement, group: ProcessGroup) -> Tensor:
    """This process's part of a tensor in another placement; all of the group call it.

    Raises:
        ValueError: a dimension does not divide among the processes; `want` is Partial.
    """
    if have == want or group.size() == 1:
        return t
    steps: dict[tuple[type, type], Callable[[], Any]] = {
        (Replicate, Shard): lambda: _Slice.apply(t, _dim(want), group),
        (Shard, Replicate): lambda: _Gather.apply(t, _dim(have), group),
        (Partial, Replicate): lambda: _averaged(_Sum.apply(t, group), have, group),
        (Partial, Shard): lambda: _averaged(_SumScatter.apply(t, _dim(want), group), have, group),
        (Shard, Shard): lambda: _Slice.apply(
            _Gather.apply(t, _dim(have), group), _dim(want), group
        ),
    }
    step = steps.get((type(have), type(want)))
    if step is None:
        raise ValueError(f"tensor.parallel: no way from {have} to {want}")
    found: Tensor = step()
    return found


def _dim(placement: Placement) -> int:
    assert isinstance(placement, Shard)
    return placement.dim


def _averaged(t: Tensor, have: Placement, group: ProcessGroup) -> Tensor:
    mean = isinstance(have, Partial) and have.reduce_op == "avg"
    return t / group.size() if mean else t


def shared(t: Tensor, group: ProcessGroup) -> Tensor:
    """A tensor that all have, as the input of work of which each process does a part.

    Its gradients are summed over the processes. Layers that take the same tensor share the sum:
    queries, keys and values cost one message.
    """
    if group.size() == 1 or not (facula.is_grad_enabled() and t.requires_grad):
        return t
    before = t.__dict__.get("_shared_with")
    if before is not None and before[0] is group and before[1] == t._version:
        found: Tensor = before[2]
        return found
    made: Tensor = _Share.apply(t, group)
    t._shared_with = (group, t._version, made)  # type: ignore[attr-defined]
    return made
