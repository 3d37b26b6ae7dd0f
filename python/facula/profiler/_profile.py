"""`profile`: watch what operators a thread calls, for all of a block or for chosen steps."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import facula
from facula import _C
from facula.profiler._events import EventList, build
from facula.profiler._trace import write_trace

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


class ProfilerActivity(enum.Enum):
    """What can be profiled. Of CUDA, calls are seen as the CPU makes them."""

    CPU = 0
    CUDA = 2


class ProfilerAction(enum.Enum):
    """What a schedule says of a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def supported_activities() -> set[ProfilerActivity]:
    """The activities of this machine."""
    found = {ProfilerActivity.CPU}
    with contextlib.suppress(Exception):
        if facula.cuda.is_available():
            found.add(ProfilerActivity.CUDA)
    return found


class record_function(contextlib.ContextDecorator):
    """A named range in the profile: a context, or a decorator of functions.

    Args:
        name: what the range is called.
        args: a text that traces show with it.

    It costs next to nothing while nothing is profiled.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        if not isinstance(name, str):
            raise TypeError(f"record_function(): name is {type(name).__name__}, expected str")
        self.name, self.args = name, args

    def __enter__(self) -> record_function:
        text = self.name if self.args is None else f"{self.name}\x1f{self.args}"
        self._seen = _C._enter_range(text)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._seen:
            _C._leave_range()

    def _recreate_cm(self) -> record_function:  # each call of a decorated function has its own
        return record_function(self.name, self.args)


def schedule(
    *,
    wait: int,
    warmup: int,
    active: int,
    repeat: int = 0,
    skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:
    """Which steps to record: after `skip_first`, cycles of `wait`, `warmup` and `active` ones.

    Args:
        wait, warmup, active: steps that are not watched, that are watched and not kept, and that
            are kept; after the last of these `on_trace_ready` is called.
        repeat: how many cycles; 0 means until the end.
        skip_first: steps before the first cycle.
        skip_first_wait: nonzero, the first cycle does not wait.
    """
    for name, value in (("wait", wait), ("warmup", warmup), ("repeat", repeat)):
        if value < 0:
            raise ValueError(f"schedule(): {name} is {value}, expected at least 0")
    if active <= 0 or skip_first < 0:
        raise ValueError(
            "schedule(): active must be at least 1 and skip_first at least 0; they are "
            f"{active} and {skip_first}"
        )
    if warmup == 0:
        warnings.warn(
            "Profiler won't be using warmup, this can skew profiler results", stacklevel=2
        )

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise ValueError(f"a step's number is at least 0, not {step}")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step >= repeat * length:
            return ProfilerAction.NONE
        at = step % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False
) -> Callable[[profile], None]:
    """For `on_trace_ready`: write each trace to a file of its own below `dir_name`.

    Args:
        worker_name: the file's name begins with it; by default host and process.
        use_gzip: compress it.
    """

    def handler(prof: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        end = ".gz" if use_gzip else ""
        name = f"{worker}.{time.time_ns()}.pt.trace.json{end}"
        prof.export_chrome_trace(os.path.join(dir_name, name))

    return handler


class profile:
    """Notes every operator that the thread calls within the context, with times.

    Args:
        activities: of `ProfilerActivity`; by default those of this machine. Times are those of the
            CPU: of a CUDA operator it is the time to start it.
        schedule: from `schedule(...)`: which steps to record; `step()` ends each. By default all.
        on_trace_ready: called with this profile when a recording is complete.
        record_shapes: keep arguments: shapes, dtypes, numbers.
        profile_memory: keep by how many bytes memory grew.
        with_stack: keep the line of Python that called.
        with_flops: count floating-point operations of matrix products and convolutions.
        with_modules: a range for each call of a module.
        acc_events: keep the events of earlier cycles too.

    What is watched is the thread that starts it, and backward, which runs there. Within an operator
    with a kernel of its own nothing is noted.
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        for name, value in (
            ("experimental_config", experimental_config),
            ("execution_trace_observer", execution_trace_observer),
        ):
            if value is not None:
                raise NotImplementedError(f"profile(): {name} is not supported; leave it out")
        wanted = supported_activities() if activities is None else set(activities)
        unknown = [a for a in wanted if not isinstance(a, ProfilerActivity)]
        if not wanted or unknown:
            raise ValueError(
                f"profile(): activities is {activities}, expected members of ProfilerActivity"
            )
        if activities is not None and wanted - supported_activities():
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        self.activities = wanted & supported_activities() or {ProfilerActivity.CPU}
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self._has_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory = record_shapes, profile_memory
        self.with_stack, self.with_flops = with_stack, with_flops
        self.with_modules, self.acc_events = with_modules, acc_events
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._observation: Any = None
        self._in_step = False
        self._events: EventList | None = None
        self._hooks: list[Any] = []
        self._metadata: dict[str, Any] = {}
        self._trace_id = custom_trace_id_callback

    # ---- running

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with the first step's action."""
        self._move_to(self.schedule(self.step_num))

    def stop(self) -> None:
        """End; what is being recorded is complete."""
        ready = self.current_action in _RECORDING and self._observation is not None
        self._end_step()
        self._finish()
        self.current_action = ProfilerAction.NONE
        if ready and self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def step(self) -> None:
        """Say that a step is over, and go on as the schedule says of the next."""
        self._end_step()
        self.step_num += 1
        self._move_to(self.schedule(self.step_num))

    def _move_to(self, action: ProfilerAction) -> None:
        before, self.current_action = self.current_action, action
        if self._observation is not None:
            ended = before is ProfilerAction.RECORD_AND_SAVE or action is ProfilerAction.NONE
            if ended or (before is ProfilerAction.WARMUP and action in _RECORDING):
                self._finish(keep=before in _RECORDING)
            if before is ProfilerAction.RECORD_AND_SAVE and self.on_trace_ready is not None:
                self.on_trace_ready(self)
        if action is not ProfilerAction.NONE and self._observation is None:
            self._begin()
        if self._has_steps and action in _RECORDING:
            _C._enter_range(f"ProfilerStep#{self.step_num}")
            self._in_step = True

    def _end_step(self) -> None:
        if self._in_step:
            _C._leave_range()
            self._in_step = False

    def _begin(self) -> None:
        self._observation = _C._observe_start(
            self.record_shapes or self.with_flops, self.profile_memory, self.with_stack
        )
        if self.with_modules:
            self._hooks = _module_ranges()

    def _finish(self, keep: bool = True) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        observation, self._observation = self._observation, None
        if observation is None:
            return
        _C._observe_stop(observation)
        if not keep:
            return
        new = build(_C._observe_events(observation), threading.get_native_id(), self.with_flops)
        if not self.record_shapes:
            for event in new:
                event.arguments = event.results = ()
        old: list[Any] = list(self._events or ()) if self.acc_events else []
        self._events = EventList([*old, *new], memory=self.profile_memory, flops=self.with_flops)

    # ---- results

    def events(self) -> EventList:
        """All events, in order of their starts.

        Raises:
            RuntimeError: nothing was recorded yet.
        """
        if self._events is None:
            raise RuntimeError(
                "Profiler didn't finish running: there are events after the context, or after the "
                "last active step of a cycle"
            )
        return self._events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Events summed by name; `.table(sort_by="self_cpu_time_total")` is the text of it."""
        return self.events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name
        )

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for chrome://tracing, Perfetto or TensorBoard; ".gz" compresses it."""
        facts: dict[str, Any] = {
            "record_shapes": int(self.record_shapes),
            "profile_memory": int(self.profile_memory),
            "with_stack": int(self.with_stack),
            "with_flops": int(self.with_flops),
            "host_name": socket.gethostname(),
        }
        if self._trace_id is not None:
            facts["trace_id"] = self._trace_id()
        write_trace(path, self.events(), {**facts, **self._metadata})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write what flame graphs are drawn from; see `EventList.export_stacks`."""
        self.events().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Add a text to the traces."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Add JSON, given as text, to the traces."""
        import json

        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """Same as `add_metadata_json`."""
        self.add_metadata_json(key, value)

    def get_trace_id(self) -> str | None:
        """What `custom_trace_id_callback` gives."""
        return None if self._trace_id is None else self._trace_id()


def _module_ranges() -> list[Any]:
    """Hooks that put each call of a module into a range."""
    from facula.nn.modules import module

    @functools.cache
    def label(kind: type) -> str:
        return f"nn.Module: {kind.__name__}"

    def before(layer: Any, args: Any) -> None:
        _C._enter_range(label(type(layer)))

    def after(layer: Any, args: Any, output: Any) -> None:
        _C._leave_range()

    return [
        module.register_module_forward_pre_hook(before),
        module.register_module_forward_hook(after, always_call=True),
    ]
