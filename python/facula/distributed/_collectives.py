"""Collectives of tensors.

Each waits until this process's part is done, or with `async_op=True` returns a `Work` at once. In
processes that are not in the group nothing happens, with a warning. All of them raise LostRankError
if a process of the group is gone, and DistBackendError after the timeout of the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import facula
from facula import Tensor
from facula.distributed._calls import is_meta
from facula.distributed._errors import DistBackendError, DistStoreError
from facula.distributed._group import ProcessGroup, resolved
from facula.distributed._reduce import ReduceOp, reduction
from facula.distributed._store import seconds
from facula.distributed._work import Work

__all__ = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
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


def staged(t: Tensor) -> Tensor:
    """The tensor's values in memory that the engine reads: its own where that serves."""
    return t.to("cpu").contiguous()


def landing(t: Tensor) -> Tensor:
    """Memory that the engine fills for a tensor: its own where that serves."""
    fits = t.device.type == "cpu" and t.is_contiguous()
    return t if fits else facula.empty(t.shape, dtype=t.dtype, device="cpu")


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


def _whole(
    group: ProcessGroup,
    name: str,
    shown: Tensor | None,
    detail: str,
    start: Callable[[Any], Any],
    finish: Callable[[], None] | None,
    keep: Any,
    async_op: bool,
    result: Sequence[Tensor] = (),
) -> Work | None:
    """Begins a collective and waits for it, or not."""
    call = group.begin(name, shown, detail)
    if shown is not None and is_meta(shown):
        return group.complete(group.work([], call, result=result), async_op)
    requests = start(group.handle)
    work = group.work(
        requests if isinstance(requests, list) else [requests],
        call,
        finish=finish,
        keep=keep,
        result=result,
    )
    return group.complete(work, async_op)


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
    t = tensor_of("all_reduce", "tensor", tensor)
    how = reduction("all_reduce", op, t.dtype, chosen.size())
    engine = chosen.job.engine
    if is_meta(t):
        return _whole(
            chosen, "all_reduce", t, op.name, lambda h: [], None, None, async_op, [tensor]
        )
    place = landing(t)
    if place is not t:
        place = staged(t)
    buffer = place if how.is_plain else how.encode(place).contiguous()

    def finish() -> None:
        done = how.decode(buffer)
        if done is not t:
            t.copy_(done)

    return _whole(
        chosen,
        "all_reduce",
        t,
        op.name,
        lambda h: engine.all_reduce(h, buffer, how.op),
        finish,
        buffer,
        async_op,
        [tensor],
    )


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
    how = reduction("reduce", op, t.dtype, chosen.size())
    here = chosen.rank() == root
    plain = how.is_plain and here and t.device.type == "cpu" and t.is_contiguous()
    buffer = t if is_meta(t) or plain else how.encode(staged(t)).contiguous()

    def finish() -> None:
        if here:
            done = how.decode(buffer)
            if done is not t:
                t.copy_(done)

    engine = chosen.job.engine
    return _whole(
        chosen,
        "reduce",
        t,
        f"{op.name} to {root}",
        lambda h: engine.reduce(h, buffer, how.op, root),
        finish,
        buffer,
        async_op,
        [tensor],
    )


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
    t = tensor_of("broadcast", "tensor", tensor)
    root = root_of("broadcast", chosen, src, group_src, "src")
    engine = chosen.job.engine
    here = chosen.rank() == root
    buffer = t if is_meta(t) else staged(t) if here else landing(t)

    def finish() -> None:
        if not here:
            landed(t, buffer)

    return _whole(
        chosen,
        "broadcast",
        t,
        f"from {root}",
        lambda h: engine.broadcast(h, buffer, root),
        finish,
        buffer,
        async_op,
        [tensor],
    )


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
    engine = group.job.engine
    meta = is_meta(t)
    buffer, sent = (out, t) if meta else (landing(out), staged(t))
    return _whole(
        group,
        what,
        t,
        "",
        lambda h: engine.all_gather(h, buffer, sent),
        lambda: landed(out, buffer),
        (buffer, sent),
        async_op,
        result,
    )


def _flat(parts: Sequence[Tensor]) -> Tensor:
    first = parts[0]
    return facula.empty((len(parts), *first.shape), dtype=first.dtype, device="cpu")


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
    t = tensor_of("all_gather", "tensor", tensor)
    outs = tensors_of("all_gather", "tensor_list", tensor_list, chosen.size(), t)
    if is_meta(t):
        return _gathered("all_gather", chosen, t, t, async_op, tensor_list)
    whole, sent, engine = _flat(outs), staged(t), chosen.job.engine

    def finish() -> None:
        for out, part in zip(outs, whole.unbind(0), strict=True):
            out.copy_(part)

    return _whole(
        chosen,
        "all_gather",
        t,
        "",
        lambda h: engine.all_gather(h, whole, sent),
        finish,
        (whole, sent),
        async_op,
        tensor_list,
    )


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
    meta = is_meta(t)
    whole = _flat(outs) if here and not meta else None
    sent, engine = t if meta else staged(t), chosen.job.engine

    def finish() -> None:
        if whole is not None:
            for out, part in zip(outs, whole.unbind(0), strict=True):
                out.copy_(part)

    return _whole(
        chosen,
        "gather",
        t,
        f"to {root}",
        lambda h: engine.gather(h, whole, sent, root),
        finish,
        (whole, sent),
        async_op,
        gather_list or (),
    )


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
    meta = is_meta(t)
    whole = facula.stack([staged(p) for p in parts]) if here and not meta else None
    buffer, engine = t if meta else landing(t), chosen.job.engine
    return _whole(
        chosen,
        "scatter",
        t,
        f"from {root}",
        lambda h: engine.scatter(h, buffer, whole, root),
        lambda: landed(t, buffer),
        (whole, buffer),
        async_op,
        [tensor],
    )


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
    out, t = tensor_of(what, "output", output), tensor_of(what, "input", input)
    same_dtype(what, out, t)
    _check_parts(what, "input", t, out, chosen.size())
    sent = t if is_meta(t) else staged(t)
    return _scattered(what, chosen, out, sent, op, async_op, output)


reduce_scatter_single = reduce_scatter_tensor


def _scattered(
    what: str,
    group: ProcessGroup,
    out: Tensor,
    whole: Tensor,
    op: ReduceOp,
    async_op: bool,
    result: Tensor,
) -> Work | None:
    how = reduction(what, op, out.dtype, group.size())
    engine = group.job.engine
    if is_meta(out):
        return _whole(group, what, out, op.name, lambda h: [], None, None, async_op, [result])
    sent = how.encode(whole).contiguous()
    buffer = (
        landing(out) if how.is_plain else facula.empty(out.shape, dtype=sent.dtype, device="cpu")
    )

    def finish() -> None:
        done = how.decode(buffer)
        if done is not out:
            out.copy_(done)

    return _whole(
        group,
        what,
        out,
        op.name,
        lambda h: engine.reduce_scatter(h, buffer, sent, how.op),
        finish,
        (buffer, sent),
        async_op,
        [result],
    )


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
    whole = out if is_meta(out) else facula.stack([staged(p) for p in parts])
    return _scattered("reduce_scatter", chosen, out, whole, op, async_op, output)


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
    meta = is_meta(t)
    buffer, sent = (out, t) if meta else (landing(out), staged(t))
    engine = chosen.job.engine
    return _whole(
        chosen,
        what,
        None if not meta else t,
        "",
        lambda h: engine.all_to_all(
            h, buffer, sent, [s * row for s in takes], [s * row for s in gives]
        ),
        lambda: landed(out, buffer),
        (buffer, sent),
        async_op,
        [output],
    )


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
    if is_meta(parts[0]):
        return _whole(
            chosen, what, parts[0], "", lambda h: [], None, None, async_op, output_tensor_list
        )
    sent = facula.cat([staged(t).reshape(-1) for t in parts])
    takes = [t.numel() for t in outs]
    whole = facula.empty(sum(takes), dtype=sent.dtype, device="cpu")
    engine = chosen.job.engine

    def finish() -> None:
        for out, part in zip(outs, whole.split(takes), strict=True):
            out.copy_(part.view(out.shape))

    return _whole(
        chosen,
        what,
        None,
        "",
        lambda h: engine.all_to_all(h, whole, sent, takes, [t.numel() for t in parts]),
        finish,
        (whole, sent),
        async_op,
        output_tensor_list,
    )


def _coalesced(
    what: str, group: ProcessGroup, works: Sequence[Work | None], async_op: bool
) -> Work | None:
    """Several collectives as one work."""
    waits = [w for w in works if w is not None]
    joined = group.work([_All(waits)], group.begin(what, None), keep=waits)
    return group.complete(joined, async_op)


class _All:
    """Several works as one request."""

    def __init__(self, works: Sequence[Work]) -> None:
        self._works = works

    def Test(self) -> bool:
        if sum(w.advance() for w in self._works) < len(self._works):  # all of them go on
            return False
        for work in self._works:
            work.wait()
        return True


def all_reduce_coalesced(
    tensors: Sequence[Tensor],
    op: ReduceOp = ReduceOp.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`all_reduce` of each tensor."""
    chosen = resolved("all_reduce_coalesced", group)
    if chosen is None:
        return None
    works = [all_reduce(t, op, chosen, True) for t in tensors]
    return _coalesced("all_reduce_coalesced", chosen, works, async_op)


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Tensor]],
    input_tensor_list: Sequence[Tensor],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """`all_gather` of each tensor: `output_tensor_lists[i][j]` becomes tensor j of process i."""
    what = "all_gather_coalesced"
    chosen = resolved(what, group)
    if chosen is None:
        return None
    if len(output_tensor_lists) != chosen.size():
        raise ValueError(
            f"{what}: output_tensor_lists has {len(output_tensor_lists)} lists; give one a process"
        )
    works = [
        all_gather([outs[j] for outs in output_tensor_lists], t, chosen, True)
        for j, t in enumerate(input_tensor_list)
    ]
    return _coalesced(what, chosen, works, async_op)


def barrier(
    group: ProcessGroup | None = None,
    async_op: bool = False,
    device_ids: Sequence[int] | None = None,
    timeout: timedelta | float | None = None,
) -> Work | None:
    """Returns when all processes of the group have called it.

    Args:
        timeout: seconds, or a timedelta; that of the group by default.
    """
    chosen = resolved("barrier", group)
    if chosen is None:
        return None
    engine = chosen.job.engine
    call = chosen.begin("barrier", None)
    work = chosen.work([engine.barrier(chosen.handle)], call)
    if not async_op and timeout is not None:
        work.wait(timeout)
        return None
    return chosen.complete(work, async_op)


def monitored_barrier(
    group: ProcessGroup | None = None,
    timeout: timedelta | float | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """A barrier by the store, whose error names who did not come.

    Raises:
        DistBackendError: some processes did not come within the timeout; it names them.
    """
    chosen = resolved("monitored_barrier", group)
    if chosen is None:
        return
    limit = seconds(timeout, chosen.timeout)
    call = chosen.begin("monitored_barrier", None)
    place = f"barrier/{call.count}"
    n = chosen.size()
    chosen.store.set(f"{place}/{chosen.rank()}", b"1")
    try:
        chosen.store.wait([f"{place}/{r}" for r in range(n)], limit)
    except DistStoreError:
        absent = [chosen.ranks[r] for r in range(n) if not chosen.store.check([f"{place}/{r}"])]
        raise DistBackendError(
            f"monitored_barrier: ranks {absent} did not come within {limit:g} s"
        ) from None
