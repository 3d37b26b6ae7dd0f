"""`Timer`: how long a statement takes, measured as often as it needs."""

from __future__ import annotations

import contextlib
import enum
import textwrap
import timeit
from collections.abc import Callable, Iterator
from typing import Any

import facula
from facula.utils.benchmark._measurement import Measurement, TaskSpec

__all__ = ["Language", "Timer", "set_torch_threads", "timer"]


class Language(enum.Enum):
    """What statements are written in: Python alone."""

    PYTHON = 0
    CPP = 1


def timer() -> float:
    """Seconds by a fine clock, once what devices were asked to do is done."""
    if facula.accelerator.is_available():
        facula.accelerator.synchronize()
    return timeit.default_timer()


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Within the context an operation may use `n` threads."""
    before = facula.get_num_threads()
    try:
        facula.set_num_threads(n)
        yield
    finally:
        facula.set_num_threads(before)


def _statements(text: str) -> str:
    """Without the indentation that a text in triple quotes has."""
    lines = text.split("\n")
    if len(lines) == 1:
        return text.strip()
    first = lines[0]
    rest = textwrap.dedent("\n".join(lines[1:]))
    return textwrap.dedent(text).strip("\n") if not first.strip() else f"{first}\n{rest}".strip()


class Timer:
    """Measures a statement of Python.

    Args:
        stmt: what is measured.
        setup: what runs once before each measurement.
        global_setup: of C++ statements, which are not supported.
        timer: gives seconds; by default after waiting for devices.
        globals: names that the statements see; `facula` and `fa` are there.
        label, sub_label, description, env: names in tables, of what is measured, of which form of
            it, of which of the things that are compared, and under what it ran.
        num_threads: threads that an operation may use meanwhile.

    >>> from facula.utils.benchmark import Timer
    >>> m = Timer("x + x", setup="x = fa.ones(4)").timeit(100)
    >>> m.number_per_run
    100
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Language | str = Language.PYTHON,
    ) -> None:
        if language not in (Language.PYTHON, "py", "python"):
            raise NotImplementedError(
                f"Timer(): language is {language!r}; statements of Python can be measured"
            )
        if global_setup:
            raise ValueError("Timer(): global_setup is for statements of C++")
        if not (isinstance(stmt, str) and isinstance(setup, str)):
            raise TypeError("Timer(): stmt and setup are texts of Python")
        names = {"facula": facula, "fa": facula, **(globals or {})}
        stmt, setup = _statements(stmt), _statements(setup)
        self._timer = timeit.Timer(stmt=stmt, setup=setup, timer=timer, globals=names)
        self._task_spec = TaskSpec(
            stmt, setup, global_setup, label, sub_label, description, env, num_threads
        )

    def _seconds(self, number: int) -> float:
        return max(self._timer.timeit(number), 1e-9)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._task_spec)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Run it `number` times, after some for warmth."""
        if number < 1:
            raise ValueError(f"timeit(): number is {number}, expected at least 1")
        with set_torch_threads(self._task_spec.num_threads):
            self._timer.timeit(max(number // 100, 2))
            return self._measured(number, [self._seconds(number)])

    def autorange(self, callback: Any = None) -> None:
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _block_size(self, min_run_time: float) -> int:
        """How many executions make the timer itself not count: 0.1 % of the block at most."""
        own = min(timeit.Timer("pass", timer=self._timer.timer).repeat(5, 1))
        number = 1
        while True:
            seconds = self._seconds(number)
            relative = own / seconds
            if relative <= 1e-4 and seconds >= min_run_time / 1000:
                return number
            if seconds > min_run_time:
                return number
            number *= 10

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Measure blocks of executions until they took `min_run_time` seconds together.

        The blocks are so long that what the clock itself takes does not count.

        Args:
            callback: called with the executions and seconds of each block.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(min_run_time)
            times: list[float] = []
            while sum(times) < min_run_time:
                seconds = self._seconds(number)
                times.append(seconds)
                if callback is not None:
                    callback(number, seconds)
        return self._measured(number, times)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Measure blocks until the quartiles are near: `threshold` of the median apart at most.

        Args:
            min_run_time, max_run_time: seconds that it takes at least and at most.
        """
        with set_torch_threads(self._task_spec.num_threads):
            number = self._block_size(0.05)
            times: list[float] = []
            while sum(times) < max_run_time:
                seconds = self._seconds(number)
                times.append(seconds)
                if callback is not None:
                    callback(number, seconds)
                found = self._measured(number, times)
                enough = len(times) > 3 and sum(times) > min_run_time
                if enough and found.meets_confidence(threshold):
                    break
        return self._measured(number, times)

    def collect_callgrind(self, number: int = 100, **options: Any) -> Any:
        raise NotImplementedError(
            "collect_callgrind() is not supported; `valgrind --tool=callgrind python SCRIPT` "
            "counts instructions of a script"
        )
