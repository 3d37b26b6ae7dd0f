"""Collectives of tensors.

Each waits until this process's part is done, or with `async_op=True` returns a `Work` at once. In
processes that are not in the group nothing happens, with a warning. All of them raise LostRankError
if a process of the group is gone, and DistBackendError after the timeout of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from facula import Tensor, cat, stack
from facula.distributed._calls import is_meta
from facula.distributed._device import ALL_GATHER, ALL_REDUCE, BROADCAST, REDUCE_SCATTER
from facula.distributed._group import ProcessGroup, resolved
from facula.distributed._reduce import ReduceOp, reduction
from facula.distributed._work import Work

__all__ = [
    "all_gather",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]


def tensor_of(what: str, name: str, t: Any) -> Tensor:
    """An argument that must be a strided tensor."""
    if not isinstance(t, Tensor):
        raise TypeError(f"{what}: {name} is {type(t).__name__}; give a Tensor")
    return t.detach()


def tensors_of(what: str, name: str, given: Any, size: int, like: Tensor | None) -> list[Tensor]:
    """An argument that must be a list of one tensor a process, all alike."""
    if not isinstance(given, (list, tuple)) or len(given) != size:
        have = len(given) if isinstance(given, (list, tuple)) else type(given).__name__
        raise ValueError(f"{what}: {name} has {have}; give a list of {size} tensors, one a process")
    found = [tensor_of(what, f"{name}[{i}]", t) for i, t in enumerate(given)]
    for i, t in enumerate(found):
        if like is not None and (t.shape != like.shape or t.dtype != like.dtype):
            raise ValueError(
                f"{what}: {name}[{i}] is {t.dtype} {tuple(t.shape)}, and the tensor of this process"
                f" {like.dtype} {tuple(like.shape)}; they must be alike"
            )
    return found


def same_dtype(what: str, a: Tensor, b: Tensor) -> None:
    if a.dtype != b.dtype:
        raise ValueError(f"{what}: the output is {a.dtype} and the input {b.dtype}; give one dtype")


def landed(t: Tensor, filled: Tensor) -> None:
    """Takes what came."""
    if filled is not t:
        t.copy_(filled)


def root_of(
    what: str, group: ProcessGroup, rank: int | None, in_group: int | None, name: str
) -> int:
    """The rank in the group of the one process that sends or receives."""
    if rank is not None and in_group is not None:
        raise ValueError(f"{what}: give {name} or group_{name}, not both")
    if in_group is None:
        at = 0 if rank is None else rank
        if at not in group.ranks:
            raise ValueError(f"{what}: {name} is {at}; the group has ranks {list(group.ranks)}")
        return group.ranks.index(at)
    if not 0 <= in_group < group.size():
        raise ValueError(f"{what}: group_{name} is {in_group}; give 0 to {group.size() - 1}")
    return in_group


class Plan(NamedTuple):
    """A collective that an engine is to carry out."""

    name: str
    shown: Tensor | None  # whose shape and dtype are compared between processes
    detail: str
    start: Callable[[], Any]
    finish: Callable[[], None] | None = None
    keep: Sequence[Tensor | None] = ()  # what is read and written
    result: Sequence[Tensor] = ()


def nothing() -> list[Any]:
    return []


def carried_out(group: ProcessGroup, engine: Any, plan: Plan, async_op: bool) -> Work | None:
    """Begins a collective and waits for it, or not."""
    call = group.begin(plan.name, plan.shown, plan.detail)
    if plan.shown is not None and is_meta(plan.shown):
        return group.complete(group.work([], call, result=plan.result), async_op)
    return engine.carry_out(group, call, plan, async_op)  # type: ignore[no-any-return]


def all_reduce(
    tensor: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Every process's `tensor` becomes the reduction of all of them, element by element.

    Args:
        tensor: of one shape and dtype in all processes. Floats of 16 and 8 bits are summed in
            float32 and rounded once.
        op: how.
    """
    chosen = resolved("all_reduce", group)
    if chosen is None:
        return None
    if not async_op and chosen.direct(ALL_REDUCE, op, tensor, tensor):
        return None
    plan, engine = all_reduced("all_reduce", chosen, tensor, op)
    return carried_out(chosen, engine, plan, async_op)


def all_reduced(what: str, group: ProcessGroup, tensor: Tensor, op: ReduceOp) -> tuple[Plan, Any]:
    t = tensor_of(what, "tensor", tensor)
    engine = group.engine(what, t)
    how = reduction(what, op, t.dtype, group.size(), engine.reduces)
    if is_meta(t):
        return Plan(what, t, op.name, nothing, result=[tensor]), engine
    place = engine.landing(t)
    if place is not t:
        place = engine.staged(t)
    buffer = place if how.is_plain else how.encode(place).contiguous()

    def finish() -> None:
        done = how.decode(buffer)
        if done is not t:
            t.copy_(done)

    plan = Plan(
        what,
        t,
        op.name,
        lambda: engine.all_reduce(buffer, how.op),
        None if buffer is t and how.op is op else finish,
        (buffer, t),
        [tensor],
    )
    return plan, engine


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """The `tensor` of process `dst` becomes the reduction of all; the others keep theirs.

    Args:
        dst: a rank in the job, 0 by default; or group_dst: a rank in the group.
    """
    chosen = resolved("reduce", group)
    if chosen is None:
        return None
    t = tensor_of("reduce", "tensor", tensor)
    root = root_of("reduce", chosen, dst, group_dst, "dst")
    engine = chosen.engine("reduce", t)
    how = reduction("reduce", op, t.dtype, chosen.size(), engine.reduces)
    here = chosen.rank() == root
    if is_meta(t) or (how.is_plain and here and engine.landing(t) is t):
        buffer = t
    else:
        buffer = how.encode(engine.staged(t)).contiguous()

    def finish() -> None:
        if here:
            done = how.decode(buffer)
            if done is not t:
                t.copy_(done)

    plan = Plan(
        "reduce",
        t,
        f"{op.name} to {root}",
        lambda: engine.reduce(buffer, how.op, root),
        finish,
        (buffer, t),
        [tensor],
    )
    return carried_out(chosen, engine, plan, async_op)


def broadcast(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Every process's `tensor` becomes that of process `src` (a rank in the job, 0 by default)."""
    chosen = resolved("broadcast", group)
    if chosen is None:
        return None
    root = root_of("broadcast", chosen, src, group_src, "src")
    if not async_op and chosen.direct(BROADCAST, ReduceOp.SUM, tensor, tensor, root):
        return None
    t = tensor_of("broadcast", "tensor", tensor)
    engine = chosen.engine("broadcast", t)
    here = chosen.rank() == root
    buffer = t if is_meta(t) else engine.staged(t) if here else engine.landing(t)
    plan = Plan(
        "broadcast",
        t,
        f"from {root}",
        lambda: engine.broadcast(buffer, root),
        None if here or buffer is t else lambda: landed(t, buffer),
        (buffer, t),
        [tensor],
    )
    return carried_out(chosen, engine, plan, async_op)


def all_gather_into_tensor(
    output_tensor: Tensor,
    input_tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`output_tensor` becomes the tensors of all processes, one after the other.

    Args:
        output_tensor: of shape (n * k, ...) or (n, k, ...) for n processes with inputs (k, ...).
    """
    what = "all_gather_into_tensor"
    chosen = resolved(what, group)
    if chosen is None:
        return None
    if not async_op and chosen.direct(ALL_GATHER, ReduceOp.SUM, output_tensor, input_tensor):
        return None
    out = tensor_of(what, "output_tensor", output_tensor)
    t = tensor_of(what, "input_tensor", input_tensor)
    same_dtype(what, out, t)
    _check_parts(what, "output_tensor", out, t, chosen.size())
    return _gathered(what, chosen, out, t, async_op, [output_tensor])


all_gather_single = all_gather_into_tensor


def _check_parts(what: str, name: str, whole: Tensor, part: Tensor, n: int) -> None:
    k = tuple(part.shape)
    shapes = {(n, *k)}
    if k:
        shapes.add((n * k[0], *k[1:]))
    if tuple(whole.shape) not in shapes:
        raise ValueError(
            f"{what}: {name} has shape {tuple(whole.shape)}; for {n} processes with parts of {k}"
            " give"
            f" {' or '.join(map(str, sorted(shapes)))}"
        )


def _gathered(
    what: str, group: ProcessGroup, out: Tensor, t: Tensor, async_op: bool, result: Sequence[Tensor]
) -> Work | None:
    engine = group.engine(what, t, out)
    meta = is_meta(t)
    buffer, sent = (out, t) if meta else (engine.landing(out), engine.staged(t))
    plan = Plan(
        what,
        t,
        "",
        lambda: engine.all_gather(buffer, sent),
        None if buffer is out else lambda: landed(out, buffer),
        (buffer, sent, out),
        result,
    )
    return carried_out(group, engine, plan, async_op)


def all_gather(
    tensor_list: Sequence[Tensor],
    tensor: Tensor,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`tensor_list[i]` becomes the `tensor` of process i of the group; all have one shape."""
    chosen = resolved("all_gather", group)
    if chosen is None:
        return None
    plan, engine = listed("all_gather", chosen, tensor_list, tensor)
    return carried_out(chosen, engine, plan, async_op)


def listed(
    what: str, group: ProcessGroup, tensor_list: Sequence[Tensor], tensor: Tensor
) -> tuple[Plan, Any]:
    t = tensor_of(what, "tensor", tensor)
    outs = tensors_of(what, "tensor_list", tensor_list, group.size(), t)
    engine = group.engine(what, t, *outs)
    if is_meta(t):
        return Plan(what, t, "", nothing, result=tensor_list), engine
    whole, sent = engine.empty((len(outs), *t.shape), t.dtype), engine.staged(t)

    def finish() -> None:
        for out, part in zip(outs, whole.unbind(0), strict=True):
            out.copy_(part)

    plan = Plan(
        what,
        t,
        "",
        lambda: engine.all_gather(whole, sent),
        finish,
        (whole, sent, *outs),
        tensor_list,
    )
    return plan, engine


def gather(
    tensor: Tensor,
    gather_list: Sequence[Tensor] | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """In process `dst`, `gather_list[i]` becomes the `tensor` of process i; others give no list."""
    chosen = resolved("gather", group)
    if chosen is None:
        return None
    t = tensor_of("gather", "tensor", tensor)
    root = root_of("gather", chosen, dst, group_dst, "dst")
    here = chosen.rank() == root
    if not here and gather_list:
        raise ValueError(f"gather: gather_list is given on rank {chosen.rank()}; only dst gives it")
    outs = tensors_of("gather", "gather_list", gather_list, chosen.size(), t) if here else []
    engine = chosen.engine("gather", t, *outs)
    meta = is_meta(t)
    whole = engine.empty((len(outs), *t.shape), t.dtype) if here and not meta else None
    sent = t if meta else engine.staged(t)

    def finish() -> None:
        if whole is not None:
            for out, part in zip(outs, whole.unbind(0), strict=True):
                out.copy_(part)

    plan = Plan(
        "gather",
        t,
        f"to {root}",
        lambda: engine.gather(whole, sent, root),
        finish,
        (whole, sent, *outs),
        gather_list or (),
    )
    return carried_out(chosen, engine, plan, async_op)


def scatter(
    tensor: Tensor,
    scatter_list: Sequence[Tensor] | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """`tensor` of process i becomes `scatter_list[i]` of process `src`; others give no list."""
    chosen = resolved("scatter", group)
    if chosen is None:
        return None
    t = tensor_of("scatter", "tensor", tensor)
    root = root_of("scatter", chosen, src, group_src, "src")
    here = chosen.rank() == root
    if not here and scatter_list:
        raise ValueError(
            f"scatter: scatter_list is given on rank {chosen.rank()}; only src gives it"
        )
    parts = tensors_of("scatter", "scatter_list", scatter_list, chosen.size(), t) if here else []
    engine = chosen.engine("scatter", t, *parts)
    meta = is_meta(t)
    whole = stack([engine.staged(p) for p in parts]) if here and not meta else None
    buffer = t if meta else engine.landing(t)
    plan = Plan(
        "scatter",
        t,
        f"from {root}",
        lambda: engine.scatter(buffer, whole, root),
        lambda: landed(t, buffer),
        (whole, buffer, t),
        [tensor],
    )
    return carried_out(chosen, engine, plan, async_op)


def reduce_scatter_tensor(
    output: Tensor,
    input: Tensor,
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`output` of process i becomes part i of the reduction of all processes' `input`.

    Args:
        input: of shape (n * k, ...) or (n, k, ...) for n processes and outputs of (k, ...).
    """
    what = "reduce_scatter_tensor"
    chosen = resolved(what, group)
    if chosen is None:
        return None
    if not async_op and chosen.direct(REDUCE_SCATTER, op, output, input):
        return None
    out, t = tensor_of(what, "output", output), tensor_of(what, "input", input)
    same_dtype(what, out, t)
    _check_parts(what, "input", t, out, chosen.size())
    engine = chosen.engine(what, t, out)
    sent = t if is_meta(t) else engine.staged(t)
    return _scattered(what, chosen, engine, out, sent, op, async_op, output)


reduce_scatter_single = reduce_scatter_tensor


def _scattered(
    what: str,
    group: ProcessGroup,
    engine: Any,
    out: Tensor,
    whole: Tensor,
    op: ReduceOp,
    async_op: bool,
    result: Tensor,
) -> Work | None:
    how = reduction(what, op, out.dtype, group.size(), engine.reduces)
    if is_meta(out):
        return carried_out(
            group, engine, Plan(what, out, op.name, nothing, result=[result]), async_op
        )
    sent = how.encode(whole).contiguous()
    buffer = engine.landing(out) if how.is_plain else engine.empty(out.shape, sent.dtype)

    def finish() -> None:
        done = how.decode(buffer)
        if done is not out:
            out.copy_(done)

    plan = Plan(
        what,
        out,
        op.name,
        lambda: engine.reduce_scatter(buffer, sent, how.op),
        None if buffer is out and how.op is op else finish,
        (buffer, sent, out),
        [result],
    )
    return carried_out(group, engine, plan, async_op)


def reduce_scatter(
    output: Tensor,
    input_list: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`output` of process i becomes the reduction of all processes' `input_list[i]`."""
    chosen = resolved("reduce_scatter", group)
    if chosen is None:
        return None
    out = tensor_of("reduce_scatter", "output", output)
    parts = tensors_of("reduce_scatter", "input_list", input_list, chosen.size(), out)
    engine = chosen.engine("reduce_scatter", out, *parts)
    whole = out if is_meta(out) else stack([engine.staged(p) for p in parts])
    return _scattered("reduce_scatter", chosen, engine, out, whole, op, async_op, output)


def splits_of(what: str, name: str, given: Any, rows: int, n: int) -> list[int]:
    if given is None or len(given) == 0:
        if rows % n:
            raise ValueError(f"{what}: {rows} rows do not divide among {n} processes; give {name}")
        return [rows // n] * n
    sizes = [int(s) for s in given]
    if len(sizes) != n or min(sizes) < 0 or sum(sizes) != rows:
        raise ValueError(f"{what}: {name} is {sizes}; give {n} numbers whose sum is {rows}")
    return sizes


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Part j of process i's `input` becomes part i of process j's `output`.

    Args:
        input_split_sizes: how many rows (along the first dimension) go to each process; equal parts
            by default. output_split_sizes: how many come from each.
    """
    what = "all_to_all_single"
    chosen = resolved(what, group)
    if chosen is None:
        return None
    out, t = tensor_of(what, "output", output), tensor_of(what, "input", input)
    same_dtype(what, out, t)
    if out.ndim == 0 or t.ndim == 0 or out.shape[1:] != t.shape[1:]:
        raise ValueError(
            f"{what}: output has shape {tuple(out.shape)} and input {tuple(t.shape)}; they differ"
            " in the"
            " first dimension alone"
        )
    n = chosen.size()
    takes = splits_of(what, "output_split_sizes", output_split_sizes, out.size(0), n)
    gives = splits_of(what, "input_split_sizes", input_split_sizes, t.size(0), n)
    row = t[:1].numel() if t.size(0) else out[:1].numel()
    engine = chosen.engine(what, t, out)
    meta = is_meta(t)
    buffer, sent = (out, t) if meta else (engine.landing(out), engine.staged(t))
    plan = Plan(
        what,
        t if meta else None,
        "",
        lambda: engine.all_to_all(buffer, sent, [s * row for s in takes], [s * row for s in gives]),
        None if buffer is out else lambda: landed(out, buffer),
        (buffer, sent, out),
        [output],
    )
    return carried_out(chosen, engine, plan, async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor],
    input_tensor_list: Sequence[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`input_tensor_list[j]` of process i becomes `output_tensor_list[i]` of process j."""
    what = "all_to_all"
    chosen = resolved(what, group)
    if chosen is None:
        return None
    n = chosen.size()
    outs = tensors_of(what, "output_tensor_list", output_tensor_list, n, None)
    parts = tensors_of(what, "input_tensor_list", input_tensor_list, n, None)
    if len({t.dtype for t in outs + parts}) > 1:
        raise ValueError(f"{what}: the tensors are of several dtypes; give one")
    engine = chosen.engine(what, *parts, *outs)
    if is_meta(parts[0]):
        plan = Plan(what, parts[0], "", nothing, result=output_tensor_list)
        return carried_out(chosen, engine, plan, async_op)
    sent = cat([engine.staged(t).reshape(-1) for t in parts])
    takes, gives = [t.numel() for t in outs], [t.numel() for t in parts]
    whole = engine.empty((sum(takes),), sent.dtype)

    def finish() -> None:
        for out, part in zip(outs, whole.split(takes), strict=True):
            out.copy_(part.view(out.shape))

    plan = Plan(
        what,
        None,
        "",
        lambda: engine.all_to_all(whole, sent, takes, gives),
        finish,
        (whole, sent, *outs),
        output_tensor_list,
    )
    return carried_out(chosen, engine, plan, async_op)
