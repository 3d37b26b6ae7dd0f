"""Several collectives as one, and barriers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from facula import Tensor
from facula.distributed._calls import is_meta
from facula.distributed._collectives import Plan, all_reduced, carried_out, listed, nothing
from facula.distributed._errors import DistBackendError, DistStoreError
from facula.distributed._group import ProcessGroup, resolved
from facula.distributed._reduce import ReduceOp
from facula.distributed._store import seconds
from facula.distributed._work import Work

__all__ = ["all_gather_coalesced", "all_reduce_coalesced", "barrier", "monitored_barrier"]


def _coalesced(
    what: str, group: ProcessGroup, planned: Sequence[tuple[Plan, Any]], async_op: bool
) -> Work | None:
    """Several collectives as one work, and as one call of an engine that has such."""
    engines = {id(engine): engine for _, engine in planned}
    plans = [plan for plan, _ in planned]
    if len(engines) == 1 and not any(p.shown is not None and is_meta(p.shown) for p in plans):
        (engine,) = engines.values()
        if engine.coalesces:
            plan = engine.together(Plan(what, None, "", nothing), plans)
            return carried_out(group, engine, plan, async_op)
    works = [carried_out(group, engine, plan, True) for plan, engine in planned]
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
    what = "all_reduce_coalesced"
    return _coalesced(
        what, chosen, [all_reduced("all_reduce", chosen, t, op) for t in tensors], async_op
    )


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
    planned = [
        listed("all_gather", chosen, [outs[j] for outs in output_tensor_lists], t)
        for j, t in enumerate(input_tensor_list)
    ]
    return _coalesced(what, chosen, planned, async_op)


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
    engine = chosen.meeting_place(device_ids)
    plan = Plan("barrier", None, "", engine.barrier)
    if engine.is_host and not async_op and timeout is None:
        return carried_out(chosen, engine, plan, False)
    work = carried_out(chosen, engine, plan, True)
    if async_op or work is None:
        return work
    work.wait(chosen.timeout if timeout is None else timeout)
    return None


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
