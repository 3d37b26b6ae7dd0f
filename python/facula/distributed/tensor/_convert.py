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


def _summed(t: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    out = t.detach().clone(memory_format=facula.contiguous_format)
    _collectives.all_reduce(out, group=group)
    return out


def _scattered(t: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    size = _divided(t, dim, group)
    lead = t.detach().movedim(dim, 0).contiguous()
    out = lead.new_empty((size, *lead.shape[1:]))
    _collectives.reduce_scatter_tensor(out, lead, group=group)
    return out.movedim(0, dim).contiguous()


def _kept(t: Tensor, dim: int, group: ProcessGroup) -> Tensor:
    return t.detach()


_Step = Callable[[Tensor, int, ProcessGroup], Tensor]


class _Convert(Function):
    """One step, whose gradient goes the way of another, and that one's the way of the first."""

    @staticmethod
    def forward(
        ctx: Any, t: Tensor, step: _Step, gradient: _Step, dim: int, group: ProcessGroup
    ) -> Tensor:
        ctx.back = (gradient, step, dim, group)
        return step(t, dim, group)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Convert.apply(grad, *ctx.back), None, None, None, None


def convert(t: Tensor, have: Placement, want: Placement, group: ProcessGroup) -> Tensor:
    """This process's part of a tensor in another placement; all of the group call it.

    Raises:
        ValueError: a dimension does not divide among the processes; `want` is Partial.
    """
    if have == want or group.size() == 1:
        return t

    def converted(x: Tensor, step: _Step, gradient: _Step, dim: int = 0) -> Tensor:
        found: Tensor = _Convert.apply(x, step, gradient, dim, group)
        return found

    steps: dict[tuple[type, type], Callable[[], Tensor]] = {
        (Replicate, Shard): lambda: converted(t, _sliced, _gathered, _dim(want)),
        (Shard, Replicate): lambda: converted(t, _gathered, _sliced, _dim(have)),
        (Partial, Replicate): lambda: _averaged(converted(t, _summed, _kept), have, group),
        (Partial, Shard): lambda: _averaged(
            converted(t, _scattered, _gathered, _dim(want)), have, group
        ),
        (Shard, Shard): lambda: converted(
            converted(t, _gathered, _sliced, _dim(have)), _sliced, _gathered, _dim(want)
        ),
    }
    step = steps.get((type(have), type(want)))
    if step is None:
        raise ValueError(f"tensor.parallel: no way from {have} to {want}")
    return step()


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
    made: Tensor = _Convert.apply(t, _kept, _summed, 0, group)
    t._shared_with = (group, t._version, made)  # type: ignore[attr-defined]
    return made
