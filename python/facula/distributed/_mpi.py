"""The engine of CPUs: MPI, by mpi4py.

Every call is one of MPI's own that does not block; whoever waits asks for it from time to time, so
that a process that is lost, a timeout and Ctrl-C are seen.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import facula
from facula import Tensor
from facula.distributed import _secret
from facula.distributed._errors import DistBackendError
from facula.distributed._pmi import Translator
from facula.distributed._reduce import ReduceOp
from facula.distributed._store import Store
from facula.distributed._work import Work

T = TypeVar("T")
_LAUNCHED = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")

_started: tuple[int, int] | None = None  # rank and size: MPI starts once in a process
_translator: Translator | None = None


def is_available() -> bool:
    """Is mpi4py installed?"""
    import importlib.util

    return importlib.util.find_spec("mpi4py") is not None


def was_started() -> bool:
    """Did this process start MPI?"""
    return _started is not None


def is_launched() -> bool:
    """Was this process started by a launcher of MPI?"""
    return any(name in os.environ for name in _LAUNCHED)


def _module() -> Any:
    try:
        import mpi4py
    except ImportError:
        raise DistBackendError(
            "distributed: processes on CPUs are joined by MPI, and mpi4py is not installed: pip"
            " install 'facula[distributed]' (mpi4py, and mpich as its library)"
        ) from None
    mpi4py.rc.initialize = mpi4py.rc.finalize = False
    from mpi4py import MPI

    return MPI


def _library() -> Any:
    """The library that mpi4py calls, for what waits for other processes and keeps the GIL there."""
    import ctypes

    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/libmpi" in line}
    chosen = [p for p in paths if re.search(r"/libmpi(_abi|mpich)?\.so[.\d]*$", p)]
    if len(chosen) != 1:
        raise DistBackendError(f"distributed: no one library of MPI is loaded: {sorted(paths)}")
    return ctypes.CDLL(chosen[0])


def _init(MPI: Any) -> None:
    import ctypes

    given = ctypes.c_int()
    if _library().MPI_Init_thread(None, None, MPI.THREAD_MULTIPLE, ctypes.byref(given)):
        raise DistBackendError("distributed: MPI does not start")


def in_time(call: Callable[[], T], check: Callable[[], None], what: str, timeout: float) -> T:
    """A call that may block, on a thread of its own, so that this one can give up.

    Raises:
        DistBackendError: not done after `timeout` seconds. What `check` or the call raises.
    """
    box: list[Any] = []

    def run() -> None:
        try:
            box.append((call(), None))
        except BaseException as error:
            box.append((None, error))

    thread = threading.Thread(target=run, name="facula " + what, daemon=True)
    thread.start()
    end = time.monotonic() + timeout
    while not box:
        thread.join(0.02)
        if not box:
            check()
            if time.monotonic() > end:
                raise DistBackendError(f"{what}: not complete after {timeout:g} s")
    value, error = box[0]
    if error is not None:
        raise error
    return value  # type: ignore[no-any-return]


def start(
    store: Store, rank: int, size: int, host: str, check: Callable[[], None], timeout: float
) -> Any:
    """Starts MPI with the peers of the store, once in a process, and gives its module.

    Raises:
        DistBackendError: it cannot start, or was started with another rank or size.
    """
    global _started, _translator
    MPI = _module()
    if _started is None and not MPI.Is_initialized():
        os.environ.setdefault("MPIR_CVAR_ENABLE_GPU", "0")  # it gets memory of the host alone
        if not is_launched():
            if _secret.is_loopback(host):  # nothing may listen where others could reach it
                os.environ.setdefault("UCX_NET_DEVICES", "lo")
                os.environ.setdefault("FI_TCP_IFACE", "lo")
            if rank == 0:
                store.set("mpi/name", uuid.uuid4().hex)
            _translator = Translator(store, rank, size, store.get("mpi/name").decode())
            own = store.clone()  # this thread's is wanted for news of the others
            in_time(lambda: _meet(own, size, "mpi/ready"), check, "starting MPI", timeout)
        in_time(lambda: _init(MPI), check, "starting MPI", timeout)
        if _translator is not None:
            _translator.restore()
        in_time(MPI.COMM_WORLD.Barrier, check, "starting MPI", timeout)
        _unlink_segments()
        if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
            raise DistBackendError("distributed: this library of MPI cannot be called by threads")
    here = (MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size)
    if here != (rank, size):
        raise DistBackendError(
            f"distributed: this process is rank {here[0]} of {here[1]} of MPI, and is asked to be"
            " rank"
            f" {rank} of {size}. MPI starts once in a process: use a new process"
        )
    _started = here
    return MPI


def _meet(store: Store, size: int, name: str) -> None:
    """Waits for the others by the store: MPI would spin, on cores that late ones still need."""
    if store.add(name, 1) == size:
        store.set(name + "/all", b"1")
    store.wait([name + "/all"])


def close() -> None:
    """Nothing more is said between MPI and its peers."""
    if _translator is not None:
        _translator.close()


def finish(check: Callable[[], None], timeout: float) -> None:
    """Ends MPI, which all processes of the job do together."""
    if _started is not None:
        MPI = _module()
        if not MPI.Is_finalized():
            if _translator is not None:
                _translator.ending = True
            in_time(_library().MPI_Finalize, check, "ending MPI", timeout)


def _unlink_segments() -> None:
    """Removes names of shared memory that all have mapped, so that nothing stays behind."""
    with open("/proc/self/maps", encoding="ascii", errors="replace") as maps:
        names = set(re.findall(r"/dev/shm/mpich_shm_\S+", maps.read()))
    for name in names:
        with contextlib.suppress(OSError):
            os.unlink(name)


class MpiEngine:
    """What makes communicators of MPI."""

    name = "mpi"

    def __init__(self, MPI: Any, check: Callable[[], None], timeout: float) -> None:
        self.mpi, self._check, self._timeout = MPI, check, timeout
        self.ops = {
            ReduceOp.SUM: MPI.SUM, ReduceOp.PRODUCT: MPI.PROD, ReduceOp.MIN: MPI.MIN,
            ReduceOp.MAX: MPI.MAX, ReduceOp.BAND: MPI.BAND, ReduceOp.BOR: MPI.BOR,
            ReduceOp.BXOR: MPI.BXOR,
        }  # fmt: skip
        self.types = {
            facula.uint8: MPI.UINT8_T, facula.int8: MPI.INT8_T, facula.int16: MPI.INT16_T,
            facula.int32: MPI.INT32_T, facula.int64: MPI.INT64_T, facula.uint16: MPI.UINT16_T,
            facula.uint32: MPI.UINT32_T, facula.uint64: MPI.UINT64_T, facula.float32: MPI.FLOAT,
            facula.float64: MPI.DOUBLE, facula.complex64: MPI.C_FLOAT_COMPLEX,
            facula.complex128: MPI.C_DOUBLE_COMPLEX,
        }  # fmt: skip

    def group(self, ranks: Sequence[int], tag: int) -> MpiCommunicator:
        """A communicator of some ranks of the job; they all ask for it, the others do not."""
        world = self.mpi.COMM_WORLD

        def make() -> Any:
            if len(ranks) == world.size:
                made = world.Dup()
            else:
                made = world.Create_group(world.Get_group().Incl(list(ranks)), tag % 32768)
            made.Set_errhandler(self.mpi.ERRORS_RETURN)
            return made

        return MpiCommunicator(self, in_time(make, self._check, "new_group", self._timeout))


class MpiCommunicator:
    """Collectives of MPI on contiguous tensors in this process's memory.

    Each method starts one and returns a request with `Test()`.
    """

    coalesces = False
    is_host = True

    def __init__(self, engine: MpiEngine, communicator: Any) -> None:
        self._engine, self._mpi, self._group = engine, engine.mpi, communicator

    # ---- tensors ----

    def reduces(self, op: ReduceOp, dtype: facula.dtype) -> bool:
        """Does MPI reduce the dtype so, and keep NaN?"""
        ordered = dtype.is_floating_point and op in (ReduceOp.MIN, ReduceOp.MAX)
        return dtype in self._engine.types and op in self._engine.ops and not ordered

    def staged(self, t: Tensor) -> Tensor:
        """The tensor's values in memory that the engine reads: its own where that serves."""
        return t.to("cpu").contiguous()

    def empty(self, shape: Sequence[int], dtype: facula.dtype) -> Tensor:
        """Memory that it fills."""
        return facula.empty(tuple(shape), dtype=dtype, device="cpu")

    def landing(self, t: Tensor) -> Tensor:
        """Memory that the engine fills for a tensor: its own where that serves."""
        fits = t.device.type == "cpu" and t.is_contiguous()
        return t if fits else self.empty(t.shape, t.dtype)

    # ---- calls ----

    def carry_out(self, group: Any, call: Any, plan: Any, async_op: bool) -> Work | None:
        """Begins a planned collective of the group and waits for it, or not."""
        requests = plan.start()
        work = group.work(
            requests if isinstance(requests, list) else [requests],
            call,
            finish=plan.finish,
            keep=plan.keep,
            result=plan.result,
        )
        return group.complete(work, async_op)  # type: ignore[no-any-return]

    def _bytes(self, t: Tensor) -> list[Any]:
        size = t.numel() * t.element_size()
        return [self._mpi.buffer.fromaddress(t.data_ptr(), size), self._mpi.BYTE]

    def _values(self, t: Tensor) -> list[Any]:
        return [self._bytes(t)[0], self._engine.types[t.dtype]]

    def all_reduce(self, t: Tensor, op: ReduceOp) -> Any:
        return self._group.Iallreduce(self._mpi.IN_PLACE, self._values(t), self._engine.ops[op])

    def reduce(self, t: Tensor, op: ReduceOp, root: int) -> Any:
        how = self._engine.ops[op]
        if self._group.rank == root:
            return self._group.Ireduce(self._mpi.IN_PLACE, self._values(t), how, root)
        return self._group.Ireduce(self._values(t), None, how, root)

    def broadcast(self, t: Tensor, root: int) -> Any:
        return self._group.Ibcast(self._bytes(t), root)

    def all_gather(self, out: Tensor, t: Tensor) -> Any:
        return self._group.Iallgather(self._bytes(t), self._bytes(out))

    def reduce_scatter(self, out: Tensor, t: Tensor, op: ReduceOp) -> Any:
        how = self._engine.ops[op]
        return self._group.Ireduce_scatter_block(self._values(t), self._values(out), how)

    def gather(self, out: Tensor | None, t: Tensor, root: int) -> Any:
        return self._group.Igather(self._bytes(t), None if out is None else self._bytes(out), root)

    def scatter(self, out: Tensor, t: Tensor | None, root: int) -> Any:
        return self._group.Iscatter(None if t is None else self._bytes(t), self._bytes(out), root)

    def all_to_all(self, out: Tensor, t: Tensor, takes: Sequence[int], gives: Sequence[int]) -> Any:
        """`takes` and `gives`: how many elements from and to each process."""
        size = t.element_size()

        def parts(of: Tensor, counts: Sequence[int]) -> list[Any]:
            whole, kind = self._bytes(of)
            return [whole, [count * size for count in counts], kind]

        return self._group.Ialltoallv(parts(t, gives), parts(out, takes))

    def send(self, t: Tensor, peer: int, tag: int) -> Any:
        return self._group.Isend(self._bytes(t), peer, tag)

    def receive(self, t: Tensor, peer: int | None, tag: int) -> Any:
        return _Received(
            self._mpi,
            self._group.Irecv(self._bytes(t), self._mpi.ANY_SOURCE if peer is None else peer, tag),
        )

    def barrier(self) -> Any:
        return self._group.Ibarrier()


class _Received:
    """A request that also tells from whom the message came, and how long it was."""

    def __init__(self, MPI: Any, request: Any) -> None:
        self._request, self._status, self._kind = request, MPI.Status(), MPI.BYTE

    def Test(self) -> bool:
        return bool(self._request.Test(self._status))

    @property
    def source(self) -> int:
        return int(self._status.Get_source())

    @property
    def size(self) -> int:
        return int(self._status.Get_count(self._kind))
