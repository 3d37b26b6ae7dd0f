"""Checkpointed functions within function transforms, in any nesting: the numbers of plain ones."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.autograd import forward_ad
from facula.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from facula.utils import checkpoint as ck
from facula.utils.checkpoint import checkpoint

REENTRANT = pytest.mark.parametrize("reentrant", [True, False])


def rng(*shape: int, seed: int = 0) -> fa.Tensor:
    return fa.tensor(np.random.default_rng(seed).standard_normal(shape))


def leaves(tree: Any) -> list[Any]:
    return fa.utils._pytree.tree_flatten(tree)[0]


def same(a: Any, b: Any) -> None:
    a, b = leaves(a), leaves(b)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert fa._C._level_of(x) is None
        np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol=1e-10, atol=1e-12)


def inner(x: fa.Tensor) -> fa.Tensor:
    made = x.new_zeros(3)
    made[1:] = x[:2] * 3  # memory of its own, which it fills
    return ((x.exp() * x + made).sin() * x.tanh()).cumsum(0)


def written(x: fa.Tensor) -> fa.Tensor:
    y = x * 2
    y.mul_(x).add_(1)
    return y.sin()


def ordered(x: fa.Tensor) -> fa.Tensor:
    """Operators whose tangents come by two backward passes."""
    y = x.sin().sort()[0]
    return (y * x.cummax(0)[0] + y.max()).cumprod(0)


FUNCTIONS = {"inner": inner, "written": written, "ordered": ordered}
# What a transform makes of f: of (3) to (3).
NESTINGS: dict[str, Callable[[Any], Callable[[Any], Any]]] = {
    "grad": lambda f: grad(lambda x: f(x).sum()),
    "grad grad": lambda f: grad(lambda x: grad(lambda y: f(y).sum())(x).square().sum()),
    "grad grad grad": lambda f: grad(
        lambda x: grad(lambda y: grad(lambda z: f(z).sum())(y).square().sum())(x).sum()
    ),
    "vmap": lambda f: lambda x: vmap(f)(fa.stack([x, x * 2])),
    "vmap grad": lambda f: lambda x: vmap(grad(lambda y: f(y).sum()))(fa.stack([x, x * 2])),
    "grad vmap": lambda f: grad(lambda x: vmap(f)(fa.stack([x, x * 2])).square().sum()),
    "grad vmap grad": lambda f: grad(
        lambda x: vmap(grad(lambda y: f(y).sum()))(fa.stack([x, x * 2])).square().sum()
    ),
    "vmap vmap grad": lambda f: (
        lambda x: vmap(vmap(grad(lambda y: f(y).sum())))(
            fa.stack([x, x * 2, x * 3, x * 4]).reshape(2, 2, 3)
        )
    ),
    "jvp": lambda f: lambda x: jvp(f, (x,), (x.cos(),)),
    "jvp grad": lambda f: lambda x: jvp(grad(lambda y: f(y).sum()), (x,), (x.cos(),)),
    "grad jvp": lambda f: grad(lambda x: jvp(f, (x,), (x.cos(),))[1].square().sum()),
    "vjp": lambda f: lambda x: vjp(f, x)[1](x.cos()),
    "vjp twice": lambda f: lambda x: (lambda back: (back(x), back(x.cos())))(vjp(f, x)[1]),
    "linearize": lambda f: lambda x: linearize(f, x)[1](x.cos()),
    "jacrev": jacrev,
    "jacrev chunks": lambda f: jacrev(f, chunk_size=2),
    "jacfwd": jacfwd,
    "hessian": lambda f: hessian(lambda x: f(x).square().sum()),
    "jacrev jacrev": lambda f: jacrev(jacrev(f)),
    "jacrev jacfwd": lambda f: jacrev(jacfwd(f)),
    "grad jvp jvp": lambda f: grad(
        lambda x: jvp(lambda y: jvp(f, (y,), (x.cos(),))[1], (x,), (x.sin(),))[1].square().sum()
    ),
    "grad vmap jvp": lambda f: grad(
        lambda x: vmap(lambda y: jvp(f, (y,), (x,))[1])(fa.stack([x, x * 2])).square().sum()
    ),
    "grad jvp vmap": lambda f: grad(
        lambda x: jvp(vmap(f), (fa.stack([x, x * 2]),), (fa.stack([x, x]),))[1].square().sum()
    ),
    "jacrev jvp grad": lambda f: jacrev(
        lambda x: jvp(grad(lambda y: f(y).sum()), (x,), (x.cos(),))[1]
    ),
    "grad jvp closure": lambda f: grad(
        lambda x: jvp(lambda y: f(y) * f(x + y[0]), (x,), (x.cos(),))[1].square().sum()
    ),
    "closure": lambda f: grad(lambda x: vmap(lambda y: f(y * x) * x)(fa.stack([x, x * 2])).sum()),
}


@REENTRANT
@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("nesting", NESTINGS)
def test_nestings(nesting: str, function: str, early: bool, reentrant: bool) -> None:
    f = FUNCTIONS[function]
    options = {} if reentrant else {"early_stop": early}

    def checkpointed(x: Any) -> Any:
        return checkpoint(f, x, use_reentrant=reentrant, **options)

    def twice(x: Any) -> Any:
        return checkpoint(lambda y: checkpointed(y) * y, x, use_reentrant=False)

    x = rng(3)
    same(NESTINGS[nesting](checkpointed)(x), NESTINGS[nesting](f)(x))
    same(NESTINGS[nesting](twice)(x), NESTINGS[nesting](lambda y: f(y) * y)(x))


@REENTRANT
@pytest.mark.parametrize("inner", [inner, ordered])
@pytest.mark.parametrize("nesting", NESTINGS)
def test_gradients_outside_of_transforms(nesting: str, inner: Any, reentrant: bool) -> None:
    def total(f: Any, x: Any) -> Any:
        parts = leaves(NESTINGS[nesting](f)(x))
        return fa.autograd.grad(sum(p.square().sum() for p in parts), x)

    x = rng(3).requires_grad_()
    same(total(lambda y: checkpoint(inner, y, use_reentrant=reentrant), x), total(inner, x))


def test_tensors_that_the_function_finds() -> None:
    """Weights of a level further out, rows of vmap, both found and not given."""

    def loss(w: Any, rows: Any, wrap: Any) -> Any:
        def row(x: Any, scale: Any) -> Any:
            return wrap(lambda y: ((w @ y).tanh() * scale * x).sum(), x)

        return vmap(row)(rows, rows[:, 0].exp()).sum()

    def plain(f: Any, x: Any) -> Any:
        return f(x)

    def kept(f: Any, x: Any) -> Any:
        return checkpoint(f, x, use_reentrant=False)

    w, rows = rng(3, 3), rng(4, 3, seed=1)
    same(grad(loss, (0, 1))(w, rows, kept), grad(loss, (0, 1))(w, rows, plain))
    second = [
        grad(lambda w, f=f: grad(loss, (0, 1))(w, rows, f)[1].square().sum())(w)
        for f in (kept, plain)
    ]
    same(*second)


class Block(nn.Module):
    def __init__(self, use: Any = None) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 4))
        self.use = use

    def forward(self, x: Any) -> Any:
        return self.net(x) if self.use is None else self.use(self.net, x)


def test_gradients_of_each_sample_of_a_checkpointed_module() -> None:
    plain = Block().double()
    kept = Block(functools.partial(checkpoint, use_reentrant=False)).double()
    weights = {k: v.detach() for k, v in plain.named_parameters()}
    x = rng(5, 4)

    def of(module: Any) -> Any:
        def loss(weights: Any, row: Any) -> Any:
            return functional_call(module, weights, (row,)).square().sum()

        return vmap(grad(loss), in_dims=(None, 0))(weights, x)

    same(of(kept), of(plain))


@REENTRANT
def test_parameters_that_functional_call_puts_in_place(reentrant: bool) -> None:
    """They are those of the call when the function runs again, after the call has ended."""
    net = Block(functools.partial(checkpoint, use_reentrant=reentrant)).double()
    weights = {k: (v.detach() * 2).requires_grad_() for k, v in net.named_parameters()}
    x = rng(5, 4).requires_grad_()
    out = functional_call(net, weights, (x,)).square().sum()
    got = fa.autograd.grad(out, x) if reentrant else fa.autograd.grad(out, [x, *weights.values()])
    net.use = None
    out = functional_call(net, weights, (x,)).square().sum()
    same(got, fa.autograd.grad(out, [x, *weights.values()])[: len(got)])
    assert all(p.grad is None for p in net.parameters())


def test_policies_within_transforms() -> None:
    keep = functools.partial(ck.create_selective_checkpoint_contexts, [fa.exp, fa.matmul, fa.sin])

    def f(x: Any) -> Any:
        return ((x.exp() @ fa.ones(3, 3, dtype=x.dtype)).sin() * x).tanh()

    def kept(x: Any) -> Any:
        return checkpoint(f, x, use_reentrant=False, context_fn=keep)

    for nesting, transform in NESTINGS.items():
        try:
            same(transform(kept)(rng(3)), transform(f)(rng(3)))
        except Exception as e:
            raise AssertionError(nesting) from e


def test_draws_are_those_of_the_first_run() -> None:
    def f(x: Any) -> Any:
        return (fa.nn.functional.dropout(x.exp()) * fa.rand_like(x)).sin()

    for randomness in ("same", "different"):

        def run(f: Any, how: str = randomness) -> Any:
            fa.manual_seed(4)
            per_row = vmap(grad(lambda x: f(x).sum()), randomness=how)(rng(4, 3))
            whole = grad(lambda x: vmap(f, randomness=how)(x).sum())(rng(4, 3))
            return per_row, whole, fa.rand(2)

        same(run(lambda x: checkpoint(f, x, use_reentrant=False)), run(f))


def test_it_saves_the_memory_of_a_level() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        for _ in range(3):
            x = x.exp().sin()
            seen.append(weakref.ref(x))
        return x

    alive: list[bool] = []

    def loss(x: Any) -> Any:
        y = checkpoint(f, x, use_reentrant=False)
        alive[:] = [s() is not None for s in seen]
        return y.sum()

    grad(loss)(rng(3))
    assert alive == [False, False, True]
    seen.clear()
    vmap(grad(loss))(rng(2, 3))
    assert alive == [False, False, True]


def test_it_saves_the_memory_of_a_level_around_tangents() -> None:
    held: list[int] = []

    def f(x: Any) -> Any:
        for _ in range(20):
            x = x.exp().sin()
        return x

    def loss(x: Any, use: Any) -> Any:
        def inner(y: Any) -> Any:
            before = fa._C._memory_stats()["live_bytes"]
            y = use(y)
            held.append(fa._C._memory_stats()["live_bytes"] - before)
            return y

        return jvp(inner, (x,), (x.cos(),))[1].sum()

    x = rng(10_000)
    want = grad(loss)(x, f)
    same(grad(loss)(x, lambda y: checkpoint(f, y, use_reentrant=False)), want)
    plain, checkpointed = held
    assert plain > 60 * 80_000 and checkpointed < 6 * 80_000


def test_tangents_that_the_function_finds() -> None:
    def loss(x: Any, use: Any) -> Any:
        def inner(y: Any) -> Any:
            z = y.sin()
            part = y[1:]
            return use(lambda t: (t * z).exp() * y * part.sum(), y * 2)

        return jvp(inner, (x,), (x.cos(),))[1].square().sum()

    def kept(f: Any, t: Any) -> Any:
        return checkpoint(f, t, use_reentrant=False)

    x = rng(3)
    want = grad(loss)(x, lambda f, t: f(t))
    same(grad(loss)(x, kept), want)
    step = fa.eye(3, dtype=x.dtype) * 1e-6
    slopes = [
        (loss(x + s, lambda f, t: f(t)) - loss(x - s, lambda f, t: f(t))) / 2e-6
        for s in step.unbind()
    ]
    np.testing.assert_allclose(want.numpy(), [s.item() for s in slopes], rtol=1e-6)


@REENTRANT
@pytest.mark.parametrize("inner", [inner, ordered])
@pytest.mark.parametrize("after", [False, True])
def test_forward_mode_without_transforms(after: bool, inner: Any, reentrant: bool) -> None:
    def gradients(use: Any) -> Any:
        x, v = rng(3).requires_grad_(), rng(3, seed=1).requires_grad_()
        with forward_ad.dual_level():
            dual = forward_ad.make_dual(x, v)
            tangent = forward_ad.unpack_dual(use(inner, dual * 1)).tangent
            if not after:
                return fa.autograd.grad(tangent.square().sum(), (x, v))
        return fa.autograd.grad(tangent.square().sum(), (x, v))

    calls: list[int] = []

    def counted(f: Any, x: Any) -> Any:
        def g(x: Any) -> Any:
            calls.append(1)
            return f(x)

        return checkpoint(g, x, use_reentrant=reentrant)

    same(gradients(counted), gradients(lambda f, x: f(x)))
    assert len(calls) == 2


def test_what_differs_when_it_runs_again_is_told() -> None:
    calls: list[int] = []

    def f(x: Any) -> Any:
        calls.append(1)
        return x.exp().sin() if len(calls) == 1 else x[:2].exp().sin()

    def loss(x: Any) -> Any:
        return checkpoint(f, x, use_reentrant=False, debug=True).sum()

    with pytest.raises(ck.CheckpointError, match=r"metadata[\s\S]*Operators of the recomputation"):
        grad(loss)(rng(3))
    assert fa._C._level_depth() == 0
