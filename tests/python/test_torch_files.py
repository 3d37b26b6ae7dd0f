"""Files of torch's forms: made by torch, by facula, by hand."""

from __future__ import annotations

import dataclasses
import enum
import io
import math
import os
import pickle
import struct
import subprocess
import sys
import threading
import zipfile
from collections import Counter, OrderedDict, defaultdict, namedtuple
from pathlib import Path

import facula
import numpy as np
import pytest
from facula import nn, optim, serialization
from facula.serialization import _zip, load, save
from facula.testing import assert_close
from mutated_files import rewritten

FILES = Path(__file__).parent / "files"
BASE = np.arange(24, dtype=np.float32).reshape(4, 6)


def data_of(path, name="data.pkl"):
    with zipfile.ZipFile(path) as archive:
        return archive.read(next(n for n in archive.namelist() if n.endswith("/" + name)))


# ---- what torch wrote


@pytest.mark.parametrize("name", ["torch_zip.pt", "torch_row.pt"])
@pytest.mark.parametrize("how", [{}, {"mmap": True}, {"weights_only": False}, "stream"])
def test_checkpoints_of_torch(name, how):
    if how == "stream":
        with open(FILES / name, "rb") as file:
            back = load(file)
    else:
        back = load(FILES / name, **how)
    model = back["model"]
    assert type(model) is OrderedDict and list(model) == ["weight", "t", "step", "row"]
    for key, value in {
        "weight": BASE, "t": BASE.T, "step": BASE[::2, 1::3], "row": BASE[1],
    }.items():  # fmt: skip
        np.testing.assert_array_equal(model[key].numpy(), value)
        assert model[key].stride() == tuple(n // 4 for n in value.strides)
    p = back["parameters"]["p"]
    model["weight"][1, 1] = 99  # all of them views of one storage
    assert model["t"][1, 1] == model["row"][1] == p[0, 1] == 99
    assert isinstance(p, nn.Parameter) and p.requires_grad and p.is_leaf
    assert not back["parameters"]["frozen"].requires_grad
    leaf = back["parameters"]["leaf"]
    assert type(leaf) is facula.Tensor and leaf.requires_grad and leaf.is_leaf
    assert back["epoch"] == 3 and back["optim"]["param_groups"] == [{"lr": 1e-3}]
    assert back["optim"]["state"][0]["step"].item() == 2
    for dtype, tensor in back["dtypes"].items():
        assert tensor.dtype == getattr(facula, dtype)
        assert tensor.tolist() == ([False, True, True] if dtype == "bool" else [0, 1, 3])
    assert back["empty"].shape == (3, 0, 2)
    assert back["expanded"].stride() == (1, 0) and back["expanded"].tolist() == [[1] * 3, [2] * 3]
    assert back["plain"] == [
        None, True, -(2**70), 1.5, "né", b"\x00\xff", b"", (1, (2,)), {1}, 1 + 2j,
    ]  # fmt: skip
    assert back["names"] == [
        facula.float16, facula.device("cpu"), facula.Size([2, 3]), facula.strided,
    ]  # fmt: skip
    counter, default, frozen, array = back["containers"]
    assert (counter, frozen, array) == (Counter("aab"), frozenset({2}), bytearray(b"z"))
    assert type(default) is defaultdict and default == {"k": [1]} and default["new"] == []


def test_what_torch_writes_in_other_ways():
    back = load(FILES / "torch_odd.pt")
    assert back["conj"].tolist() == [1 - 2j, 3 + 4j] and back["neg"].tolist() == [0, -1]
    assert back["meta"].device.type == "meta" and back["meta"].shape == (2, 3)
    assert type(back["buffer"]) is nn.Buffer and back["buffer"].persistent is False
    assert back["attributes"].tag == "kept"
    assert bytes(back["storage"].tolist()) == np.arange(3).tobytes()
    for key, value in {
        "array": np.arange(6, dtype=np.float32).reshape(2, 3),
        "fortran": np.arange(6).reshape(2, 3),
        "texts": np.array(["a", "né"]),
        "big": np.arange(3, dtype=">i4"),
    }.items():
        np.testing.assert_array_equal(back[key], value)
        assert back[key].dtype == pickle.loads(pickle.dumps(value)).dtype
    assert back["fortran"].flags.f_contiguous
    assert back["scalar"] == 1.5 and type(back["scalar"]) is np.float64
    assert back["date"] == np.datetime64("2026-11-29")
    assert load(FILES / "torch_protocol_4.pt")["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("how", [{}, {"mmap": True}, {"weights_only": False}])
def test_the_tar_form(how):
    back = load(FILES / "torch_tar.pt", **how)
    assert back["t"].tolist() == [[0, 3], [1, 4], [2, 5]] and back["n"] == 1
    assert back["long"].tolist() == [7, -8] and back["part"].tolist() == [3, 4]
    back["t"][0, 1] = -1
    assert back["part"].tolist() == [-1, 4]


def test_modules_of_torch():
    """They become facula's, and compute what torch's do."""
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules\.container\.Sequential"):
        load(FILES / "torch_module.pt")
    net = load(FILES / "torch_module.pt", weights_only=False)
    kinds = (nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.Flatten, nn.Linear)
    assert type(net) is nn.Sequential and all(map(isinstance, net, kinds))
    x = np.arange(16, dtype=np.float64).reshape(4, 4)
    weight = np.arange(18).reshape(2, 3, 3) / 18
    seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    y = np.einsum("xykl,ckl->cxy", seen, weight) + np.array([0, 0.5])[:, None, None]
    y = y / math.sqrt(1 + 1e-5) * np.array([0, 0.5])[:, None, None]
    y = np.maximum(y + np.array([0, 0.5])[:, None, None], 0).reshape(-1)
    y = (np.arange(16) / 16).reshape(2, 8) @ y + np.array([0, 0.5])
    out = net(facula.tensor(x.reshape(1, 1, 4, 4), dtype=facula.float32))
    np.testing.assert_allclose(out.detach().numpy()[0], y, rtol=1e-5)
    allowed = [type(net), *kinds, facula.nn.modules.container.Sequential]
    with serialization.safe_globals(allowed):
        assert type(load(FILES / "torch_module.pt")[4]) is nn.Linear


def test_big_endian(tmp_path):
    save({name: facula.tensor([1, 2]).to(getattr(facula, name)) for name in
          ("int16", "bfloat16", "float32", "complex64", "float64", "uint8")},
         tmp_path / "x.pt")  # fmt: skip
    back = load(tmp_path / "x.pt")
    order = [t.element_size() // (2 if t.is_complex() else 1) for t in back.values()]

    def change(name, data):
        if name == "byteorder":
            return b"big"
        if name.startswith("data/"):
            size = order[int(name[5:])]
            return np.frombuffer(data, f"<u{size}").byteswap().tobytes()
        return data

    swapped = load(io.BytesIO(rewritten(tmp_path / "x.pt", change)))
    for name, tensor in back.items():
        assert swapped[name].tolist() == tensor.tolist() == [1, 2], name
    bad = rewritten(tmp_path / "x.pt", lambda n, d: b"odd" if n == "byteorder" else d)
    with pytest.raises(ValueError, match="byte order is b'odd'"):
        load(io.BytesIO(bad))


# ---- what facula writes


def test_form_follows_the_name(tmp_path):
    value = {"x": facula.arange(3)}
    for name in ("a.pt", "a.pth", "a.bin", "a.ckpt", "a"):
        save(value, tmp_path / name)
        assert zipfile.is_zipfile(tmp_path / name)
        assert load(tmp_path / name)["x"].tolist() == [0, 1, 2]
    save(value, tmp_path / "a.safetensors")
    assert not zipfile.is_zipfile(tmp_path / "a.safetensors")
    stream = io.BytesIO()
    save(value, stream, format="safetensors")
    assert stream.getvalue() == (tmp_path / "a.safetensors").read_bytes()
    save(value, tmp_path / "b.safetensors", format="torch")
    assert zipfile.is_zipfile(tmp_path / "b.safetensors")
    os.rename(tmp_path / "a.safetensors", tmp_path / "c.pt")  # the content tells
    assert load(tmp_path / "c.pt")["x"].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="format is 'hdf5', expected one of"):
        save(value, stream, format="hdf5")


def test_layout_of_the_archive(tmp_path):
    """What torch's reader takes for granted, seen with Python's own."""
    base = facula.arange(24.0).reshape(4, 6)
    save({"a": base, "b": base.t(), "c": facula.ones(3, dtype=facula.bfloat16)}, tmp_path / "n.pt")
    with zipfile.ZipFile(tmp_path / "n.pt") as archive:
        assert archive.testzip() is None
        assert archive.read("n/version") == b"3\n" and archive.read("n/byteorder") == b"little"
        assert len(archive.read("n/.data/serialization_id")) == 40
        assert archive.read("n/data/0") == BASE.tobytes()  # once for both
        assert archive.read("n/data/1") == b"\x80\x3f" * 3
        whole = (tmp_path / "n.pt").read_bytes()
        for info in archive.infolist():
            assert info.compress_type == zipfile.ZIP_STORED
            names, extras = struct.unpack_from("<HH", whole, info.header_offset + 26)
            assert (info.header_offset + 30 + names + extras) % 64 == 0
    text = data_of(tmp_path / "n.pt")
    assert b"facula" not in text
    assert text.count(b"ctorch._utils\n_rebuild_tensor_v2\n") == 1
    assert b"ctorch\nFloatStorage\n" in text and b"ctorch\nBFloat16Storage\n" in text


@pytest.mark.parametrize("new", [True, False])
def test_round_trips(tmp_path, new):
    path = tmp_path / "x.pt"
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
    optimizer = optim.Adam(net.parameters(), lr=0.1)
    schedule = optim.lr_scheduler.StepLR(optimizer, 2)
    net(facula.ones(3, 1, 4, 4)).square().sum().backward()
    optimizer.step()
    states = {"net": net, "optimizer": optimizer, "schedule": schedule}
    obj = {
        "epoch": 3, **{name: part.state_dict() for name, part in states.items()},
        "array": np.arange(3), "scalar": np.float32(0.5), "set": {1, "a"}, "long": 10**30,
        "buffer": nn.Buffer(facula.ones(1), persistent=False), "dtype": facula.bfloat16,
        "marker": "cfacula\nbfloat16\n", "meta": facula.empty(2, device="meta"),
        "size": facula.Size((1,)), "device": facula.device("cpu"), "strided": facula.strided,
    }  # fmt: skip
    save(obj, path, _use_new_zipfile_serialization=new)
    for how in ({}, {"mmap": True}, {"weights_only": False}):
        back = load(path, **how)
        assert list(back) == list(obj)
        for name, part in states.items():
            part.load_state_dict(back[name])
        for name in (
            "epoch",
            "set",
            "long",
            "dtype",
            "size",
            "device",
            "strided",
            "marker",
            "scalar",
        ):
            assert back[name] == obj[name] and type(back[name]) is type(obj[name]), name
        for key, tensor in net.state_dict().items():
            assert_close(back["net"][key], tensor, rtol=0, atol=0)
        assert back["array"].tolist() == [0, 1, 2] and back["meta"].device.type == "meta"
        assert type(back["buffer"]) is nn.Buffer and not back["buffer"].persistent
    save(net, path, _use_new_zipfile_serialization=new)
    again = load(path, weights_only=False)
    x = facula.rand(2, 1, 4, 4)
    assert_close(again.eval()(x), net.eval()(x))


def test_sharing_and_slices(tmp_path):
    base = facula.arange(1_000_000, dtype=facula.float32)
    part = base[500:512]
    save({"part": part, "even": part[::2], "square": part.reshape(3, 4).t()}, tmp_path / "x.pt")
    assert os.path.getsize(tmp_path / "x.pt") < 3000  # a slice is saved alone
    back = load(tmp_path / "x.pt")
    assert back["square"].stride() == (1, 4) and back["square"][1, 1] == 505
    back["part"][2] = -1
    assert back["even"][1] == back["square"][2, 0] == -1
    pair = facula.tensor([1 + 2j, 3 + 4j])
    save({"z": pair, "real": facula.view_as_real(pair)} if hasattr(facula, "view_as_real")
         else {"z": pair, "real": pair.view(facula.float32)}, tmp_path / "y.pt")  # fmt: skip
    back = load(tmp_path / "y.pt")
    assert back["z"].tolist() == [1 + 2j, 3 + 4j]
    assert back["real"].reshape(-1).tolist() == [1, 2, 3, 4]


def test_mapped_memory(tmp_path):
    path = tmp_path / "x.pt"
    save({"x": facula.arange(100_000)}, path)
    before = path.read_bytes()
    x = load(path, mmap=True)["x"]
    x.add_(1)
    assert path.read_bytes() == before and load(path)["x"].sum() == sum(range(100_000))
    path.write_bytes(b"")  # what was not mapped stays
    plain = tmp_path / "y.pt"
    plain.write_bytes(before)
    y = load(plain)["x"]
    plain.write_bytes(b"")
    assert y.sum() == sum(range(100_000))


def test_map_location(tmp_path):
    save({"x": facula.ones(2, 2), "y": facula.ones(3)}, tmp_path / "x.pt")
    for where in ("meta", facula.device("meta"), {"cpu": "meta"}, lambda t, at: t.to("meta")):
        back = load(tmp_path / "x.pt", map_location=where)
        assert back["x"].device.type == "meta" and back["x"].shape == (2, 2)
    seen = []
    load(tmp_path / "x.pt", map_location=lambda t, at: seen.append((at, t.numel())))
    assert seen == [("cpu", 4), ("cpu", 3)]
    with pytest.raises(ZeroDivisionError):
        load(tmp_path / "x.pt", map_location=lambda t, at: 1 / 0)


def test_64_bit_sizes(tmp_path, monkeypatch):
    """Files of 4 GB and more have longer numbers; here they start at 100 bytes."""
    monkeypatch.setattr(_zip, "_LARGE", 100)
    save({"x": facula.arange(50), "y": facula.arange(3)}, tmp_path / "x.pt")
    assert load(tmp_path / "x.pt", verify=True)["x"].tolist() == list(range(50))
    with zipfile.ZipFile(tmp_path / "x.pt") as archive:
        assert archive.testzip() is None
        assert archive.read("x/data/0") == np.arange(50).tobytes()
    assert b"PK\x06\x06" in (tmp_path / "x.pt").read_bytes()


# ---- what a file may name


@dataclasses.dataclass
class Config:
    width: int
    shape: tuple = ()


Point = namedtuple("Point", "x y")


class Color(enum.Enum):
    RED = 1


class Lazy:
    __slots__ = ("a",)


def double(x):
    return 2 * x


class Calls:
    def __reduce__(self):
        return double, (21,)


def test_allowed_classes(tmp_path):
    path = tmp_path / "x.pt"
    lazy = Lazy()
    lazy.a = 1
    obj = [Config(3, (1, 2)), Point(1, facula.ones(2)), Color.RED, lazy, Calls()]
    save(obj, path)
    name = f"{__name__}.Config"
    with pytest.raises(pickle.UnpicklingError, match="needs the global") as raised:
        load(path)
    assert name in str(raised.value) and str(path) in str(raised.value)
    assert f"add_safe_globals([{name}])" in str(raised.value)
    assert isinstance(raised.value, ValueError)
    unsafe = serialization.get_unsafe_globals_in_checkpoint(path)
    assert unsafe == [f"{__name__}.{n}" for n in ("Config", "Point", "Color", "Lazy", "double")]
    with serialization.safe_globals([Config, Point, Color, Lazy, (double, f"{__name__}.double")]):
        assert serialization.get_unsafe_globals_in_checkpoint(path) == []
        config, point, color, slot, called = load(path)
        assert config == Config(3, (1, 2)) and type(point) is Point and point.y.tolist() == [1, 1]
        assert color is Color.RED and slot.a == 1 and called == 42
    assert serialization.get_safe_globals() == []
    serialization.add_safe_globals([Config])
    try:
        assert serialization.get_safe_globals() == [Config]
        save(Config(1), path)
        assert load(path) == Config(1)
    finally:
        serialization.clear_safe_globals()
    assert load(path, weights_only=False) == Config(1)
    with pytest.raises(TypeError, match="classes and functions"):
        serialization.add_safe_globals([3])
    with pytest.raises(ValueError, match="weights_only=False"):
        load(path, pickle_module=pickle)


def test_a_killed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "x.pt"
    save({"n": 1}, path)
    code = (
        "import os, signal, sys, facula\n"
        "os.fsync = lambda f: os.kill(os.getpid(), signal.SIGKILL)\n"
        "facula.save({'x': facula.ones(100)}, sys.argv[1])"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == -9
    assert load(path) == {"n": 1}


def test_streams_that_do_not_seek(tmp_path):
    reading, writing = os.pipe()
    with open(writing, "wb") as target, open(reading, "rb") as source:
        save({"x": facula.arange(3)}, target)
        target.close()
        assert load(source)["x"].tolist() == [0, 1, 2]
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    value = {"x": facula.arange(100_000)}
    writer = threading.Thread(target=lambda: save(value, fifo))
    writer.start()
    assert load(fifo)["x"].sum() == sum(range(100_000))
    writer.join()


# ---- beside torch


def _equal(a, b, torch):
    if isinstance(a, torch.Tensor):
        assert isinstance(b, facula.Tensor) and tuple(a.shape) == tuple(b.shape)
        assert str(a.dtype).split(".")[1] == str(b.dtype).split(".")[1]
        assert a.stride() == tuple(b.stride()) and a.requires_grad == b.requires_grad
        assert isinstance(a, torch.nn.Parameter) == isinstance(b, nn.Parameter)
        assert a.tolist() == b.tolist()
    elif isinstance(a, dict):
        assert list(a) == list(b)
        for key in a:
            _equal(a[key], b[key], torch)
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            _equal(x, y, torch)
    elif isinstance(a, (int, float, str, bytes, type(None))):
        assert a == b


@pytest.mark.parametrize("new", [True, False])
def test_round_trips_with_torch(tmp_path, new):
    torch = pytest.importorskip("torch")
    mine, theirs = tmp_path / "mine.pt", tmp_path / "theirs.pt"
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2))
    optimizer = torch.optim.AdamW(net.parameters())
    net(torch.rand(2, 1, 4, 4)).square().sum().backward()
    optimizer.step()
    base = torch.arange(24.0).reshape(4, 6)
    obj = {
        "net": net.state_dict(), "optim": optimizer.state_dict(), "epoch": 3,
        "rng": torch.get_rng_state(),
        "views": [base, base.t(), base[::2, 1::3], torch.ones(3, 1).expand(3, 4)],
        "p": torch.nn.Parameter(base[1]),
        "dtypes": [(torch.rand(2, 3) * 3).to(getattr(torch, name)) for name in
                   "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64"
                   " complex128".split()],
    }  # fmt: skip
    torch.save(obj, theirs, _use_new_zipfile_serialization=new)
    back = load(theirs)
    _equal(obj, back, torch)
    save(back, mine, _use_new_zipfile_serialization=new)
    again = torch.load(mine, weights_only=True)
    _equal(again, back, torch)
    assert again["views"][0].data_ptr() == again["views"][1].data_ptr()
    again["views"][0][1, 1] = 99
    assert again["p"][1] == 99
    if new:
        _equal(torch.load(mine, weights_only=True, mmap=True), back, torch)
    save(nn.Linear(2, 3), mine)
    assert isinstance(torch.load(mine, weights_only=False), torch.nn.Linear)
