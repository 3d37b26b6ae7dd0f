"""`facula.compile` on a GPU: the bits of eager calls, whatever the groups. `pytest -m cuda`.

The oracle is facula itself run eagerly on the same GPU, which other tests hold against NumPy.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import facula as fa
import group_programs
import numpy as np
import pytest
from facula import _C, backends
from facula.testing._calls import arguments
from facula.testing._samples import OpRecord

pytestmark = pytest.mark.cuda
WIDE = {2: fa.int16, 4: fa.int32, 8: fa.int64}


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


@pytest.mark.parametrize("class_", ["float", "complex"])
@pytest.mark.parametrize("part", range(3))
def test_random_programs(part: int, class_: str) -> None:
    for seed in range(part * 25, part * 25 + 25):
        eager = group_programs.program(seed, "cuda", class_)
        found = captured(lambda s=seed: group_programs.program(s, "cuda", class_))
        assert_same(eager, found, f"program {seed} {class_}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_samples(dtype: str) -> None:
    """Each operator with a formula on its samples, after and before another one."""
    wrong, compared = [], 0
    for op in group_programs.with_formula():
        if op.dtypes and "float" not in op.dtypes:
            continue
        for index in range(min(2, len(op.data["samples"]))):
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
