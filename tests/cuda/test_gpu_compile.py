"""`facula.compile` on a GPU: the bits of eager calls, whatever the groups. `pytest -m cuda`.

The oracle is facula itself run eagerly on the same GPU, which other tests hold against NumPy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import facula as fa
import group_programs
import numpy as np
import pytest
import row_programs
from facula import _C, backends
from facula.testing._calls import arguments
from facula.testing._samples import OpRecord

pytestmark = pytest.mark.cuda
WIDE = {2: fa.int16, 4: fa.int32, 8: fa.int64}
PROGRAMS = [(c, range(at, at + 20)) for at in (0, 20) for c in ("float", "complex")]
SAMPLED = ["float32", "bfloat16"]


def elements(t: fa.Tensor) -> np.ndarray:
    """Bits, with one NaN for all: which of them an operation gives is nobody's promise."""
    t = t.detach()
    if t.is_complex():
        t = fa.view_as_real(t.resolve_conj())
    nan = t != t
    t = t.contiguous()
    found = np.asarray((t.view(WIDE[t.itemsize]) if t.is_floating_point() else t).cpu().numpy())
    return np.where(nan.cpu().numpy(), -1, found) if t.is_floating_point() else found


def assert_same(a: Any, b: Any, where: str = "") -> None:
    assert len(a) == len(b), where
    for x, y in zip(a, b, strict=True):
        assert (x.shape, x.stride(), x.dtype) == (y.shape, y.stride(), y.dtype), where
        np.testing.assert_array_equal(elements(x), elements(y), where)


def captured(function: Callable[[], Any], check: bool = False) -> Any:
    with _C._Capture(False, check, False, True):
        return function()


def refused() -> tuple[int, str]:
    return backends.refusals("cuda").get("group", (0, ""))


def build(share: int, shares: int) -> None:
    """Runs a share of the cases that need many kernels, as the tests do, which leaves those on the
    disk. What is wrong with the results is the tests' affair."""
    for number, case in enumerate(cases()):
        if number % shares == share:
            case()
            captured(case)


def cases() -> Iterator[Callable[[], Any]]:
    for class_, part in PROGRAMS:
        for seed in part:
            yield lambda s=seed, c=class_: group_programs.program(s, "cuda", c)
    for dtype in SAMPLED:
        for op, index in samples():
            yield lambda o=op, i=index, d=dtype: outcome(o, i, d)


@pytest.fixture(scope="module")
def kernels() -> Iterator[None]:
    """Thousands of kernels, which a process builds one after another: several do it at a time."""
    shares = min(14, max(1, (os.cpu_count() or 1) - 2))
    code = "import sys; sys.path[:0] = sys.argv[3:]; import test_gpu_compile as t; "
    code += "t.build(int(sys.argv[1]), int(sys.argv[2]))"
    path = [str(Path(__file__).parent), *filter(None, sys.path)]
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(i), str(shares), *path],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )
        for i in range(shares)
    ]  # fmt: skip
    try:
        for worker in workers:
            _, errors = worker.communicate(timeout=300)
            assert worker.returncode == 0, errors[-3000:]
    finally:
        for worker in workers:
            worker.kill()
    yield


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize(("class_", "seeds"), PROGRAMS)
def test_random_programs(class_: str, seeds: range) -> None:
    for seed in seeds:
        eager = group_programs.program(seed, "cuda", class_)
        found = captured(lambda s=seed: group_programs.program(s, "cuda", class_))
        assert_same(eager, found, f"program {seed} {class_}")


def samples() -> Iterator[tuple[OpRecord, int]]:
    for op in group_programs.with_formula():
        if not op.dtypes or "float" in op.dtypes:
            yield from ((op, index) for index in range(min(2, len(op.data["samples"]))))


@pytest.mark.usefixtures("kernels")
@pytest.mark.parametrize("dtype", SAMPLED)
def test_samples(dtype: str) -> None:
    """Each operator with a formula on its samples, after and before another one."""
    wrong, compared = [], 0
    for op, index in samples():
        eager = outcome(op, index, dtype)
        found = captured(lambda o=op, i=index: outcome(o, i, dtype))
        if isinstance(eager, str) or isinstance(found, str):
            wrong += [f"{op.name}: {found}"] if eager != found else []
            continue
        compared += 1
        try:
            assert_same(eager, found)
        except AssertionError as error:
            wrong.append(f"{op.name} {op.data['samples'][index]}: {str(error)[:300]}")
    assert not wrong, "\n".join(wrong[:20])
    assert compared > 150


def outcome(op: OpRecord, index: int, dtype: str) -> list[fa.Tensor] | str:
    """Results and what is made of them, or the error."""
    _, given, named = arguments(op.sample(index), dtype)
    function = op.function()
    assert function is not None
    try:
        found = function(*map(moved, given), **{k: moved(v) for k, v in named.items()})
        found = [found] if isinstance(found, fa.Tensor) else list(found)
        return found + [f * 0.5 for f in found if f.is_floating_point()]
    except (RuntimeError, TypeError, ValueError) as error:
        return str(error)


def moved(v: Any) -> Any:
    """On the GPU, floats as results that nothing has computed yet."""
    if isinstance(v, fa.Tensor):
        v = v.to("cuda")
        return v * 1 if v.is_floating_point() else v
    return type(v)(map(moved, v)) if isinstance(v, list | tuple) else v


@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16, fa.float16, fa.float64])
@pytest.mark.parametrize("size", [1, 1000, (1 << 20) + 3])
def test_products_and_sums_are_not_contracted(dtype: fa.dtype, size: int) -> None:
    x, y = (fa.randn(size, device="cuda").to(dtype) for _ in range(2))

    def run() -> list[fa.Tensor]:
        t = x * y
        return [t + x, t * 0.3 - y, fa.nn.functional.gelu(t + x), fa.nn.functional.silu(t) * y]

    before = refused()
    assert_same(run(), captured(run))
    assert refused() == before


def test_casts_join() -> None:
    """RMSNorm in bfloat16: the casts are part of the groups around its reduction."""
    x = fa.randn(512, 1000, device="cuda").bfloat16()
    weight = fa.randn(1000, device="cuda").bfloat16()

    def norm() -> list[fa.Tensor]:
        wide = x.float()
        scale = ((wide * wide).mean(-1, keepdim=True) + 1e-6).rsqrt()
        made = (wide * scale).to(x.dtype)
        return [made * weight, (x.half() * 3).bfloat16().double(), x.t().float() + 1]

    before = refused()
    assert_same(norm(), captured(norm))
    assert refused() == before


@pytest.mark.parametrize("program", row_programs.PROGRAMS)
@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16, fa.float16])
def test_rows(program: Callable[..., list[fa.Tensor]], dtype: fa.dtype) -> None:
    """One kernel of several reductions has the bits of each alone."""
    for rows, length in ((600, 1024), (33, 1000), (700, 37), (64, 4104), (2000, 8), (600, 20001)):
        x = (fa.randn(rows, length, device="cuda") * 3).to(dtype)
        weight = fa.randn(length, device="cuda").to(dtype)
        x[3, 5] = float("nan")
        x[4, 1] = float("inf")
        before = refused()
        assert_same(
            program(x, weight), captured(lambda x=x, w=weight: program(x, w)), f"{rows} {length}"
        )
        assert refused() == before


def test_rows_of_views() -> None:
    """Operands that lie in other ways than the result, rows over several dims, one over several."""
    x = fa.randn(12, 9, 40, 16, device="cuda")
    mask = fa.randn(9, 1, 16, device="cuda")

    def run() -> list[fa.Tensor]:
        made = x.transpose(0, 1).contiguous() * 0.5
        scores = made + mask.unsqueeze(1)
        away = scores - scores.amax((-2, -1), keepdim=True)
        total = away.exp().sum([-2, -1], keepdim=True)
        y = x[..., 1:9] * 2 + 1
        return [away.exp() / total, y - y.mean(-1, keepdim=True), (y * 3).sum(-1) + 1]

    before = refused()
    assert_same(run(), captured(run))
    assert refused() == before


def test_a_chain_over_a_view() -> None:
    x = fa.randn(1 << 16, device="cuda")

    def chain(x: fa.Tensor) -> fa.Tensor:
        return ((x * 2 + 1).relu() - x).exp()

    run = fa.compile(chain, wait=True)
    for t in (x, x[1:], x[::2], x.reshape(256, 256).t(), x[:1].expand(1000)):
        assert_same([chain(t)], [run(t)])


def test_built_in_the_background() -> None:
    """Calls run eagerly until the kernel is there."""
    scale = time.time() % 1  # no group of an earlier run
    x = fa.randn(3, 1001, device="cuda")
    run = fa.compile(lambda x: (x * scale + 1).tanh().sigmoid().erf() * x)
    expected = run.__wrapped__(x)
    for _ in range(20):
        assert_same([expected], [run(x)])
        time.sleep(0.05)


def test_streams() -> None:
    x = fa.ones(1 << 22, device="cuda")
    side = fa.cuda.Stream()

    @fa.compile(wait=True)
    def run(x: fa.Tensor) -> fa.Tensor:
        y = x * 2 + 1
        event = fa.cuda.current_stream().record_event()
        with side:
            side.wait_event(event)
            z = y * 3 + x
            done = side.record_event()
        fa.cuda.current_stream().wait_event(done)
        return z + y

    for _ in range(5):
        y = run(x)
        assert (y == 13).all().item()


def test_in_place_and_views() -> None:
    def run() -> list[fa.Tensor]:
        fa.manual_seed(3)
        x = fa.randn(64, 96, device="cuda")
        w = x[:, 1:]
        y = x * 2
        x.add_(1).mul_(y)
        w.sub_(0.5)
        y[0] = 7
        z = fa.rand_like(x) + x.t().contiguous().t()
        out = fa.empty_like(x)
        fa.add(z, y, out=out)
        return [x, w, y, z, out, x.t() + 1]

    assert_same(run(), captured(run))


def test_graphs() -> None:
    x = fa.ones(1000, device="cuda")
    run = fa.compile(lambda x: (x * 2 + 1) * x, wait=True)
    run(x)
    graph = fa.cuda.Graph()
    fa.cuda.synchronize()
    with graph.capture():
        y = run(x)
    x.fill_(3)
    graph.replay()
    assert (y == 21).all().item()


def test_training_step() -> None:
    """A step with autocast and an optimizer: parameters bit for bit."""

    def train(compiled: bool) -> list[fa.Tensor]:
        fa.manual_seed(0)
        layers = [fa.nn.Linear(64, 256), fa.nn.GELU(), fa.nn.LayerNorm(256), fa.nn.Linear(256, 8)]
        model = fa.nn.Sequential(*layers).to("cuda")
        optimizer = fa.optim.AdamW(model.parameters(), lr=1e-2)
        x = fa.randn(512, 64).to("cuda")

        def step() -> None:
            optimizer.zero_grad()
            with fa.autocast("cuda", dtype=fa.bfloat16):
                loss = model(x).float().square().mean()
            loss.backward()
            optimizer.step()

        run = fa.compile(step, wait=True) if compiled else step
        for _ in range(3):
            run()
        return [p.detach() for p in model.parameters()]

    assert_same(train(False), train(True))


def test_errors_come_from_their_line() -> None:
    x, y = fa.ones(3, device="cuda"), fa.ones(4, device="cuda")
    run = fa.compile(lambda: (x * 2) + y)
    with pytest.raises(RuntimeError, match="they differ at dim 0"):
        run()
    with pytest.raises(RuntimeError, match="must be on one device"):
        fa.compile(lambda: x * 2 + fa.ones(3))()
