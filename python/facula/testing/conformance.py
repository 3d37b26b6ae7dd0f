"""Does a device do what the CPU does? Runs every operator's samples on both and compares.

    python -m facula.testing.conformance --device acme [--op NAME]... [--no-fallback] [--list]
                                         [--jobs N]

Values in the dtypes that the device has, strided and empty inputs, `out=` and in-place forms,
gradients, work on a second stream, and errors. The table tells how each operator runs there: by a
kernel of its own, by formula (the device's two templates), decomposed into others, in part on the
CPU (for some dtypes or samples), on the CPU, or not at all. Operators that only others call have no
samples; what the samples of those others met says how they run.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import importlib
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import facula
from facula import backends
from facula.backends import translate
from facula.testing._samples import Named, OpRecord, Sample, Varying, operators

WAYS = ("native", "by formula", "view", "decomposed", "in part", "fallback", "missing", "untested")
_DTYPES = {
    "float": ("float32", "float64", "float16", "bfloat16"),
    "int": ("int64", "int32", "uint8"),
    "complex": ("complex64",),
    "bool": ("bool",),
}
# (relative, absolute), against the CPU: sums may be taken in another order.
_TOLERANCE = {
    "float64": (1e-8, 1e-9),
    "float32": (2e-4, 2e-5),
    "float16": (1e-2, 1e-2),
    "bfloat16": (6e-2, 6e-2),
    "complex64": (2e-4, 2e-5),
    "complex128": (1e-8, 1e-9),
}


_NAME = "facula.testing.conformance"
_CHUNK = 8  # operators that a process takes at a time
_NO_KERNEL = re.compile(r"([\w.]+)\(\) has no kernel")


@dataclass(frozen=True)
class Failure:
    """A check that did not hold."""

    op: str
    check: str
    sample: str
    dtype: str
    message: str

    def __str__(self) -> str:
        return f"{self.op}({self.sample}) in {self.dtype}, {self.check}: {self.message}"


@dataclass
class Report:
    """What a run found."""

    device: str
    ways: dict[str, str] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)
    checks: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)
    in_part: dict[str, str] = field(default_factory=dict)
    """Kernels and formulas of the device's that the CPU stands in for too, and for what."""
    missing: set[str] = field(default_factory=set)
    """Kernels that were asked for in vain."""
    seconds: float = 0.0

    def add(self, other: Report) -> None:
        """Take in what a run of other operators found."""
        self.ways.update(other.ways)
        self.failures += other.failures
        self.checks += other.checks
        self.fallbacks.update(other.fallbacks)
        self.in_part.update(other.in_part)
        self.missing |= other.missing

    def table(self) -> str:
        counts = Counter(self.ways.values())
        failed = Counter(f.op for f in self.failures)
        lines = [f"{way:<12}{counts[way]:5}" for way in WAYS if counts[way] or way == "missing"]
        lines.append(
            f"{'checks':<12}{self.checks:5}, {len(self.failures)} failed in {len(failed)} operators"
        )
        if self.fallbacks:
            shown = ", ".join(f"{op} ({n})" for op, n in self.fallbacks.most_common())
            lines.append(f"kernels that ran on the CPU: {shown}")
        if self.in_part:
            shown = ", ".join(f"{op} ({what})" for op, what in self.in_part.items())
            lines.append(f"in part on the CPU: {shown}")
        if self.missing:
            lines.append(f"kernels to write: {', '.join(sorted(self.missing))}")
        return "\n".join(
            [f"{self.device}: {len(self.ways)} operators, {self.seconds:.0f} s", *lines]
        )


def run(
    device: str,
    ops: list[str] | None = None,
    *,
    fallback: bool = True,
    jobs: int = 1,
    library: str | None = None,
) -> Report:
    """Run the kit on a device. On a terminal it shows how far it is.

    Args:
        device: "acme" or "acme:1".
        ops: names of operators, all by default.
        fallback: may operators without a kernel run on the CPU?
        jobs: processes that share the operators, for devices that compile their kernels.
        library: what each of them loads first, for a device that is not installed.
    """
    known = {name for op in operators() for name in (op.name, op.base_name)}
    if unknown := sorted(set(ops or ()) - known):
        raise ValueError(f"run(): no operator is called {', '.join(unknown)}; ops.json lists them")
    if library:
        backends.load_library(library)
    suite = _Suite(device)
    start = time.perf_counter()
    names = [
        op.name
        for op in operators()
        if not op.derived_from and (not ops or op.name in ops or op.base_name in ops)
    ]
    chunks = [names[i : i + _CHUNK] for i in range(0, len(names), _CHUNK)]
    with backends.allow_fallback(suite.name, fallback), _pool(jobs) as pool:
        part = functools.partial(_part, device, fallback, library if jobs > 1 else None)
        for report in pool(part, chunks):
            suite.report.add(report)
            _show(f"{len(suite.report.ways)} of {len(names)} operators")
        _show("")
        if not ops:
            suite.called_by_others()
            try:
                suite.device_itself()
            except NotImplementedError as error:
                suite.lacks(error)
    suite.report.seconds = time.perf_counter() - start
    return suite.report


def _part(device: str, fallback: bool, library: str | None, names: list[str]) -> Report:
    """What some operators do; in a process of its own where there are several."""
    if library:
        backends.load_library(library)
    suite = _Suite(device)
    with backends.allow_fallback(suite.name, fallback):
        for op in operators():
            if op.name in names and not op.derived_from:
                suite.operator(op)
    return suite.report


@contextlib.contextmanager
def _pool(jobs: int) -> Iterator[Callable[..., Iterator[Report]]]:
    """`map` over so many processes; this one alone for 1."""
    if jobs <= 1:
        yield map
        return
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(jobs, mp_context=context) as executor:
        yield executor.map


def _show(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<40}\r", end="", file=sys.stderr, flush=True)


class _Suite:
    def __init__(self, device: str) -> None:
        self.device = facula.device(device)
        self.name = self.device.type
        self.report = Report(str(device))
        self.info = backends.info(self.name)
        self.module = getattr(facula, self.name)
        self.dtypes = [str(d).rpartition(".")[2] for d in self.info["dtypes"]]
        self.side = self.module.Stream() if self.info["streams"] else None

    # ---- one operator ----

    def operator(self, op: OpRecord) -> None:
        call = op.function()
        if call is None or not op.samples():
            self.report.ways[op.name] = "untested"
            return
        self.missing = False
        self.own = set[str]()  # dtypes whose values came from here, and from the CPU
        self.fell = set[str]()
        for index in range(len(op.data["samples"])):
            self.sample(op, call, index)
        if self.missing:
            self.report.ways[op.name] = "missing"
        elif self.own and self.fell:
            self.report.ways[op.name] = "in part"
            if self.way(op) in ("native", "by formula"):  # others are what these make them
                dtypes = ", ".join(d for d in self.dtypes if d in self.fell - self.own)
                self.report.in_part[op.name] = dtypes or "some samples"
        else:
            self.report.ways[op.name] = "fallback" if self.fell else self.way(op)

    def called_by_others(self) -> None:
        """How operators without samples ran where those of others reached them."""
        for op in operators():
            if self.report.ways.get(op.name) != "untested" or not op.internal:
                continue
            fell, native = op.name in self.report.fallbacks, op.name in self.info["kernels"]
            if op.name in self.report.missing:
                self.report.ways[op.name] = "missing"
            elif fell and native:
                self.report.ways[op.name] = "in part"
                self.report.in_part[op.name] = "as others call it"
            elif fell:
                self.report.ways[op.name] = "fallback"
            elif native or op.name not in translate.primitives():
                self.report.ways[op.name] = self.way(op)

    def way(self, op: OpRecord) -> str:
        if op.name in self.info["kernels"]:
            return "native"
        if op.scalar or (op.fold and self.info["reduction"]):
            return "by formula"
        return "view" if op.kind == "view" else "decomposed"

    def sample(self, op: OpRecord, call: Callable[..., Any], index: int) -> None:
        text = op.data["samples"][index]
        for number, dtype in enumerate(self.dtypes_of(op, op.sample(index))):
            backends.reset_fallbacks(self.name)
            checks: list[tuple[str, Callable[..., None]]] = [("value", self.value)]
            if number == 0:
                checks += [("strides", self.strides), ("out", self.out), ("in-place", self.inplace)]
                if self.side is not None:
                    checks.append(("stream", self.stream))
                if index == 0:
                    checks.append(("errors", self.errors))
            if dtype in ("float64", "float32") and number < 2 and op.differentiable:
                checks.append(("gradient", self.gradient))
            for name, check in checks:
                made = op.sample(index)
                try:
                    check(op, call, made, dtype)
                except NotImplementedError as error:
                    self.missing = self.lacks(error)
                    if not self.missing:
                        self.fail(op, name, text, dtype, error)
                except _Skip:
                    continue
                except TypeError as error:
                    if "has no tensors of" not in str(error):
                        self.fail(op, name, text, dtype, error)
                except Exception as error:
                    self.fail(op, name, text, dtype, error)
                self.report.checks += 1
                if self.missing:
                    return
                if name == "value":
                    (self.fell if backends.fallbacks(self.name) else self.own).add(dtype)
            self.report.fallbacks.update(backends.fallbacks(self.name))

    def lacks(self, error: NotImplementedError) -> bool:
        """Note the kernel that is missing, if that is what the error says."""
        found = _NO_KERNEL.findall(str(error))
        self.report.missing.update(found)
        return bool(found)

    def fail(self, op: OpRecord, check: str, text: str, dtype: str, error: Exception) -> None:
        message = f"{type(error).__name__}: {error}".strip().replace("\n", " ")
        self.report.failures.append(Failure(op.name, check, text, dtype, message[:300]))

    def dtypes_of(self, op: OpRecord, sample: Sample) -> Iterator[str]:
        varies = any(
            isinstance(v, Varying) for v in _leaves([*sample.args, *sample.kwargs.values()])
        )
        groups = op.dtypes or ["float"]
        for group in ("float", "int", "complex", "bool"):
            for dtype in _DTYPES[group] if group in groups else ():
                if dtype in self.dtypes:
                    yield dtype
                    if not varies:
                        return

    # ---- checks ----

    def both(
        self, op: OpRecord, call: Callable[..., Any], args: Any, kwargs: Any, spread: bool = False
    ) -> tuple[Any, Any]:
        """The CPU's result (or error) and the device's."""
        moved = self.moved(args), self.moved(kwargs)
        if spread:
            args, kwargs, moved = _map(args, _spread), _map(kwargs, _spread), _map(moved, _spread)
        here = there = {}
        if any(a["type"].startswith("Device") for a in op.data["arguments"]) and not _tensors(
            (args, kwargs)
        ):
            there = {"device": self.device}
        try:
            want = call(*args, **kwargs, **here)
        except Exception as error:
            try:
                call(*moved[0], **moved[1], **there)
                self.module.synchronize()
            except NotImplementedError:
                raise
            except Exception as other:
                if isinstance(other, type(error)) or isinstance(error, type(other)):
                    raise _Skip from None
                raise
            raise AssertionError(
                f"the CPU raises {type(error).__name__} and the device does not"
            ) from None
        return want, call(*moved[0], **moved[1], **there)

    def value(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        args, kwargs = made(sample, dtype)
        if any(
            str(t.dtype).rpartition(".")[2] not in self.dtypes for t in _tensors((args, kwargs))
        ):
            raise _Skip
        want, got = self.both(op, call, args, kwargs)
        self.compare(op, got, want, dtype)

    def strides(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        args, kwargs = made(sample, dtype)
        if not any(t.dim() > 0 and t.numel() > 1 for t in _tensors((args, kwargs))):
            raise _Skip
        if op.kind == "mutation":
            raise _Skip
        want, got = self.both(op, call, args, kwargs, spread=True)
        self.compare(op, got, want, dtype)

    def out(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        if "out" not in (op.variants or ()) or all(p.startswith("Tensor.") for p in op.python):
            raise _Skip
        args, kwargs = made(sample, dtype)
        want, first = self.both(op, call, args, kwargs)
        if not isinstance(first, facula.Tensor):
            raise _Skip
        target = facula.empty(first.shape, dtype=first.dtype, device=first.device)
        given = {} if _tensors((args, kwargs)) else {"device": self.device}
        got = call(*self.moved(args), **self.moved(kwargs), **given, out=target)
        assert got is target, "out= is not what comes back"
        self.compare(op, got, want, dtype)

    def inplace(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        if "inplace" not in (op.variants or ()) or f"Tensor.{op.base_name}" not in op.python:
            raise _Skip
        args, kwargs = made(sample, dtype)
        if not args or not isinstance(args[0], facula.Tensor):
            raise _Skip
        name = f"{op.base_name}_"
        want, got = self.both(op, lambda self, *a, **k: getattr(self, name)(*a, **k), args, kwargs)
        self.compare(op, got, want, dtype)

    def stream(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        args, kwargs = made(sample, dtype)
        self.side.wait_stream(self.module.current_stream(self.side.device))
        with self.side:
            want, got = self.both(op, call, args, kwargs)
            self.side.synchronize()
        self.compare(op, got, want, dtype)

    def errors(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        args, kwargs = made(sample, dtype)
        tensors = [i for i, a in enumerate(args) if isinstance(a, facula.Tensor) and a.dim() > 0]
        if op.kind != "pointwise" or len(tensors) < 2:
            raise _Skip
        mixed = self.moved(args)
        mixed[tensors[1]] = args[tensors[1]]
        try:
            call(*mixed, **self.moved(kwargs))
        except RuntimeError as error:
            assert str(self.name) in str(error), f"the error does not name the device: {error}"
        else:
            raise AssertionError("tensors on two devices are no error")

    def gradient(self, op: OpRecord, call: Callable[..., Any], sample: Sample, dtype: str) -> None:
        args, kwargs = made(sample, dtype)
        names = op.argument_names
        inputs = [
            (i, a) for i, a in enumerate(args)
            if isinstance(a, facula.Tensor) and a.is_floating_point()
            and i < len(names) and names[i] in op.differentiable
        ]  # fmt: skip
        if not inputs or op.kind == "mutation":
            raise _Skip
        results = []
        for place in (lambda v: v, self.moved):
            given = place(args)
            leaves = []
            for i, _ in inputs:
                given[i] = given[i].detach().requires_grad_()
                leaves.append(given[i])
            values = [t for t in _tensors([call(*given, **place(kwargs))]) if t.requires_grad]
            if not values:
                raise _Skip
            weights = place([_weights(v) for v in values])
            grads = facula.autograd.grad(values, leaves, weights, allow_unused=True)
            results.append([g for g in grads if g is not None])
        self.compare(op, results[1], results[0], dtype)

    def device_itself(self) -> None:
        """Copies both ways, printing, random numbers, views and their bases."""
        report = self.report

        def check(name: str, good: bool) -> None:
            report.checks += 1
            if not good:
                report.failures.append(Failure("device", name, "", "", "does not hold"))

        for dtype in self.info["dtypes"]:
            x = facula.arange(-3, 9).reshape(3, 4).to(dtype)
            y = x.to(self.device)
            check(f"there and back in {dtype}", bool((y.cpu() == x).all()))
            check(f"strided copy in {dtype}", bool((y.t()[1:].cpu() == x.t()[1:]).all()))
            y[1:, ::2] = x[1:, ::2] if dtype == facula.bool else x[1:, ::2] + x[1:, ::2]
            z = x.clone()
            z[1:, ::2] = x[1:, ::2] if dtype == facula.bool else x[1:, ::2] + x[1:, ::2]
            check(f"assignment in {dtype}", bool((y.cpu() == z).all()))
        leaf = facula.ones(3, requires_grad=True)
        (leaf.to(self.device) * 2).cpu().sum().backward()
        check("a gradient passes through copies", leaf.grad.tolist() == [2, 2, 2])
        x = facula.zeros(2, device=self.device)
        check("the name is printed", f"device='{self.name}" in repr(x))
        self.module.manual_seed(5)
        first = facula.rand(8, device=self.device).cpu()
        self.module.manual_seed(5)
        check(
            "a seed gives the same numbers",
            bool((facula.rand(8, device=self.device).cpu() == first).all()),
        )
        facula.empty(0, device=self.device).cpu()
        self.module.synchronize()

    # ---- help ----

    def moved(self, value: Any) -> Any:
        return _map(value, lambda t: t.to(self.device))

    def compare(self, op: OpRecord, got: Any, want: Any, dtype: str) -> None:
        if isinstance(want, tuple | list) and not isinstance(want, facula.Size):
            assert len(got) == len(want), f"{len(got)} results, the CPU has {len(want)}"
            for g, w in zip(got, want, strict=True):
                self.compare(op, g, w, dtype)
            return
        if not isinstance(want, facula.Tensor):
            if isinstance(want, float) and op.reference:
                np.testing.assert_allclose(got, want, *_TOLERANCE["float32"])
            return
        assert got.device.type == self.name, f"the result is on {got.device}"
        assert got.shape == want.shape, f"shape {tuple(got.shape)}, the CPU has {tuple(want.shape)}"
        assert got.dtype == want.dtype, f"{got.dtype}, the CPU has {want.dtype}"
        if op.reference is None:  # random, or whatever was in memory
            got.cpu()
            return
        a, b = _array(got.cpu()), _array(want)
        if a.dtype.kind in "fc":
            rtol, atol = max(_TOLERANCE[dtype] if dtype in _TOLERANCE else _TOLERANCE["float32"],
                             _TOLERANCE[str(want.dtype).rpartition(".")[2]])  # fmt: skip
            stated = (op.tolerance or {}).get(dtype, 0)
            np.testing.assert_allclose(a, b, max(rtol, stated), max(atol, stated))
        else:
            np.testing.assert_array_equal(a, b)


def _weights(value: Any) -> Any:
    return facula.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).reshape(value.shape)


class _Skip(Exception):
    """The check says nothing of this sample."""


def made(sample: Sample, dtype: str) -> tuple[list[Any], dict[str, Any]]:
    """A sample's arguments as tensors on the CPU."""
    return [_tensor(a, dtype) for a in sample.args], {
        k: _tensor(v, dtype) for k, v in sample.kwargs.items()
    }


def _tensor(value: Any, dtype: str) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_tensor(v, dtype) for v in value)
    if isinstance(value, Named):
        return getattr(facula, value)
    if not isinstance(value, np.ndarray):
        return value
    array = np.ascontiguousarray(value).reshape(value.shape)
    if not isinstance(value, Varying):
        return facula.tensor(array.tolist(), dtype=getattr(facula, str(array.dtype))).reshape(
            array.shape
        )
    if dtype == "bool":
        array = array > 0
    elif "int" in dtype:
        array = np.rint(array * 3)
        with np.errstate(invalid="ignore"):  # what no integer holds
            array = (np.abs(array) if dtype == "uint8" else array).astype(np.int64)
    return facula.tensor(array.tolist()).reshape(array.shape).to(getattr(facula, dtype))


def _spread(t: Any) -> Any:
    """The same values, not contiguous."""
    if t.dim() == 0:
        return t
    wide = facula.zeros(*t.shape[:-1], t.shape[-1] * 2, dtype=t.dtype, device=t.device)
    view = wide[..., ::2]
    return view.copy_(t)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple) and not isinstance(value, facula.Size):
        for v in value:
            yield from _leaves(v)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


def _tensors(value: Any) -> list[Any]:
    return [v for v in _leaves(value) if isinstance(v, facula.Tensor)]


def _map(value: Any, fn: Callable[[Any], Any]) -> Any:
    if isinstance(value, facula.Tensor):
        return fn(value)
    if isinstance(value, list | tuple) and not isinstance(value, facula.Size):
        return type(value)(_map(v, fn) for v in value)
    if isinstance(value, dict):
        return {k: _map(v, fn) for k, v in value.items()}
    return value


def _array(t: Any) -> np.ndarray:
    if t.dtype in (facula.bfloat16, facula.float16):
        t = t.to(facula.float32)
    return np.array(t.detach().tolist(), dtype=str(t.dtype).rpartition(".")[2]).reshape(t.shape)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m facula.testing.conformance",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--device", required=True)
    parser.add_argument(
        "--library", help="a library to load first, for a device that is not installed"
    )
    parser.add_argument("--op", action="append", help="only this operator")
    parser.add_argument("--no-fallback", action="store_true", help="nothing may run on the CPU")
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the operators")
    parser.add_argument("--list", action="store_true", help="how each operator runs")
    args = parser.parse_args(argv)
    try:
        options = {"fallback": not args.no_fallback, "jobs": args.jobs, "library": args.library}
        # by the module's name, under which other processes find it
        report = importlib.import_module(_NAME).run(args.device, args.op, **options)
    except (RuntimeError, ValueError) as error:
        parser.error(str(error))
    if args.list:
        print("\n".join(f"{op:<40}{way}" for op, way in report.ways.items()))
    print("\n".join(str(f) for f in report.failures))
    print(report.table())
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
