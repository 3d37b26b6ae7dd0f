"""facula.amp.GradScaler: how its scale goes, skipped steps, errors of misuse as torch's."""

from __future__ import annotations

import pickle
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import optim
from facula.amp import GradScaler

# Of matrices alone, and with a closure, are those at the end; sparse gradients there are none.
OTHERS = {"Optimizer", "Muon", "LBFGS", "SparseAdam"}
OPTIMIZERS = sorted({n for n in optim.__all__ if isinstance(getattr(optim, n), type)} - OTHERS)


def leaf(values: Any, **options: Any) -> Any:
    return fa.tensor(values, requires_grad=True, **options)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_without_a_scale(name: str) -> None:
    """A power of two as the scale changes no bit."""

    def train(scaler: Any) -> list[Any]:
        p, q = leaf([1.0, -2.0]), leaf([[0.5]])
        optimizer = getattr(optim, name)([p, q], lr=0.125)
        for k in range(4):
            optimizer.zero_grad()
            loss = (p * p).sum() * (k + 1) + q.sum() * 3
            if scaler is None:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
        return [p.tolist(), q.tolist()]

    assert train(GradScaler("cpu", init_scale=2.0**10)) == train(None)


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
@pytest.mark.parametrize("place", [0, 3, 1000])
def test_a_step_with_infinities_is_skipped(bad: float, place: int) -> None:
    p, q = leaf([1.0]), fa.ones(1001, requires_grad=True)
    optimizer = optim.Adam([p, q], lr=0.5)
    scaler = GradScaler("cpu", init_scale=8.0)
    scaler.scale(p.sum() + q.sum()).backward()
    q.grad[place] = bad
    assert scaler.step(optimizer) is None
    scaler.update()
    assert p.item() == 1 and not optimizer.state and scaler.get_scale() == 4.0
    optimizer.zero_grad()
    scaler.scale(p.sum() + q.sum()).backward()
    assert p.grad.item() == 4.0
    scaler.step(optimizer)
    assert p.grad.item() == 1.0 and p.item() == pytest.approx(0.5)


def test_growth() -> None:
    p = leaf([1.0])
    optimizer = optim.SGD([p], lr=0.0)
    scaler = GradScaler("cpu", init_scale=4.0, growth_factor=3.0, growth_interval=2)
    scales = []
    for k in range(7):
        optimizer.zero_grad()
        scaler.scale(p.sum() * (float("inf") if k == 3 else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append((scaler.get_scale(), scaler._get_growth_tracker()))
    assert scales == [(4, 1), (12, 0), (12, 1), (6, 0), (6, 1), (18, 0), (18, 1)]


def test_the_scale_does_not_grow_to_infinity() -> None:
    p = leaf([0.0])
    optimizer = optim.SGD([p], lr=0.0)
    scaler = GradScaler("cpu", init_scale=2.0**127, growth_interval=1)
    p.grad = fa.zeros(1)
    scaler.scale(fa.zeros(()))
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127 and scaler._get_growth_tracker() == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64", "complex128"])
def test_gradients_of_any_dtype_and_layout(dtype: str) -> None:
    kind = getattr(fa, dtype)
    wide = fa.arange(24.0).reshape(4, 6).to(kind)
    grads = [wide.clone(), wide.clone().t(), wide.clone()[:, ::2], wide.clone()[1], wide[:0]]
    params = [fa.zeros_like(g).requires_grad_() for g in grads]
    for p, g in zip(params, grads, strict=True):
        p.grad = g
    scaler = GradScaler("cpu", init_scale=4.0)
    scaler.scale(fa.ones(()))
    scaler.unscale_(optim.SGD(params, lr=0.1))
    for p, g in zip(params, [wide, wide.t(), wide[:, ::2], wide[1], wide[:0]], strict=True):
        np.testing.assert_array_equal(np.array(p.grad.tolist()), np.array(g.tolist()) / 4)


def test_unscale_lets_gradients_be_clipped() -> None:
    p = leaf([3.0, 4.0])
    optimizer = optim.SGD([p], lr=1.0)
    scaler = GradScaler("cpu")
    scaler.scale((p * p).sum() / 2).backward()
    scaler.unscale_(optimizer)
    assert fa.nn.utils.clip_grad_norm_([p], 1.0).item() == pytest.approx(5.0)
    scaler.step(optimizer)
    assert p.tolist() == pytest.approx([2.4, 3.2])


def test_several_losses_and_optimizers() -> None:
    p, q = leaf([1.0]), leaf([1.0])
    first, second = optim.SGD([p], lr=1.0), optim.SGD([q], lr=1.0)
    scaler = GradScaler("cpu", init_scale=2.0)
    a, (b,) = scaler.scale((p.sum(), [q.sum() * float("nan")]))
    assert next(iter(scaler.scale(x for x in [fa.ones(())]))).item() == 2.0
    a.backward()
    b.backward()
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert p.item() == 0.0 and q.item() == 1.0 and scaler.get_scale() == 1.0


def test_float16_training() -> None:
    """Gradients of 1e-8 vanish in float16; scaled they arrive."""
    x = fa.full((4, 4), 2.0**-4)

    def gradient(scaler: Any) -> float:
        w = fa.full((4, 4), 2.0**-4, requires_grad=True)
        with fa.autocast("cpu", dtype=fa.float16):
            loss = (x @ w).float().sum() * 2.0**-26
        (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None:
            scaler.unscale_(optim.SGD([w], lr=0.1))
        return w.grad[0, 0].item()

    assert gradient(None) == 0.0
    assert gradient(GradScaler("cpu")) == pytest.approx(2.0**-28)


def test_misuse() -> None:
    p = leaf([1.0])
    optimizer = optim.SGD([p], lr=1.0)
    scaler = GradScaler("cpu")
    for call in (scaler.step, scaler.unscale_):
        with pytest.raises(AssertionError, match=r"_scale is None.*scaler.scale"):
            call(optimizer)
    with pytest.raises(AssertionError, match="Attempted update but _scale is None"):
        scaler.update()
    scaler.scale(p.sum())
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)
    scaler = GradScaler("cpu")
    scaler.scale(p.sum()).backward()
    with pytest.raises(AssertionError, match="No inf checks were recorded prior to update"):
        scaler.update()
    with pytest.raises(RuntimeError, match="Closure use is not currently supported"):
        scaler.step(optimizer, closure=lambda: None)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_.. has already been called"):
        scaler.unscale_(optimizer)
    with pytest.raises(AssertionError, match="may only be pickled"):
        pickle.dumps(scaler)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step.. has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_.. is being called after step"):
        scaler.unscale_(optimizer)
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3.0)
    with pytest.raises(AssertionError, match="growth factor must be > 1"):
        GradScaler("cpu", growth_factor=1.0)
    with pytest.raises(AssertionError, match="backoff factor must be < 1"):
        GradScaler("cpu", backoff_factor=1.0)
    half = leaf([1.0], dtype=fa.float16)
    half.grad = fa.ones(1, dtype=fa.float16)
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(optim.SGD([half], lr=0.1))
    with pytest.raises(AssertionError, match="new_scale should be a float"):
        scaler.update(fa.ones(2))


def test_setting_the_scale() -> None:
    p = leaf([1.0])
    scaler = GradScaler("cpu")
    scaler.scale(p.sum()).backward()
    scaler.update(16.0)
    assert scaler.get_scale() == 16.0
    scaler.update(fa.tensor([32.0]))
    assert scaler.get_scale() == 32.0
    scaler.set_growth_factor(4.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(3)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor()) == (4.0, 0.25)
    assert scaler.get_growth_interval() == 3


def test_saving() -> None:
    p = leaf([1.0])
    optimizer = optim.SGD([p], lr=0.1)
    scaler = GradScaler("cpu", init_scale=4.0, growth_interval=5)
    scaler.scale(p.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    state = scaler.state_dict()
    assert state == {
        "scale": 4.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 5,
        "_growth_tracker": 1,
    }  # fmt: skip
    other = GradScaler("cpu")
    other.load_state_dict(state)
    assert other.state_dict() == state
    other.scale(p.sum())
    assert other.state_dict() == state
    other.load_state_dict({**state, "scale": 2.0})
    assert other.get_scale() == 2.0
    assert pickle.loads(pickle.dumps(scaler)).state_dict() == state
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        other.load_state_dict({})


def test_disabled() -> None:
    p = leaf([1.0])
    optimizer = optim.SGD([p], lr=1.0)
    scaler = GradScaler("cpu", enabled=False)
    loss = p.sum()
    assert scaler.scale(loss) is loss and not scaler.is_enabled()
    loss.backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    scaler.load_state_dict({})
    assert p.item() == 0.0 and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    with pytest.warns(UserWarning, match="there is no nowhere device. Disabling"):
        assert not GradScaler("nowhere").is_enabled()
