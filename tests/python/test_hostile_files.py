"""Files of torch's forms that are wrong in every way, by accident and on purpose."""

from __future__ import annotations

import io
import os
import pickle
import resource
import struct
import zipfile
from pathlib import Path

import facula
import mutated_files
import numpy as np
import pytest
from facula.serialization import FormatError, _zip, load, save
from mutated_files import FILES, archive_of, rewritten

REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
ATTACKS = [
    (b"cos\nsystem\n(S'touch trapped'\ntR.", r"needs the global 'os\.system'"),
    (b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x01x\x85R.", r"'posix\.system'"),
    (b"cbuiltins\neval\n(S'1'\ntR.", r"'builtins\.eval'"),
    (b"cbuiltins\ngetattr\n.", r"'builtins\.getattr'"),
    (b"cfacula.serialization\nload\n.", r"'facula\.serialization\.load'"),
    (b"ctorch._utils\n_import_dotted_name\n.", "which facula does not have"),
    (b"ctorch\nload\n.", r"'torch\.load'"),
    (b"ctorch\nTensor\n)\x81.", "of which none can be made"),
    (b"ctorch\nTensor\n)R.", "calls a"),
    (b"cbuiltins\nint\n)R.", "calls a type"),
    (b"ccollections\nOrderedDict\n}S'move_to_end'\nNsb.", "sets the state of a type"),
    (b"ccollections\nOrderedDict\n)R}S'__class__'\nNsb.", "attributes that are none"),
    (REBUILD + b"}S'__code__'\nNsb.", "sets the state of a"),
    (b"ctorch.nn.parameter\nParameter\n}S'data'\nNsb.", "sets the state of a"),
    (b"ccollections\ndefaultdict\n" + REBUILD + b"\x85R.", "plain type"),
    (b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.", "something else than bytes"),
    (b"]r\xff\xff\xff\xff.", None),  # a place in the memo, not a size
    (b"\x96" + b"\xff" * 7 + b"\x7f.", "ends before"),
    (b"X\xff\xff\xff\xff.", "ends before"),
    (b"\x8e" + b"\xff" * 8, "ends before"),
    (b"(" * 1000 + b".", "mark"),
    (b"K\x01" + b"\x85" * 100_000 + b".", "nested more than"),
    (b"}K\x01" + b"\x85" * 100_000 + b"K\x01s.", "nested more than"),
    (b"]" * 100_000 + b"a" * 99_999 + b".", None),
    (b"(" * 50_000 + b"\x91" * 50_000 + b".", None),
    (b"\x82\x01.", "opcode 0x82"),
    (b"\x97.", "opcode 0x97"),
    (b"\x80\x09.", "protocol 9"),
    (b"N", "cut short"),
    (b"", "cut short"),
    (b"h\x05.", "takes what it has not put"),
    (b"R.", "takes what it has not put"),
    (b"NNR.", "calls with a NoneType"),
    (b"Na.", "takes what it has not put"),
    (b"NNNs.", "sets items of a NoneType"),
    (b"cnumpy\ndtype\n(S'O'\ntR.", "not one of numbers"),
    (b"cnumpy\nload\n.", r"'numpy\.load'"),
    (b"Nq\x00\x85Q.", "storage without type"),
]


@pytest.mark.parametrize(("pickled", "fault"), ATTACKS, ids=lambda v: repr(v)[:40])
def test_hostile_pickles(pickled, fault, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.pt").write_bytes(archive_of(pickled).getvalue())
    if fault is None:
        load("x.pt")
    else:
        with pytest.raises(ValueError, match=fault) as raised:
            load("x.pt")
        assert "'x.pt'" in str(raised.value)
    assert os.listdir() == ["x.pt"]


def tensor_pickle(
    size=(2,), stride=(1,), offset=0, count=2, key="0", kind=b"FloatStorage", grad=False
):
    """A tensor as torch pickles it, with any numbers."""
    storage = pickle.dumps(("storage", "KIND", key, "cpu", count), 0)[:-1]
    storage = storage.replace(b"VKIND\n", b"ctorch\n" + kind + b"\n")
    rest = (pickle.dumps(v, 0)[:-1] for v in (offset, size, stride, grad, None))
    return REBUILD + b"(" + storage + b"Q" + b"".join(rest) + b"tR."


BAD_TENSORS = [
    ({"size": (3,)}, "reaches outside"),
    ({"offset": 1}, "reaches outside"),
    ({"offset": -1}, "natural numbers"),
    ({"stride": (-1,)}, "natural numbers"),
    ({"stride": (2,)}, "reaches outside"),
    ({"stride": (1, 1)}, "another length"),
    ({"size": (2**62, 2**62), "stride": (0, 0)}, "reaches outside"),
    ({"size": (2.0,)}, "natural numbers"),
    ({"size": (True,)}, "natural numbers"),
    ({"size": 2}, "no tuples"),
    ({"count": 3}, "not the 3 elements"),
    ({"count": 1}, "not the 1 elements"),
    ({"count": -2}, "natural numbers"),
    ({"count": 2**62}, "not the"),
    ({"key": "1"}, "'1' is missing"),
    ({"key": "../0"}, "is missing"),
    ({"kind": b"QInt8Storage"}, "which facula does not have"),
    ({"kind": b"ComplexDoubleStorage", "count": 0}, "bytes"),
    ({"kind": b"IntStorage", "grad": True}, "can require gradients"),
    ({"grad": 1}, "requires_grad is a int"),
]


@pytest.mark.parametrize(("numbers", "fault"), BAD_TENSORS, ids=str)
def test_wrong_sizes_and_strides(numbers, fault):
    data = struct.pack("<2f", 1, 2)
    assert load(archive_of(tensor_pickle(), _0=data)).tolist() == [1, 2]
    with pytest.raises(ValueError, match=fault):
        load(archive_of(tensor_pickle(**numbers), _0=data))


def test_bombs(tmp_path):
    """Memory is bounded by the file's size."""
    many = pickle.dumps([None] * 20_000, 2)[:-1]
    copies = many + b"q\x00" + b"0" + b"]" + b"cbuiltins\nfrozenset\nh\x00\x85Ra" * 20_000 + b"."
    with pytest.raises(ValueError, match="far more memory"):
        load(archive_of(copies.replace(b"frozenset\n", b"set\n")))
    # Numbers of the memo that double: 33 of them must not take a table of 2**32.
    numbers = b"".join(b"r" + (2**k).to_bytes(4, "little") for k in range(32))
    limit = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 28), limit[1]))
    try:
        assert load(archive_of(b"N" + numbers + b".")) is None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limit)
    zeros = bytes(1 << 26)
    save({"x": facula.zeros(1)}, tmp_path / "x.pt")
    bomb = rewritten(
        tmp_path / "x.pt", lambda n, d: zeros if n == "data/0" else d, zipfile.ZIP_DEFLATED
    )
    assert len(bomb) < 1 << 17
    with pytest.raises(ValueError, match="would inflate to 67108864 bytes"):
        load(io.BytesIO(bomb))
    fine = rewritten(tmp_path / "x.pt", lambda n, d: d, zipfile.ZIP_DEFLATED)
    assert load(io.BytesIO(fine))["x"].tolist() == [0]
    lying = bytearray(fine)
    at = lying.rfind(b"PK\x01\x02", 0, lying.find(b"x/data.pkl", lying.find(b"PK\x01\x02")))
    lying[at + 24 : at + 28] = struct.pack("<I", 5)  # its size when inflated
    with pytest.raises(ValueError, match="does not inflate to 5 bytes"):
        load(io.BytesIO(lying))


def test_archives_that_are_wrong(tmp_path):
    path = tmp_path / "x.pt"
    save({"x": facula.arange(3)}, path)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        with pytest.raises(ValueError, match="cannot be read"):
            load(io.BytesIO(whole[:size]))
    for name, fault in [("data.pkl", "without data.pkl"), ("data/0", "'0' is missing")]:
        with pytest.raises(ValueError, match=fault):
            load(io.BytesIO(rewritten(path, lambda n, d, name=name: None if n == name else d)))
    with pytest.raises(ValueError, match="bytes after its end record"):
        load(io.BytesIO(whole + b"x"))
    broken = rewritten(path, lambda n, d: d).replace(b"storage", b"storagf", 1)
    with pytest.raises(ValueError, match=r"'x/data\.pkl' does not match its checksum"):
        load(io.BytesIO(broken))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a/constants.pkl", b"")
        archive.writestr("a/data.pkl", b"N.")
    with pytest.raises(ValueError, match="TorchScript"):
        load(io.BytesIO(out.getvalue()))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:  # nothing is extracted, wherever it would lead
        archive.writestr("a/data.pkl", b"N.")
        archive.writestr("../../evil", b"x")
    assert load(io.BytesIO(out.getvalue())) is None


def test_checksums(tmp_path):
    path = tmp_path / "x.pt"
    save({"x": facula.arange(3)}, path)
    whole = bytearray(path.read_bytes())
    at = whole.find(np.arange(3).tobytes())
    whole[at] ^= 1
    path.write_bytes(whole)
    assert load(path)["x"].tolist() == [1, 1, 2]
    with pytest.raises(ValueError, match="'x/data/0' does not match its checksum"):
        load(path, verify=True)
    with pytest.raises(ValueError, match="no checksum to verify"):
        load(FILES / "torch_row.pt", verify=True)


@pytest.mark.parametrize("large", [_zip._LARGE, 100], ids=["32 bits", "64 bits"])
def test_every_flipped_bit_is_seen(large, monkeypatch):
    """In headers, padding and directory too, of what `save` wrote."""
    monkeypatch.setattr(_zip, "_LARGE", large)
    out = io.BytesIO()
    save({"x": facula.arange(30), "y": facula.ones(2, 3), "n": 1}, out)
    whole = bytearray(out.getvalue())
    assert load(io.BytesIO(whole), verify=True)["n"] == 1
    for at in range(len(whole)):
        whole[at] ^= 1 << at % 8
        with pytest.raises(FormatError):
            load(io.BytesIO(whole), verify=True)
        whole[at] ^= 1 << at % 8


def test_what_others_wrote_is_verified_by_its_checksums():
    """Their headers have other fields; `torch_zip.pt` is torch's own."""
    assert load(FILES / "torch_zip.pt", verify=True) is not None
    out = io.BytesIO()
    with zipfile.ZipFile(FILES / "torch_zip.pt") as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    assert load(io.BytesIO(out.getvalue()), verify=True) is not None


def test_mutated_files(tmp_path):
    found = mutated_files.run(700, 5, tmp_path)
    assert found["loaded"] > 20 and found["refused"] > 100


@pytest.mark.parametrize("new", [True, False])
def test_files_that_became_shorter(tmp_path, monkeypatch, new):
    """What another process does to a file while it is read gives an error, not a signal."""
    path = tmp_path / "x.pt"
    save({"x": facula.arange(100_000)}, path, _use_new_zipfile_serialization=new)
    real, seen = os.fstat, []

    def fstat(number):
        info = real(number)
        seen.append(info)
        if len(seen) == 2:  # its size has just been asked for
            os.truncate(path, 1000)
        return info

    monkeypatch.setattr(os, "fstat", fstat)
    with pytest.raises(ValueError, match="became shorter while it was read"):
        load(path)
