"""CUDA on a GPU: `pytest -m cuda`. Oracles are NumPy and the numbers of the CPU's generator."""

from __future__ import annotations

import os
import subprocess
import sys

import facula as fa
import numpy as np
import pytest
from facula import backends, nn, optim

pytestmark = pytest.mark.cuda
RNG = np.random.default_rng(7)


def on_gpu(array: np.ndarray, dtype: fa.dtype = fa.float32) -> fa.Tensor:
    return fa.tensor(array.tolist()).to(dtype).to("cuda")


def values(t: fa.Tensor) -> np.ndarray:
    t = t.detach().cpu()
    return np.array((t.to(fa.float32) if t.is_floating_point() else t).tolist())


@pytest.mark.parametrize("shape", [(1,), (33,), (64, 65), (257, 129), (3, 70, 66), (1000, 1001)])
def test_layouts(shape: tuple[int, ...]) -> None:
    a = RNG.standard_normal(shape).astype(np.float32)
    x = on_gpu(a)
    for dtype, tolerance in ((fa.float32, 0), (fa.bfloat16, 0.01), (fa.float16, 0.002)):
        y = x.to(dtype)
        np.testing.assert_allclose(values(y.flip([0])), a[::-1], tolerance, tolerance)
        np.testing.assert_allclose(values(y + y), 2 * a, tolerance, tolerance)
        if len(shape) > 1:
            turned = y.transpose(-1, -2).contiguous()
            np.testing.assert_allclose(values(turned), a.swapaxes(-1, -2), tolerance, tolerance)
            np.testing.assert_allclose(
                values(y + y[..., :1]), a + a[..., :1], 2 * tolerance, 4 * tolerance
            )
            np.testing.assert_allclose(values(y[..., 1::2] * 1), a[..., 1::2], tolerance, tolerance)
            both = turned + y.transpose(-1, -2)
            np.testing.assert_allclose(
                values(both), 2 * a.swapaxes(-1, -2), tolerance, 2 * tolerance
            )


@pytest.mark.parametrize("shape", [(5, 7), (1, 100_003), (100_003, 1), (3000, 17), (17, 3000)])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_reductions(shape: tuple[int, int], dim: int | None) -> None:
    a = RNG.standard_normal(shape).astype(np.float32)
    x = on_gpu(a)
    given = () if dim is None else (dim,)
    np.testing.assert_allclose(values(x.sum(*given)), a.sum(dim, dtype=np.float64), 1e-3, 1e-2)
    np.testing.assert_allclose(values(x.mean(*given)), a.mean(dim, dtype=np.float64), 1e-3, 1e-4)
    np.testing.assert_array_equal(values(x.amax(*given)), a.max(dim))
    np.testing.assert_array_equal(values(x.argmin(*given)), a.argmin(dim))
    np.testing.assert_array_equal(values((x > 3).any(*given)), (a > 3).any(dim))
    if a.shape[dim or 0] > 1:
        np.testing.assert_allclose(values(x.var(*given)), a.var(dim, ddof=1), 1e-3, 1e-4)
    again = x.sum(*given)
    assert (again == x.sum(*given)).all().item()  # the same bits


@pytest.mark.parametrize("n", [1, 63, 64, 65, 1024, 1025, 5000, 70_001])
def test_sort_and_scan(n: int) -> None:
    a = RNG.integers(-50, 50, n)
    x = on_gpu(a, fa.int64)
    np.testing.assert_array_equal(values(x.sort(stable=True).indices), a.argsort(kind="stable"))
    np.testing.assert_array_equal(values(x.sort(descending=True).values), np.sort(a)[::-1])
    np.testing.assert_array_equal(values(x.cumsum(0)), a.cumsum())
    np.testing.assert_array_equal(values(x.nonzero()), np.argwhere(a))
    f = on_gpu(a / 7.0)
    np.testing.assert_allclose(values(f.sort().values), np.sort(a / 7.0), 1e-6)


@pytest.mark.parametrize("dtype", [fa.float32, fa.bfloat16, fa.float16, fa.float64])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 5, 3), (128, 64, 256), (33, 1, 65)])
def test_products(dtype: fa.dtype, sizes: tuple[int, int, int]) -> None:
    m, k, n = sizes
    a, b = RNG.standard_normal((m, k)), RNG.standard_normal((k, n))
    x, y = on_gpu(a, dtype), on_gpu(b, dtype)
    tolerance = {fa.bfloat16: 0.3, fa.float16: 0.05}.get(dtype, 1e-4)
    for left in (x, x.t().contiguous().t()):
        for right in (y, y.t().contiguous().t()):
            np.testing.assert_allclose(values(left @ right), a @ b, tolerance, tolerance)
    bias = on_gpu(b[0], dtype)
    np.testing.assert_allclose(
        values(nn.functional.linear(x, y.t(), bias)), a @ b + b[0], tolerance, tolerance
    )
    np.testing.assert_allclose(
        values(fa.addmm(bias, x, y, beta=2, alpha=0.5)), 2 * b[0] + a @ b / 2, tolerance, tolerance
    )


@pytest.mark.parametrize(
    "draw",
    [
        lambda d: fa.rand(1000, device=d),
        lambda d: fa.randn(1001, device=d),
        lambda d: fa.randn(77, device=d, dtype=fa.float64),
        lambda d: fa.randn(31, 2, device=d, dtype=fa.complex64),
        lambda d: fa.rand(130, device=d, dtype=fa.bfloat16),
        lambda d: fa.randint(0, 1 << 40, (99,), device=d),
        lambda d: fa.randperm(5000, device=d),
        lambda d: fa.empty(99, device=d).exponential_(2),
        lambda d: fa.empty(6, 50, device=d).t().uniform_(-1, 3),
        lambda d: fa.bernoulli(fa.full((500,), 0.3, device=d)),
        lambda d: fa.poisson(fa.full((500,), 30.0, device=d)),
        lambda d: fa.binomial(fa.full((500,), 30.0, device=d), fa.full((500,), 0.4, device=d)),
    ],
)
def test_random_numbers_are_those_of_the_cpu(draw) -> None:
    fa.manual_seed(11)
    fa.cuda.manual_seed_all(11)
    here, there = draw("cpu"), draw("cuda").cpu()
    assert (here == there).all().item()


def test_indexing() -> None:
    a = RNG.standard_normal((50, 8)).astype(np.float32)
    at = RNG.integers(-50, 50, 1000)
    x, i = on_gpu(a), on_gpu(at, fa.int64)
    np.testing.assert_array_equal(values(x[i]), a[at])
    np.testing.assert_array_equal(values(x[i, i % 8]), a[at, at % 8])
    rows = RNG.standard_normal((1000, 8)).astype(np.float32)
    x[i] = on_gpu(rows)
    a[at] = rows  # of several the last
    np.testing.assert_array_equal(values(x), a)
    x.index_put_((i,), on_gpu(rows), accumulate=True)
    np.add.at(a, at, rows)
    np.testing.assert_allclose(values(x), a, 1e-4, 1e-4)


def test_errors_leave_the_device_alive() -> None:
    x = fa.arange(10, device="cuda")
    with pytest.raises(IndexError, match="1000"):
        x[fa.tensor([1000], device="cuda")].cpu()
    with pytest.raises(ZeroDivisionError):
        (x // (x - x)).cpu()
    with pytest.raises(fa.OutOfMemoryError, match="free"):
        fa.empty(1 << 46, device="cuda")
    assert x.sum().item() == 45


def in_process(script: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "import facula as fa\n" + script],
        capture_output=True, text=True, check=False, env={**os.environ, **variables},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_sync_shows_the_operator() -> None:
    script = (
        "x = fa.arange(3, device='cuda')\n"
        "try: x[fa.tensor([9], device='cuda')]\nexcept IndexError as e: print(e)"
    )
    assert "index_long" in in_process(script, FACULA_CUDA_SYNC="1")


def test_segments_expand() -> None:
    """Memory mapped behind addresses: it grows in place, is given back and serves graphs."""
    script = """
import random
MiB = 1 << 20
kept = []
for mib in range(30, 400, 7):  # each larger than the one before
    x = fa.full((mib << 18,), float(mib), device="cuda")
    kept.append((mib, x[: 1 << 18].clone()))
    del x
assert fa.cuda.memory_reserved() < 480 * MiB, fa.cuda.memory_stats()
assert all((t == mib).all().item() for mib, t in kept)
del kept
held, rng, streams = {}, random.Random(3), [fa.cuda.default_stream(), fa.cuda.Stream()]
for turn in range(300):
    with streams[turn % 2]:
        if rng.random() < 0.45 and turn - 2 in held:
            assert (held.pop(turn - 2) == turn - 2).all().item()
        else:
            held[turn] = fa.full((int(2 ** rng.uniform(0, 24)),), float(turn), device="cuda")
    if turn % 40 == 39:
        fa.cuda.empty_cache()
for turn, t in held.items():
    with streams[turn % 2]:
        assert (t == turn).all().item()
del held, t
x, graph = fa.ones(1000, 1000, device="cuda"), fa.cuda.Graph()
fa.cuda.synchronize()
with graph.capture():
    y = (x @ x).sum()
    fa.cuda.empty_cache()
graph.replay()
fa.cuda.synchronize()
assert abs(y.item() - 1e9) < 1e4
graph.reset()
p = fa.arange(1e6).pin_memory().to("cuda", non_blocking=True)
assert p.cpu()[-1].item() == 999999
del x, y, p
fa.cuda.empty_cache()
print(fa.cuda.memory_reserved() // MiB)
"""
    # what is left is the workspace of products
    assert int(in_process(script, FACULA_DEVICE_EXPANDABLE="1")) <= 64


def test_streams_graphs_and_pinned_memory() -> None:
    a = RNG.standard_normal(1000).astype(np.float32)
    x, total = on_gpu(a), fa.zeros(1000, device="cuda")
    side = fa.cuda.Stream()
    side.wait_stream(fa.cuda.current_stream())
    with side:
        y = x * 3
    fa.cuda.current_stream().wait_stream(side)
    np.testing.assert_allclose(values(y), 3 * a, 1e-6)
    graph = fa.cuda.Graph()
    with graph.capture():
        total += x
    for _ in range(3):
        graph.replay()
    fa.cuda.synchronize()
    np.testing.assert_allclose(values(total), 3 * a, 1e-6)
    pinned = fa.tensor(a.tolist()).pin_memory()
    np.testing.assert_array_equal(values(pinned.to("cuda", non_blocking=True)), a)


def test_training_matches_the_cpu() -> None:
    losses = []
    for device in ("cpu", "cuda"):
        fa.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 3))
        model.to(device)
        x, t = fa.randn(64, 8).to(device), fa.randint(0, 3, (64,)).to(device)
        step = optim.AdamW(model.parameters(), lr=1e-2)
        trace = []
        for _ in range(20):
            step.zero_grad()
            loss = nn.functional.cross_entropy(model(x), t)
            loss.backward()
            step.step()
            trace.append(loss.item())
        losses.append(trace)
    np.testing.assert_allclose(losses[1], losses[0], 1e-3)
    assert losses[1][-1] < 0.7 * losses[1][0]


def test_nothing_runs_on_the_cpu() -> None:
    backends.reset_fallbacks("cuda")
    x = fa.randn(4, 3, 8, 8, device="cuda", requires_grad=True)
    conv = nn.Conv2d(3, 5, 3, padding=1)
    conv.to("cuda")
    conv(x).relu().mean().backward()
    assert backends.fallbacks("cuda") == {}


def test_memory_is_shared_with_torch() -> None:
    torch = pytest.importorskip("torch")
    theirs = torch.arange(12.0, device="cuda").reshape(3, 4).t()
    x = fa.from_dlpack(theirs)
    assert x.device == fa.device("cuda:0") and x.data_ptr() == theirs.data_ptr()
    x *= 2
    assert theirs.sum().item() == 132 and x.stride() == theirs.stride()
    back = torch.from_dlpack(x)
    assert back.data_ptr() == theirs.data_ptr() and back.is_cuda
    side, total = torch.cuda.Stream(), torch.zeros(1 << 20, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        for _ in range(100):
            total += 1
        ours = fa.from_dlpack(total)
    assert (ours.sum() / ours.numel()).item() == 100
    del theirs, back, total
    assert x.sum().item() == 132
    assert torch.from_dlpack(fa.ones(3, device="cuda", dtype=fa.bfloat16)).dtype == torch.bfloat16
