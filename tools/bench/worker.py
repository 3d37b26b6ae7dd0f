"""A process that owns one library and times what it is told: `python -m tools.bench.worker LIB`.

Each library has its own process, so that thread pools, allocators and BLAS builds of one do not
show in the times of another. Requests and answers are pickles, over standard input and output.
"""

from __future__ import annotations

import gc
import importlib
import itertools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tools.bench import peers
from tools.bench.processes import read, write

KEPT = 1 << 17  # elements of a result that are compared


class Absent(Exception):
    """The library lacks what the row needs."""


class Trial:
    """One row, set up with one library: what is timed, and what checks may look at."""

    run: Callable[[int], int]
    call: Callable[[], Any]

    def __init__(self, name: str, lib: Any, key: str, threads: int = 1, rank: int = 0) -> None:
        from tools.bench.inputs import Inputs
        from tools.bench.row import row_of

        self.name, self.lib, self.threads = name, lib, threads
        self.row = row_of(key)
        self.inputs = Inputs(lib, device=self.row.device, rank=rank, ranks=self.row.ranks)
        self.wait = None if self.row.device == "cpu" else getattr(lib, self.row.device).synchronize

    def prepare(self) -> Trial:
        if self.row.ranks == 1:
            return self._prepare()
        if self.inputs.rank:
            self._prepare()
        else:
            led = peers.led_by(self.lib, self.threads, self.row.ranks, self.row.device)
            with led.tell("prepare", self.row.key):
                self._prepare()
            self.call = led.together("call", self.call)
        self.run = peers.aligned(self.run, self.lib)
        if not self.inputs.rank:
            self.run = led.together("run", self.run)
        return self

    def _prepare(self) -> Trial:
        setup = self.row.numpy if self.name == "numpy" else self.row.setup
        assert setup is not None
        made = setup(self.lib, self.inputs, **self.row.case)
        statement = self.row.statement
        if self.name == "numpy":
            statement = self.row.numpy_statement or statement
        if statement:
            self.run = waited(compile_loop(statement, made), self.wait)
            value = f"({statement}, {self.row.result})[1]" if self.row.result else statement
            self.call = eval(f"lambda: ({value})", dict(made))
        else:
            self.call = made
            self.run = waited(loop_of(made), self.wait)
        return self

    def arrays(self) -> list[Any]:
        """The result, thinned where it is large, as float64 or as integers."""
        result = None
        for _ in range(self.row.calls):
            result = self.call()
        found = [thinned(t) for t in tensors(result)]
        if self.row.moments:
            import numpy as np

            return [np.array([a.mean(), a.std()]) for a in found]
        return found


def loop_of(function: Callable[[], Any]) -> Callable[[int], int]:
    def run(times: int) -> int:
        repeat = itertools.repeat(None, times)
        start = time.perf_counter_ns()
        for _ in repeat:
            function()
        return time.perf_counter_ns() - start

    return run


def waited(run: Callable[[int], int], wait: Callable[[], None] | None) -> Callable[[int], int]:
    """The loop with what it started on a device, and nothing that was started before it."""
    if wait is None:
        return run

    def whole(times: int) -> int:
        wait()
        start = time.perf_counter_ns()
        run(times)
        wait()
        return time.perf_counter_ns() - start

    return whole


def compile_loop(statement: str, names: dict[str, Any]) -> Callable[[int], int]:
    """A loop whose body is the statement, with its names as locals: no call but its own."""
    arguments = ", ".join(f"{n}={n}" for n in names)
    source = (
        f"def run(times, {arguments}):\n"
        "    repeat = _repeat(None, times)\n"
        "    start = _clock()\n"
        "    for _ in repeat:\n"
        f"        {statement}\n"
        "    return _clock() - start\n"
    )
    space = {**names, "_repeat": itertools.repeat, "_clock": time.perf_counter_ns}
    exec(source, space)
    return space["run"]


def tensors(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [t for v in value for t in tensors(v)]
    return [] if value is None else [value]


def thinned(value: Any) -> Any:
    """A NumPy array of at most about KEPT elements, evenly taken."""
    import numpy as np

    if hasattr(value, "detach"):
        value = value.detach()
        if "float16" in str(value.dtype):  # bfloat16 too
            value = value.float()
        value = value.cpu().numpy()
    flat = np.asarray(value).reshape(-1)
    flat = flat[:: max(1, flat.size // KEPT)]
    return flat.astype(np.float64) if flat.dtype.kind == "f" else flat.copy()


class Worker:
    def __init__(self, name: str, threads: int) -> None:
        self.name, self.threads = name, threads
        self.trial: Any = None
        self.rank = 0
        from tools.bench.row import KERNELS

        self.lib = importlib.import_module(KERNELS.get(name, name.split("@")[0]))
        if name in KERNELS:
            self.lib.library()
        elif name != "numpy":
            self.lib.set_num_threads(threads)
        gc.disable()

    def hello(self) -> dict[str, str]:
        return {
            "version": str(getattr(self.lib, "__version__", "")),
            "file": str(getattr(self.lib, "__file__", "")),
        }

    def device_name(self, device: str) -> str:
        return str(getattr(self.lib, device).get_device_name())

    def setup(self, key: str) -> None:
        from tools.bench.row import KERNELS, Versus, row_of

        if self.name in KERNELS:
            (rival,) = (a for a in row_of(key).also if isinstance(a, Versus) and a.kernel)
            self.trial = self.lib.Kernel(rival.kernel, self.threads)
        else:
            self.prepare(key)
        self.trial.run(1)

    def prepare(self, key: str) -> None:
        self.trial = Trial(self.name, self.lib, key, self.threads, self.rank).prepare()

    def follow(self, port: int, rank: int, ranks: int, device: str) -> None:
        """Becomes a peer of another worker, which says what to do of what it does itself."""
        self.rank = rank
        peers.join(self.lib, port, rank, ranks, device)

    def run(self, times: int) -> None:
        self.trial.run(times)

    def call(self) -> None:
        self.trial.call()

    def leave(self) -> None:
        self.drop()
        self.lib.distributed.destroy_process_group()

    def arrays(self) -> list[Any]:
        return self.trial.arrays()

    def checks(self) -> list[float]:
        """Those of the row that are measured here, in order."""
        from tools.bench.row import Check

        also = self.trial.row.also
        return [a.measure(self.trial) for a in also if isinstance(a, Check) and not a.fresh]

    def fresh_check(self, key: str, label: str) -> float:
        trial = Trial(self.name, self.lib, key, self.threads)
        return next(a.measure(trial) for a in trial.row.also if a.label == label)

    def calibrate(self, seconds: float) -> tuple[int, float]:
        """(calls a sample, seconds a call) for samples of at least so long."""
        times, wanted = 1, seconds * 1e9
        while (took := self.trial.run(times)) < wanted:
            times = max(times + 1, min(times * 10, int(times * wanted * 1.2 / max(took, 1))))
        return times, took / times / 1e9

    def sample(self, times: int, warm: int) -> float:
        """Seconds a call."""
        if warm:
            self.trial.run(warm)
        return self.trial.run(times) / times / 1e9

    def memory(self, key: str) -> float:
        """Bytes that a row's peak lies above the library as imported."""
        from tools.bench.memory import peak_of

        def work() -> None:
            trial = Trial(self.name, self.lib, key, self.threads).prepare()
            trial.run(3)

        return peak_of(work)

    def device_memory(self, key: str) -> float:
        """Bytes that a row holds on its device at most, once it has run once."""
        trial = Trial(self.name, self.lib, key, self.threads).prepare()
        module = getattr(self.lib, trial.row.device)
        trial.run(1)
        module.reset_peak_memory_stats()
        trial.run(2)
        return float(module.max_memory_allocated())

    def work(self) -> float:
        return self.trial.work

    def drop(self) -> None:
        self.trial = None
        gc.collect()


def answer(work: Callable[[], Any]) -> tuple[str, Any]:
    try:
        return "ok", work()
    except (AttributeError, ImportError, NotImplementedError, Absent) as error:
        kind, text = "absent", f"{type(error).__name__}: {error}"
    except Exception as error:
        kind, text = "error", f"{type(error).__name__}: {error}"
    return "broken" if peers.broken() else kind, text


def main() -> None:
    # What a library prints must not mix with the answers.
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    worker: Any = None
    name, threads = sys.argv[1], int(sys.argv[2])

    def start() -> dict[str, str]:
        nonlocal worker
        worker = Worker(name, threads)
        return worker.hello()

    write(replies, answer(start))
    while True:
        try:
            method, arguments = read(sys.stdin.buffer)
        except EOFError:
            return peers.leave()
        write(replies, answer(lambda: getattr(worker, method)(*arguments)))  # noqa: B023


if __name__ == "__main__":
    main()
