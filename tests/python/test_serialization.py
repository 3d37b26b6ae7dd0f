"""save and load: round trips, sharing, atomicity, and files that are wrong in every way."""

from __future__ import annotations

import io
import math
import os
import signal
import subprocess
import sys
import threading
from collections import OrderedDict

import facula
import numpy as np
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


def test_bytes_sets_and_tuple_keys(path):
    obj = {
        "bytes": [b"", b"\x00\xff" * 3000, bytearray(b"ab")],
        "sets": [set(), {1, "a", (2, b"x")}, frozenset({None, frozenset({1.5})})],
        (1, "a", (None, 2.5)): {b"key": 1, frozenset({1}): 2, True: 3, 1 + 2j: 4},
        facula.float16: {facula.device("cpu"): 1},
    }
    for mmap in (True, False):
        save(obj, path)
        back = load(path, mmap=mmap)
        assert back == obj
        assert [type(b) for b in back["bytes"]] == [bytes, bytes, bytearray]
        assert [type(s) for s in back["sets"]] == [set, set, frozenset]
        back["bytes"][2].append(1)
    save({"a": obj["sets"]}, path)
    with open(path, "rb") as first:
        text = first.read()
    save({"a": [set(s) if type(s) is set else s for s in obj["sets"]]}, path)
    with open(path, "rb") as second:
        assert second.read() == text


def test_equal_objects_make_equal_files(tmp_path):
    """Wherever their tensors lie in memory, and in whatever order sets were filled."""
    tensors = [facula.zeros(3) for _ in range(8)]
    obj = [
        [
            dict(zip("abcdefgh", several, strict=True)),
            {frozenset(pair), frozenset([1]), (2, frozenset(pair)), (2, frozenset([1]))},
        ]
        for several, pair in ((tensors, (0, 8)), (tensors[::-1], (8, 0)))
    ]
    assert repr(frozenset((0, 8))) != repr(frozenset((8, 0)))
    for i in (0, 1):
        save(obj[i], tmp_path / f"{i}.safetensors")
    files = [(tmp_path / f"{i}.safetensors").read_bytes() for i in (0, 1)]
    assert files[0] == files[1] and load(tmp_path / "0.safetensors")[1] == obj[0][1]
    # what a key holds is written once
    save({(1, b"once and no more"): 1}, tmp_path / "0.safetensors")
    assert (tmp_path / "0.safetensors").read_bytes().count(b"once and no more") == 1


def test_long_doubles(tmp_path):
    """Of torch's form alone: safetensors has no such numbers."""
    save({"a": np.longdouble(1) / 3}, tmp_path / "a.pt")
    assert load(tmp_path / "a.pt")["a"] == np.longdouble(1) / 3


def test_numpy_arrays_and_scalars(path):
    scalars = [
        np.float64(1.5), np.float32(0.1), np.float16(2), np.int8(-3), np.uint64(2**64 - 1),
        np.bool_(True), np.complex64(1 + 2j), np.str_("né"), np.bytes_(b"a"), np.str_(""),
        np.datetime64("2026-11-29"), np.timedelta64(3, "s"), np.float64("nan"),
    ]  # fmt: skip
    save(scalars, path)
    for new, old in zip(load(path), scalars, strict=True):
        assert type(new) is type(old) and new.dtype == old.dtype
        assert new == old or (new != new and old != old)
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    obj = {
        "a": a, "row": a[1], "tensor": facula.from_numpy(a), "t": a.T, "0-d": np.array(3),
        "no": np.zeros((0, 2)), "half": np.float16([1, 2]), "complex": np.complex128([1j]),
        "bool": np.array([True]),
    }  # fmt: skip
    save(obj, path)
    for mmap in (True, False):
        for where in (None, "meta"):
            back = load(path, mmap=mmap, map_location=where)
            assert back["tensor"].device.type == (where or "cpu")
            for name, old in obj.items():
                if isinstance(old, np.ndarray):
                    assert type(back[name]) is np.ndarray and back[name].dtype == old.dtype
                    np.testing.assert_array_equal(back[name], old)
            back["a"][1, 1] = 99
            assert back["row"][1] == back["t"][1, 1] == 99 and a[1, 1] == 4
        assert load(path)["tensor"].tolist() == a.tolist()


def test_hostile_scalars(path):
    save(np.float64(1.5), path)
    with open(path, "rb") as file:
        text = file.read()
    for bad in (b"|O8", b"|V8", b"<f9", b"<f2"):
        with open(path, "wb") as file:
            file.write(text.replace(b"<f8", bad))
        if bad == b"<f2":
            continue  # fewer bytes than there are: the first ones count
        with pytest.raises(ValueError, match="malformed"):
            load(path)


def test_links_modes_pipes_and_devices(tmp_path):
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.parent.mkdir()
    link.symlink_to(target)
    for value in (1, 2):  # the link leads nowhere at first
        save(value, link)
        assert link.is_symlink() and load(target) == load(link) == value
    chain = tmp_path / "chain"
    chain.symlink_to("link")
    save(3, chain)
    assert chain.is_symlink() and link.is_symlink() and load(target) == 3
    for mode in (0o600, 0o640, 0o444):
        target.chmod(mode)
        save(4, target)
        assert target.stat().st_mode & 0o7777 == mode
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()))
    reader.start()
    save({"x": facula.ones(2)}, fifo)
    reader.join()
    assert fifo.is_fifo() and load(io.BytesIO(read[0]))["x"].tolist() == [1, 1]
    save(1, "/dev/null")
    assert not os.path.isfile("/dev/null")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        save(1, tmp_path)
    long = tmp_path / ("n" * 255)
    save(5, long)
    assert load(long) == 5
    assert sorted(os.listdir(tmp_path)) == sorted(["folder", "link", "chain", "fifo", "n" * 255])
    assert os.listdir(target.parent) == ["target"]


def test_loads_from_pipes_and_devices(tmp_path):
    """What cannot seek is read all the same, and what never ends is not read for ever."""
    fifo, value = tmp_path / "fifo", {"x": facula.arange(5000.0), "y": [1, "two"]}
    os.mkfifo(fifo)
    writer = threading.Thread(target=lambda: save(value, fifo))
    writer.start()
    back = load(fifo, verify=True)
    writer.join()
    assert back["x"].tolist() == value["x"].tolist() and back["y"] == value["y"]
    back["x"][0] = 1  # its own memory
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as source, open(writing, "wb") as target:
        writer = threading.Thread(target=lambda: (save(value, target), target.close()))
        writer.start()
        assert load(source)["y"] == [1, "two"]
        writer.join()
    for endless in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(ValueError, match=f"load.*'{endless}' cannot be read"):
            load(endless)
    with pytest.raises(ValueError, match="it has 0 bytes"):
        load("/dev/null")
    with open(tmp_path / "text", "w+") as text, pytest.raises(TypeError, match="expected bytes"):
        load(text)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with (
        open(reading, "rb", buffering=0) as source,
        open(writing, "wb"),
        pytest.raises(BlockingIOError, match="blocking mode"),
    ):
        load(source)


def test_names_of_a_file_are_kept(tmp_path):
    """All its hard links show what was saved under one of them, and loaded tensors stay as were."""
    first, second = tmp_path / "first", tmp_path / "second"
    save({"x": facula.arange(100_000.0)}, first)
    os.link(first, second)
    held = load(first)["x"]
    for value in (facula.ones(7), facula.arange(200_000.0)):  # shorter than before, and longer
        save({"x": value}, second)
        assert os.path.samefile(first, second)
        assert load(first, verify=True)["x"].tolist() == value.tolist()
    assert held.tolist() == list(range(100_000))
    second.unlink()
    # What is mapped must stay: here the new file parts from the old.
    mapped = load(first, mmap=True)["x"]
    os.link(first, second)
    save({"x": facula.zeros(1)}, first)
    assert mapped.tolist() == load(second)["x"].tolist() == list(range(200_000))
    assert load(first)["x"].tolist() == [0]
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]


def test_a_kill_while_links_are_kept_leaves_the_whole_file_beside(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    save(1, first)
    os.link(first, second)
    code = (
        "import os, shutil, signal, sys, facula\n"
        "shutil.copyfileobj = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "facula.save({'x': facula.ones(100)}, sys.argv[1])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(first)], check=False)
    assert done.returncode == -signal.SIGKILL
    (beside,) = set(os.listdir(tmp_path)) - {"first", "second"}
    assert load(tmp_path / beside, verify=True)["x"].sum() == 100


def test_extended_attributes_are_kept(path):
    save(1, path)
    try:
        os.setxattr(path, "user.origin", b"here")
    except OSError as error:
        pytest.skip(f"the file system has no extended attributes: {error}")
    save(2, path)
    assert load(path) == 2 and os.getxattr(path, "user.origin") == b"here"


def test_errors_name_the_path_that_was_given(tmp_path):
    missing = str(tmp_path / "missing" / "file")
    with pytest.raises(FileNotFoundError) as raised:
        save(1, missing)
    assert raised.value.filename == missing and ".tmp" not in str(raised.value)
    link = tmp_path / "link"
    link.symlink_to(missing)
    with pytest.raises(FileNotFoundError) as raised:
        save(1, link)
    assert raised.value.filename == str(link)
    if os.path.exists("/dev/full"):
        with pytest.raises(OSError, match="/dev/full"):
            save(1, "/dev/full")
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o500)
    if os.access(folder, os.W_OK):
        return  # the administrator may write anywhere
    with pytest.raises(PermissionError) as raised:
        save(1, folder / "file")
    assert raised.value.filename == str(folder / "file")


def test_a_killed_save_leaves_nothing_for_long(path):
    save(1, path)
    code = (
        "import os, signal, sys, facula\n"
        "os.fsync = lambda f: os.kill(os.getpid(), signal.SIGKILL)\n"
        "facula.save({'x': facula.ones(100)}, sys.argv[1])"
    )
    folder = os.path.dirname(path)
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code, path], check=False)
        assert done.returncode == -signal.SIGKILL and load(path) == 1
        assert len(os.listdir(folder)) == 2  # that of the first was cleared by the second
    other = os.path.join(folder, "file.safetensors.abc.tmp")
    with open(other, "w"):
        pass
    save(2, path)
    assert load(path) == 2 and sorted(os.listdir(folder)) == sorted(
        map(os.path.basename, [path, other])
    )


def test_many_savers_of_one_path(path):
    """Each of them ends well and the file is always one of theirs: none clears another's."""
    failed: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for _ in range(25):
                save({"n": facula.full((1000,), n)}, path)
                assert len(set(load(path, verify=True)["n"].tolist())) == 1
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and os.listdir(os.path.dirname(path)) == [os.path.basename(path)]


def test_a_flipped_bit_is_noticed_anywhere(path):
    save({"a": facula.arange(5.0), "b": [1, "two"], "v": facula.arange(4)[1:]}, path)
    with open(path, "rb") as file:
        text = file.read()
    for i in range(len(text)):
        for bit in range(8):
            wrong = bytearray(text)
            wrong[i] ^= 1 << bit
            with pytest.raises(ValueError):
                load(io.BytesIO(wrong), verify=True)
    assert load(io.BytesIO(text), verify=True)["b"] == [1, "two"]


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
    for key in (facula.ones(1), (1, facula.ones(1))):
        with pytest.raises(TypeError, match="a key of a is a Tensor"):
            save({"a": {key: 3}}, path)
    with pytest.raises(TypeError, match="a is an array of dtype <U1"):
        save({"a": np.array(["x"])}, path)
    for odd in (np.longdouble(1), np.void(b"ab"), np.ma.masked_array([1])):
        with pytest.raises(TypeError, match="cannot be saved"):
            save(odd, path)
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
