"""Messages from one process to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from facula import Tensor
from facula.distributed._calls import Call, is_meta
from facula.distributed._collectives import landed, landing, root_of, staged, tensor_of
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
    sent = staged(t)
    request = chosen.job.engine.send(chosen.handle, sent, peer, tag)
    work = chosen.work([request], _note(chosen, what, t, f"to {peer}, tag {tag}"), keep=sent)
    return chosen.complete(work, async_op)


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
) -> Receiving | None:
    chosen = resolved(what, group)
    if chosen is None:
        return None
    t = _checked(what, tensor, tag)
    anyone = src is None and group_src is None
    peer = None if anyone else _peer(what, chosen, src, group_src, "src")
    buffer = landing(t)
    request = chosen.job.engine.receive(chosen.handle, buffer, peer, tag)
    wanted = buffer.numel() * buffer.element_size()

    def finish() -> None:
        if request.size != wanted:
            raise DistBackendError(
                f"{what}: the message has {request.size} bytes, and the tensor {t.dtype}"
                f" {tuple(t.shape)} takes {wanted}"
            )
        landed(t, buffer)

    call = _note(chosen, what, t, f"from {'anyone' if anyone else peer}, tag {tag}")
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
    if work is not None:
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


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Starts several messages, in any order, and returns their works."""
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError("batch_isend_irecv: give a list of P2POp, not empty")
    name = {isend: "group_dst", irecv: "group_src"}
    # Receivers first: a message that finds its place waiting is copied once.
    works: dict[int, Work | None] = {}
    for i, op in sorted(enumerate(p2p_op_list), key=lambda pair: pair[1].op is isend):
        where = {name[op.op]: op.group_peer}
        works[i] = op.op(op.tensor, op.peer, op.group, op.tag, **where)
    return [w for _, w in sorted(works.items()) if w is not None]
