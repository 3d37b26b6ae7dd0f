"""The host's side of CUDA without a GPU: which form of a kernel, errors, caches."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

Run = Callable[..., str]


def test_forms_of_pointwise_kernels(run: Run) -> None:
    """Dense tensors go in vectors, rows that repeat too, transposes through shared memory."""
    run(
        """
def check(call, **wanted):
    launched(call)
    found = form()
    assert all(found[k] == str(v) for k, v in wanted.items()), (found, wanted)
e = lambda *s, dtype=fa.float32: fa.empty(*s, dtype=dtype, device="cuda")
a, b = e(64, 128), e(128)
check(lambda: a + a, FORM=0, VEC=4)
check(lambda: a.to(fa.bfloat16), FORM=0, VEC=4)
h = e(64, 128, dtype=fa.bfloat16)
check(lambda: h + h, FORM=0, VEC=8)
check(lambda: a.reshape(-1)[1:] + 1.0, FORM=0, VEC=1)          # not aligned
check(lambda: a * 2, FORM=0, SCALARS=2)                          # a number
check(lambda: a + fa.tensor(2.0), FORM=0, SCALARS=2)             # a number of the host
check(lambda: a + b, FORM=1, VEC=4, DIMS=2)                      # a row for every row
check(lambda: a + e(64, 1), FORM=1, VEC=4, SPLATS=2)
check(lambda: a[:, ::2].contiguous(), FORM=1, VEC=1)
check(lambda: a[:, :64].contiguous(), FORM=1, VEC=4)
check(lambda: a.t().contiguous(), FORM=2, TURNED=1)
check(lambda: h.t().contiguous(), FORM=2, VEC=2)
check(lambda: a + e(128, 64).t(), FORM=2, TURNED=2)
check(lambda: a.t() + e(64, 128).t(), FORM=0)                    # both the same way
"""
    )


def test_number_of_blocks(run: Run) -> None:
    run(
        """
a = fa.empty(1 << 20, device="cuda")
(launch,) = launched(lambda: a + a)
assert launch[0] == "facula_pointwise" and launch[4] == "256"
assert int(launch[1]) * 256 * 4 == 1 << 20, launch                # 4 elements a thread
assert launched(lambda: fa.empty(0, device="cuda") + 1) == []
m = fa.empty(4096, 512, device="cuda")
assert len(launched(lambda: m.sum(1))) == 1
assert len(launched(lambda: a.sum())) == 2                        # in parts, then the parts
"""
    )


def test_kernels_are_compiled_once(run: Run) -> None:
    script = """
a = fa.empty(8, device="cuda")
a + a
cache = os.environ["FACULA_CACHE"] + "/cuda"
before = set(os.listdir(cache))
a + a
b = fa.empty(9, device="cuda")
b + b
files = os.listdir(cache)
assert len(before) == 1 and all(f.endswith(".bin") for f in files), files
times = {f: os.stat(os.path.join(cache, f)).st_ino for f in files}
print(sorted(times.items()))
"""
    assert run(script) == run(script)  # the second process writes nothing


def test_damaged_cache_files_are_made_anew(run: Run, tmp_path: Path) -> None:
    script = 'a = fa.empty(8, device="cuda")\na + a\n'
    run(script)
    (file,) = (tmp_path / "cache" / "cuda").glob("*.bin")
    whole = file.read_bytes()
    for damaged in (whole[: len(whole) // 2], b"", whole[:-3] + b"xyz"):
        file.write_bytes(damaged)
        run(script)
        assert file.read_bytes() == whole


def test_cache_is_bounded(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "cache" / "cuda"
    folder.mkdir(parents=True)
    for i in range(30):
        (folder / f"old{i}.bin").write_bytes(bytes(100_000))
        os.utime(folder / f"old{i}.bin", (i, i))
    (folder / ".left.1.0").write_bytes(b"part")
    os.utime(folder / ".left.1.0", (0, 0))
    run('a = fa.empty(8, device="cuda")\na + a\n', FACULA_CACHE_SIZE="1")
    left = sorted(f.name for f in folder.iterdir())
    assert sum(f.stat().st_size for f in folder.iterdir()) <= 1 << 20
    assert "old29.bin" in left and "old0.bin" not in left and ".left.1.0" not in left


def test_many_processes_share_the_cache(pretended: Path, tmp_path: Path) -> None:
    path = os.pathsep.join([str(pretended), *(p for p in sys.path if p)])
    env = {
        **os.environ, "LD_LIBRARY_PATH": str(pretended), "PYTHONPATH": path,
        "FACULA_CACHE": str(tmp_path),
    }  # fmt: skip
    script = (
        "import facula as fa\na = fa.empty(8, device='cuda')\nfor f in (fa.add, fa.mul): f(a, a)"
    )
    started = [subprocess.Popen([sys.executable, "-c", script], env=env) for _ in range(6)]
    assert [p.wait() for p in started] == [0] * 6
    files = list((tmp_path / "cuda").iterdir())
    assert len(files) == 2 and all(f.suffix == ".bin" for f in files)


def test_errors(run: Run) -> None:
    run(
        """
a = fa.empty(8, device="cuda")
fake.fake_fail(0, 1)
try:
    a + a
    raise SystemExit("no error")
except RuntimeError as error:
    assert "add" in str(error) and "CUDA_ERROR_LAUNCH_FAILED" in str(error), error
a + a                                                             # the next one is fine
try:
    fa.empty(1 << 40, device="cuda")
    raise SystemExit("no error")
except fa.OutOfMemoryError as error:
    assert "cuda:0" in str(error) and "free" in str(error), error
try:
    fa.empty(1, device="cuda:7")
    raise SystemExit("no error")
except RuntimeError as error:
    assert "cuda:7" in str(error) and "2 devices" in str(error), error
"""
    )


def test_memory_is_asked_for_again(run: Run) -> None:
    run(
        """
x = fa.empty(1000, device="cuda")
del x
fake.fake_fail(ctypes.c_int64(1), ctypes.c_int64(0))
y = fa.empty(1000000, device="cuda")  # more than pieces of small ones have
assert fa.cuda.memory_stats()["retries"] == 1
before = fake.fake_allocations()
del y
z = fa.empty(1000000, device="cuda")
assert fake.fake_allocations() == before                          # kept memory serves again
"""
    )


def test_memory_grows_in_place(run: Run) -> None:
    """With chunks mapped behind addresses; they are given back chunk by chunk."""
    run(
        """
MiB = 1 << 20
before = fake.fake_mappings()
x = fa.zeros(60 * MiB, dtype=fa.uint8, device="cuda")
start = x.data_ptr()
assert fake.fake_mappings() == 3 and fa.cuda.memory_reserved() == 60 * MiB
assert start % (2 * MiB) == 0
del x
y = fa.zeros(70 * MiB, dtype=fa.uint8, device="cuda")
assert y.data_ptr() == start and fake.fake_mappings() == 4
small = fa.ones(3, device="cuda")
assert fake.fake_mappings() == 5 and fa.cuda.memory_reserved() == 82 * MiB
del y
fake.fake_fail(ctypes.c_int64(1), ctypes.c_int64(0))
with fa.cuda.Stream():
    z = fa.zeros(30 * MiB, dtype=fa.uint8, device="cuda")
assert fa.cuda.memory_stats()["retries"] == 1 and fa.cuda.memory_reserved() == 42 * MiB
del z, small
fa.cuda.empty_cache()
assert fake.fake_mappings() == 0 and fa.cuda.memory_reserved() == 0
""",
        FACULA_DEVICE_EXPANDABLE="1",
    )


def test_module(run: Run) -> None:
    out = run(
        """
import facula.cuda
assert facula.cuda is fa.cuda and fa.cuda.is_available() and fa.cuda.device_count() == 2
print(fa.cuda.get_device_name(1), fa.cuda.get_device_capability())
s = fa.cuda.Stream()
with s:
    fa.empty(4, device="cuda").cpu()
g = fa.cuda.Graph()
with g.capture():
    pass
g.replay()
fa.cuda.synchronize()
assert fa.ones(3).pin_memory().is_pinned()
"""
    )
    assert out == "Fake H200 (9, 0)\n"


def test_switched_off() -> None:
    out = _without_driver("0")
    assert out.startswith("False 0\n") and out.count("FACULA_CUDA=0") == 3


def _without_driver(switch: str) -> str:
    script = """
import facula as fa
print(fa.cuda.is_available(), fa.cuda.device_count())
for use in (lambda: fa.ones(2, device="cuda"), lambda: fa.ones(2).cuda(), fa.cuda.synchronize):
    try:
        use()
    except RuntimeError as error:
        print(error)
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, env={**env, "FACULA_CUDA": switch}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout
