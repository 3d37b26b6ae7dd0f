"""Groups of processes: how a job begins and ends, and who is in it."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import facula
from facula import _C, Tensor
from facula.distributed import _calls, _mpi
from facula.distributed._device import DeviceCommunicator, DeviceEngine, names, why_not
from facula.distributed._errors import DistBackendError, DistError
from facula.distributed._rendezvous import joined
from facula.distributed._store import PrefixStore, Store, TCPStore, patience, seconds
from facula.distributed._watch import Watch
from facula.distributed._work import Progress, Work

default_pg_timeout = timedelta(minutes=30)
_CPU_BACKENDS = ("mpi", "gloo")


class Backend(str):
    """The name of an engine: `mpi` joins processes on CPUs, as does `gloo`; `nccl` on GPUs."""

    UNDEFINED, GLOO, NCCL, MPI, UCC = "undefined", "gloo", "nccl", "mpi", "ucc"
    backend_list = ("undefined", "gloo", "nccl", "mpi")

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend: name is {name!r}; give a text such as 'mpi'")
        return super().__new__(cls, name.lower())


class ProcessGroup:
    """Some processes of the job, which do collectives together.

    Attributes:
        ranks: their ranks in the job, in the order of their ranks in the group.
        group_name: a name that all of them know it by.
        store: a part of the job's store, of this group alone.
        host: its communicator of tensors on the CPU, None without an engine for these.
    """

    def __init__(self, job: Job, ranks: Sequence[int], number: int, timeout: float) -> None:
        self.job, self.ranks, self.timeout = job, tuple(ranks), timeout
        self.group_name = str(number)
        self.store = PrefixStore(f"group {number}", job.store)
        self.count = 0  # of its collectives so far
        self._rank = self.ranks.index(job.rank)
        self.host = None if job.host is None else job.host.group(self.ranks, number)
        self._places: dict[Any, DeviceCommunicator] = {}

    def rank(self) -> int:
        """This process's rank in the group."""
        return self._rank

    def size(self) -> int:
        """How many processes it has."""
        return len(self.ranks)

    def name(self) -> str:
        """The name of the engine."""
        return self.job.backend

    @property
    def device_types(self) -> list[Any]:
        """The devices whose memory the engines read themselves."""
        host = [] if self.host is None else ["cpu"]
        return [facula.device(kind) for kind in (*host, *self.job.devices())]

    # ---- which engine ----

    @property
    def carrier(self) -> Any:
        """The device of tensors by which processes tell each other something."""
        if self.host is not None:
            return facula.device("cpu")
        if self._places:
            return next(iter(self._places))
        (kind, *_) = self.job.devices()
        given = self.job.device_id
        return facula.device(kind, _C._current_device(kind)) if given is None else given

    def place(self, device: Any) -> DeviceCommunicator | None:
        """The communicator of a device that has an engine of its own."""
        with self.job.making:  # threads that come first together get one and the same
            found = self._places.get(device)
            if found is None:
                engine = self.job.engine(device.type)
                if engine is None:
                    return None
                every = range(len(self.ranks))
                found = DeviceCommunicator(engine, self, device, every, "all")
                self._places[device] = found
            return found

    def engine(self, what: str, t: Tensor, *others: Tensor) -> Any:
        """The communicator that serves these tensors.

        Raises:
            ValueError: their devices differ, or no engine of the group serves their device.
        """
        device = t.device
        found = self._places.get(device) or self.place(device)
        if found is not None:
            for other in others:
                if other.device != device:
                    raise ValueError(
                        f"{what}: the tensors are on {device} and {other.device}; give those of one"
                        " device"
                    )
            return found
        if self.host is not None:
            return self.host
        if _calls.is_meta(t):
            return self.place(self.carrier)
        raise ValueError(
            f"{what}: the tensor is on {device}, and the job has the engines"
            f" {', '.join(f'{k}:{n}' for k, n in self.job.devices().items())} alone; give a tensor"
            f" on such a device, or init_process_group('cpu:gloo,cuda:nccl')"
        )

    def direct(self, kind: int, op: Any, out: Any, t: Any, root: int = 0) -> bool:
        """Has a device's engine carried out a collective at once, as it does plain ones?"""
        place = self._places.get(getattr(out, "device", None))
        return place is not None and place.direct(kind, op, out, t, root)

    def meeting_place(self, device_ids: Sequence[int] | None) -> Any:
        """What serves a barrier."""
        if self.host is not None:
            return self.host
        place = self.carrier
        if device_ids:
            place = facula.device(place.type, int(device_ids[0]))
        return self.place(place)

    def __repr__(self) -> str:
        return f"<ProcessGroup {self.group_name} of ranks {list(self.ranks)} by {self.name()}>"

    def __deepcopy__(self, memo: Any) -> ProcessGroup:
        return self

    def __reduce__(self) -> Any:
        raise TypeError("a ProcessGroup belongs to its process, and cannot be pickled")

    # ---- a collective of it ----

    def begin(self, name: str, t: Tensor | None, detail: str = "") -> _calls.Call:
        """Notes a call, so that others can say where this process stands."""
        job = self.job
        job.check(name)
        self.count += 1
        call = _calls.Call(name, t, detail, self.count)
        job.watch.call = call
        if _calls.get_debug_level() and len(self.ranks) > 1:
            _calls.compare(self.store, "calls", self._rank, self.ranks, call)
        return call

    def complete(self, work: Work, async_op: bool) -> Work | None:
        """Waits for it, or hands it to whoever called."""
        if async_op:
            self.job.progress.add(work)
            return work
        work.wait()
        return None

    def work(self, requests: Sequence[Any], call: _calls.Call, **options: Any) -> Work:
        """A collective under way."""
        name = call.name
        return Work(
            requests,
            name,
            alive=lambda: self.job.check(name, self.ranks),
            timeout=self.timeout,
            late=self.job.late,
            **options,
        )


class Job:
    """What this process knows of the job that it is in."""

    def __init__(
        self,
        store: TCPStore,
        rank: int,
        size: int,
        timeout: float,
        wanted: Wanted,
        opened: bool,
        device_id: Any = None,
    ) -> None:
        self.tcp, self.rank, self.size, self.backend = store, rank, size, wanted.name
        self.opened = opened  # was the store made for this job?
        self.wanted, self.device_id = wanted, device_id
        self.making = threading.RLock()  # of engines and communicators
        self._engines: dict[str, DeviceEngine | None] = {}
        self.host: _mpi.MpiEngine | None = None
        self.store: Store = PrefixStore(f"job {store.add(f'begun/{rank}', 1)}", store)
        self.broken: str | None = None
        self.in_order = False  # has it ended with nothing under way?
        self.watch = Watch(store, rank)
        self.progress = Progress()
        self.groups: dict[str, ProcessGroup] = {}
        self.made = 0  # groups of the job so far, those without this process too
        try:
            if wanted.host:
                MPI = _mpi.start(
                    self.store, rank, size, store.host, lambda: self.check("init"), timeout
                )
                self.host = _mpi.MpiEngine(MPI, lambda: self.check("new_group"), timeout)
            for kind in wanted.devices or ():
                self._engines[kind] = DeviceEngine(self, kind)
            self.world = self.new_group(range(size), timeout)
        except BaseException:
            self.leave("init_process_group failed")
            raise

    def new_group(self, ranks: Sequence[int], timeout: float) -> ProcessGroup:
        number, self.made = self.made, self.made + 1
        group = ProcessGroup(self, ranks, number, timeout)
        self.groups[group.group_name] = group
        place = None if self.device_id is None else group.place(self.device_id)
        if place is not None:  # the user told it, so that joining need not wait for a call
            place.join()
        return group

    def devices(self) -> dict[str, str]:
        """The engines' names by type of device."""
        if self.wanted.devices is not None:
            return self.wanted.devices
        return {kind: name for kind, name in names().items() if not why_not(kind)}

    def engine(self, device_type: str) -> DeviceEngine | None:
        """The engine of a type of devices, None where tensors go by the CPU."""
        with self.making:
            if device_type in self._engines:
                return self._engines[device_type]
            found = None
            if self.wanted.devices is None and device_type in _C._backend_names():
                found = None if why_not(device_type) else DeviceEngine(self, device_type)
            self._engines[device_type] = found
            return found

    def check(self, what: str, ranks: Sequence[int] = ()) -> None:
        """Raises if the job cannot go on."""
        if self.broken is not None:
            raise DistBackendError(f"{what}: the job is broken: {self.broken}")
        if ranks or self.watch.failed:
            try:
                self.watch.check(what, ranks)
            except DistBackendError as error:
                self.broken = str(error)
                raise

    def late(self, text: str) -> DistBackendError:
        self.broken = text
        try:
            return _calls.hang(text, self.tcp.calls())
        except DistError:  # the store is gone as well
            return DistBackendError(text)

    def reason(self) -> str | None:
        """Why the others cannot count on this process, unless they know it as well."""
        if self.broken is None or self.watch.failed:
            return None
        return f"it gave up: {self.broken}"

    def leave(self, failure: str | None = None) -> None:
        """Ends this process's part; without failure the others' results are not lost."""
        self.in_order = failure is None and self.broken is None and self.progress.end()
        for engine in self._engines.values():
            if engine is not None:
                self.in_order = engine.close(self.in_order) and self.in_order
        self.watch.leave(failure)
        if self.opened:
            # After a failure too the others are to hear of it, and not that the store is gone.
            self.tcp.close(min(1.0, patience()) if failure else patience(), self.rank)


class Wanted:
    """Which engines a job has.

    Attributes:
        host: one for CPUs?
        devices: names of others by type of devices, None for all that there are.
        name: of the group's engine.
    """

    def __init__(self, host: bool, devices: dict[str, str] | None, name: str) -> None:
        self.host, self.devices, self.name = host, devices, name

    @classmethod
    def of(cls, backend: str | None) -> Wanted:
        """As `init_process_group` is told."""
        if backend is None or backend.lower() == Backend.UNDEFINED:
            some = _mpi.is_available() or not any(not why_not(kind) for kind in names())
            return cls(some, None, "mpi" if some else next(iter(names().values())))
        host, devices, given = "", {}, names()
        for part in backend.lower().split(","):
            kind, _, name = part.rpartition(":")
            if name in _CPU_BACKENDS and kind in ("", "cpu", *_C._backend_names(), "cuda"):
                host = host or name  # tensors of other devices go by the CPU
            elif name in given.values():
                serves = [k for k, n in given.items() if n == name and kind in ("", k)]
                devices |= dict.fromkeys(serves, name)
                if not serves:
                    raise ValueError(
                        f"init_process_group: backend is {backend!r}; {name} serves"
                        f" {[k for k, n in given.items() if n == name]}, not {kind}"
                    )
            elif name == Backend.NCCL:
                raise DistBackendError(f"init_process_group: {name}: {why_not('cuda')}")
            else:
                raise ValueError(
                    f"init_process_group: backend is {backend!r}; give 'mpi' or 'gloo' for CPUs,"
                    f" {' or '.join(map(repr, {*given.values(), 'nccl'}))} for devices,"
                    " 'cpu:gloo,cuda:nccl' for both, or nothing"
                )
        for kind, name in devices.items():  # before the others are met
            if why := why_not(kind):
                raise DistBackendError(f"init_process_group: {name}: {why}")
        return cls(bool(host), devices, host or next(iter(devices.values())))


def _device_of(given: Any, wanted: Wanted) -> Any:
    """The device that a process is told to have."""
    if given is None:
        return None
    if isinstance(given, int):
        (kind, *_) = (wanted.devices or names()) or ("cuda",)
        given = facula.device(kind, given)
    found = facula.device(given)
    if found.type == "cpu" or found.index is None:
        raise ValueError(f"init_process_group: device_id is {given}; give one as device('cuda', 0)")
    return found


_job: Job | None = None
_all_in_order = True  # else MPI still writes for what was given up, and must not end


class _GroupMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """All processes of the job, or None before it begins."""
        return None if _job is None else _job.world


class group(metaclass=_GroupMeta):
    """`group.WORLD` is the group of all processes."""


class GroupMember(metaclass=_GroupMeta):
    """What stands for a group in processes that are not in it."""

    NON_GROUP_MEMBER = -100


def current() -> Job:
    """The job of this process."""
    if _job is None:
        raise ValueError(
            "Default process group has not been initialized, please make sure to call"
            " init_process_group."
        )
    return _job


def resolved(what: str, given: Any) -> ProcessGroup | None:
    """The group that an argument means; None, with a warning, if this process is not in it."""
    if given is None:
        return current().world
    if isinstance(given, ProcessGroup):
        if given.job is not _job:
            raise ValueError(f"{what}: the group belongs to a job that has ended")
        return given
    if given == GroupMember.NON_GROUP_MEMBER:
        rank = current().rank
        warnings.warn(
            f"{what}: rank {rank} is not in the group, so nothing happens here", stacklevel=3
        )
        return None
    raise TypeError(f"{what}: group is {given!r}; give what new_group returned, or None for all")


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | float | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Joins this process to the others of its job.

    Args:
        backend: the engine: `mpi` (or `gloo`, which means the same here) for tensors on CPUs, to
            which others are copied; `nccl` for those on GPUs; `cpu:gloo,cuda:nccl` for both, each
            its own. By default both, as far as they are installed.
        init_method: where they meet: `env://` (the default: MASTER_ADDR, MASTER_PORT, RANK and
            WORLD_SIZE, or what mpiexec or Slurm set), `tcp://HOST:PORT`, `file:///PATH`.
        timeout: how long a collective may take; 30 minutes by default.
        world_size, rank: how many they are, and which this one is; not needed with `env://`.
        store: instead of init_method.
        device_id: the device of this process, such as `device("cuda", 0)`: the processes join on it
            at once instead of in the first collective.

    Raises:
        ValueError: rank, size or method make no sense, or this process is in a job already.
        DistNetworkError, DistStoreError: the others do not come within the timeout.
        DistBackendError: the engine is not installed, or cannot start.
    """
    global _job
    if _job is not None:
        raise ValueError(
            "init_process_group: this process is in a job; destroy_process_group first"
        )
    wanted = Wanted.of(backend)
    if store is not None and init_method is not None:
        raise ValueError("init_process_group: give init_method or store, not both")
    limit = seconds(timeout, default_pg_timeout.total_seconds())
    if not limit > 0:
        raise ValueError(f"init_process_group: timeout is {timeout!r}; give seconds above 0")
    device = _device_of(device_id, wanted)
    found = joined(init_method, store, rank, world_size, min(limit, 300.0))
    _job = Job(*found[:3], limit, wanted, found[3], device)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leaves the job, or forgets one group. Call it where all processes are done."""
    global _job
    job = current()
    if group is not None and group is not job.world:
        chosen = resolved("destroy_process_group", group)
        if chosen is not None:
            job.groups.pop(chosen.group_name, None)
        return
    _job = None
    job.leave(job.reason())
    _ended(job)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | float | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
) -> Any:
    """A group of some processes. All processes of the job call it, in the same order.

    Args:
        ranks: their ranks in the job; all of them by default.
        timeout: of its collectives; that of the job by default.

    Returns:
        The group, or `GroupMember.NON_GROUP_MEMBER` in processes that are not in it.

    Raises:
        ValueError: a rank is not in the job, or comes twice.
    """
    job = current()
    chosen = list(range(job.size)) if ranks is None else [int(r) for r in ranks]
    wrong = [r for r in chosen if not 0 <= r < job.size]
    if wrong or not chosen or len(set(chosen)) != len(chosen):
        raise ValueError(
            f"new_group: ranks are {chosen}; give different ones from 0 to {job.size - 1}"
        )
    chosen.sort()
    if job.rank not in chosen:
        job.made += 1
        return GroupMember.NON_GROUP_MEMBER
    job.check("new_group", chosen)
    return job.new_group(chosen, seconds(timeout, job.world.timeout))


# ---- who is in it ----


def is_available() -> bool:
    """Can processes be joined on this machine? True."""
    return True


def is_initialized() -> bool:
    """Is this process in a job?"""
    return _job is not None


def get_rank(group: Any = None) -> int:
    """This process's rank in a group, all by default; -1 if it is not in it."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    found = resolved("get_rank", group)
    return -1 if found is None else found.rank()


def get_world_size(group: Any = None) -> int:
    """How many processes a group has, all by default; -1 if this one is not in it."""
    if group == GroupMember.NON_GROUP_MEMBER:
        return -1
    found = resolved("get_world_size", group)
    return -1 if found is None else found.size()


def get_backend(group: Any = None) -> Backend:
    """The name of a group's engine."""
    found = resolved("get_backend", group)
    if found is None:
        raise ValueError("get_backend: this process is not in the group")
    return Backend(found.name())


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The rank in the job of a rank in a group."""
    found = resolved("get_global_rank", group)
    if found is None or not 0 <= group_rank < found.size():
        raise ValueError(f"get_global_rank: the group has no rank {group_rank}")
    return found.ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The rank in a group of a rank in the job."""
    found = resolved("get_group_rank", group)
    if found is None or global_rank not in found.ranks:
        raise ValueError(f"get_group_rank: rank {global_rank} is not in the group")
    return found.ranks.index(global_rank)


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The ranks in the job of a group's processes."""
    found = resolved("get_process_group_ranks", group)
    return [] if found is None else list(found.ranks)


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Which process of its machine this is: of the environment (LOCAL_RANK)."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is not None:
        return fallback_rank
    raise RuntimeError("get_node_local_rank: LOCAL_RANK is not set; give fallback_rank")


def get_pg_count() -> int:
    """How many groups this process is in."""
    return 0 if _job is None else len(_job.groups)


def _at_exit() -> None:
    """A process that ends in a job: in order, or by an error that the others hear of."""
    global _job
    job, _job = _job, None
    error = getattr(sys, "last_value", None)
    if job is not None:
        why = job.reason()
        if error is not None:
            why = f"it raised {type(error).__name__}: {str(error)[:300]}"
        job.leave(why)
        _ended(job)
    if error is None and _all_in_order:
        with contextlib.suppress(DistBackendError):  # another process ended without
            _mpi.finish(lambda: None, patience())
    _mpi.close()


def _ended(job: Job) -> None:
    global _all_in_order
    _all_in_order = _all_in_order and job.in_order


atexit.register(_at_exit)
