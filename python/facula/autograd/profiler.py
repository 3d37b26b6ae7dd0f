"""The older names of the profiler: `profile` of one block, without steps."""

from __future__ import annotations

from typing import Any

import facula
from facula.profiler import EventList, FunctionEvent, kineto_available, record_function
from facula.profiler import profile as _profile

__all__ = ["EventList", "FunctionEvent", "kineto_available", "profile", "record_function"]


class profile:
    """Notes the operators of a block, as `facula.profiler.profile` does.

    Args:
        enabled: False makes it do nothing.
        record_shapes, with_flops, profile_memory, with_stack, with_modules: as there.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
    ) -> None:
        self.enabled = enabled
        self._own = _profile(
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
        )

    def __enter__(self) -> profile:
        if self.enabled:
            self._own.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            self._own.stop()

    @property
    def function_events(self) -> EventList:
        """All events."""
        return self._own.events()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds within events."""
        return self._own.events().self_cpu_time_total

    def key_averages(self, *args: Any, **kwargs: Any) -> EventList:
        """See `facula.profiler.profile.key_averages`."""
        return self._own.key_averages(*args, **kwargs)

    def table(self, *args: Any, **kwargs: Any) -> str:
        """See `facula.profiler.EventList.table`."""
        return self._own.events().table(*args, **kwargs)

    def total_average(self) -> Any:
        """All events together."""
        return self._own.events().total_average()

    def export_chrome_trace(self, path: str) -> None:
        """See `facula.profiler.profile.export_chrome_trace`."""
        self._own.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """See `facula.profiler.EventList.export_stacks`."""
        self._own.export_stacks(path, metric)

    def __str__(self) -> str:
        return str(self._own.events())


def __getattr__(name: str) -> Any:
    if name in ("emit_nvtx", "emit_itt", "load_nvprof"):
        raise AttributeError(
            f"facula.autograd.profiler.{name} is not supported; facula.profiler.profile writes "
            "traces of its own"
        )
    return getattr(facula.profiler, name)
