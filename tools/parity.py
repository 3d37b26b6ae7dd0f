#!/usr/bin/env python3
"""Calls the operators of torch's own table in facula and in torch, and prints what differs.

    PYTHONPATH=SITE_PACKAGES_WITH_TORCH .venv/bin/python tools/parity.py [options] [NAME ...]

torch, expecttest and numpy must be importable beside facula; facula itself needs none of them. The
inputs are those of `torch.testing`: shapes, strides, dtypes, arguments, and calls that must raise.
An operator passes, is missing (facula has no such name), or differs, by kind:

    raises     facula raises where torch computes      values    numbers outside of the tolerance
    accepts    facula computes where torch raises      strides   a view elsewhere, or a copy
    dtype      results of another dtype                gradient  a gradient, or there is none
    shape      results of another structure            forms     the method or in-place form

-n SAMPLES of each dtype (default 40), -d DTYPES, -j PROCESSES, -v every difference, --json FILE,
--names FILE, lists of public names by module (`## module`, then names), reports which are absent.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import json
import multiprocessing
import re
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

try:
    import torch
    from torch.testing._internal import common_methods_invocations as table
except ImportError as error:
    sys.exit(f"parity: {error}; put a site-packages with torch and expecttest on PYTHONPATH")

import facula
from parity_compare import (
    Difference,
    array_of,
    compared,
    dtype_of,
    is_tensor,
    leaves,
    ties_alone,
    view_differs,
)

DTYPES = "float64 complex128 int64 bool float32 bfloat16 uint8 complex64 float16 int32".split()
SECONDS = 20  # that one call may take


class Missing(Exception):
    """facula has no such name."""


class TooLong(Exception):
    """A call did not end."""


# ---- from torch to facula ----


class Space:
    """What `torch` means in a function of the table that is run with facula."""

    def __init__(self, there: Any, path: str = "facula") -> None:
        self._there, self._path = there, path

    def __getattr__(self, name: str) -> Any:
        try:
            value = getattr(self._there, name)
        except AttributeError:
            raise Missing(f"{self._path}.{name}") from None
        is_module = isinstance(value, types.ModuleType)
        return Space(value, f"{self._path}.{name}") if is_module else value


HERE = Space(facula)
table.wrapper_set_seed = lambda op, *args, **kwargs: op(*args, **kwargs)  # so that is_random sees


def by_path(path: str) -> Any:
    """The public name `path` of facula, e.g. `nn.functional.relu`."""
    value: Any = facula
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            try:
                value = __import__(f"{value.__name__}.{part}", fromlist=[part])
            except (ImportError, AttributeError):
                raise Missing(f"facula.{path}") from None
    return value


def counterpart(function: Any, name: str) -> Callable[..., Any]:
    """What facula has for a function of torch, or for one of the table that calls torch."""
    module = getattr(function, "__module__", None) or ""
    of_table = isinstance(function, types.FunctionType) and module.startswith("torch.testing")
    if of_table and getattr(function, "__wrapped__", None) is None:
        scope = {**function.__globals__, "torch": HERE, "F": by_path("nn.functional")}
        closure = tuple(
            types.CellType(converted(c.cell_contents)) for c in function.__closure__ or ()
        )
        made = types.FunctionType(
            function.__code__, scope, function.__name__, function.__defaults__, closure
        )
        made.__kwdefaults__ = function.__kwdefaults__
        return made
    if isinstance(function, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        if not hasattr(facula.Tensor, function.__name__):
            raise Missing(f"facula.Tensor.{function.__name__}")
        return getattr(facula.Tensor, function.__name__)
    try:
        return by_path(name)
    except Missing:
        if hasattr(facula.Tensor, name) and not hasattr(torch, name):
            return getattr(facula.Tensor, name)
        raise


def tensor(x: torch.Tensor) -> facula.Tensor:
    """The same elements, dtype and strides, in memory of its own."""
    needs = x.requires_grad
    x = x.detach().resolve_conj().resolve_neg()
    dtype = getattr(facula, str(x.dtype).split(".")[1], None)
    if dtype is None:
        raise Missing(str(x.dtype).replace("torch", "facula"))
    flat = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())
    bits = x.dtype in (torch.bfloat16, torch.float16)
    array = (flat.view(torch.int16) if bits else flat).numpy().copy()
    base = facula.from_numpy(array)
    made = (base.view(dtype) if bits else base).as_strided(x.shape, x.stride(), x.storage_offset())
    return made.requires_grad_() if needs else made


def converted(value: Any) -> Any:
    """An argument for facula."""
    if isinstance(value, torch.Tensor):
        return tensor(value)
    if isinstance(value, (torch.dtype, torch.memory_format, torch.layout)):
        name = str(value).split(".")[1]
        if not hasattr(facula, name):
            raise Missing(f"facula.{name}")
        return getattr(facula, name)
    if isinstance(value, torch.device):
        return facula.device(str(value))
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(converted, value))
    if isinstance(value, list):
        return list(map(converted, value))
    if isinstance(value, dict):
        return {key: converted(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value) and hasattr(facula.nn, type(value).__name__):
        fields = {f.name: converted(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return getattr(facula.nn, type(value).__name__)(**fields)
    if isinstance(value, torch.nn.Module):
        return getattr(facula.nn, type(value).__name__)()
    if isinstance(value, types.BuiltinFunctionType) and hasattr(torch, value.__name__):
        return by_path(value.__name__)
    return value


# ---- calling ----


def on_alarm(signum: int, frame: Any) -> None:
    raise TooLong(f"did not end in {SECONDS} s")


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, Exception | None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs), None
    except Exception as error:
        return None, error


def short(error: Exception | None) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error) else ''}"[
        :180
    ]


def gradients(
    result: Any, inputs: list[Any], module: Any, process: Callable[[Any], Any]
) -> list[Any]:
    """Of a fixed weighted sum of all results that have one."""
    total = None
    for out in leaves(process(result)):
        if is_tensor(out) and out.requires_grad and out.numel():
            weights = (
                np.cos(np.arange(out.numel(), dtype=np.float64)).reshape(tuple(out.shape)) + 0.3
            )
            factor = module.from_numpy(np.asarray(weights)).to(out.dtype)
            part = (out * factor).sum()
            part = part.real + 0.7 * part.imag if dtype_of(out).startswith("complex") else part
            total = part if total is None else total + part
    if total is None:
        return []
    return list(module.autograd.grad(total, inputs, allow_unused=True))


def sample_text(sample: Any) -> str:
    def text(x: Any) -> str:
        if isinstance(x, torch.Tensor):
            return f"{dtype_of(x)}{list(x.shape)}" + (
                "" if x.is_contiguous() else f"/{list(x.stride())}"
            )
        if isinstance(x, (list, tuple)):
            return "[" + ", ".join(map(text, x)) + "]"
        return repr(x)[:60]

    words = [text(sample.input), *map(text, sample.args)]
    return ", ".join([*words, *(f"{k}={text(v)}" for k, v in sample.kwargs.items())])


def one(
    op: Any, ours: Callable[..., Any], sample: Any, *, grad: bool, random: bool
) -> Iterator[Difference]:
    """Differences of one call."""
    args, kwargs = sample.args, sample.kwargs
    try:
        mine = converted((sample.input, list(args), dict(kwargs)))
    except Missing as missing:
        yield "raises", f"argument {missing}"
        return
    torch.manual_seed(0)
    theirs, error = call(op.op, sample.input, *args, **kwargs)
    result, our_error = call(ours, mine[0], *mine[1], **mine[2])
    if isinstance(our_error, Missing):
        raise our_error
    if error is not None or our_error is not None:
        if our_error is not None and error is None:
            yield "raises", short(our_error)
        elif our_error is None and error is not None and not isinstance(error, NotImplementedError):
            yield "accepts", f"torch: {short(error)}"
        return
    found = list(compared(theirs, result, values=not random))
    if found and ties_alone(theirs, result, sample.input):
        found = []
    process = sample.output_process_fn_grad
    if any(kind == "values" for kind, _ in found):
        again = list(compared(process(theirs), process(result), scale=10))  # up to signs and phases
        found = [d for d in found if d[0] != "values"] + [d for d in again if d[0] == "values"]
    yield from found
    if (
        isinstance(sample.input, torch.Tensor)
        and not found
        and sample.input.layout == torch.strided
    ):
        yield from view_differs(theirs, result, sample.input, mine[0])
    if not grad or found or random:
        return
    inputs = [
        x
        for x in leaves([sample.input, list(args), dict(kwargs)])
        if is_tensor(x) and x.requires_grad
    ]
    our_inputs = [x for x in leaves(mine) if is_tensor(x) and x.requires_grad]
    wrapper = op.gradcheck_wrapper
    if (
        wrapper.__name__ != "<lambda>" and "masked" not in wrapper.__name__
    ):  # makes inputs symmetric, triangular
        theirs, _ = call(wrapper, op.op, sample.input, *args, **kwargs)
        result, _ = call(wrapper, ours, mine[0], *mine[1], **mine[2])
    wanted, error = call(gradients, theirs, inputs, torch, process)
    got, our_error = call(gradients, result, our_inputs, facula, process)
    if error is not None:
        return
    if our_error is not None:
        yield "gradient", short(our_error)
    else:
        wanted = wanted or [None] * len(inputs)
        got = got or [None] * len(our_inputs)
        for a, b in zip(wanted, got, strict=True):
            if a is None or b is None:
                present = b if a is None else a
                if present is not None and np.any(array_of(present)):
                    yield "gradient", f"none in {'torch' if a is None else 'facula'}"
            else:
                for kind, text in compared(a, b, scale=100):
                    yield "gradient", f"{kind} {text}"


def is_random(op: Any, sample: Any) -> bool:
    """Do two seeds give two results?"""
    if "empty" in op.name or op.name == "resize_":
        return True
    results = []
    for seed in (0, 1):
        torch.manual_seed(seed)
        sample = copied(sample)
        result, error = call(op.op, sample.input, *sample.args, **sample.kwargs)
        if error is not None:
            return False
        results.append(
            [
                array_of(x).copy()
                for x in leaves(result)
                if is_tensor(x) and x.layout == torch.strided
            ]
        )
    return any(
        not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
        for a, b in zip(*results, strict=True)
    )


def copied(sample: Any) -> Any:
    return sample.transform(lambda x: x.detach().clone() if isinstance(x, torch.Tensor) else x)


def forms(op: Any, samples: list[Any]) -> Iterator[Difference]:
    """The method and the in-place form give what torch's give."""
    for form, what in ((op.get_method(), "method"), (op.get_inplace(), "in place")):
        name = getattr(form, "__name__", "")
        if form is None or not name or name.startswith("__") or not hasattr(torch.Tensor, name):
            continue
        if not hasattr(facula.Tensor, name):
            yield "forms", f"no Tensor.{name}"
            continue
        for sample in map(copied, samples[:8]):
            if not isinstance(sample.input, torch.Tensor) or sample.input.layout != torch.strided:
                continue
            mine = converted((sample.input, list(sample.args), dict(sample.kwargs)))
            torch.manual_seed(0)
            theirs, error = call(
                getattr(torch.Tensor, name), sample.input, *sample.args, **sample.kwargs
            )
            ours, our_error = call(getattr(facula.Tensor, name), mine[0], *mine[1], **mine[2])
            if error is None and our_error is not None:
                yield "forms", f"{what} {name}({sample_text(sample)}): {short(our_error)}"
            elif error is None:
                for kind, text in compared(theirs, ours, values=kind_has_values(op)):
                    yield "forms", f"{what} {name}({sample_text(sample)}): {kind} {text}"


def kind_has_values(op: Any) -> bool:
    return op.name not in RANDOM


RANDOM = set(
    "bernoulli cauchy exponential geometric log_normal normal uniform multinomial resize_".split()
)


def of_operator(index: int, options: argparse.Namespace) -> dict[str, Any]:
    """One row of the table."""
    op = table.op_db[index]
    name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
    row: dict[str, Any] = {"name": name, "calls": 0, "missing": "", "differ": [], "counts": {}}
    seen: collections.Counter[str] = collections.Counter()

    def note(kind: str, text: str, call_text: str) -> None:
        seen[kind] += 1
        if seen[kind] <= options.most:
            row["differ"].append([kind, text, call_text])

    try:
        ours = counterpart(op.op, op.name)
        for aliased in op.aliases:
            if not aliased.name.startswith(("_", "linalg_", "special_")):
                by_path(aliased.name.removeprefix("torch."))
    except Missing as missing:
        row["missing"] = str(missing)
        return row
    signal.signal(signal.SIGALRM, on_alarm)
    row["random"] = False
    for dtype_name in options.dtypes:
        dtype = getattr(torch, dtype_name)
        if dtype not in op.supported_dtypes("cpu"):
            continue
        grad = dtype in (torch.float64, torch.complex128) and dtype in op.supported_backward_dtypes(
            "cpu"
        )
        torch.manual_seed(1)
        try:
            samples = op.sample_inputs("cpu", dtype, requires_grad=grad)
            for number, sample in enumerate(samples):
                if number >= options.samples:
                    break
                signal.alarm(SECONDS)
                text = sample_text(sample)
                random = row["random"] = row["random"] or is_random(op, sample)
                row["calls"] += 1
                variants = [sample] if number % 4 else [sample, sample.noncontiguous()]
                for variant in variants:
                    for kind, what in one(op, ours, variant, grad=grad, random=random):
                        note(kind, what, text)
        except Missing as missing:
            row["missing"] = str(missing)
            return row
        except TooLong as error:
            note("raises", str(error), dtype_name)
        except Exception as error:
            note("raises", f"the comparison itself: {short(error)}", dtype_name)
        finally:
            signal.alarm(0)
    if op.error_inputs_func is not None:
        bad, _ = call(lambda: list(op.error_inputs("cpu")))
        for item in bad or []:
            found, _ = call(
                lambda s=item.sample_input: list(one(op, ours, s, grad=False, random=True))
            )
            for kind, what in found or []:
                if kind == "accepts":
                    note(kind, what, sample_text(item.sample_input))
    dtype = torch.float64 if torch.float64 in op.supported_dtypes("cpu") else torch.int64
    if dtype in op.supported_dtypes("cpu") and not row["random"]:
        try:
            samples = list(op.sample_inputs("cpu", dtype))
            for kind, what in forms(op, samples):
                note(kind, what, "")
        except Exception as error:
            note("forms", f"the comparison itself: {short(error)}", "")
    row["counts"] = dict(seen)
    return row


def of_operator_safely(work: tuple[int, argparse.Namespace]) -> dict[str, Any]:
    torch.set_num_threads(1)
    facula.set_num_threads(1)
    return of_operator(*work)


# ---- the table ----


def absent_names(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Names of the lists in `path` that facula lacks, by module."""
    module = ""
    lists: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            module = re.sub(r"\s*\(\d+\)", "", line[3:]).strip()
        elif line and not line.startswith("#"):
            lists.setdefault(module, []).extend(line.split())
    for module, names in lists.items():
        try:
            there = (
                by_path(module.removeprefix("facula").lstrip(".")) if module != "facula" else facula
            )
        except Missing:
            yield module, ["the module itself"]
            continue
        yield module, [name for name in names if not hasattr(there, name)]


def wanted(op: Any, patterns: Iterable[str]) -> bool:
    if "jiterator" in op.name or "sparse" in op.name or op.name.startswith(("ops.aten", "__r")):
        return False
    return not patterns or any(re.fullmatch(p.replace("*", ".*"), op.name) for p in patterns)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("patterns", nargs="*", metavar="NAME")
    parser.add_argument("-n", dest="samples", type=int, default=40)
    parser.add_argument("-d", dest="dtypes", type=lambda s: s.split(","), default=DTYPES)
    parser.add_argument("-j", dest="processes", type=int, default=1)
    parser.add_argument("-v", dest="most", action="store_const", const=1000, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--names", type=Path)
    options = parser.parse_args()
    work = [(i, options) for i, op in enumerate(table.op_db) if wanted(op, options.patterns)]
    rows = []
    if options.processes > 1:
        with multiprocessing.get_context("fork").Pool(
            options.processes, maxtasksperchild=20
        ) as pool:
            rows = list(pool.imap(of_operator_safely, work, chunksize=4))
    else:
        rows = [of_operator_safely(item) for item in work]
    for row in rows:
        if row["missing"]:
            print(f"{row['name']:44} missing   {row['missing']}")
        elif row["differ"]:
            counts = " ".join(f"{kind}:{n}" for kind, n in row["counts"].items())
            print(f"{row['name']:44} differ    {counts}")
            for kind, what, where in row["differ"]:
                print(
                    f"      {kind:9} {what}\n{'':16}{where}" if where else f"      {kind:9} {what}"
                )
    missing = sum(bool(row["missing"]) for row in rows)
    accept = sum(set(row["counts"]) == {"accepts"} for row in rows)
    differ = sum(bool(set(row["counts"]) - {"accepts"}) and not row["missing"] for row in rows)
    calls = sum(row["calls"] for row in rows)
    print(
        f"\n{len(rows)} operator tables, {calls} calls: {len(rows) - missing - differ} pass "
        f"({accept} of them take more than torch does), {missing} missing, {differ} differ"
    )
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))
    if options.names:
        for module, names in absent_names(options.names):
            if names:
                print(f"{module} lacks {len(names)}: {' '.join(names)}")


if __name__ == "__main__":
    main()
