"""Messages from one process to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from facula import Tensor
from facula.distributed._calls import Call, is_meta
from facula.distributed._collectives import Plan, landed, root_of, tensor_of
from facula.distributed._errors import DistBackendError
from facula.distributed._group import ProcessGroup, resolved
from facula.distributed._work import Work

__all__ = ["P2POp", "batch_isend_irecv", "irecv", "isend", "recv", "send"]

_MOST_TAG = 32767  # what every library of MPI takes


class Receiving(Work):
    """A message on its way to here."""

    def __init__(self, requests: Sequence[Any], group: ProcessGroup, *args: Any, **kw: Any) -> None:
        self._message, self._group = requests[0], group
        super().__init__(requests, *args, **kw)

    def source_rank(self) -> int:
        """The rank in the job of whoever sent it."""
        self.wait()
        return self._group.ranks[self._message.source]


def _checked(what: str, t: Any, tag: int) -> Tensor:
    t = tensor_of(what, "tensor", t)
    if not 0 <= tag <= _MOST_TAG:
        raise ValueError(f"{what}: tag is {tag}; give 0 to {_MOST_TAG}")
    if is_meta(t):
        raise ValueError(f"{what}: a tensor on the meta device has no values to send")
    return t


def _peer(what: str, group: ProcessGroup, rank: int | None, in_group: int | None, name: str) -> int:
    if rank is None and in_group is None:
        raise ValueError(f"{what}: give {name}, a rank in the job, or group_{name}")
    peer = root_of(what, group, rank, in_group, name)
    if peer == group.rank():
        raise ValueError(f"{what}: {name} is this process itself")
    return peer


def _send(
    what: str, tensor: Tensor, dst: Any, group: Any, tag: int, group_dst: Any, async_op: bool
) -> Work | None:
    chosen = resolved(what, group)
    if chosen is None:
        return None
    t = _checked(what, tensor, tag)
    peer = _peer(what, chosen, dst, group_dst, "dst")
    chosen.job.check(what, [chosen.ranks[peer]])
    engine = _carrier_of(what, chosen, t, tag)
    call = _note(chosen, what, t, f"to {peer}, tag {tag}")
    sent = engine.staged(t)
    if not engine.is_host:
        pair = engine.pair(chosen.rank(), peer)
        plan = Plan(what, t, call.detail, lambda: pair.send(sent, 1), None, (sent,), [tensor])
        return pair.carry_out(chosen, call, plan, async_op)  # type: ignore[no-any-return]
    work = chosen.work([engine.send(sent, peer, tag)], call, keep=sent)
    return chosen.complete(work, async_op)


def _carrier_of(what: str, group: ProcessGroup, t: Tensor, tag: int) -> Any:
    """What carries a message: with a tag, which libraries of devices do not know, that of CPUs."""
    engine = group.engine(what, t)
    if engine.is_host or not tag:
        return engine
    if group.host is None:
        raise ValueError(
            f"{what}: tag is {tag}, and messages between devices have none; give 0, or"
            " init_process_group('cpu:gloo,cuda:nccl'), which sends those with a tag by the CPU"
        )
    return group.host


def _note(group: ProcessGroup, what: str, t: Tensor, detail: str) -> Call:
    """Notes a message; messages are not compared between processes, and not counted."""
    call = Call(what, t, detail, group.count)
    group.job.watch.call = call
    return call


def isend(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> Work | None:
    """Sends a tensor to process `dst` (a rank in the job), and returns a `Work` at once.

    Args:
        tensor: not to be written until the work is done.
        tag: 0 to 32767; the receiver gives the same.
    """
    return _send("isend", tensor, dst, group, tag, group_dst, True)


def send(
    tensor: Tensor,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_dst: int | None = None,
) -> None:
    """Sends a tensor, and returns when it may be written again."""
    _send("send", tensor, dst, group, tag, group_dst, False)


def _receive(
    what: str, tensor: Tensor, src: Any, group: Any, tag: int, group_src: Any
) -> Work | None:
    chosen = resolved(what, group)
    if chosen is None:
        return None
    t = _checked(what, tensor, tag)
    anyone = src is None and group_src is None
    peer = None if anyone else _peer(what, chosen, src, group_src, "src")
    engine = _carrier_of(what, chosen, t, tag)
    call = _note(chosen, what, t, f"from {'anyone' if anyone else peer}, tag {tag}")
    buffer = engine.landing(t)
    if not engine.is_host:
        if peer is None:
            raise ValueError(f"{what}: give src; messages between devices come from one process")
        pair = engine.pair(peer, chosen.rank())
        plan = Plan(
            what,
            t,
            call.detail,
            lambda: pair.receive(buffer, 0),
            None if buffer is t else lambda: landed(t, buffer),
            (buffer, t),
            [tensor],
        )
        coming = pair.carry_out(chosen, call, plan, True)
        coming.source = chosen.ranks[peer]
        return coming  # type: ignore[no-any-return]
    request = engine.receive(buffer, peer, tag)
    wanted = buffer.numel() * buffer.element_size()

    def finish() -> None:
        if request.size != wanted:
            raise DistBackendError(
                f"{what}: the message has {request.size} bytes, and the tensor {t.dtype}"
                f" {tuple(t.shape)} takes {wanted}"
            )
        landed(t, buffer)

    ranks = chosen.ranks if peer is None else [chosen.ranks[peer]]
    job = chosen.job
    return Receiving(
        [request],
        chosen,
        call.name,
        lambda: job.check(what, ranks),
        chosen.timeout,
        job.late,
        finish,
        buffer,
        [tensor],
    )


def irecv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> Work | None:
    """Receives into a tensor, and returns a `Work` at once; `src` None takes it from anyone."""
    work = _receive("irecv", tensor, src, group, tag, group_src)
    if isinstance(work, Receiving):
        work._group.job.progress.add(work)
    return work


def recv(
    tensor: Tensor,
    src: int | None = None,
    group: ProcessGroup | None = None,
    tag: int = 0,
    group_src: int | None = None,
) -> int:
    """Receives into a tensor; returns the sender's rank in the job, or -1 outside the group.

    Raises:
        DistBackendError: the message is of another size than the tensor.
    """
    work = _receive("recv", tensor, src, group, tag, group_src)
    return -1 if work is None else work.source_rank()


class P2POp:
    """A message of `batch_isend_irecv`.

    Args:
        op: `isend` or `irecv`. tensor: what goes, or is filled. peer: the other's rank in the job.
    """

    def __init__(
        self,
        op: Callable[..., Any],
        tensor: Tensor,
        peer: int | None = None,
        group: ProcessGroup | None = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError(f"P2POp: op is {op!r}; give distributed.isend or distributed.irecv")
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag
        self.group_peer = group_peer


def _together(ops: Sequence[P2POp]) -> list[Work] | None:
    """Messages between devices, as one call of the group's communicator; None for others."""
    what = "batch_isend_irecv"
    group = resolved(what, ops[0].group)
    if group is None or any(op.tag or op.group != ops[0].group for op in ops):
        return None
    tensors = [_checked(what, op.tensor, op.tag) for op in ops]
    engine = group.engine(what, tensors[0])
    if engine.is_host:
        return None
    group.engine(what, *tensors)
    plans = []
    for op, t in zip(ops, tensors, strict=True):
        sends = op.op is isend
        peer = _peer(what, group, op.peer, op.group_peer, "peer")
        place = engine.staged(t) if sends else engine.landing(t)
        plans.append(
            Plan(
                what,
                t,
                "",
                partial(engine.send if sends else engine.receive, place, peer),
                None if sends or place is t else partial(landed, t, place),
                (place, t),
                [] if sends else [op.tensor],
            )
        )
    call = _note(group, what, tensors[0], f"of {len(ops)} messages")
    plan = engine.together(Plan(what, None, "", tuple), plans)
    return [engine.carry_out(group, call, plan, True)]


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Starts several messages, in any order, and returns their works.

    Between devices they are one work, and the first such call is one of all processes of the group.
    """
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("batch_isend_irecv: give a list of P2POp, not empty")
    together = _together(p2p_op_list)
    if together is not None:
        return together
    name = {isend: "group_dst", irecv: "group_src"}
    # Receivers first: a message that finds its place waiting is copied once.
    works: dict[int, Work | None] = {}
    for i, op in sorted(enumerate(p2p_op_list), key=lambda pair: pair[1].op is isend):
        where = {name[op.op]: op.group_peer}
        works[i] = op.op(op.tensor, op.peer, op.group, op.tag, **where)
    return [w for _, w in sorted(works.items()) if w is not None]
