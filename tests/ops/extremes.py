"""Calls with extreme integers, made by a child process: `python extremes.py '{"ops": [...], ...}'`.

A sample's size-like numbers (and the schema's that it leaves out) are replaced by numbers that no
size has: one by one, several at random; in the thorough run also two at a time, and with empty
tensors. Before each call its text goes to a file, so that the parent knows which one killed the
child; what comes out wrong is printed, one line each.
"""

from __future__ import annotations

import ast
import itertools
import json
import os
import random
import resource
import signal
import sys
import time
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import facula
import numpy as np
from extreme_calls import calls
from facula.testing._samples import OpRecord, operators
from harness import arguments, dtypes_of

EXTREMES = [0, -1, 1, 2**30, 2**31 - 1, 2**31, 2**32, 2**61, 2**62, 2**63 - 1, -(2**63)]
FEW = [-1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63)]
PAIRED = [0, -1, 2**31, 2**32, 2**61, 2**62, 2**63 - 1]
FACTORS = [0.0, -1.0, 1e-300, 1e9, 1e18, 1e19, 1e308, float("inf"), float("nan")]
REFUSALS = (TypeError, ValueError, RuntimeError, IndexError, NotImplementedError)
# What no error text holds: C++ that was not ours, or a check of our own that came too late.
FOREIGN = (
    "internal error",
    "std::",
    "vector::",
    "max_size",
    "bad_",
    "basic_string",
    "optional access",
)
VALUES_ONLY = ("values", "index", "device")  # kinds of errors of the meta device alone
ROOM = 1 << 30  # bytes that a call may ask for beyond what the process has
SMALL = 64 << 20  # results of at most so many bytes must not need more than ROOM

Slot = tuple[Any, int | None]  # an argument's name or position, and an element of it


def is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def completed(op: OpRecord, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments, with the integers that the sample leaves at their defaults."""
    full = dict(kwargs)
    for i, argument in enumerate(op.data["arguments"]):
        name, kind = argument["name"], argument["type"]
        if i < len(args) or name in full or not kind.startswith("int"):
            continue
        if "*" in kind:
            continue
        default = argument.get("default", "None")
        try:
            value = ast.literal_eval(default)
        except (ValueError, SyntaxError):
            continue
        if value is None and kind.startswith("int["):
            count = kind[4 : kind.index("]")]
            value = [1] * int(count) if count.isdigit() else [1]
        full[name] = value
    return full


def slots_of(args: list[Any], kwargs: dict[str, Any]) -> Iterator[Slot]:
    for key, value in [*enumerate(args), *kwargs.items()]:
        if is_int(value) or value is None or isinstance(value, float):
            yield key, None
        elif isinstance(value, slice):
            yield from ((key, i) for i in range(3))
        elif isinstance(value, list | tuple) and value and not tensors_in(value):
            yield from ((key, i) for i in range(len(value)))
            if len(value) > 1:
                yield key, -1  # all of them


def replaced(value: Any, at: int | None, number: Any) -> Any:
    if at is None:
        return number
    if isinstance(value, slice):
        parts = [value.start, value.stop, value.step]
        parts[at] = number
        return slice(*parts)
    if at == -1:
        return type(value)([number] * len(value))
    return type(value)(number if i == at else v for i, v in enumerate(value))


def with_slots(args: list[Any], kwargs: dict[str, Any], changes: list[tuple[Slot, Any]]) -> Any:
    args, kwargs = list(args), dict(kwargs)
    for (key, at), number in changes:
        place: Any = kwargs if isinstance(key, str) else args
        place[key] = replaced(place[key], at, number)
    return args, kwargs


def emptied(value: Any, dim: int) -> Any:
    if isinstance(value, facula.Tensor) and value.dim() > dim:
        return value.narrow(dim, 0, 0)
    return value


def distorted(args: list[Any], kwargs: dict[str, Any], thorough: bool, seed: str) -> Iterator[Any]:
    """Calls with other numbers in the place of any of Python's side's."""
    slots = list(slots_of(args, kwargs))
    numbers = EXTREMES if thorough else FEW

    def choices(slot: Slot) -> list[Any]:
        key, _ = slot
        value = kwargs[key] if isinstance(key, str) else args[key]
        first = value[0] if isinstance(value, list | tuple) else value
        return FACTORS if isinstance(first, float) else [] if first is None else numbers

    for slot in slots:
        for n in choices(slot):
            yield with_slots(args, kwargs, [(slot, n)])
    rng = random.Random(zlib.crc32(seed.encode()))
    for _ in range(100 if thorough else 8):
        chosen = [s for s in rng.sample(slots, rng.randint(1, len(slots))) if choices(s)]
        changes = [
            (s, rng.choice(FACTORS) if choices(s) is FACTORS else any_number(rng)) for s in chosen
        ]
        yield with_slots(args, kwargs, changes)


def integers_of(op: OpRecord, slot: Slot, args: list[Any], kwargs: dict[str, Any]) -> bool:
    key, _ = slot
    value = kwargs[key] if isinstance(key, str) else args[key]
    if value is not None and not isinstance(value, float):
        return True
    names = op.argument_names
    name = key if isinstance(key, str) else names[min(key, len(names) - 1)]
    kind = next((a["type"] for a in op.data["arguments"] if a["name"] == name), "")
    return bool(kind.startswith("int")) and not isinstance(value, float)


def calls_of(op: OpRecord, thorough: bool) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    dtype = dtypes_of(op)[0]
    for number in range(len(op.data["samples"])):
        if number >= (99 if thorough else 2):
            break
        _, args, kwargs = arguments(op.sample(number), dtype)
        kwargs = completed(op, args, kwargs)
        slots = [s for s in slots_of(args, kwargs) if integers_of(op, s, args, kwargs)]
        bases = [(args, kwargs)]
        if thorough:
            for dim in range(3):
                empty = [emptied(a, dim) for a in args]
                if any(e is not a for e, a in zip(empty, args, strict=True)):
                    bases.append((empty, kwargs))
        for a, k in bases:
            for slot in slots:
                for n in EXTREMES if thorough else FEW:
                    yield with_slots(a, k, [(slot, n)])
        rng = random.Random(zlib.crc32(f"{op.name}/{number}".encode()))
        for _ in range((100 if thorough else 4) * min(len(slots), 4)):
            chosen = rng.sample(slots, rng.randint(1, len(slots)))
            yield with_slots(args, kwargs, [(s, any_number(rng)) for s in chosen])
        if thorough:
            for one, two in itertools.combinations(slots, 2):
                if one[0] == two[0] and -1 in (one[1], two[1]):
                    continue  # one element and all of them
                for n, m in itertools.product(PAIRED, PAIRED):
                    yield with_slots(args, kwargs, [(one, n), (two, m)])


def any_number(rng: random.Random) -> int:
    """Near a power of two, or small; between is what a machine may have, and honest work."""
    if rng.random() < 0.3:
        return rng.randint(0, 3)
    power = (1 << rng.choice([rng.randint(4, 6), rng.randint(33, 63)])) // rng.choice([1, 1, 1, 3])
    return min(power + rng.choice([-1, 0, 0, 1]), 2**63 - 1)


def described(value: Any) -> str:
    if isinstance(value, facula.Tensor):
        return f"{str(value.dtype).removeprefix('facula.')}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(described(v) for v in value) + "]"
    return repr(value)


def on(value: Any, device: str, grad: bool) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(on(v, device, grad) for v in value)
    if isinstance(value, facula.Tensor):
        made = value.to("meta") if device == "meta" else value.clone()
        if grad and (made.is_floating_point() or made.is_complex()):
            made.requires_grad_()
        return made
    return value


def tensors_in(value: Any) -> list[facula.Tensor]:
    if isinstance(value, facula.Tensor):
        return [value]
    if isinstance(value, list | tuple):
        return [t for v in value for t in tensors_in(v)]
    return []


class Watch:
    """Says which call is running, and ends the process when one computes for too long."""

    def __init__(self, path: str, limit: float) -> None:
        self.file = os.open(path, os.O_CREAT | os.O_WRONLY)
        self.limit = limit

    def begin(self, number: int, text: str) -> None:
        os.pwrite(self.file, f"{number}\t{text}".encode()[:4000].ljust(4000), 0)
        signal.setitimer(signal.ITIMER_PROF, self.limit)

    def end(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)


def outcome(function: Any, args: Any, kwargs: Any, device: str, grad: bool) -> Any:
    """(results, None) or (None, error)."""
    try:
        found = function(
            *[on(a, device, grad) for a in args],
            **{k: on(v, device, grad) for k, v in kwargs.items()},
        )
        if grad:
            ready = [t for t in tensors_in(found) if t.requires_grad and t.numel() <= 1 << 16]
            if ready:
                total = sum((t.real if t.is_complex() else t).sum() for t in ready)
                if total.requires_grad:
                    total.backward()
        return found, None
    except Exception as error:
        return None, error


def fault_of(error: Exception | None) -> str | None:
    if error is None:
        return None
    text = str(error)
    if not isinstance(error, REFUSALS) or not text:
        return f"{type(error).__name__}: {text!r}"
    if isinstance(error, facula.OutOfMemoryError):
        return None
    if any(word in text for word in FOREIGN):
        return f"{type(error).__name__}: {text}"
    return None


def memory_of(t: facula.Tensor) -> int:
    """Bytes from its first element to its last, wherever strides put them."""
    if t.numel() == 0:
        return 0
    last = sum((n - 1) * s for n, s in zip(t.shape, t.stride(), strict=True))
    return (1 + last) * t.element_size()


def judge(function: Any, args: Any, kwargs: Any, grad: bool) -> list[str]:
    faults = []
    there, refused = outcome(function, args, kwargs, "meta", False)
    here, error = outcome(function, args, kwargs, "cpu", False)
    for place, e in (("meta", refused), ("cpu", error)):
        if fault := fault_of(e):
            faults.append(f"{place}: {fault}")
    if error is None:
        if refused is None:
            a, b = ([tuple(t.shape) for t in tensors_in(v)] for v in (here, there))
            if a != b:
                faults.append(f"shapes {a}, on meta {b}")
        elif refused.kind not in VALUES_ONLY and tensors_in(list(args)):
            faults.append(f"fine on cpu, on meta {type(refused).__name__}: {refused}")
        if grad:
            _, e = outcome(function, args, kwargs, "cpu", True)
            fault = fault_of(e)
            if fault is None and isinstance(e, facula.OutOfMemoryError):
                fault = f"out of memory: {e}"
            if fault:
                faults.append(f"backward: {fault}")
    elif isinstance(error, facula.OutOfMemoryError) and refused is None:
        size = sum(memory_of(t) for t in tensors_in(there))
        if size <= SMALL:
            faults.append(f"{size} bytes of results, {error}")
    return faults


def room_of(limit: int) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + limit, used + limit))


def every_call(names: list[str], thorough: bool) -> Iterator[tuple[str, Any, Any, Any, bool]]:
    wanted = set(names)
    for op in operators():
        if op.name not in wanted or not op.data["samples"] or op.derived_from:
            continue
        function = op.function()
        if function is None:
            continue
        for args, kwargs in calls_of(op, thorough):
            yield op.name, function, args, kwargs, bool(op.differentiable)


def python_calls(names: list[str], thorough: bool) -> Iterator[tuple[str, Any, Any, Any, bool]]:
    for name, function, args, kwargs in calls():
        if name in names:
            for a, k in distorted(args, kwargs, thorough, name):
                yield name, function, a, k, True


def main() -> None:
    job = json.loads(sys.argv[1])
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    facula.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    watch = Watch(job["at"], job["seconds"])
    room_of(ROOM)
    slow = job["seconds"] / 2
    number = 0
    every = itertools.chain(
        every_call(job["ops"], job["thorough"]), python_calls(job["calls"], job["thorough"])
    )
    for number, (name, function, args, kwargs, grad) in enumerate(every):
        if number < job["first"]:
            continue
        text = ", ".join(
            [described(a) for a in args] + [f"{k}={described(v)}" for k, v in kwargs.items()]
        )
        watch.begin(number, f"{name}({text})")
        begun = time.process_time()
        faults = judge(function, args, kwargs, grad)
        took = time.process_time() - begun
        watch.end()
        if took > slow:
            faults.append(f"{took:.2f} s")
        for fault in faults:
            print(f"{name}({text}): {fault}", flush=True)
    print(f"calls {number + 1}", file=sys.stderr)


if __name__ == "__main__":
    main()
