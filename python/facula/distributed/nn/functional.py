"""Collectives that return new tensors, and that autograd differentiates.

The loss is taken to be the sum of the losses of all processes, so the gradient of a collective is
the collective that sends each part back where it came from: of all_gather it is reduce_scatter, of
broadcast reduce, of scatter gather, of all_reduce (a sum) all_reduce, and the reverse. All
processes
of the group must call backward, in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import facula
from facula import Tensor
from facula.autograd import Function
from facula.distributed import _collectives
from facula.distributed._group import ProcessGroup, resolved
from facula.distributed._reduce import ReduceOp


def _group_of(what: str, given: Any) -> ProcessGroup:
    found = resolved(what, given)
    if found is None:
        raise ValueError(f"{what}: this process is not in the group")
    return found


def _summed(what: str, op: ReduceOp, *tensors: Tensor) -> None:
    wants = facula.is_grad_enabled() and any(t.requires_grad for t in tensors)
    if wants and op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise NotImplementedError(
            f"{what}: ReduceOp.{op.name} has no gradient here; SUM and AVG have, or detach the"
            " input"
        )


def _copied(t: Tensor) -> Tensor:
    """What a collective that works in place may write to."""
    return t.detach().clone(memory_format=facula.contiguous_format)


def _averaged(grad: Tensor, op: ReduceOp, group: ProcessGroup) -> Tensor:
    """The gradient of a sum as that of a mean, where `op` is one."""
    return grad / group.size() if op is ReduceOp.AVG else grad


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, t: Tensor, op: ReduceOp, group: ProcessGroup) -> Tensor:
        ctx.op, ctx.group = op, group
        out = _copied(t)
        _collectives.all_reduce(out, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _AllReduce.apply(grad, ctx.op, ctx.group), None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, t: Tensor, root: int, group: ProcessGroup) -> Tensor:
        ctx.root, ctx.group = root, group
        out = _copied(t)
        _collectives.broadcast(out, group=group, group_src=root)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = _Reduce.apply(grad, ctx.root, ReduceOp.SUM, ctx.group)
        return back if ctx.group.rank() == ctx.root else facula.zeros_like(grad), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, t: Tensor, root: int, op: ReduceOp, group: ProcessGroup) -> Tensor:
        ctx.root, ctx.op, ctx.group = root, op, group
        out = _copied(t)
        _collectives.reduce(out, op=op, group=group, group_dst=root)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = _Broadcast.apply(grad, ctx.root, ctx.group)
        return _averaged(back, ctx.op, ctx.group), None, None, None


class _AllGather(Function):
    """Of (k, ...) a tensor (n, k, ...) for n processes."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, group: ProcessGroup) -> Tensor:
        ctx.group = group
        t = t.detach().contiguous()
        out = facula.empty((group.size(), *t.shape), dtype=t.dtype, device=t.device)
        _collectives.all_gather_into_tensor(out, t, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _ReduceScatter.apply(grad, ReduceOp.SUM, ctx.group), None


class _ReduceScatter(Function):
    """Of (n, k, ...) a tensor (k, ...)."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, op: ReduceOp, group: ProcessGroup) -> Tensor:
        ctx.op, ctx.group = op, group
        t = t.detach().contiguous()
        out = facula.empty(t.shape[1:], dtype=t.dtype, device=t.device)
        _collectives.reduce_scatter_tensor(out, t, op, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        back = _AllGather.apply(grad, ctx.group)
        return _averaged(back, ctx.op, ctx.group), None, None


class _Gather(Function):
    """Of (k, ...) a tensor (n, k, ...) in the root, zeros elsewhere."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, root: int, group: ProcessGroup) -> Tensor:
        ctx.root, ctx.group = root, group
        t = t.detach().contiguous()
        out = facula.zeros((group.size(), *t.shape), dtype=t.dtype, device=t.device)
        parts = list(out.unbind(0)) if group.rank() == root else None
        _collectives.gather(t, parts, group=group, group_dst=root)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Scatter.apply(grad, ctx.root, ctx.group), None, None


class _Scatter(Function):
    """Of (n, k, ...) in the root a tensor (k, ...)."""

    @staticmethod
    def forward(ctx: Any, t: Tensor, root: int, group: ProcessGroup) -> Tensor:
        ctx.root, ctx.group = root, group
        t = t.detach().contiguous()
        out = facula.empty(t.shape[1:], dtype=t.dtype, device=t.device)
        parts = list(t.unbind(0)) if group.rank() == root else None
        _collectives.scatter(out, parts, group=group, group_src=root)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Gather.apply(grad, ctx.root, ctx.group), None, None


class _AllToAll(Function):
    @staticmethod
    def forward(
        ctx: Any, t: Tensor, takes: Sequence[int], gives: Sequence[int], group: ProcessGroup
    ) -> Tensor:
        ctx.takes, ctx.gives, ctx.group = takes, gives, group
        t = t.detach().contiguous()
        out = facula.empty((sum(takes), *t.shape[1:]), dtype=t.dtype, device=t.device)
        _collectives.all_to_all_single(out, t, takes, gives, group)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _AllToAll.apply(grad, ctx.gives, ctx.takes, ctx.group), None, None, None


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction of all processes' tensors, in each of them."""
    _summed("all_reduce", op, tensor)
    out: Tensor = _AllReduce.apply(tensor, op, _group_of("all_reduce", group))
    return out


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of process `src` (a rank in the job), in each process."""
    chosen = _group_of("broadcast", group)
    root = _collectives.root_of("broadcast", chosen, src, None, "src")
    out: Tensor = _Broadcast.apply(tensor, root, chosen)
    return out


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction of all processes' tensors in process `dst`; the others get their own."""
    _summed("reduce", op, tensor)
    chosen = _group_of("reduce", group)
    root = _collectives.root_of("reduce", chosen, dst, None, "dst")
    out: Tensor = _Reduce.apply(tensor, root, op, chosen)
    return out


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, which have one shape."""
    out: Tensor = _AllGather.apply(tensor, _group_of("all_gather", group))
    return tuple(out.unbind(0))


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes in process `dst`; zeros elsewhere."""
    chosen = _group_of("gather", group)
    root = _collectives.root_of("gather", chosen, dst, None, "dst")
    out: Tensor = _Gather.apply(tensor, root, chosen)
    return tuple(out.unbind(0))


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Item i of the list of process `src`, in process i; the others' lists give the shape."""
    chosen = _group_of("scatter", group)
    root = _collectives.root_of("scatter", chosen, src, None, "src")
    out: Tensor = _Scatter.apply(facula.stack(list(tensors)), root, chosen)
    return out


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The reduction of all processes' `input_list[i]`, in process i; `output` gives the shape."""
    _summed("reduce_scatter", op, *input_list)
    whole = facula.stack([t.reshape(output.shape) for t in input_list])
    out: Tensor = _ReduceScatter.apply(whole, op, _group_of("reduce_scatter", group))
    return out


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Part j of process i's `input` as part i of process j's result; `output` gives its shape."""
    what = "all_to_all_single"
    chosen = _group_of(what, group)
    n = chosen.size()
    takes = _collectives.splits_of(
        what, "output_split_sizes", output_split_sizes, output.size(0), n
    )
    gives = _collectives.splits_of(what, "input_split_sizes", input_split_sizes, input.size(0), n)
    out: Tensor = _AllToAll.apply(input, takes, gives, chosen)
    return out


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Item j of process i's input as item i of process j's result; the output list gives shapes."""
    chosen = _group_of("all_to_all", group)
    takes = [t.numel() for t in output_tensor_list]
    gives = [t.numel() for t in input_tensor_list]
    flat = facula.cat([t.reshape(-1) for t in input_tensor_list])
    out: Tensor = _AllToAll.apply(flat, takes, gives, chosen)
    parts = out.split(takes)
    return tuple(p.view(t.shape) for p, t in zip(parts, output_tensor_list, strict=True))
