"""What `save` writes `load` reads: as it is, or, after a warning, with weights_only=False.

What neither reads is refused, before anything is written.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import os
import pathlib
import re
import types
import uuid
import warnings
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest


class Sub(dict): ...


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Record:
    x: int = 1


Pair = collections.namedtuple("Pair", "a b")
KINDS: dict[str, Callable[[], Any]] = {
    "sets": lambda: [{1, 2}, frozenset({1}), b"x", bytearray(b"x"), 1 + 2j, None, ..., 10**400],
    "containers": lambda: [slice(1, 2), range(3), collections.deque([1], 3), {(1, 2): 3}],
    "collections": lambda: [collections.OrderedDict(a=1), collections.Counter("aab")],
    "default": lambda: collections.defaultdict(list, a=[1]),
    "dates": lambda: [datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(1)],
    "numbers": lambda: [decimal.Decimal("1.5"), fractions.Fraction(1, 3), float("nan"), -0.0],
    "paths": lambda: [pathlib.Path("/a"), uuid.uuid4()],
    "numpy": lambda: [np.float32(1), np.bool_(True), np.arange(3), np.array(["a", "bc"])],
    "numpy dates": lambda: [np.datetime64("2020-01-01"), np.array(["2020"], "datetime64[D]")],
    "objects": lambda: np.array([1, None], object),
    "records": lambda: np.array([(1, 2.0)], dtype=[("a", int), ("b", float)]),
    "generator": lambda: np.random.default_rng(0),
    "words": lambda: [fa.float32, fa.device("cpu"), fa.Size([1, 2]), fa.channels_last],
    "tensors": lambda: [fa.ones(2), fa.nn.Parameter(fa.ones(2)), fa.ones(2).to_sparse()],
    "states": lambda: fa.nn.Linear(1, 1).state_dict(),
    "module": lambda: fa.nn.Linear(1, 1),
    "function": lambda: os.path.join,
    "partial": lambda: functools.partial(int, base=2),
    "pattern": lambda: re.compile("a"),
    "type": lambda: Sub,
    "subclass": lambda: Sub(a=1),
    "enum": lambda: Colour.RED,
    "dataclass": lambda: Record(2),
    "namedtuple": lambda: Pair(1, 2),
    "namespace": lambda: types.SimpleNamespace(a=1),
    "lambda": lambda: lambda: 1,
    "python module": lambda: os,
    "view of bytes": lambda: memoryview(b"a"),
}

ZIPPED = "_use_new_zipfile_serialization"
REFUSED = {"lambda", "python module", "view of bytes"}  # what no pickle can say


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_what_save_writes_load_reads(kind: str, zipped: bool, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "it.pt"
    path.write_bytes(b"what was there")
    value = None if kind in REFUSED else KINDS[kind]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fa.save(KINDS[kind]() if kind in REFUSED else value, path, **{ZIPPED: zipped})
        except Exception:
            assert kind in REFUSED
            assert path.read_bytes() == b"what was there" and len(list(tmp_path.iterdir())) == 1
            return
    assert kind not in REFUSED
    if caught:
        with pytest.raises(ValueError):
            fa.load(path)
        assert "weights_only=False" in str(caught[0].message)
        assert_same(fa.load(path, weights_only=False), value)
    else:
        assert_same(fa.load(path), value)


def assert_same(got: Any, value: Any) -> None:
    assert type(got) is type(value)
    if isinstance(value, fa.Tensor):
        assert got.dtype is value.dtype and got.layout is value.layout
        assert got.requires_grad is value.requires_grad
        assert got.to_dense().tolist() == value.to_dense().tolist()
    elif isinstance(value, np.ndarray):
        assert got.dtype == value.dtype and got.tolist() == value.tolist()
    elif isinstance(value, np.random.Generator):
        assert got.bit_generator.state == value.bit_generator.state
    elif isinstance(value, fa.nn.Module):
        assert repr(got) == repr(value)
        assert_same(dict(got.state_dict()), dict(value.state_dict()))
    elif isinstance(value, functools.partial):
        assert (got.func, got.args, got.keywords) == (value.func, value.args, value.keywords)
    elif isinstance(value, dict):
        assert list(got) == list(value)
        for key in value:
            assert_same(got[key], value[key])
        assert getattr(got, "default_factory", 0) is getattr(value, "default_factory", 0)
    elif isinstance(value, list | tuple | collections.deque):
        assert len(got) == len(value)
        for a, b in zip(got, value, strict=True):
            assert_same(a, b)
        assert getattr(got, "maxlen", 0) == getattr(value, "maxlen", 0)
    elif isinstance(value, float):
        assert repr(got) == repr(value)  # NaN, and the sign of zero
    else:
        assert got == value


def test_a_warning_as_an_error_writes_nothing(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "it.pt"
    path.write_bytes(b"what was there")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="weights_only=False"):
            fa.save(fa.nn.Linear(1, 1), path)
    assert path.read_bytes() == b"what was there" and len(list(tmp_path.iterdir())) == 1
