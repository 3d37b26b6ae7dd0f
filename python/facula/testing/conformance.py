"""Does a device do what the CPU does? Runs every operator's samples on both and compares.

    python -m facula.testing.conformance --device acme [--op NAME]... [--no-fallback] [--list]
                                         [--quick] [--jobs N]

Values in the dtypes that the device has, strided and empty inputs, `out=` and in-place forms,
gradients, work on a second stream, and errors; then, but with `--quick`, other sizes than the
samples' (around tiles, rows of each length, rows of more than 2^20), in other layouts, with the
memory beside arguments and results watched. The table tells how each operator runs there: by a
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
import sys
import time
from collections.abc import Callable, Iterator

from facula import backends
from facula.testing import _memory
from facula.testing._report import WAYS, Failure, Report
from facula.testing._samples import operators
from facula.testing._sized import check_sizes
from facula.testing._suite import Suite

__all__ = ["WAYS", "Failure", "Report", "main", "run"]

_NAME = "facula.testing.conformance"
_CHUNK = 8  # operators that a process takes at a time


def run(
    device: str,
    ops: list[str] | None = None,
    *,
    fallback: bool = True,
    sizes: bool = True,
    first: bool = False,
    jobs: int = 1,
    library: str | None = None,
) -> Report:
    """Run the kit on a device. On a terminal it shows how far it is.

    Args:
        device: "acme" or "acme:1".
        ops: names of operators, all by default.
        fallback: may operators without a kernel run on the CPU?
        sizes: other sizes than the samples' too.
        first: an operator's first failure is enough.
        jobs: processes that share the operators, for devices that compile their kernels.
        library: what each of them loads first, for a device that is not installed.
    """
    known = {name for op in operators() for name in (op.name, op.base_name)}
    if unknown := sorted(set(ops or ()) - known):
        raise ValueError(f"run(): no operator is called {', '.join(unknown)}; ops.json lists them")
    if library:
        backends.load_library(library)
    suite = Suite(device)
    start = time.perf_counter()
    names = [
        op.name
        for op in operators()
        if not op.derived_from and (not ops or op.name in ops or op.base_name in ops)
    ]
    chunks = [names[i : i + _CHUNK] for i in range(0, len(names), _CHUNK)]
    with backends.allow_fallback(suite.name, fallback), _pool(jobs) as pool:
        part = functools.partial(
            _part, device, (fallback, sizes, first), library if jobs > 1 else None
        )
        for report in pool(part, chunks):
            suite.report.add(report)
            _show(f"{len(suite.report.ways)} of {len(names)} operators")
        _show("")
        if not ops:
            suite.called_by_others()
            _memory.check(suite, sizes)
    suite.report.seconds = time.perf_counter() - start
    return suite.report


def _part(
    device: str, options: tuple[bool, bool, bool], library: str | None, names: list[str]
) -> Report:
    """What some operators do; in a process of its own where there are several."""
    if library:
        backends.load_library(library)
    suite = Suite(device)
    fallback, sizes, suite.first = options
    with backends.allow_fallback(suite.name, fallback):
        for op in operators():
            if op.name in names and not op.derived_from:
                suite.operator(op, check_sizes if sizes else None)
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
    parser.add_argument("--quick", action="store_true", help="the samples' own sizes alone")
    parser.add_argument(
        "--first", action="store_true", help="an operator's first failure is enough"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the operators")
    parser.add_argument("--list", action="store_true", help="how each operator runs")
    args = parser.parse_args(argv)
    try:
        options = {"fallback": not args.no_fallback, "sizes": not args.quick, "jobs": args.jobs}
        options |= {"first": args.first, "library": args.library}
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
