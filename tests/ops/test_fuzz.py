"""Hostile arguments: every operator, called with its samples distorted, raises or returns; it never
crashes, hangs or asks for absurd memory. A crash takes the test process down and so fails."""

from __future__ import annotations

import random
import resource
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import facula
import pytest
from facula.testing._samples import OpRecord, operators
from harness import arguments

ROUNDS = 40
ALLOWED = (
    TypeError,
    ValueError,
    RuntimeError,
    IndexError,
    OverflowError,
    NotImplementedError,
    ZeroDivisionError,
    MemoryError,
    AttributeError,
    BufferError,
)
# Sizes of gigabytes are honest requests, so there are none between these two scales.
INTS = [0, 1, -1, 2, -2, 3, 7, 100, -1000, 1 << 50, (1 << 63) - 1, -(1 << 63), 1 << 64]
FLOATS = [0.0, -0.0, 1.0, -1.0, 1e308, -1e308, float("inf"), float("-inf"), float("nan"), 5e-324]
SMALL = [0, 1, -1, 2, -2, 3]


def small_tensor(rng: random.Random) -> facula.Tensor:
    shape = [rng.choice([0, 1, 1, 2, 3]) for _ in range(rng.randrange(5))]
    dtype = getattr(
        facula,
        rng.choice(
            "bool uint8 int8 int32 int64 float16 bfloat16 float32 float64 complex64".split()
        ),
    )
    tensor = facula.zeros(shape, dtype=dtype)
    kind = rng.randrange(6)
    if kind == 0 and tensor.ndim:
        return tensor.transpose(0, -1)
    if kind == 1:
        return facula.zeros([1] * len(shape), dtype=dtype).expand(shape)
    if kind == 2 and dtype is facula.int64 and tensor.numel():
        return tensor + rng.choice([5, -7, 1 << 40])
    if kind == 3:
        return tensor.to("meta")
    return tensor


def distorted(value: Any, rng: random.Random) -> Any:
    """Something in the place of `value`: often of its kind, sometimes not."""
    if rng.random() < 0.06:
        return rng.choice(
            [None, "x", object(), 1j, [], [[1, 2], [3]], b"y", facula.float32, {}, True]
        )
    if isinstance(value, facula.Tensor):
        return small_tensor(rng) if rng.random() < 0.8 else rng.choice([1, 2.5, True])
    if isinstance(value, bool):
        return rng.choice([True, False])
    if isinstance(value, int):
        return rng.choice(INTS if rng.random() < 0.4 else SMALL)
    if isinstance(value, float):
        return rng.choice(FLOATS)
    if isinstance(value, list | tuple):
        items = [distorted(v, rng) if rng.random() < 0.5 else v for v in value]
        change = rng.randrange(4)
        if change == 0 and items:
            items.pop()
        elif change == 1 and items:
            items.append(items[0])
        return type(value)(items)
    return value


def too_large(values: list[Any]) -> bool:
    """Sizes that are fine to allocate somewhere, but not in a test."""
    total = 1
    for v in values:
        for n in v if isinstance(v, list | tuple) else [v]:
            if isinstance(n, int) and not isinstance(n, bool) and 2 < abs(n) < 1 << 40:
                total *= abs(n)
    return total > 1 << 22


FUZZED = [
    pytest.param(op, id=op.name) for op in operators() if op.samples() and not op.derived_from
]


pytestmark = pytest.mark.filterwarnings("ignore:.*they are broadcast")


@pytest.fixture(autouse=True)
def little_memory() -> Iterator[None]:
    """What asks for 2 ** 31 elements shall get a MemoryError here, not the machine's memory."""
    if not sys.platform.startswith("linux") or "asan" in Path("/proc/self/maps").read_text():
        yield
        return
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.parametrize("op", FUZZED)
def test_distorted_samples(op: OpRecord) -> None:
    rng = random.Random(zlib.crc32(op.name.encode()))
    function = op.function()
    for _ in range(ROUNDS):
        sample = op.sample(rng.randrange(len(op.data["samples"])))
        _, args, kwargs = arguments(sample, rng.choice(["float64", "float32", None]))
        for i in range(len(args)):
            if rng.random() < 0.5:
                args[i] = distorted(args[i], rng)
        for k in kwargs:
            if rng.random() < 0.5:
                kwargs[k] = distorted(kwargs[k], rng)
        if too_large([*args, *kwargs.values()]):
            continue
        try:
            result = function(*args, **kwargs)
        except ALLOWED:
            continue
        for t in result if isinstance(result, tuple | list) else [result]:
            if (
                isinstance(t, facula.Tensor)
                and t.device.type == "cpu"
                and all(n < 1000 for n in (t.numel(), *t.shape))
            ):
                t.tolist()


@pytest.mark.parametrize("op", FUZZED)
def test_backward_of_distorted_samples(op: OpRecord) -> None:
    rng = random.Random(zlib.crc32(op.name.encode()) + 1)
    function = op.function()
    for _ in range(ROUNDS // 4):
        sample = op.sample(rng.randrange(len(op.data["samples"])))
        _, args, kwargs = arguments(sample, "float64")
        args = [distorted(a, rng) if rng.random() < 0.4 else a for a in args]
        if too_large([*args, *kwargs.values()]):
            continue
        leaves = []
        for a in [x for v in args for x in (v if isinstance(v, list | tuple) else [v])]:
            if isinstance(a, facula.Tensor) and a.is_floating_point() and a.is_leaf:
                leaves.append(a.requires_grad_())
        try:
            result = function(*args, **kwargs)
            for t in result if isinstance(result, tuple | list) else [result]:
                if isinstance(t, facula.Tensor) and t.requires_grad and t.device.type == "cpu":
                    t.real.sum().backward(
                        retain_graph=True
                    ) if t.is_complex() else t.sum().backward(retain_graph=True)
        except ALLOWED:
            continue
