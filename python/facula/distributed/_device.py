"""The engine of devices: the collectives of their own library, such as NCCL, on streams.

A call puts work into a stream and returns. What is waited for at once goes into the current stream;
what is asynchronous into a stream of the communicator's own, beside what the device computes, and
`wait()` lets the current stream wait for it. A thread looks after what is under way: a process that
is lost, an error of the library or a timeout ends all communicators, and whoever waits for the
device, or for the collective, hears why.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NoReturn

import facula
from facula import _C, Tensor
from facula.distributed._calls import Call, get_debug_level
from facula.distributed._errors import DistBackendError, DistError
from facula.distributed._mpi import in_time
from facula.distributed._reduce import ReduceOp
from facula.distributed._store import patience, seconds
from facula.distributed._work import Work

__all__ = ["DeviceCommunicator", "DeviceEngine", "DeviceWork", "names", "why_not"]

# The kinds and operations of facula/backend.h, by their places there.
_KINDS = ("all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "send", "receive")
(ALL_REDUCE, _REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, _SEND, _RECEIVE) = range(len(_KINDS))
_OPS = {
    op: i
    for i, op in enumerate(
        (ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX, ReduceOp.AVG)
    )
}
_PAUSE = 0.02  # seconds between two looks at what is under way

_OP_NAMES = [op.name for op in _OPS]
# What calls of `direct` are named.
_NAMES = {
    ALL_REDUCE: "all_reduce",
    BROADCAST: "broadcast",
    ALL_GATHER: "all_gather_into_tensor",
    REDUCE_SCATTER: "reduce_scatter_tensor",
}
Entry = tuple[int, int, "Tensor | None", "Tensor | None", int, int]  # of a call of the library


def names() -> dict[str, str]:
    """The engine's name by type of devices, of those that bring one, installed or not."""
    with contextlib.suppress(RuntimeError):  # CUDA registers when it is named
        facula.device("cuda")
    found = {kind: _C._collectives_name(facula.device(kind)) for kind in _C._backend_names()}
    return {kind: name for kind, name in found.items() if name is not None}


def why_not(device_type: str) -> str:
    """Why the collectives of a type of devices cannot be used; empty if they can."""
    try:
        place = facula.device(device_type)
        if _C._collectives_name(place) is None:
            return f"device '{device_type}' has no collectives of its own"
        if _C._device_count(device_type) == 0:
            _C._resolved_device(place)  # the vendor says why
            return f"there is no device '{device_type}'"
        _C._collectives_version(place)
    except (RuntimeError, NotImplementedError) as error:
        return str(error)
    return ""


def described(found: tuple[Any, ...]) -> Call:
    """A call of `DeviceCommunicator.direct`, as the others are noted."""
    kind, op, root, dtype, shape, number = found
    detail = {ALL_REDUCE: _OP_NAMES[op], REDUCE_SCATTER: _OP_NAMES[op], BROADCAST: f"from {root}"}
    call = Call(_NAMES[kind], None, detail.get(kind, ""), number)
    call.dtype, call.shape = dtype, tuple(shape)
    return call


class _Latest:
    """Says what a communicator's last call of `direct` is."""

    def __init__(self, communicator: DeviceCommunicator) -> None:
        self._communicator = communicator

    def __str__(self) -> str:
        return str(self._communicator.latest())


class DeviceWork(Work):
    """A collective in a stream."""

    def __init__(
        self, communicator: DeviceCommunicator, what: str, event: Any, stream: int, result: Any
    ) -> None:
        self._communicator, self._what, self._event = communicator, what, event
        self._stream, self._result = stream, list(result)
        self.source: int | None = None  # of a message: the sender's rank in the job

    def _check(self, *_: Any) -> None:
        error = self._communicator.engine.watch.error
        if error is not None:
            raise error

    def advance(self) -> bool:
        """Is it done?"""
        return self._communicator.engine.watch.error is not None or _C._event_query(self._event)

    is_completed = advance

    def is_success(self) -> bool:
        """Is it done, without an error?"""
        return self._communicator.engine.watch.error is None and _C._event_query(self._event)

    def exception(self) -> BaseException | None:
        """Why it failed, or None."""
        return self._communicator.engine.watch.error

    def result(self) -> list[Any]:
        """The tensors that it fills, for the current stream."""
        self.wait()
        return self._result

    def wait(self, timeout: timedelta | float | None = None) -> bool:
        """What this thread's current stream does from now on waits for it. Returns True.

        Args:
            timeout: seconds, or a timedelta. With it, this thread waits until it is done.

        Raises:
            LostRankError: a process that takes part is gone. DistBackendError: something failed, or
            it timed out.
        """
        self._check()
        place = self._communicator.device
        stream = _C._get_stream(place)
        if stream != self._stream:
            _C._event_wait(self._event, place, stream)
        if timeout is not None:
            self.block(seconds(timeout, 0.0))
        return True

    def block(self, limit: float) -> None:
        """Waits on the host until it is done."""
        start, pause = time.monotonic(), 0.0
        while not _C._event_query(self._event):
            self._check()
            time.sleep(pause)
            waited = time.monotonic() - start
            pause = 0.0 if waited < 0.002 else min(0.001, waited / 50)
            if waited > limit:
                watch = self._communicator.engine.watch
                watch.fail(watch.late(f"{self._what}: not complete after {limit:g} s"))
        self._check()

    def source_rank(self) -> int:
        """From whom a received message came."""
        if self.source is None:
            raise DistBackendError(f"{self._what}: receives nothing from one process")
        self.wait()
        return self.source


class DeviceWatch:
    """Looks after all collectives of a type of devices, by a thread of its own."""

    def __init__(self, engine: DeviceEngine) -> None:
        self._engine = engine
        self.error: DistError | None = None
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def begin(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="facula device", daemon=True)
            self._thread.start()

    def end(self) -> None:
        self._ended.set()

    def late(self, text: str) -> DistBackendError:
        """The error of what does not complete, with what each process did last."""
        return self._engine.job.late(text)  # type: ignore[no-any-return]

    def fail(self, error: DistError) -> None:
        """Ends all that is under way, and raises the error."""
        with self._lock:
            first = self.error is None
            self.error = self.error or error
        if first:
            job = self._engine.job
            job.broken = job.broken or str(error)
            self._engine.abort(str(error))
        raise self.error

    def _run(self) -> None:
        while not self._ended.wait(_PAUSE):
            try:
                for communicator in list(self._engine.communicators):
                    self._look(communicator)
            except DistError:
                return

    def _look(self, communicator: DeviceCommunicator) -> None:
        try:
            communicator.advance()
        except RuntimeError as error:  # of the device itself
            oldest = communicator.oldest()
            name = "a collective" if oldest is None else oldest[0].name
            self.fail(DistBackendError(f"{name}: {error}"))
        oldest = communicator.oldest()
        if oldest is None:
            return
        call, waited, timeout = oldest
        if waited < 2 * _PAUSE:
            return
        name = call.name
        try:
            communicator.query()
        except RuntimeError as error:
            self.fail(self.late(f"{name}: {error}"))
        try:
            self._engine.job.watch.check(name, communicator.ranks)
        except DistBackendError as error:
            gave_up = getattr(error, "gave_up", False)
            self.fail(self.late(str(error)) if gave_up else error)
        if waited > timeout:
            self.fail(self.late(f"{name}: not complete after {timeout:g} s"))


class DeviceEngine:
    """What makes communicators of one type of devices, in one job.

    Raises:
        DistBackendError: there is no device, or its library is not installed.
    """

    def __init__(self, job: Any, device_type: str) -> None:
        why = why_not(device_type)
        if why:
            raise DistBackendError(f"distributed: {why}")
        self.job, self.device_type = job, device_type
        place = facula.device(device_type)
        self.name, self.version = _C._collectives_name(place), _C._collectives_version(place)
        self.watch = DeviceWatch(self)
        self.communicators: list[DeviceCommunicator] = []
        self._reduces: dict[tuple[ReduceOp, Any], bool] = {}

    def reduces(self, op: ReduceOp, dtype: Any) -> bool:
        """Does the library reduce the dtype so, and keep NaN?"""
        found = self._reduces.get((op, dtype))
        if found is None:
            code = _OPS.get(op)
            place = facula.device(self.device_type)
            found = code is not None and _C._communicator_reduces(place, code, dtype)
            self._reduces[op, dtype] = found
        return found

    def abort(self, why: str) -> None:
        """Ends all communicators, and tells whoever waits for a device why."""
        for device in {c.device for c in self.communicators}:
            _C._device_fault(device, why)
        for communicator in self.communicators:
            communicator.abort()

    def is_busy(self) -> bool:
        """Is a collective under way, as far as the watch has seen?"""
        return any(c.oldest() is not None for c in self.communicators)

    def close(self, in_order: bool) -> bool:
        """Leaves all communicators; were they left with nothing under way?"""
        in_order = in_order and self.watch.error is None
        limit = time.monotonic() + patience()
        if in_order:
            while self.is_busy() and time.monotonic() < limit and self.watch.error is None:
                time.sleep(0.001)
        in_order = in_order and not self.is_busy()
        self.watch.end()
        for communicator in self.communicators:
            if not (in_order and communicator.leave(max(0.1, limit - time.monotonic()))):
                communicator.abort()
                in_order = False
        for device in {c.device for c in self.communicators}:
            _C._device_fault(device, "")
        return in_order


class DeviceCommunicator:
    """Collectives of some processes of a group on one device each.

    The processes join when the first of its collectives is called.

    Args:
        members: their ranks in the group.
        key: tells it from others of the group.
    """

    coalesces = True
    is_host = False

    def __init__(
        self, engine: DeviceEngine, group: Any, device: Any, members: Sequence[int], key: str
    ) -> None:
        self.engine, self.group, self.device = engine, group, device
        self.members, self.key = list(members), key
        self.ranks = [group.ranks[m] for m in self.members]
        self.reduces = engine.reduces
        self._communicator: Any = None
        self._own: int | None = None  # its stream
        self._calls: list[Entry] | None = None  # that are put together
        self._pairs: dict[tuple[int, int], DeviceCommunicator] = {}
        self._lock = threading.RLock()
        self._latest = _Latest(self)

    # ---- how it begins and ends ----

    def join(self) -> None:
        """Meets the others, once."""
        with self._lock:
            if self._communicator is not None:
                return
            job, what = self.engine.job, f"{self.engine.name}: a communicator of {self.ranks}"
            place, at = f"{self.engine.name} {self.key}", self.members.index(self.group.rank())
            store, limit = self.group.store, self.group.timeout
            if at == 0:
                store.set(place, _C._communicator_id(self.device))
            store.set(f"{place} {at}", b"")
            others = [place, *(f"{place} {i}" for i in range(len(self.members)))]
            self._meet(what, others, limit)
            given = store.get(place)
            self._communicator = in_time(
                lambda: _C._communicator(self.device, given, len(self.members), at),
                lambda: job.check(what, self.ranks),
                what,
                limit,
            )
            self.engine.communicators.append(self)
            self.engine.watch.begin()

    def _meet(self, what: str, keys: list[str], limit: float) -> None:
        """The library waits for others without an end, so come here first."""
        job, end, pause = self.engine.job, time.monotonic() + limit, 0.0005
        while not self.group.store.check(keys):
            job.check(what, self.ranks)
            if time.monotonic() > end:
                absent = [
                    rank
                    for i, rank in enumerate(self.ranks)
                    if not self.group.store.check([f"{keys[0]} {i}"])
                ]
                raise job.late(f"{what}: ranks {absent} did not come within {limit:g} s")
            time.sleep(pause)
            pause = min(0.05, pause * 1.5)

    def query(self) -> None:
        """Raises if the library found an error."""
        _C._communicator_query(self._communicator)

    def advance(self) -> None:
        """Drops the calls that are done; raises what the device says."""
        _C._communicator_advance(self._communicator)

    def oldest(self) -> tuple[Call, float, float] | None:
        """The oldest call that is under way, how many seconds, and how many it may be."""
        found = _C._communicator_oldest(self._communicator)
        if found is None:
            return None
        call, waited, timeout = found
        return (described(call) if isinstance(call, tuple) else call), waited, timeout

    def latest(self) -> Call:
        """The last call of `direct`."""
        return described(_C._communicator_latest(self._communicator))

    def leave(self, limit: float) -> bool:
        """Ends it in order, as the others do; did that work within the time?"""
        try:
            in_time(lambda: _C._communicator_end(self._communicator, True), lambda: None, "", limit)
        except RuntimeError:
            return False
        return True

    def abort(self) -> None:
        """Ends it and what is under way; does not wait for long."""
        thread = threading.Thread(
            target=lambda: _C._communicator_end(self._communicator, False), daemon=True
        )
        thread.start()
        thread.join(5.0)

    # ---- tensors ----

    def staged(self, t: Tensor) -> Tensor:
        """The tensor's values in memory that the engine reads: its own where that serves."""
        return t.contiguous()

    def empty(self, shape: Sequence[int], dtype: Any) -> Tensor:
        """Memory that it fills."""
        return facula.empty(tuple(shape), dtype=dtype, device=self.device)

    def landing(self, t: Tensor) -> Tensor:
        """Memory that the engine fills for a tensor: its own where that serves."""
        return t if t.is_contiguous() else self.empty(t.shape, t.dtype)

    # ---- calls ----

    def carry_out(self, group: Any, call: Any, plan: Any, async_op: bool) -> Work | None:
        """Puts a planned collective into a stream."""
        if self._communicator is None:
            self.join()
        device = self.device
        with self._lock:
            here = stream = _C._get_stream(device)
            captured = _C._is_captured(device, here)
            if async_op:
                if self._own is None:
                    self._own = _C._new_stream(device, -1)
                stream = self._own
            if stream != here:
                before = _C._new_event(device, False)
                _C._event_record(before, here)
                _C._event_wait(before, device, stream)
            ticket = None
            if not captured:  # nothing tells when a graph runs
                _C._communicator_order(self._communicator, stream)
                ticket = _C._communicator_begin(self._communicator, call, group.timeout)
            try:
                if stream != here:
                    _C._set_stream(device, stream)
                plan.start()
                if plan.finish is not None:
                    plan.finish()
                done = _C._new_event(device, False)
                _C._event_record(done, stream)
            except BaseException as error:
                if ticket is not None:  # one that never ends would hold up those behind it
                    _C._communicator_forget(self._communicator, ticket)
                if not isinstance(error, RuntimeError):
                    raise
                self._raise(plan.name, error)
            finally:
                if stream != here:
                    _C._set_stream(device, here)
            if stream != here:
                for t in plan.keep:
                    if t is not None:
                        _C._record_stream(t, device, stream)
            if ticket is not None:
                _C._communicator_put(self._communicator, ticket, done, stream)
        if not async_op:
            return None
        return DeviceWork(self, plan.name, done, stream, plan.result)

    def direct(self, kind: int, op: ReduceOp, out: Tensor, t: Tensor, root: int = 0) -> bool:
        """Puts a collective into the current stream, if it is plain: by one call, for speed.

        False, with nothing done, where it is asked of more than the library's own function, or is
        not right.
        """
        group, job = self.group, self.engine.job
        if self._communicator is None or op.__class__ is not ReduceOp or get_debug_level():
            return False
        if job.broken is not None or job.watch.failed:
            return False
        number = group.count + 1
        job.watch.call = self._latest
        with self._lock:
            try:
                done = _C._communicator_direct(
                    self._communicator, kind, _OPS.get(op, -1), out, t, root, number, group.timeout
                )
            except RuntimeError as error:
                self._raise(_NAMES[kind], error)
            if done:
                group.count = number
        return done  # type: ignore[no-any-return]

    def _raise(self, name: str, error: RuntimeError) -> NoReturn:
        """What a call that failed says."""
        if self.engine.watch.error is not None:
            raise self.engine.watch.error from None
        if isinstance(error, (DistError, NotImplementedError)):
            raise error
        raise DistBackendError(f"{name}: {error}") from error

    def together(self, plan: Any, plans: Sequence[Any]) -> Any:
        """Several plans as one, that the library is given as one call."""

        def start() -> None:
            self._calls = []
            try:
                for each in plans:
                    each.start()
                calls = self._calls
            finally:
                self._calls = None
            self._run(calls)

        def finish() -> None:
            for each in plans:
                if each.finish is not None:
                    each.finish()

        return plan._replace(
            start=start,
            finish=finish,
            keep=[t for each in plans for t in each.keep],
            result=[t for each in plans for t in each.result],
        )

    def _run(self, calls: list[Entry]) -> None:
        if self._calls is not None:
            self._calls += calls
        elif calls:
            _C._communicator_run(self._communicator, calls)

    def all_reduce(self, t: Tensor, op: ReduceOp) -> None:
        self._run([(ALL_REDUCE, _OPS[op], t, t, 0, t.numel())])

    def reduce(self, t: Tensor, op: ReduceOp, root: int) -> None:
        self._run([(_REDUCE, _OPS[op], t, t, root, t.numel())])

    def broadcast(self, t: Tensor, root: int) -> None:
        self._run([(BROADCAST, 0, t, t, root, t.numel())])

    def all_gather(self, out: Tensor, t: Tensor) -> None:
        self._run([(ALL_GATHER, 0, out, t, 0, t.numel())])

    def reduce_scatter(self, out: Tensor, t: Tensor, op: ReduceOp) -> None:
        self._run([(REDUCE_SCATTER, _OPS[op], out, t, 0, out.numel())])

    def _moves(self, kind: int, t: Tensor, counts: Sequence[int]) -> list[Entry]:
        """A part of the tensor to, or from, each process."""
        flat, calls, at = t.view(-1), [], 0
        for peer, n in enumerate(counts):
            part = flat[at : at + n]
            if n:
                ends = (None, part) if kind == _SEND else (part, None)
                calls.append((kind, 0, *ends, peer, n))
            at += n
        return calls

    def all_to_all(
        self, out: Tensor, t: Tensor, takes: Sequence[int], gives: Sequence[int]
    ) -> None:
        """`takes` and `gives`: how many elements from and to each process."""
        self._run([*self._moves(_SEND, t, gives), *self._moves(_RECEIVE, out, takes)])

    def gather(self, out: Tensor | None, t: Tensor, root: int) -> None:
        n = t.numel()
        calls: list[Entry] = [(_SEND, 0, None, t, root, n)] if n else []
        if out is not None:
            calls += self._moves(_RECEIVE, out, [n] * len(self.members))
        self._run(calls)

    def scatter(self, out: Tensor, t: Tensor | None, root: int) -> None:
        n = out.numel()
        calls: list[Entry] = [(_RECEIVE, 0, out, None, root, n)] if n else []
        if t is not None:
            calls += self._moves(_SEND, t, [n] * len(self.members))
        self._run(calls)

    def barrier(self) -> None:
        self.all_reduce(self.empty((1,), facula.uint8), ReduceOp.MAX)

    # ---- messages ----

    def pair(self, sender: int, receiver: int) -> DeviceCommunicator:
        """What carries messages of one process of the group to another, in their order."""
        with self._lock:
            # Both ways at once, and in one order: whoever sends may receive from the other next.
            for way in sorted(((sender, receiver), (receiver, sender))):
                if way not in self._pairs:
                    made = DeviceCommunicator(
                        self.engine, self.group, self.device, way, "from {} to {}".format(*way)
                    )
                    made.join()
                    self._pairs[way] = made
            return self._pairs[sender, receiver]

    def send(self, t: Tensor, peer: int) -> None:
        """To a member of this communicator."""
        self._run([(_SEND, 0, None, t, peer, t.numel())])

    def receive(self, t: Tensor, peer: int) -> None:
        self._run([(_RECEIVE, 0, t, None, peer, t.numel())])
