"""Plain values in torch's files: what `save` takes, `load` reads back equal, or `save` says no."""

from __future__ import annotations

import argparse
import array
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import pathlib
import pickle
import types
import uuid
import warnings
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.serialization import FormatError

HOUR = datetime.timedelta(hours=1)
VALUES: dict[str, Any] = {
    "slice": slice(1, None, 2),
    "range": range(1, 9, 2),
    "deque": collections.deque([1, (2,)], maxlen=3),
    "ellipsis": ...,
    "not implemented": NotImplemented,
    "array": array.array("d", [1.0, float("inf")]),
    "bytearray": bytearray(b"\x00\xff"),
    "complex": complex(-0.0, 2),
    "frozenset": frozenset([1, ("a", 2)]),
    "counter": collections.Counter("aab"),
    "defaultdict": collections.defaultdict(list, a=[1]),
    "defaultdict of deques": collections.defaultdict(collections.deque, a=1),
    "ordered": collections.OrderedDict(b=1, a=2),
    "tuple keys": {(1, ("a", None)): [1]},
    "date": datetime.date(2020, 2, 29),
    "datetime": datetime.datetime(2020, 1, 2, 3, 4, 5, 6, fold=1),
    "aware": datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone(HOUR, "X")),
    "time": datetime.time(1, 2, 3, 4, tzinfo=datetime.timezone.utc),
    "timedelta": -HOUR,
    "decimal": decimal.Decimal("-1.10E+400"),
    "infinite": decimal.Decimal("-Infinity"),
    "fraction": fractions.Fraction(-1, 3),
    "uuid": uuid.UUID(int=5),
    "uuid of a time": uuid.uuid1(),
    "safe uuid": uuid.UUID(int=5, is_safe=uuid.SafeUUID.safe),
    "unsafe uuid": uuid.UUID(int=5, is_safe=uuid.SafeUUID.unsafe),
    "small decimal": decimal.Decimal("0E-7"),
    "whole fraction": fractions.Fraction(7),
    "path": pathlib.Path("/a/b.c"),
    "windows path": pathlib.PureWindowsPath("c:\\a"),
    "namespace": types.SimpleNamespace(a=1, b=[2]),
    "arguments": argparse.Namespace(rate=0.1, path=pathlib.Path("x")),
    "memory format": fa.channels_last,
    "dtype": fa.uint16,
    "device": fa.device("cpu", 0),
    "size": fa.Size([2, 3]),
    "layout": fa.sparse_csr,
    "dates": np.datetime64("2020-01-01T00", "h"),
    "NumPy's dtype": np.dtype(">i2"),
}


def there_and_back(value: Any, path: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fa.save(value, path)
    return fa.load(path)


@pytest.mark.parametrize("name", VALUES)
def test_values_come_back(name: str, tmp_path: Any) -> None:
    value = VALUES[name]
    for held in (value, {"k": [(value, 1)]}, [value, value]):
        found = there_and_back(held, tmp_path / "a.pt")
        assert found == held and type(found) is type(held), found
    found = there_and_back([value, value], tmp_path / "a.pt")
    assert type(found[0]) is type(value) and repr(found[0]) == repr(value)
    if isinstance(value, uuid.UUID):
        assert found[0].is_safe is value.is_safe
    if isinstance(value, collections.deque):
        assert found[0].maxlen == value.maxlen
    if isinstance(value, collections.defaultdict):
        assert found[0].default_factory is value.default_factory


def test_decimals_that_are_no_numbers_come_back(tmp_path: Any) -> None:
    for text in ("NaN", "-NaN12", "sNaN", "-sNaN3"):
        assert str(there_and_back(decimal.Decimal(text), tmp_path / "a.pt")) == text


def test_generators_and_results_come_back(tmp_path: Any) -> None:
    generator = fa.Generator().manual_seed(7)
    fa.rand(3, generator=generator)
    found = there_and_back({"g": generator}, tmp_path / "a.pt")["g"]
    assert fa.rand(5, generator=found).tolist() == fa.rand(5, generator=generator).tolist()
    top = there_and_back(fa.tensor([[1.0, 3.0]]).max(1), tmp_path / "a.pt")
    assert type(top) is fa.return_types.max
    assert top.values.tolist() == [3.0] and top.indices.tolist() == [1]


class Color(enum.Enum):
    RED = 1


class Named(collections.namedtuple("Named", "x y")):
    pass


class Mine(dict):
    pass


@dataclasses.dataclass
class Config:
    rate: float = 0.5


@pytest.mark.parametrize(
    "value",
    [Color.RED, Named(1, 2), Mine(a=1), Config(), Config, there_and_back],
    ids=["enum", "named tuple", "dict", "dataclass", "class", "function"],
)
def test_what_load_refuses_save_warns_of(value: Any, tmp_path: Any) -> None:
    path = tmp_path / "a.pt"
    with pytest.warns(UserWarning, match=r"which load\(\) takes only with weights_only=False"):
        fa.save({"v": [value]}, path)
    with pytest.raises(fa.serialization.RefusedGlobal):
        fa.load(path)
    assert fa.load(path, weights_only=False)["v"] == [value]
    cls = value if isinstance(value, type) or callable(value) else type(value)
    with fa.serialization.safe_globals([cls]):
        assert there_and_back({"v": [value]}, path)["v"] == [value]


@pytest.mark.parametrize(
    "value",
    [np.array([1, None]), np.zeros(2, dtype=[("a", "i4")]), np.ma.array([1, 2], mask=[0, 1])],
    ids=["objects", "records", "masked"],
)
def test_arrays_that_load_refuses(value: Any, tmp_path: Any) -> None:
    with pytest.warns(UserWarning, match="takes only with weights_only=False"):
        fa.save([value], tmp_path / "a.pt")
    with pytest.raises(FormatError):
        fa.load(tmp_path / "a.pt")


class Calls:
    """Pickles as a call of a function."""

    def __init__(self, function: Any, *args: Any, state: Any = None) -> None:
        self.call = function, args, state

    def __reduce__(self) -> Any:
        return self.call if self.call[2] is not None else self.call[:2]


@pytest.mark.parametrize(
    "value",
    [
        Calls(range, 1.5),
        Calls(range, 0, 5, 0),
        Calls(collections.deque, [1], -1),
        Calls(collections.deque, {1: 2}),
        Calls(array.array, "u", [1]),
        Calls(array.array, "b", [1000]),
        Calls(datetime.date, "2020"),
        Calls(datetime.date, b"\x00\x00\x00\x00"),
        Calls(datetime.timedelta, 10**12),
        Calls(datetime.timezone, datetime.timedelta(days=3)),
        Calls(decimal.Decimal, "one"),
        Calls(decimal.Decimal, " 1_0 "),
        Calls(decimal.Decimal, "1e5"),
        Calls(decimal.Decimal, 5),
        Calls(fractions.Fraction, 1, 0),
        Calls(fractions.Fraction, "1/0"),
        Calls(fractions.Fraction, "1e999999999"),
        Calls(fractions.Fraction, "1.5"),
        Calls(fractions.Fraction, "1", 2),
        Calls(fractions.Fraction, "9" * 5000),
        Calls(pathlib.PurePosixPath, 5),
        Calls(types.SimpleNamespace, state={"__class__": 1}),
        Calls(fa.Generator, fa.device("cpu"), state=(1, -1)),
    ],
    ids=lambda v: f"{v.call[0].__name__}{v.call[1:]}",
)
def test_malformed_values_are_refused(value: Any, tmp_path: Any) -> None:
    path = tmp_path / "a.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fa.save([value], path)
    with pytest.raises((FormatError, pickle.UnpicklingError)):
        fa.load(path)


@pytest.mark.parametrize(
    "state", [{"int": 5, "is_safe": 2}, {"int": 5, "is_safe": [0]}, {"int": 5, "node": 1}], ids=str
)
def test_malformed_uuids_are_refused(
    state: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(uuid.UUID, "__getstate__", lambda self: state)
        fa.save([uuid.UUID(int=5)], tmp_path / "a.pt")
    with pytest.raises(FormatError, match="UUID"):
        fa.load(tmp_path / "a.pt")
