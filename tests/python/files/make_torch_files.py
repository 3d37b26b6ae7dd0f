"""Makes the files of this folder with real torch 2.13: `python make_torch_files.py`."""

from __future__ import annotations

import io
import pickle
import struct
import tarfile
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
REAL = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64"
DTYPES = f"{REAL} complex64 complex128".split()


def checkpoint() -> dict:
    """Views, tied and frozen parameters, an optimizer's state, a dict of plain values."""
    base = torch.arange(24.0).reshape(4, 6)
    return {
        "epoch": 3,
        "model": OrderedDict(weight=base, t=base.t(), step=base[::2, 1::3], row=base[1]),
        "parameters": {
            "p": torch.nn.Parameter(base[1:3]),
            "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
            "leaf": torch.ones(2, requires_grad=True),
        },
        "optim": {"state": {0: {"step": torch.tensor(2.0)}}, "param_groups": [{"lr": 1e-3}]},
        "dtypes": {name: torch.tensor([0, 1, 3]).to(getattr(torch, name)) for name in DTYPES},
        "empty": torch.empty(3, 0, 2),
        "expanded": torch.tensor([[1.0], [2.0]]).expand(2, 3),
        "plain": [None, True, -(2**70), 1.5, "né", b"\x00\xff", b"", (1, (2,)), {1}, 1 + 2j],
        "names": [torch.float16, torch.device("cpu"), torch.Size([2, 3]), torch.strided],
        "containers": [
            Counter("aab"),
            defaultdict(list, {"k": [1]}),
            frozenset({2}),
            bytearray(b"z"),
        ],
    }


def odd() -> dict:
    """What facula has no own form for, or what torch writes in another way."""
    z = torch.tensor([1 + 2j, 3 - 4j])
    named = torch.ones(2)
    named.tag = "kept"
    return {
        "conj": z.conj(),
        "neg": torch._neg_view(torch.arange(2.0)),
        "meta": torch.empty(2, 3, device="meta"),
        "buffer": torch.nn.Buffer(torch.ones(2), persistent=False),
        "attributes": named,
        "storage": torch.arange(3).untyped_storage(),
        "array": np.arange(6, dtype=np.float32).reshape(2, 3),
        "fortran": np.asfortranarray(np.arange(6).reshape(2, 3)),
        "scalar": np.float64(1.5),
        "texts": np.array(["a", "né"]),
        "date": np.datetime64("2026-11-29"),
        "big": np.arange(3, dtype=">i4"),
    }


def module() -> torch.nn.Module:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten(),
        torch.nn.Linear(8, 2),
    )  # fmt: skip
    for p in net.parameters():
        p.data = torch.arange(p.numel()).reshape(p.shape) / p.numel()
    return net.eval()


def tar() -> bytes:
    """The form of torch before 0.1.10, which no torch writes any more; torch 2.13 reads it."""
    values = struct.pack("<6f", *range(6))
    storages = pickle.dumps(2, 2)
    storages += pickle.dumps((10, "cpu", torch.FloatStorage), 2) + struct.pack("<q", 6) + values
    storages += pickle.dumps((11, "cpu", torch.LongStorage), 2) + struct.pack("<q2q", 2, 7, -8)
    storages += pickle.dumps([(12, 10, 2, 3)], 2)
    tensors = pickle.dumps(3, 2)
    for key, storage, kind, size, stride, offset in [
        (20, 10, "FloatTensor", (3, 2), (1, 3), 0),
        (21, 11, "LongTensor", (2,), (1,), 0),
        (22, 12, "FloatTensor", (2,), (1,), 1),
    ]:
        tensors += pickle.dumps((key, storage, getattr(torch, kind)), 2)
        tensors += struct.pack(
            f"<ii{len(size)}q{len(size)}qq", len(size), 0, *size, *stride, offset
        )

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            return value.key if isinstance(value, Key) else None

    out = io.BytesIO()
    Pickler(out, 2).dump({"t": Key("20"), "long": Key("21"), "part": Key("22"), "n": 1})
    result = io.BytesIO()
    with tarfile.open(fileobj=result, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in [
            ("sys_info", pickle.dumps({"protocol_version": 1000}, 2)),
            ("storages", storages), ("tensors", tensors), ("pickle", out.getvalue()),
        ]:  # fmt: skip
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return result.getvalue()


class Key:
    def __init__(self, key: str) -> None:
        self.key = key


if __name__ == "__main__":
    torch.save(checkpoint(), HERE / "torch_zip.pt")
    torch.save(checkpoint(), HERE / "torch_row.pt", _use_new_zipfile_serialization=False)
    torch.save(odd(), HERE / "torch_odd.pt")
    torch.save(module(), HERE / "torch_module.pt")
    torch.save({"x": torch.arange(3.0)}, HERE / "torch_protocol_4.pt", pickle_protocol=4)
    (HERE / "torch_tar.pt").write_bytes(tar())
    found = torch.load(HERE / "torch_tar.pt", weights_only=False)
    assert found["t"].tolist() == [[0, 3], [1, 4], [2, 5]] and found["part"].tolist() == [3, 4]
    assert found["long"].tolist() == [7, -8] and found["n"] == 1
