"""Traces in the format of chrome://tracing (Trace Event Format), which Perfetto reads too."""

from __future__ import annotations

import gzip
import json
import os
import time
from collections.abc import Iterable
from typing import IO, Any

from facula.utils._atomic import write_file

__all__ = ["write_trace"]

_CATEGORIES = {"call": "cpu_op", "backward": "cpu_op", "range": "user_annotation"}


def _event(e: Any, pid: int) -> dict[str, Any]:
    args: dict[str, Any] = {"External id": e.id}
    if any(e.input_shapes):
        args["Input Dims"] = e.input_shapes
        args["Input type"] = [str(d or "") for d in e.input_dtypes]
    if e.arguments:
        args["Concrete Inputs"] = ["" if v is None else str(v) for v in e.concrete_inputs]
    if e.flops:
        args["flops"] = e.flops
    if e.cpu_memory_usage:
        args["Bytes"] = e.cpu_memory_usage
    if e.stack:
        args["Call stack"] = ";".join(e.stack)
    if e.text:
        args["text"] = e.text
    return {
        "ph": "X",
        "cat": _CATEGORIES[e.kind],
        "name": e.name,
        "pid": pid,
        "tid": e.thread,
        "ts": e.time_range.start,
        "dur": e.time_range.elapsed_us(),
        "args": args,
    }


def write_trace(path: str, events: Iterable[Any], metadata: dict[str, Any]) -> None:
    """Write events to `path`, compressed if that ends with ".gz"; whole or not at all."""
    pid = os.getpid()
    events = list(events)
    begin = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "python"}},
        {"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "args": {"labels": "CPU"}},
    ]
    # The clock of the events starts anywhere; this is what it showed at the Unix time 0.
    base = time.time_ns() - time.monotonic_ns()
    data = {
        "schemaVersion": 1,
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": base,
        **metadata,
        "traceEvents": begin + [_event(e, pid) for e in events],
    }
    content = json.dumps(data).encode()

    def write(file: IO[bytes]) -> None:
        file.write(gzip.compress(content) if os.fspath(path).endswith(".gz") else content)

    write_file(os.fspath(path), write)
