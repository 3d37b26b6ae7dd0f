"""Which operators a program calls, how long they take, and what memory they hold.

`with profile() as p:` notes the calls of a block; `p.key_averages().table()` sums them up.
"""

from __future__ import annotations

from facula.profiler._events import EventList, FunctionEvent, FunctionEventAvg
from facula.profiler._profile import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def kineto_available() -> bool:
    """False: profiles are made by facula itself."""
    return False
