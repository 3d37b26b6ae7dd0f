"""Kernels of groups without a GPU: a pretended driver is given the sources, NVRTC compiles them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
from emulation import link_headers

Run = Callable[..., str]
HERE = Path(__file__).parent
HEADER = 48  # bytes of a cache file before the code, which here is the source
CAPTURED = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
from facula import _C
import group_programs, row_programs
def captured(function):
    with _C._Capture(False, False, False, True):
        return function()
"""


def compile_all(folder: Path) -> int:
    """Compiles the groups' sources that a run with the pretended driver has left."""
    from facula.cuda import _vendor

    module = _vendor.module()
    if not module.facula_cuda_has_compiler():
        pytest.skip("NVRTC is not installed: pip install nvidia-cuda-nvrtc")
    count = 0
    for file in sorted(folder.glob("*.bin")):
        text = file.read_bytes()[HEADER:].rstrip(b"\0")
        if b"FACULA_GROUP" not in text:
            continue
        error = ctypes.create_string_buffer(4000)
        # PTX: assembling it takes most of the time
        status = module.facula_cuda_compile(text, b"compute_80", error, ctypes.c_size_t(4000))
        assert status == 0, text.decode()[-3000:] + error.value.decode()
        count += 1
    return count


def test_random_groups_compile(run: Run, tmp_path: Path) -> None:
    run(
        CAPTURED
        + """
for seed in range(30):
    captured(lambda: group_programs.program(seed, "cuda", "complex" if seed % 5 == 4 else "float"))
"""
    )
    assert compile_all(tmp_path / "cache" / "cuda") > 15


def test_every_formula_compiles_in_a_group(run: Run, tmp_path: Path) -> None:
    """Eight to a group, each group in one of the dtypes."""
    out = run(
        CAPTURED
        + """
names = sum(group_programs.DTYPES.values(), ())
def some(functions, dtype):
    x = [fa.empty(64, 96, dtype=dtype, device="cuda") for _ in range(3)]
    found = []
    for function, count in functions:
        try:
            found.append(function(*(x * 2)[:count]))
        except (RuntimeError, TypeError, ValueError):
            pass
    return found
every = group_programs.formulas()
for i in range(0, len(every), 8):
    captured(lambda: some(every[i : i + 8], getattr(fa, names[i // 8 % len(names)])))
print(len(every), fa.backends.refusals("cuda").get("group", (0,))[0])
"""
    )
    count, refused = map(int, out.split())
    assert count > 200 and refused <= count // 40
    assert compile_all(tmp_path / "cache" / "cuda") > 20


def test_a_group_is_one_launch_with_vectors(run: Run) -> None:
    run(
        CAPTURED
        + """
def f(x, y):
    t = (x + y) * 0.5
    return t.sigmoid() * x, t - y
def check(x, y, **wanted):
    (line,) = launched(lambda: captured(lambda: f(x, y)))
    assert line[0] == "facula_pointwise", line
    found = form()
    assert all(found[k] == str(v) for k, v in wanted.items()), (found, wanted)
e = lambda *s, dtype=fa.float32: fa.empty(*s, dtype=dtype, device="cuda")
check(e(64, 128), e(64, 128), FORM=0, VEC=4)
check(e(64, 128, dtype=fa.bfloat16), e(64, 128, dtype=fa.bfloat16), FORM=0, VEC=8)
check(e(64, 128), e(128), FORM=1, VEC=4, DIMS=2)
check(e(64, 128), e(64, 1), FORM=1, VEC=4, SPLATS=2)
check(e(64, 128)[:, ::2], e(64, 64), FORM=1, VEC=1)
check(e(64, 128).t(), e(64, 128).t(), FORM=0)
check(e(64, 128), fa.empty((), device="cuda"), FORM=0, SPLATS=2)
"""
    )


def test_kernels_are_built_while_calls_run(run: Run) -> None:
    """First calls launch operators, later ones the group: from the disk in a second process."""
    script = """
import time
x = fa.empty(64, 128, device="cuda")
run = fa.compile(lambda x: ((x + 1) * 2).exp())
first = launched(lambda: run(x))
for _ in range(200):
    if len(launched(lambda: run(x))) == 1:
        break
    time.sleep(0.01)
else:
    raise SystemExit("never built")
assert len(first) in (1, 3), first
"""
    run(script)
    run(script)


ROWS = """
def launched_by(program, rows, length, dtype):
    x = fa.empty(rows, length, dtype=dtype, device="cuda")
    weight = fa.empty(length, dtype=dtype, device="cuda")
    lines = launched(lambda: captured(lambda: program(x, weight)))
    return [line[0] for line in lines]
"""


def test_rows_are_one_launch(run: Run, tmp_path: Path) -> None:
    """Each function of rows, in dtypes and lengths that threads share in different ways."""
    run(
        CAPTURED
        + ROWS
        + """
for program in row_programs.PROGRAMS:
    for dtype in (fa.float32, fa.bfloat16):
        for length in (1024, 1000, 37, 4096 + 8):
            found = launched_by(program, 600, length, dtype)
            refused = fa.backends.refusals("cuda").get("group")
            assert found == ["facula_group_rows"], (program, dtype, length, found, refused)
"""
    )
    assert compile_all(tmp_path / "cache" / "cuda") >= 40


def test_long_rows_are_read_again(run: Run, tmp_path: Path) -> None:
    run(
        CAPTURED
        + ROWS
        + """
for program in row_programs.PROGRAMS:
    for length in (50257, 1 << 16):
        found = launched_by(program, 4096, length, fa.bfloat16)
        assert set(found) == {"facula_group_rows"}, (program, length, found)
"""
    )
    assert compile_all(tmp_path / "cache" / "cuda") >= 12


def test_rows_have_the_right_values(run: Run, tmp_path: Path) -> None:
    """Kernels run on the host, by threads: warps of a row, several of a block, single elements
    behind the vectors, values that are kept and rows that are read again."""
    include = tmp_path / "include"
    link_headers(include)
    run(
        CAPTURED
        + """
import numpy as np
rng = np.random.default_rng(0)
def check(program, rows, length, expected):
    x, w = (rng.normal(size=s).astype(np.float32) for s in ((rows, length), (length,)))
    given = [fa.tensor(x).to("cuda"), fa.tensor(w).to("cuda")]
    fake.fake_clear()
    found = captured(lambda: program(*given))[0].cpu().numpy()
    assert set(fake.fake_launches().decode().split()[::5]) == {"facula_group_rows"}
    np.testing.assert_allclose(found, expected(x.astype(float), w.astype(float)), 2e-5, 1e-6)
def softmax(x, w):
    e = np.exp(x * 0.125 + w)
    return e / e.sum(-1, keepdims=True)
check(row_programs.softmax, 5, 1000, softmax)
y, z = (rng.normal(size=(2, 8200)).astype(np.float32) for _ in range(2))
others = [fa.tensor(t).to("cuda") for t in (y, z)]
def of_four(x, w):                          # more than fits in registers
    scores = x * others[0] + others[1] * w
    shares = (scores - scores.amax(-1, keepdim=True)).exp()
    return [shares / shares.sum(-1, keepdim=True)]
check(of_four, 2, 8200, lambda x, w: softmax((x * y + z * w) * 8, 0))
assert "FACULA_HELD 0" in fake.fake_text().decode()
check(row_programs.rms_norm, 3, 2056,
      lambda x, w: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w)
check(row_programs.attention, 5, 96, softmax)
""",
        FAKE_CUDA_EMULATES=str(include),
    )


def test_rows_that_a_reduction_takes_in_parts_stay_apart(run: Run) -> None:
    run(
        CAPTURED
        + ROWS
        + """
found = launched_by(row_programs.softmax, 2, 1 << 20, fa.float32)
assert "facula_group_rows" not in found and "facula_reduce_parts" in found, found
assert "in parts" in fa.backends.refusals("cuda")["group"][1]
"""
    )


def test_what_is_no_row_stays_apart(run: Run) -> None:
    run(
        CAPTURED
        + """
x = fa.empty(600, 1024, device="cuda")
names = lambda f: [line[0] for line in launched(lambda: captured(f))]
assert "facula_group_rows" not in names(lambda: (x * 2).sum(0) + 1)
assert "facula_group_rows" not in names(lambda: (x * 2).mean() + 1)
assert "facula_group_rows" not in names(lambda: x.sum(-1))           # a reduction alone
assert names(lambda: x - x.sum(-1, keepdim=True)) == ["facula_group_rows"]
y = fa.empty(600, 1024, device="cuda")
def written():                       # what it reads is written to behind it
    y.sub_(y.amax(-1, keepdim=True))
    return y * 2
assert "facula_group_rows" not in names(written)
"""
    )


def test_what_does_not_compile_runs_call_by_call(run: Run) -> None:
    run(
        """
x = fa.empty(64, 128, device="cuda")
run = fa.compile(lambda x: ((x + 1) * 2).exp(), wait=True)
(x + 1) * 2, x.exp()
fake.fake_refuse(1)
assert len(launched(lambda: run(x))) == 3
fake.fake_refuse(0)
assert len(launched(lambda: run(x))) == 3                        # it is not tried again
calls, reason = fa.backends.refusals("cuda")["group"]
assert calls == 2 and "failed" in reason, reason
""",
    )


def test_casts_are_steps_of_a_group(run: Run) -> None:
    """In one launch; without the kernel, in one each, at the places where they were called."""
    run(
        CAPTURED
        + """
x = fa.empty(64, 128, dtype=fa.bfloat16, device="cuda")
def norm(to):
    y = ((x.float() + 1) * 2).to(to)
    return y, y.double() - 1
assert len(launched(lambda: captured(lambda: norm(fa.bfloat16)))) == 1
alone = len(launched(lambda: norm(fa.float16)))
fake.fake_refuse(1)
refused = len(launched(lambda: captured(lambda: norm(fa.float16))))
fake.fake_refuse(0)
assert refused == alone == 6, (refused, alone)
""",
    )


def test_a_full_disk_does_no_harm(run: Run, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "cuda").write_text("a file where the folder should be")
    run(
        """
x = fa.empty(64, 128, device="cuda")
run = fa.compile(lambda x: ((x + 1) * 2).exp(), wait=True)
assert len(launched(lambda: run(x))) == len(launched(lambda: run(x))) == 1
"""
    )


def test_a_process_may_end_while_kernels_are_built(run: Run) -> None:
    run(
        """
x = fa.empty(64, 128, device="cuda")
for i in range(20):
    fa.compile(lambda x: [(x + 1) * 2 if i >> b & 1 else (x * 2).exp() for b in range(5)])(x)
"""
    )
