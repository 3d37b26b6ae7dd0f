"""What a profile found: events in a tree, their averages by name, and the table of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "build"]

_SORTS = (
    *("count", "cpu_time", "cpu_time_total", "self_cpu_time_total"),
    *("cpu_memory_usage", "self_cpu_memory_usage", "flops"),
    *("device_time", "device_time_total", "self_device_time_total"),
    *("cuda_time", "cuda_time_total", "self_cuda_time_total"),
    *("device_memory_usage", "self_device_memory_usage"),
)


class Interval(NamedTuple):
    """Start and end in microseconds, by a clock that only goes forward."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """How long it lasted."""
        return self.end - self.start


def time_text(us: float, unit: str | None = None) -> str:
    """Microseconds in the unit that fits, or in `unit`."""
    units = {"s": 1e6, "ms": 1e3, "us": 1.0}
    if unit is None:
        unit = next((u for u, size in units.items() if us >= size), "us")
    return f"{us / units[unit]:.3f}{unit}"


def memory_text(n: float) -> str:
    """Bytes in the unit that fits."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(n) >= size:
            return f"{n / size:.2f} {unit}"
    return f"{int(n)} B"


class _Times:
    """What an event and an average share; times of other devices than the CPU are not measured."""

    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total = self_device_time_total = device_time = 0.0
    cuda_time_total = self_cuda_time_total = cuda_time = 0.0
    device_memory_usage = self_device_memory_usage = 0

    @property
    def cpu_time(self) -> float:
        """Microseconds of one call, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def cpu_time_str(self) -> str:
        return time_text(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        return time_text(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return time_text(self.self_cpu_time_total)


class FunctionEvent(_Times):
    """One call of an operator, node of backward or range.

    Attributes:
        name, key: of the operator (in-place forms end in "_", out= forms in ".out"), of the node
            ("AddBackward0") or of the range.
        kind: "call", "backward" or "range".
        operator: its name in the schema, None for other kinds.
        time_range: an Interval. cpu_time_total, self_cpu_time_total: microseconds with and without
            what it called.
        cpu_memory_usage, self_cpu_memory_usage: bytes held more at its end than at its start.
        cpu_parent, cpu_children: the events around and within it.
        input_shapes, input_dtypes, concrete_inputs: of arguments; with `record_shapes`.
        flops: of the call itself, not of what it called; with `with_flops`.
        stack: "file.py:12" of the line that called; with `with_stack`.
    """

    count = 1

    def __init__(self, number: int, record: tuple[Any, ...], thread: int) -> None:
        name, self.kind, self.depth, start, stop, self.cpu_memory_usage, location = record[:7]
        self.arguments, self.results, self.operator = record[7:]
        self.name, _, self.text = name.partition("\x1f")
        self.id, self.thread = number, thread
        self.time_range = Interval(start / 1e3, stop / 1e3)
        self.cpu_time_total = self.self_cpu_time_total = (stop - start) / 1e3
        self.self_cpu_memory_usage = self.cpu_memory_usage
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.stack = [location] if location else []
        self.flops = 0
        self.device_type = "CPU"
        self.is_async = self.is_remote = False

    @property
    def key(self) -> str:
        return self.name

    @property
    def is_user_annotation(self) -> bool:
        """Is it a range of `record_function`?"""
        return self.kind == "range"

    @property
    def input_shapes(self) -> list[Any]:
        """Sizes of tensors among the arguments, [] of others."""
        return [_shape(a) for a in self.arguments]

    @property
    def input_dtypes(self) -> list[Any]:
        """Dtypes of tensors among the arguments, None of others."""
        return [a[1] if isinstance(a, tuple) else None for a in self.arguments]

    @property
    def concrete_inputs(self) -> list[Any]:
        """The arguments that are no tensors, None in the place of those."""
        return [None if _is_tensors(a) else a for a in self.arguments]

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent {self.name}: {self.cpu_time_total_str}, "
            f"self {self.self_cpu_time_total_str}>"
        )


def _is_tensors(noted: Any) -> bool:
    return isinstance(noted, tuple) or (
        isinstance(noted, list) and bool(noted) and isinstance(noted[0], tuple)
    )


def _shape(noted: Any) -> list[Any]:
    if isinstance(noted, tuple):
        return list(noted[0])
    return [list(t[0]) for t in noted] if _is_tensors(noted) else []


class FunctionEventAvg(_Times):
    """Sums over all events of one name (and shapes, and stack, if grouped by them).

    Attributes as of FunctionEvent, and `count`, how many there were.
    """

    def __init__(self, first: FunctionEvent | None = None) -> None:
        self.key = first.name if first else ""
        self.count = self.flops = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.input_shapes = first.input_shapes if first else []
        self.stack = first.stack if first else []
        self.is_user_annotation = first.is_user_annotation if first else False
        self.device_type = "CPU"

    def add(self, other: Any) -> FunctionEventAvg:
        """Add an event or another average."""
        self.count += other.count
        self.flops += other.flops
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        return self

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg {self.key}: {self.count} calls, {self.cpu_time_total_str}, "
            f"self {self.self_cpu_time_total_str}>"
        )


def build(records: list[tuple[Any, ...]], thread: int, flops: bool) -> list[FunctionEvent]:
    """Events of a thread's records, in order of their starts, put into their tree."""
    events: list[FunctionEvent] = []
    around: list[FunctionEvent] = []
    for number, record in enumerate(records):
        event = FunctionEvent(number, record, thread)
        del around[event.depth :]
        if around:
            parent = around[-1]
            event.cpu_parent = parent
            parent.cpu_children.append(event)
            parent.self_cpu_time_total -= event.cpu_time_total
            parent.self_cpu_memory_usage -= event.cpu_memory_usage
        around.append(event)
        if flops and event.operator is not None:
            from facula.utils._flops import flops_of

            event.flops = flops_of(event.operator, event.arguments, event.results)
        events.append(event)
    return events


class EventList(list[Any]):
    """Events, or averages of them."""

    def __init__(
        self, events: Iterable[Any] = (), *, memory: bool = False, flops: bool = False
    ) -> None:
        super().__init__(events)
        self._memory, self._flops = memory, flops

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds within events: the sum of what each took by itself."""
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
    ) -> EventList:
        """Averages by name, and by shapes and the calling line if asked.

        Args:
            group_by_overload_name: taken as it is; names have the overload already.
        """
        groups: dict[Any, FunctionEventAvg] = {}
        for event in self:
            key: tuple[Any, ...] = (event.key, event.is_user_annotation)
            if group_by_input_shapes:
                key += (str(event.input_shapes),)
            if group_by_stack_n > 0:
                key += tuple(event.stack[:group_by_stack_n])
            if key not in groups:
                groups[key] = FunctionEventAvg(event)
                if not group_by_input_shapes:
                    groups[key].input_shapes = []
                groups[key].stack = event.stack[:group_by_stack_n]
            groups[key].add(event)
        return EventList(groups.values(), memory=self._memory, flops=self._flops)

    def total_average(self) -> FunctionEventAvg:
        """All of them together."""
        total = FunctionEventAvg()
        for event in self:
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text, a line each.

        Args:
            sort_by: an attribute such as "self_cpu_time_total", the greatest first; None for the
                order in which they began.
            row_limit: how many lines at most; -1 for all.
            top_level_events_only: only those within no other.
            time_unit: "s", "ms" or "us" for all times.
        """
        if sort_by is not None and sort_by not in _SORTS:
            raise ValueError(f"sort_by is {sort_by!r}, expected one of {', '.join(_SORTS)}")
        if time_unit not in (None, "s", "ms", "us"):
            raise ValueError(f"time_unit is {time_unit!r}, expected 's', 'ms' or 'us'")
        rows = list(self)
        if top_level_events_only:
            rows = [e for e in rows if getattr(e, "cpu_parent", None) is None]
        if sort_by is not None:
            rows.sort(key=lambda e: getattr(e, sort_by), reverse=True)
        shown = rows if row_limit < 0 else rows[:row_limit]
        columns = self._columns(
            shown, time_unit, max_name_column_width, max_shapes_column_width, max_src_column_width
        )
        widths = [max(12, len(name), *map(len, cells)) for name, cells in columns]
        left = {"Name", "Input Shapes", "Source Location"}
        line = "  ".join("-" * w for w in widths)
        names = [name for name, _ in columns]
        text = [header] if header else []
        text += [line, "  ".join(n.rjust(w) for n, w in zip(names, widths, strict=True)), line]
        for i in range(len(shown)):
            cells = []
            for (name, column), width in zip(columns, widths, strict=True):
                cells.append(column[i].ljust(width) if name in left else column[i].rjust(width))
            text.append("  ".join(cells).rstrip())
        text.append(line)
        text.append(f"Self CPU time total: {time_text(self.self_cpu_time_total, time_unit)}")
        return "\n".join(text) + "\n"

    def _columns(
        self, rows: list[Any], unit: str | None, names: int, shapes: int, sources: int
    ) -> list[tuple[str, list[str]]]:
        whole = self.self_cpu_time_total or 1.0

        def share(us: float) -> str:
            return f"{100 * us / whole:.2f}%"

        found = [
            ("Name", [_cut(e.key, names) for e in rows]),
            ("Self CPU %", [share(e.self_cpu_time_total) for e in rows]),
            ("Self CPU", [time_text(e.self_cpu_time_total, unit) for e in rows]),
            ("CPU total %", [share(e.cpu_time_total) for e in rows]),
            ("CPU total", [time_text(e.cpu_time_total, unit) for e in rows]),
            ("CPU time avg", [time_text(e.cpu_time, unit) for e in rows]),
        ]
        if self._memory:
            found.append(("CPU Mem", [memory_text(e.cpu_memory_usage) for e in rows]))
            found.append(("Self CPU Mem", [memory_text(e.self_cpu_memory_usage) for e in rows]))
        found.append(("# of Calls", [str(e.count) for e in rows]))
        if any(any(e.input_shapes) for e in rows):
            found.append(("Input Shapes", [_cut(str(e.input_shapes), shapes) for e in rows]))
        if any(e.stack for e in rows):
            lines = [_cut(e.stack[0] if e.stack else "", sources, end=True) for e in rows]
            found.append(("Source Location", lines))
        if self._flops:
            found.append(("Total FLOPs", [f"{e.flops:,}" if e.flops else "--" for e in rows]))
        return found

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Write the events for chrome://tracing or Perfetto; see `profile.export_chrome_trace`."""
        from facula.profiler._trace import write_trace

        write_trace(path, self, {})

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write a line for each event: what it is within, `;` between, and its microseconds.

        Tools that draw flame graphs read it. Calling lines are there with `with_stack`.
        """
        if metric not in ("self_cpu_time_total", "self_cuda_time_total"):
            raise ValueError(
                f"metric is {metric!r}, expected 'self_cpu_time_total' or 'self_cuda_time_total'"
            )
        with open(path, "w", encoding="utf-8") as file:
            for event in self:
                value = int(getattr(event, metric))
                if value <= 0 or not isinstance(event, FunctionEvent):
                    continue
                around = [event.name]
                outer: FunctionEvent | None = event
                while outer is not None and outer.cpu_parent is not None:
                    outer = outer.cpu_parent
                    around.append(outer.name)
                around += event.stack
                frames = ";".join(f.replace(";", ",").replace(" ", "_") for f in reversed(around))
                file.write(f"{frames} {value}\n")


def _cut(text: str, width: int, *, end: bool = False) -> str:
    if len(text) <= width:
        return text
    return "..." + text[len(text) - width + 3 :] if end else text[: width - 3] + "..."
