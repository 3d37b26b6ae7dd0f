"""Options of `save` and `load` that hold until they are set anew."""

from __future__ import annotations

import io
import itertools
import mmap
import types
import weakref
import zipfile
from pathlib import Path
from typing import Any

import facula as fa
import pytest
from facula import _weak_table, serialization
from facula.utils import _atomic


def test_checksums_may_be_left_out(tmp_path: Path) -> None:
    path, x = tmp_path / "a.pt", fa.arange(300_000.0)
    assert serialization.get_crc32_options() is True
    serialization.set_crc32_options(False)
    try:
        fa.save({"x": x}, path)
    finally:
        serialization.set_crc32_options(True)
    assert all(info.CRC == 0 for info in zipfile.ZipFile(path).infolist())
    assert fa.load(path)["x"].equal(x) and fa.load(path, mmap=True)["x"].equal(x)
    fa.save({"x": x}, path)
    assert zipfile.ZipFile(path).testzip() is None


def test_torch_reads_files_without_checksums(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    serialization.set_crc32_options(False)
    try:
        fa.save({"x": fa.arange(5.0)}, tmp_path / "a.pt")
    finally:
        serialization.set_crc32_options(True)
    assert torch.load(tmp_path / "a.pt")["x"].tolist() == [0, 1, 2, 3, 4]


def test_the_order_of_bytes_of_files_that_do_not_say_it(tmp_path: Path) -> None:
    file, other = io.BytesIO(), io.BytesIO()
    fa.save(fa.tensor([1, 256], dtype=fa.int16), file)
    with zipfile.ZipFile(file) as old, zipfile.ZipFile(other, "w") as new:
        for name in old.namelist():
            if not name.endswith("byteorder"):
                new.writestr(name, old.read(name))

    def read() -> Any:
        return fa.load(io.BytesIO(other.getvalue())).tolist()

    orders = serialization.LoadEndianness
    assert serialization.get_default_load_endianness() is None and read() == [1, 256]
    try:
        serialization.set_default_load_endianness(orders.BIG)
        assert read() == [256, 1]
        serialization.set_default_load_endianness(orders.NATIVE)
        assert read() == [1, 256]
        with pytest.raises(TypeError, match="LoadEndianness"):
            serialization.set_default_load_endianness("big")  # type: ignore[arg-type]
    finally:
        serialization.set_default_load_endianness(None)


def test_tensors_that_are_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    fa.save(fa.zeros(100), path)
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        fa.load(path, mmap=True)[3] = 7.0
        fa.load(path)[4] = 8.0
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    fa.load(path, mmap=True)[5] = 9.0
    assert fa.load(path).nonzero().tolist() == [[3]]
    with pytest.raises(ValueError, match="MAP_SHARED"):
        serialization.set_default_mmap_options(mmap.MAP_PRIVATE | mmap.MAP_SHARED)


def test_the_disk_begins_while_bytes_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ranges that are begun cover the file, but for its end, once each and in order."""
    begun = []
    monkeypatch.setattr(_atomic, "_EARLY", 1000)
    monkeypatch.setattr(_atomic, "_starter", lambda: lambda *call: begun.append(call[1:]))
    fa.save({str(i): fa.full((400,), float(i)) for i in range(5)}, tmp_path / "a.pt")
    assert len(begun) >= 5 and begun[0][0] == 0
    assert all(a + n == b for (a, n, _), (b, _, _) in itertools.pairwise(begun))
    assert begun[-1][0] + begun[-1][1] <= (tmp_path / "a.pt").stat().st_size
    assert fa.load(tmp_path / "a.pt")["4"][0] == 4.0


def test_notes_of_mappings_cost_the_same_however_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    class Counting(weakref.ref):  # type: ignore[type-arg]
        def __call__(self) -> Any:
            asked.append(self)
            return super().__call__()

    class Mapping:
        pass

    monkeypatch.setattr(_weak_table, "weakref", types.SimpleNamespace(ref=Counting))
    monkeypatch.setattr(_atomic, "_mappings", _weak_table.WeakTable())
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    files = [((tmp_path / n).stat().st_dev, (tmp_path / n).stat().st_ino) for n in "ab"]
    with open(tmp_path / "a", "rb") as file:
        living = [Mapping() for _ in range(1000)]
        for mapping in living:
            _atomic.note_mapping(mapping, file)
        assert len(asked) <= 3 * len(living)
        assert [_atomic._is_mapped(f) for f in files] == [True, False]
        del living, mapping
        assert not _atomic._is_mapped(files[0])
        for _ in range(5):
            living = [Mapping() for _ in range(1000)]
            for mapping in living:
                _atomic.note_mapping(mapping, file)
        assert _atomic._is_mapped(files[0])
        assert len(_atomic._mappings._references) <= 3000
