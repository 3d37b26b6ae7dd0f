"""The machine that reads pickles, beside Python's own."""

from __future__ import annotations

import collections
import math
import pickle
import pickletools
import random
import struct

import facula
import pytest
from facula.serialization import load, save
from facula.serialization._globals import Globals
from facula.serialization._machine import Machine, Malformed
from facula.serialization._rebuild import Rebuild

PLAIN = [
    [
        1,
        -1,
        255,
        256,
        65535,
        65536,
        -(2**31),
        2**31,
        2**63,
        -(2**63),
        2**100,
        -(2**2100),
        True,
        None,
    ],
    [
        0.0,
        -0.0,
        1.5,
        math.inf,
        -math.inf,
        5e-324,
        "",
        "text é\u20ac\U0001f600",
        "\ud800",
        "x" * 300,
    ],
    [b"", b"bytes", bytes(range(256)) * 2, bytearray(b"array"), 3 + 4j],
    ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), ((1, (2, (3,))),)),
    [{}, {"a": {"b": []}}, {1, 2}, set(), frozenset([3, frozenset([4])]), {(1, 2): "key"}],
    [collections.OrderedDict(a=1), collections.Counter("aab"), collections.deque([1], 3)],
    [collections.defaultdict(list, {1: [2]}), {i: str(i) for i in range(1500)}, [[0] * 3] * 3],
]


def machine(data: bytes, at: int = 0, encoding: str = "utf-8") -> Machine:
    return Machine(data, at, Globals(Rebuild(len(data)), "x"), encoding=encoding)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values(protocol: int) -> None:
    for value in PLAIN:
        data = pickle.dumps(value, protocol)
        found = machine(b"before" + data + b"after", 6)
        assert repr(found.run()) == repr(value) and found.at == 6 + len(data)
        assert repr(machine(pickletools.optimize(data)).run()) == repr(value)


def test_what_is_one_object_stays_one() -> None:
    shared = [1]
    looped: list[object] = [shared, (shared, {"again": shared})]
    looped.append(looped)
    for protocol in range(6):
        found = machine(pickle.dumps(looped, protocol)).run()
        assert found[2] is found and found[1][0] is found[0] and found[1][1]["again"] is found[0]


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"S'a\\n\\x41'\n.", "a\nA"),
        (b"U\x02ab.", "ab"),
        (b"T\x02\x00\x00\x00ab.", "ab"),
        (b"V\\u20ac\n.", "\u20ac"),
        (b"I01\n.", True),
        (b"I-7\n.", -7),
        (b"L12345678901234567890L\n.", 12345678901234567890),
        (b"F-1.5\n.", -1.5),
        (b"G" + struct.pack(">d", 1e300) + b".", 1e300),
        (b"\x8a\x00.", 0),
        (b"\x8a\x01\xff.", -1),
        (b"\x8a\x09" + b"\xff" * 8 + b"\x00.", 2**64 - 1),
        (b"J\xff\xff\xff\xff.", -1),
        (b"(I1\nI2\nd.", {1: 2}),
        (b"(1]2a0N.", None),  # a mark dropped; a list in itself, dropped
        (b"]p-5\ng-5\n\x86.", ([], [])),
        (b"]r\xff\xff\xff\xffNj\xff\xff\xff\xff\x87.", ([], None, [])),
        (b"K\x01q\xf0K\x02\x940h\x010h\xf0.", 1),  # the next number is that of those that are kept
    ],
)
def test_opcodes(data: bytes, value: object) -> None:
    assert repr(machine(data).run()) == repr(value)


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"q\x00.", "stack is empty"),
        (b"(q\x00.", "a mark for a value"),
        (b"(.", "a mark for a value"),
        (b"N(\x86.", "a mark for a value"),
        (b"N\x86.", "stack is empty"),
        (b"h\x01.", "1 of its memo"),
        (b"g123456789012345678901234567890\n.", "beyond 64 bits"),
        (b"Na.", "stack is empty"),
        (b"NNa.", "appends to a NoneType"),
        (b"}(K\x01u.", "a key without a value"),
        (b"](K\x01\x90.", "adds members to a list"),
        (b"NN\x93.", "a global whose name is no text"),
        (b"NN\x81.", "makes an object of a NoneType"),
        (b"NQ.", "none is expected"),
        (b"S'a\n.", "a string without quotes"),
        (b"\x80\x06.", "protocol 6"),
        (b"\x8b\xff\xff\xff\xff\x01.", "an item of 4294967295 bytes"),
    ],
)  # fmt: skip
def test_faults(data: bytes, fault: str) -> None:
    with pytest.raises(Malformed, match=fault):
        machine(data).run()


def test_texts_of_python_2() -> None:
    data = b"U\x02\xe9\xe8."
    assert machine(data, encoding="latin1").run() == "éè"
    assert machine(data, encoding="bytes").run() == b"\xe9\xe8"
    with pytest.raises(UnicodeDecodeError):
        machine(data).run()


def test_mutated_pickles_against_python() -> None:
    """Where both read one, they read the same."""

    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> object:
            raise pickle.UnpicklingError("no globals")

    import io

    draw, both = random.Random(7), 0
    whole = [pickle.dumps(value, protocol) for value in PLAIN[:5] for protocol in range(6)]
    for _ in range(4000):
        data = bytearray(draw.choice(whole))
        for _ in range(draw.choice((1, 2))):
            at = draw.randrange(len(data))
            if draw.random() < 0.5:
                data[at] = draw.randrange(256)
            else:
                del data[at : at + draw.randrange(1, 4)]
            if not data:
                break
        # Python takes a number of the memo at its word, with a table as large as that.
        if b"r" in data or b"p" in data:
            continue
        try:
            found = machine(bytes(data)).run()
        except Exception:
            continue
        try:
            wanted = Plain(io.BytesIO(bytes(data))).load()
        except Exception:
            continue
        both += repr(found) == repr(wanted) or pytest.fail(f"{bytes(data)!r}")
    assert both > 200


@pytest.mark.parametrize("new", [True, False])
def test_pickles_longer_than_what_is_read_at_a_time(tmp_path, new: bool) -> None:
    value = {"texts": [f"{i} " * 30 for i in range(20_000)], "x": facula.arange(1000)}
    save(value, tmp_path / "x.pt", _use_new_zipfile_serialization=new)
    for mmap in (True, False):
        found = load(tmp_path / "x.pt", mmap=mmap)
        assert found["texts"] == value["texts"] and (found["x"] == value["x"]).all()
