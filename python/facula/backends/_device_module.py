"""`facula.NAME`: streams, events, memory and random numbers of a registered device."""

from __future__ import annotations

import contextlib
import sys
import threading
import types
from collections.abc import Sequence
from typing import Any, ClassVar

from facula import _C
from facula._moving import device_of
from facula.backends._backend import info


class _Entered(threading.local):
    """What was current before each `with` block of a stream that this thread is in."""

    def __init__(self) -> None:
        self.before: list[tuple[Any, int]] = []


_entered = _Entered()
_capturing: dict[Stream, Graph] = {}  # what is being captured, by whatever thread
_idle: list[Stream] = []  # made for captures, and free for the next
_dropped: list[tuple[Any, int | None, int | None]] = []  # graphs that were reset meanwhile


def expect(call: str, value: Any, kind: type) -> None:
    """A TypeError unless the argument of `call` is a Stream, an Event, ..."""
    if not isinstance(value, kind):
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        raise TypeError(
            f"{call}(): {article} {kind.__name__} is expected, not {type(value).__name__}"
        )


class Stream:
    """A queue of work of a device: calls run in order, beside those of other streams."""

    _type = ""

    def __new__(cls, device: Any = None, priority: int = 0, *, handle: int | None = None) -> Stream:
        self = super().__new__(cls)
        self.device = device_of(cls._type, device)
        self.handle = _C._new_stream(self.device, priority) if handle is None else handle
        return self

    device: Any
    handle: int

    def synchronize(self) -> None:
        """Wait until all its work is done."""
        _C._stream_synchronize(self.device, self.handle)

    def query(self) -> bool:
        """Is all its work done?"""
        return _C._stream_query(self.device, self.handle)

    def record_event(self, event: Event | None = None) -> Event:
        """An event that comes to pass when the work so far is done."""
        event = event if event is not None else _module(self.device.type).Event()
        expect("record_event", event, Event)
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Later work waits for the event."""
        expect("wait_event", event, Event)
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Later work waits for the work that `stream` has now."""
        expect("wait_stream", stream, Stream)
        self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and (self.device, self.handle) == (
            other.device,
            other.handle,
        )

    def __hash__(self) -> int:
        return hash((self.device, self.handle))

    def __reduce__(self) -> Any:
        raise TypeError(
            f"{self} cannot be pickled: it is of this process; make one where it is used"
        )

    def __copy__(self) -> Stream:
        return self

    def __deepcopy__(self, memo: Any) -> Stream:
        return self

    def __enter__(self) -> Stream:
        before = _C._get_stream(self.device), _C._current_device(self.device.type)
        _C._set_device(self.device)
        _C._set_stream(self.device, self.handle)
        _entered.before.append(before)
        return self

    def __exit__(self, *exc: object) -> None:
        stream, index = _entered.before.pop()
        _C._set_stream(self.device, stream)
        _C._set_device(_C.device(self.device.type, index))

    def __repr__(self) -> str:
        return f"<facula.{self.device.type}.Stream device={self.device} stream={self.handle:#x}>"


class Event:
    """A mark in a stream, to wait for or to measure between."""

    _type = ""

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        if interprocess:
            raise NotImplementedError("Event(): events cannot be shared between processes")
        self._timing, self._event, self._device = enable_timing, None, None

    def record(self, stream: Stream | None = None) -> None:
        """Mark the end of the stream's work so far."""
        stream = _stream_of(self._type, stream, "record")
        if self._event is None:
            self._event, self._device = _C._new_event(stream.device, self._timing), stream.device
        elif self._device != stream.device:
            raise RuntimeError(
                f"record(): the event was first recorded on {self._device}, and the stream is of "
                f"{stream.device}; make another event"
            )
        _C._event_record(self._event, stream.handle)

    def wait(self, stream: Stream | None = None) -> None:
        """Let the stream's later work wait for the event."""
        stream = _stream_of(self._type, stream, "wait")
        if self._event is not None:
            _C._event_wait(self._event, stream.device, stream.handle)

    def query(self) -> bool:
        """Has it come to pass?"""
        return self._event is None or _C._event_query(self._event)

    def synchronize(self) -> None:
        """Wait for it."""
        if self._event is not None:
            _C._event_synchronize(self._event)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds between two events that measure time and have come to pass."""
        expect("elapsed_time", end_event, Event)
        if self._event is None or end_event._event is None:
            raise RuntimeError("elapsed_time(): both events must have been recorded")
        return _C._event_elapsed(self._event, end_event._event)


class Graph:
    """Work of a device recorded once and launched many times. The memory that it allocated is kept
    for it until `reset`.

    >>> with graph.capture(): ...    # doctest: +SKIP
    >>> graph.replay()               # doctest: +SKIP
    """

    _type = ""

    def __init__(self) -> None:
        self._device: Any = None
        self._graph: int | None = None
        self._memory: int | None = None  # the number of what its work allocated

    def __reduce__(self) -> Any:  # two objects would give the same graph back
        raise TypeError("a Graph can be neither copied nor pickled; capture its work again")

    def capture(self, stream: Stream | None = None) -> _Capture:
        """A `with` block whose work is recorded, and not run, on a stream of its own."""
        return _Capture(self, None if stream is None else _stream_of(self._type, stream, "capture"))

    def replay(self) -> None:
        """Run the recorded work on the current stream."""
        if self._graph is None:
            raise RuntimeError("replay(): nothing has been captured")
        _C._graph_run(self._device, self._graph)

    def reset(self) -> None:
        """Give back what was recorded, and its memory, when the device has done its work. During a
        capture, which may not wait for the device, that is left for its end."""
        if self in _capturing.values():
            raise RuntimeError("reset(): the graph is being captured")
        held = self._device, self._graph, self._memory
        self._graph = self._memory = None
        _free_graph(*held)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # the device may be gone already
            self.reset()


class _Capture:
    def __init__(self, graph: Graph, stream: Stream | None) -> None:
        self._graph, self._given = graph, stream

    def __enter__(self) -> None:
        self._stream = self._given or _stream_for_a_capture(self._graph._type)
        if self._stream in _capturing:
            raise RuntimeError(f"capture(): {self._stream} is being captured already")
        self._graph.reset()
        self._stream.__enter__()
        try:
            self._graph._device = self._stream.device
            self._graph._memory = _C._graph_begin(self._stream.device, self._stream.handle)
            _capturing[self._stream] = self._graph
        except BaseException:
            self._stream.__exit__()
            raise

    def __exit__(self, kind: type | None, *exc: object) -> None:
        whole = False
        try:
            self._graph._graph = _C._graph_end(self._stream.device, self._stream.handle)
            whole = kind is None
        except Exception:
            if kind is None:  # else the block's own is the one to see
                raise
        finally:
            del _capturing[self._stream]
            self._stream.__exit__()
            if self._given is None:
                _idle.append(self._stream)
            if not whole:
                with contextlib.suppress(Exception):
                    self._graph.reset()
            for _ in range(len(_dropped)):
                with contextlib.suppress(Exception):  # another thread may have taken it
                    _free_graph(*_dropped.pop(0))


def _stream_for_a_capture(device_type: str) -> Stream:
    """One that nobody else works on: those that Stream() gives serve several times."""
    module = _module(device_type)
    device = _C.device(device_type, module.current_device())
    for i, stream in enumerate(_idle):
        if stream.device == device:
            with contextlib.suppress(IndexError):  # another thread may take it
                return _idle.pop(i)
    return module.Stream(device, handle=_C._new_stream(device, 0, True))


def _free_graph(device: Any, graph: int | None, memory: int | None) -> None:
    def free() -> None:
        try:
            if graph is not None:
                _C._graph_destroy(device, graph)
        finally:
            if memory is not None:
                _C._graph_free(device, memory)

    try:
        if graph is not None:
            _C._synchronize(device)
    except Exception:
        if any(stream.device == device for stream in list(_capturing)):  # nobody may wait now
            _dropped.append((device, graph, memory))
            return
        free()
        raise
    free()


def _stream_of(device_type: str, stream: Stream | None, caller: str) -> Stream:
    """The stream, or the current one for None; raises for one of another type of device."""
    if stream is None:
        return _module(device_type).current_stream()
    if not isinstance(stream, Stream) or stream.device.type != device_type:
        raise ValueError(f"{caller}(): a stream of '{device_type}' is expected, not {stream!r}")
    return stream


class _DeviceGuard:
    """The `with` block in which a device is the current one of its type; None changes nothing."""

    _type = ""

    def __init__(self, device: Any) -> None:
        self._device = None if device is None else device_of(self._type, device)

    def __enter__(self) -> None:
        self._before = _C._current_device(self._type)
        if self._device is not None:
            _C._set_device(self._device)

    def __exit__(self, *exc: object) -> None:
        _C._set_device(_C.device(self._type, self._before))


class _StreamGuard:
    """The `with` block whose calls go to a stream; None changes nothing."""

    _type = ""

    def __init__(self, stream: Stream | None) -> None:
        if stream is not None:
            expect("stream", stream, Stream)
        self._stream = stream

    def __enter__(self) -> None:
        if self._stream is not None:
            self._stream.__enter__()

    def __exit__(self, *exc: object) -> None:
        if self._stream is not None:
            self._stream.__exit__()


class _DeviceOf(_DeviceGuard):
    """The `with` block in which the device of a tensor is the current one, if of this type."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device if obj.device.type == self._type else None)


class _Generators(Sequence):
    """The generators that draw for the devices of a type when none is given, by index."""

    def __init__(self, device_type: str) -> None:
        self._type = device_type

    def __len__(self) -> int:
        return _C._device_count(self._type)

    def __getitem__(self, index: Any) -> Any:
        chosen = range(len(self))[index]
        if isinstance(index, slice):
            return [self[i] for i in chosen]
        return _C._generator_of(_C.device(self._type, chosen))


def _module(name: str) -> Any:
    return sys.modules[f"facula.{name}"]


class DeviceModule(types.ModuleType):
    """`facula.NAME` of one type of device: its public methods are the functions of the module."""

    _CLASSES: ClassVar[dict[str, type]] = {
        "Stream": Stream,
        "Event": Event,
        "Graph": Graph,
        "StreamContext": _StreamGuard,
        "device": _DeviceGuard,
        "device_of": _DeviceOf,
        "stream": _StreamGuard,
    }
    Stream: type[Stream]

    def __init__(self, name: str) -> None:
        super().__init__(f"facula.{name}", f"The device '{name}'.")
        self._type = name
        for title, cls in self._CLASSES.items():
            own = {"_type": name, "__module__": self.__name__, "__doc__": cls.__doc__}
            setattr(self, title, type(title, (cls,), own))
        functions = [n for n in vars(type(self)) if n[0] != "_" and n not in self._CLASSES]
        for function in functions:  # into the module's own names, where `dir` and `vars` look
            setattr(self, function, getattr(self, function))
        self.default_generators = _Generators(name)
        self.OutOfMemoryError = _C.OutOfMemoryError
        self.__all__ = sorted(
            {*self._CLASSES, *functions, "OutOfMemoryError", "default_generators"}
        )

    def _device(self, device: Any) -> Any:
        return device_of(self._type, device)

    # ---- devices ----

    def is_available(self) -> bool:
        """Is there at least one such device?"""
        return _C._device_count(self._type) > 0

    def device_count(self) -> int:
        """How many there are."""
        return _C._device_count(self._type)

    def init(self) -> None:
        """Start the device, which its first use does too.

        Raises:
            RuntimeError: there is none.
        """
        if not self.is_available():
            raise RuntimeError(f"init(): there is no device of type '{self._type}'")

    def is_initialized(self) -> bool:
        """Has it been used?"""
        return info(self._type)["started"]

    def is_bf16_supported(self, including_emulation: bool = True) -> bool:
        """Has it tensors of bfloat16?"""
        return _C.bfloat16 in info(self._type)["dtypes"]

    def current_device(self) -> int:
        """The index that is meant where none is said, in this thread."""
        return _C._current_device(self._type)

    def set_device(self, device: Any) -> None:
        """Choose the current device of this thread."""
        _C._set_device(self._device(device))

    def synchronize(self, device: Any = None) -> None:
        """Wait for all work of a device; errors of that work are raised here."""
        _C._synchronize(self._device(device))

    def get_device_properties(self, device: Any = None) -> types.SimpleNamespace:
        """Name, memory, version and number of processors."""
        return types.SimpleNamespace(**_C._device_properties(self._device(device)))

    def get_device_name(self, device: Any = None) -> str:
        """Its name."""
        return self.get_device_properties(device).name

    def get_device_capability(self, device: Any = None) -> tuple[int, int]:
        """Major and minor version of its architecture."""
        found = self.get_device_properties(device)
        return found.major, found.minor

    # ---- streams ----

    def current_stream(self, device: Any = None) -> Stream:
        """The stream that this thread's calls go to."""
        d = self._device(device)
        return self.Stream(d, handle=_C._get_stream(d))

    def default_stream(self, device: Any = None) -> Stream:
        """The stream that calls go to unless another is chosen."""
        return self.Stream(self._device(device), handle=0)

    def set_stream(self, stream: Stream | None) -> None:
        """Choose the stream of this thread; None changes nothing."""
        if stream is None:
            return
        expect("set_stream", stream, self.Stream)
        _C._set_stream(stream.device, stream.handle)

    def is_current_stream_capturing(self) -> bool:
        """Is a graph being captured on the current stream?"""
        return self.current_stream() in _capturing

    def graph(self, cuda_graph: Graph, *, stream: Stream | None = None) -> Any:
        """`cuda_graph.capture(stream)`, by torch's name: a `with` block that is recorded."""
        return cuda_graph.capture(stream)

    # ---- memory ----

    def mem_get_info(self, device: Any = None) -> tuple[int, int]:
        """Bytes that are free, and all there are."""
        return _C._memory_info(self._device(device))

    def memory_stats(self, device: Any = None) -> dict[str, int]:
        """Bytes `allocated` and `reserved`, the most of both (`peak`, `peak_reserved`) and the
        `largest_free` block; numbers of `allocations`, `reused` blocks and `retries`."""
        return _C._device_memory_stats(self._device(device))

    def memory_allocated(self, device: Any = None) -> int:
        """Bytes that tensors hold."""
        return self.memory_stats(device)["allocated"]

    def max_memory_allocated(self, device: Any = None) -> int:
        """The most bytes that tensors held at a time."""
        return self.memory_stats(device)["peak"]

    def memory_reserved(self, device: Any = None) -> int:
        """Bytes taken from the device, kept ones included."""
        return self.memory_stats(device)["reserved"]

    def max_memory_reserved(self, device: Any = None) -> int:
        """The most bytes that were taken from the device at a time."""
        return self.memory_stats(device)["peak_reserved"]

    def memory_summary(self, device: Any = None) -> str:
        """A table of `memory_stats`, to print."""
        device = self._device(device)
        stats = self.memory_stats(device)
        kept = stats["reserved"] - stats["allocated"]
        sizes = {
            "in use by tensors": stats["allocated"],
            "in use by tensors, at most": stats["peak"],
            "taken from the device": stats["reserved"],
            "of it kept for reuse": kept,
            "taken from the device, at most": stats["peak_reserved"],
            "the largest free block": stats["largest_free"],
        }
        counts = {
            "allocations": stats["allocations"],
            "of them from what was kept": stats["reused"],
            "tried again without what was kept": stats["retries"],
        }
        lines = [f"memory of {device}", "-" * 52]
        lines += [f"{name:34}{size / 2**20:14,.2f} MiB" for name, size in sizes.items()]
        lines += [f"{name:34}{count:14,}" for name, count in counts.items()]
        return "\n".join(lines) + "\n"

    def reset_peak_memory_stats(self, device: Any = None) -> None:
        """Start measuring the most memory anew."""
        _C._reset_peak(self._device(device))

    def empty_cache(self, device: Any = None) -> None:
        """Give freed memory that is kept for reuse back, on all devices of the type."""
        if device is not None:
            self._device(device)
        _C._device_empty_cache(self._type)

    # ---- random numbers ----

    def default_generator(self, device: Any = None) -> Any:
        """The generator that draws for a device when none is given."""
        return _C._generator_of(self._device(device))

    def manual_seed(self, seed: int) -> None:
        """Seed the current device's generator."""
        self.default_generator().manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        """Seed the generators of all its devices."""
        for i in range(self.device_count()):
            self.default_generator(i).manual_seed(seed)

    def seed(self) -> int:
        """Take a seed from the system; returns it."""
        return self.default_generator().seed()

    def seed_all(self) -> None:
        """Give the generators of all its devices one seed of the system's."""
        self.manual_seed_all(self.seed())

    def initial_seed(self) -> int:
        """The seed last set."""
        return self.default_generator().initial_seed()

    def get_rng_state_all(self) -> list[Any]:
        """States of the generators of all its devices."""
        return [generator.get_state() for generator in self.default_generators]

    def set_rng_state_all(self, new_states: Sequence[Any]) -> None:
        """Go on from states that `get_rng_state_all` gave."""
        if len(new_states) != self.device_count():
            raise ValueError(
                f"set_rng_state_all(): {len(new_states)} states for {self.device_count()} devices"
            )
        for i, state in enumerate(new_states):
            self.default_generator(i).set_state(state)

    def get_rng_state(self, device: Any = None) -> Any:
        """State of a device's generator."""
        return self.default_generator(device).get_state()

    def set_rng_state(self, new_state: Any, device: Any = None) -> None:
        """Go on from a state that `get_rng_state` gave."""
        self.default_generator(device).set_state(new_state)
