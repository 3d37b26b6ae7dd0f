"""facula's own files: safetensors with a note of structure; what is not whole is refused."""

from __future__ import annotations

import json
import os
import pickle
import zipfile

import facula
import numpy as np
import pytest
from facula.serialization import load, save


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "file.safetensors")


def write(path, table, data=b"", pad=b""):
    text = table if isinstance(table, bytes) else json.dumps(table).encode()
    with open(path, "wb") as file:
        file.write(len(text + pad).to_bytes(8, "little") + text + pad + data)


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_reads_files_of_other_writers(path):
    # Not padded, so that the data is misaligned; values are IEEE 754 little-endian.
    for pad in (b"", b" ", b"  ", b"   "):
        write(path, {"w": entry()}, b"\x00\x00\x80\x3f\x00\x00\x00\xc0", pad)
        assert load(path)["w"].tolist() == [1.0, -2.0]


def test_other_readers_read_ours(path):
    safetensors = pytest.importorskip("safetensors")
    save({"w": facula.tensor([1.0, -2.0]), "b": facula.tensor([True])}, path)
    with open(path, "rb") as file:
        found = dict(safetensors.deserialize(file.read()))
    assert found["w"]["dtype"] == "F32" and found["w"]["shape"] == [2]
    assert bytes(found["w"]["data"]) == b"\x00\x00\x80\x3f\x00\x00\x00\xc0"
    assert bytes(found["b"]["data"]) == b"\x01"


DATA = bytes(8)
DEEP = b"[" * 100_000

BAD_TABLES = [
    (b"{", DATA, "not JSON"),
    (b"\xff{}", DATA, "not UTF-8"),
    (b"[]", b"", "expected an object"),
    (b"7", b"", "expected an object"),
    (DEEP, b"", "nested too deeply|not JSON"),
    (b'{"a": NaN}', b"", "NaN"),
    (b'{"a": 1, "a": 2}', b"", "'a' occurs twice"),
    ({"a": 3}, b"", "needs dtype"),
    ({"a": {"dtype": "F32"}}, b"", "needs dtype"),
    ({"a": entry("F31")}, DATA, "unknown dtype 'F31'"),
    ({"a": entry(shape=(-2,))}, DATA, "natural numbers"),
    ({"a": entry(shape=(2.0,))}, DATA, "natural numbers"),
    ({"a": entry(shape=(True, 2))}, DATA, "natural numbers"),
    ({"a": entry(shape=(2**62, 2**62))}, DATA, "needs .* bytes"),
    ({"a": entry(shape=(3,))}, DATA, "needs 12 bytes, its data_offsets give 8"),
    ({"a": entry(offsets=(8, 0))}, DATA, "before its start"),
    ({"a": entry(offsets=(0, 8, 9))}, DATA, "two numbers"),
    ({"a": entry()}, DATA[:7], "cut short"),
    ({"a": entry()}, DATA + b"x", "cover 8"),
    ({"a": entry(), "b": entry()}, DATA, "overlaps"),
    ({"a": entry(offsets=(4, 12))}, bytes(12), "a hole"),
    ({"__metadata__": {"x": 1}}, b"", "__metadata__"),
    ({"__metadata__": []}, b"", "__metadata__"),
]


@pytest.mark.parametrize(("table", "data", "fault"), BAD_TABLES, ids=lambda v: str(v)[:30])
def test_malformed_files(path, table, data, fault):
    write(path, table, data)
    with pytest.raises(ValueError, match=fault) as info:
        load(path)
    assert path in str(info.value)


def note(tree, **more):
    return {"facula": json.dumps({"version": 1, "tree": tree, **more})}


VIEW = {"of": "a", "shape": [2], "stride": [1], "offset": 0}

BAD_TREES = [
    {"facula": "{"},
    {"facula": "[]"},
    {"facula": json.dumps({"version": 9, "tree": 1})},
    note({"tensor": "nope"}),
    note({"tensor": ["a"]}),
    note({"call": "os.system"}),
    note({"dict": 3}),
    note({"dict": [[1]]}),
    note({"dict": [[[], 1]]}),
    note({"float": "x"}),
    note({"int": "zz"}),
    note({"dtype": "save"}),
    note({"dtype": "nope"}),
    note({"tuple": 1, "dict": []}),
    note({"device": "nowhere"}),
    note({"tensor": "v"}, views=[]),
    note({"tensor": "v"}, views={"v": {**VIEW, "of": "b"}}),
    note({"tensor": "v"}, views={"v": {**VIEW, "offset": 1}}),
    note({"tensor": "v"}, views={"v": {**VIEW, "offset": -1}}),
    note({"tensor": "v"}, views={"v": {**VIEW, "stride": [2]}}),
    note({"tensor": "v"}, views={"v": {**VIEW, "shape": [3]}}),
    note({"tensor": "v"}, views={"v": {**VIEW, "shape": [2**62, 2**62], "stride": [0, 0]}}),
    note({"tensor": "v"}, views={"v": {**VIEW, "shape": [2, 2]}}),
    note({"tensor": "v"}, views={"v": {"of": "a"}}),
    note({"tensor": "a"}, views={"a": {**VIEW, "of": "a"}}),
    note({"tensor": "a"}, views={"a": {"complex128": True}}),
]


@pytest.mark.parametrize("metadata", BAD_TREES, ids=lambda v: str(v)[10:60])
def test_hostile_metadata(path, metadata):
    write(path, {"a": entry(), "__metadata__": metadata}, DATA)
    with pytest.raises(ValueError, match="cannot be read") as info:
        load(path)
    assert path in str(info.value)


def test_truncation_at_every_length(path):
    save({"x": facula.arange(3), "y": [1]}, path)
    with open(path, "rb") as file:
        whole = file.read()
    for size in range(len(whole)):
        with open(path, "wb") as file:
            file.write(whole[:size])
        with pytest.raises(ValueError, match="cannot be read"):
            load(path)


def test_checksum(path):
    save({"x": facula.arange(3)}, path)
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\x01")
    load(path)
    with pytest.raises(ValueError, match="checksum"):
        load(path, verify=True)


def test_other_formats_are_named(path):
    class Trap:
        def __reduce__(self):
            return os.mkdir, (path + ".trapped",)

    with open(path, "wb") as file:
        pickle.dump(Trap(), file)
    with pytest.raises(ValueError, match="pickle"):
        load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Trap()))
    with pytest.raises(ValueError, match=r"needs the global 'posix\.mkdir'"):
        load(path)
    np.savez(path + ".npz", a=np.ones(1))
    with pytest.raises(ValueError, match=r"zip archive of NumPy arrays: use numpy\.load"):
        load(path + ".npz")
    assert not os.path.exists(path + ".trapped")
    with pytest.raises(FileNotFoundError):
        load(path + ".missing")
