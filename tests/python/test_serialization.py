"""save and load: round trips, sharing, atomicity, and files that are wrong in every way."""

from __future__ import annotations

import io
import json
import math
import os
import pickle
import zipfile
from collections import OrderedDict

import facula
import pytest
from facula import nn, optim
from facula.serialization import load, save
from facula.testing import assert_close


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "file.safetensors")


DTYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


def test_every_dtype_and_shape(path):
    tensors = {}
    for name in DTYPES:
        for shape in ((), (0,), (3, 0, 2), (2, 3)):
            tensors[f"{name}{shape}"] = (facula.rand(shape) * 3).to(getattr(facula, name))
    save(tensors, path)
    for mmap in (True, False):
        loaded = load(path, mmap=mmap, verify=True)
        assert list(loaded) == list(tensors)
        for name, tensor in tensors.items():
            assert_close(loaded[name], tensor, rtol=0, atol=0)


def test_nested_structures(path):
    obj = {
        "list": [1, 2.5, None, True, "text é", (1, ()), []],
        3: {"deep": [facula.ones(2)], (None): 1},
        "big": 10**40,
        "neg": -(10**40),
        "odd": [math.inf, -math.inf, 1e-320, 0.1],
        "complex": 1 + 2j,
        "dtype": facula.float16,
        "size": facula.zeros(2, 3).shape,
        "tensor": {"tensor": facula.zeros(1)},
        "ordered": OrderedDict(b=1, a=2),
    }
    save(obj, path)
    back = load(path)
    assert_close(back[3].pop("deep")[0], facula.ones(2))
    assert_close(back["tensor"].pop("tensor"), facula.zeros(1))
    obj[3].pop("deep")
    obj["tensor"].pop("tensor")
    assert back == obj and list(back) == list(obj)
    assert type(back["ordered"]) is OrderedDict and type(back["list"][5]) is tuple
    for leaf in (3, "x", None, math.pi):
        save(leaf, path)
        assert load(path) == leaf
    save(math.nan, path)
    assert math.isnan(load(path))
    save(facula.arange(3), path)
    assert load(path).tolist() == [0, 1, 2]


def test_parameters_and_requires_grad(path):
    save({"p": nn.Parameter(facula.ones(2)), "t": facula.ones(1, requires_grad=True)}, path)
    back = load(path)
    assert isinstance(back["p"], nn.Parameter) and back["p"].requires_grad
    assert type(back["t"]) is facula.Tensor and back["t"].requires_grad


def test_slices_store_only_their_bytes(path):
    big = facula.arange(1_000_000, dtype=facula.float32)
    save({"part": big[500:510]}, path)
    assert os.path.getsize(path) < 1000
    assert_close(load(path)["part"], big[500:510])
    save({"stripe": big.reshape(1000, 1000)[:, 3]}, path)
    assert os.path.getsize(path) < 6000


def test_sharing_is_kept(path):
    base = facula.arange(12, dtype=facula.float32).reshape(3, 4)
    save({"base": base, "same": base, "t": base.t(), "row": base[1], "block": base[1:, 1:3]}, path)
    assert os.path.getsize(path) < 2000
    back = load(path)
    back["base"][1, 1] = 99
    assert back["same"][1, 1] == back["t"][1, 1] == back["row"][1] == back["block"][0, 0] == 99
    assert_close(load(path)["base"], base)
    line = facula.arange(10)
    save([line[:6], line[4:]], path)
    a, b = load(path)
    a[5] = -1
    assert b[1] == -1 and a.tolist() == [0, 1, 2, 3, 4, -1] and b.tolist() == [4, -1, 6, 7, 8, 9]


def test_tied_weights(path):
    net = nn.Sequential(nn.Embedding(5, 3), nn.Linear(3, 5, bias=False))
    net[1].weight = net[0].weight
    save(net.state_dict(), path)
    assert os.path.getsize(path) < 60 + 1000
    back = load(path)
    assert back["0.weight"].data_ptr() == back["1.weight"].data_ptr()
    net.load_state_dict(back)


def test_training_state_resumes(path):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 1))
    optimizer = optim.Adam(net.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad()
        net(facula.ones(4, 2).cumsum(0)).square().sum().backward()
        optimizer.step()

    step()
    save({"net": net.state_dict(), "optimizer": optimizer.state_dict()}, path)
    step()
    expected = [p.detach().clone() for p in net.parameters()]
    saved = load(path)
    net.load_state_dict(saved["net"])
    optimizer.load_state_dict(saved["optimizer"])
    step()
    for p, q in zip(net.parameters(), expected, strict=True):
        assert_close(p.detach(), q, rtol=0, atol=0)


def test_in_place_changes_do_not_reach_the_file(path):
    save({"x": facula.zeros(4)}, path)
    load(path)["x"].add_(1)
    assert load(path)["x"].tolist() == [0, 0, 0, 0]


def test_a_loaded_file_may_be_replaced(path):
    save({"x": facula.zeros(4)}, path)
    old = load(path)["x"]
    save({"x": old + 1}, path)
    assert old.tolist() == [0] * 4 and load(path)["x"].tolist() == [1] * 4


def test_failure_leaves_the_old_file(path, monkeypatch):
    save({"x": facula.zeros(1)}, path)
    with pytest.raises(TypeError, match=r"a\.0 is a object"):
        save({"a": [object()]}, path)

    def broken(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        save({"x": facula.ones(1)}, path)
    monkeypatch.undo()
    assert load(path)["x"].item() == 0 and os.listdir(os.path.dirname(path)) == [
        os.path.basename(path)
    ]


def test_paths_of_bytes(path):
    facula.save({"a": facula.ones(1)}, os.fsencode(path))
    assert facula.load(os.fsencode(path))["a"].tolist() == [1]


def test_names_that_utf8_cannot_encode(path):
    with pytest.raises(ValueError, match=r"name of a tensor holds '\\ud800'"):
        facula.save({"\ud800": facula.ones(1)}, path)


def test_save_refuses(path, tmp_path):
    loop: list = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        save(loop, path)
    with pytest.raises(TypeError, match="a key of"):
        save({(1, 2): 3}, path)
    with (
        pytest.raises(TypeError, match="open the file in mode 'wb'"),
        open(tmp_path / "f", "w") as file,
    ):
        save(1, file)
    with open(tmp_path / "f", "wb") as file:
        pass
    with pytest.raises(ValueError, match="closed"):
        save(1, file)
    assert not os.path.exists(path)


def test_open_files(tmp_path):
    value = {"x": facula.arange(5), "n": [1, "two"]}
    stream = io.BytesIO()
    stream.write(b"before")
    save(value, stream)
    stream.seek(6)
    back = load(stream)
    assert_close(back["x"], facula.arange(5))
    assert back["n"] == [1, "two"]
    with open(tmp_path / "raw", "wb", buffering=0) as file:
        save(value, file)
    with open(tmp_path / "raw", "rb") as file:
        assert_close(load(file)["x"], facula.arange(5))
    assert_close(
        load(tmp_path / "raw", verify=True)["x"], facula.arange(5)
    )  # same bytes as a path's


def test_open_files_that_are_wrong(tmp_path):
    with pytest.raises(ValueError, match="'BytesIO' cannot be read: it has 3 bytes"):
        load(io.BytesIO(b"abc"))
    with pytest.raises(TypeError, match="gives str, expected bytes"):
        load(io.StringIO("text"))
    stream = io.BytesIO()
    save({"x": facula.ones(9)}, stream)
    with pytest.raises(ValueError, match="cut short"):
        load(io.BytesIO(stream.getvalue()[:-1]))
    with pytest.raises(ValueError, match="closed"):
        stream.close()
        load(stream)


def test_map_location(path):
    save({"x": facula.ones(2)}, path)
    for where in ("cpu", facula.device("cpu"), {"cpu": "cpu"}, lambda t, place: t * 2):
        assert load(path, map_location=where)["x"].device.type == "cpu"
    assert load(path, map_location=lambda t, place: t * 2)["x"].tolist() == [2, 2]
    with pytest.raises(ZeroDivisionError):
        load(path, map_location=lambda t, place: 1 / 0)


# ---- the format itself


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
    with pytest.raises(ValueError, match=r"zip archive.*torch\.save"):
        load(path)
    assert not os.path.exists(path + ".trapped")
    with pytest.raises(ValueError, match="weights_only"):
        load(path, weights_only=False)
    with pytest.raises(FileNotFoundError):
        load(path + ".missing")
