"""Loads mutated files of torch's forms: each must load or raise ValueError, whatever was changed.

`python mutated_files.py COUNT SEED` for a long run.
"""

from __future__ import annotations

import collections
import io
import pickle
import pickletools
import random
import sys
import tempfile
import zipfile
from pathlib import Path

import facula

FILES = Path(__file__).parent / "files"
# Opcodes and pieces that change what a pickle does, and not only its texts.
PIECES = [
    *(op.code.encode("latin1") for op in pickletools.opcodes),
    b"cos\nsystem\n", b"cbuiltins\neval\n", b"ctorch\nTensor\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n", b"r\xff\xff\xff\x7f", b"X\xff\xff\xff\xff",
    b"\x8e" + b"\xff" * 8, b"\x96" + b"\xff" * 7 + b"\x00",
    b"J\xff\xff\xff\xff", b"\x8a\x08" + b"\xff" * 7 + b"\x7f", b"\x8a\x08" + b"\x00" * 7 + b"\x40",
    b"}", b"h\x01", b"h\x05", b"\x85R", b"\x86R", b"(tR", b"Nb", b"}b", b"K\x00", b"M\xff\xff",
]  # fmt: skip


def rewritten(path, change, method=zipfile.ZIP_STORED):
    """The archive by Python's own writer, with members that `change` has changed or dropped."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w", method) as new:
        for name in old.namelist():
            data = change(name.partition("/")[2], old.read(name))
            if data is not None:
                new.writestr(name, data)
    return out.getvalue()


def archive_of(pickled, **members):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        for key, data in members.items():
            archive.writestr(f"a/data/{key.strip('_')}", data)
    return io.BytesIO(out.getvalue())


def mutated(data: bytes, draw: random.Random) -> bytes:
    result = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        at = draw.randrange(len(result) + 1)
        kind = draw.randrange(6)
        if kind == 0 and at < len(result):
            result[at] ^= 1 << draw.randrange(8)
        elif kind == 1 and at < len(result):
            result[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF, draw.randrange(256)))
        elif kind == 2:
            del result[at : at + draw.choice((1, 2, 4, 8, 64))]
        elif kind == 3:
            result[at:at] = draw.choice(PIECES)
        elif kind == 4:
            piece = draw.choice(PIECES)
            result[at : at + len(piece)] = piece
        else:
            source = draw.randrange(len(result) + 1)
            result[at:at] = result[source : source + draw.choice((1, 4, 16, 64))]
    return bytes(result[: draw.randrange(len(result) + 1)] if draw.random() < 0.02 else result)


def zipped(data: bytes, draw: random.Random) -> bytes:
    """The archive with a mutated member and checksums that are right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        names = old.namelist()
        chosen = next(n for n in names if n.endswith("data.pkl"))
        if draw.random() < 0.1:
            chosen = draw.choice(names)
        for name in names:
            member = old.read(name)
            new.writestr(name, mutated(member, draw) if name == chosen else member)
    return out.getvalue()


def touch(value: object) -> None:
    """Read all memory of the tensors in a container."""
    if isinstance(value, facula.Tensor):
        if value.device.type == "cpu" and value.numel() < 1_000_000:
            value.detach().clone()
    elif isinstance(value, dict):
        for entry in value.values():
            touch(entry)
    elif isinstance(value, (list, tuple)):
        for entry in value:
            touch(entry)


def run(count: int, seed: int, folder: Path | None = None) -> collections.Counter[str]:
    """What became of `count` mutated files: "loaded", or what kind of fault was found.

    Half of them are loaded by their paths, if there is a folder for them.
    """
    found: collections.Counter[str] = collections.Counter()
    whole = {path: path.read_bytes() for path in sorted(FILES.glob("*.pt"))}
    for n in range(count):
        draw = random.Random(seed * 1_000_003 + n)
        data = whole[draw.choice(list(whole))]
        is_zip = data[:2] == b"PK"
        data = zipped(data, draw) if is_zip and draw.random() < 0.7 else mutated(data, draw)
        where = draw.choice((None, "cpu", "meta"))
        source, mmap = io.BytesIO(data), None
        if folder is not None and draw.random() < 0.5:
            source, mmap = folder / f"{n}.pt", draw.choice((True, False))
            source.write_bytes(data)
        try:
            touch(facula.load(source, map_location=where, mmap=mmap))
            found["loaded"] += 1
        except RecursionError:
            found["touched itself"] += 1  # a container in itself
        except (facula.serialization.FormatError, pickle.UnpicklingError) as error:
            cause = error.__cause__
            if isinstance(cause, (MemoryError, SystemError, RecursionError, AssertionError)):
                raise AssertionError(f"case {seed} {n}") from error
            found[type(cause).__name__ if cause else "refused"] += 1
        except RuntimeError as error:
            if "where it cannot go" not in str(error):  # a device that is not here
                raise AssertionError(f"case {seed} {n}") from error
            found["no such device"] += 1
        except Exception as error:
            raise AssertionError(f"case {seed} {n}") from error
        finally:
            if isinstance(source, Path):
                source.unlink()
    return found


if __name__ == "__main__":
    import resource

    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    with tempfile.TemporaryDirectory() as name:
        print(run(int(sys.argv[1]), int(sys.argv[2]), Path(name)))
