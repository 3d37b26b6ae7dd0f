"""Checkpoints that keep the results of some functions, that tell what ran; several passes."""

from __future__ import annotations

import functools

import facula as fa
import numpy as np
import pytest
from facula import nn
from facula.utils import checkpoint as ck
from facula.utils.checkpoint import CheckpointPolicy as Policy
from facula.utils.flop_counter import FlopCounterMode

keeping = functools.partial(functools.partial, ck.create_selective_checkpoint_contexts)


def rng(*shape, seed=0):
    return fa.tensor(np.random.default_rng(seed).standard_normal(shape))


def block(x, w, v):
    h = nn.functional.softmax(fa.matmul(x, w), -1)
    h = nn.functional.layer_norm(h, (h.shape[-1],)).sigmoid()
    return (h @ v).exp() * x


def gradients(run, *inputs):
    leaves = [t.detach().clone().requires_grad_() for t in inputs]
    out = run(*leaves)
    return out, fa.autograd.grad(out.sum(), leaves)


KEPT = {
    "products": [fa.matmul],
    "nothing": [],
    "all": lambda ctx, op, *args, **kwargs: True,
    "pointwise": [fa.sigmoid, fa.exp],
    "by policy": lambda ctx, op, *args, **kwargs: (
        Policy.PREFER_SAVE if op is fa.mul else Policy.MUST_RECOMPUTE
    ),
    "offloaded": lambda ctx, op, *args, **kwargs: Policy.MUST_CPU_OFFLOAD,
}


@pytest.mark.parametrize("name", KEPT)
def test_no_number_changes(name):
    inputs = rng(5, 4), rng(4, 4, seed=1), rng(4, 4, seed=2)
    plain, wanted = gradients(block, *inputs)

    def run(*leaves):
        return ck.checkpoint(block, *leaves, use_reentrant=False, context_fn=keeping(KEPT[name]))

    out, got = gradients(run, *inputs)
    np.testing.assert_array_equal(out.detach().numpy(), plain.detach().numpy())
    for a, b in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_what_is_kept_is_not_computed_again():
    inputs = rng(8, 8), rng(8, 8, seed=1), rng(8, 8, seed=2)

    def flops(kept):
        leaves = [t.clone().requires_grad_() for t in inputs]
        contexts = {} if kept is None else {"context_fn": keeping(kept)}
        out = ck.checkpoint(block, *leaves, use_reentrant=False, early_stop=False, **contexts).sum()
        with FlopCounterMode(display=False) as counter:
            out.backward()
        return counter.get_total_flops()

    product = 2 * 8**3
    assert flops([fa.exp]) == flops(None) == 4 * product + 2 * product
    assert flops([fa.matmul]) == 4 * product


def test_the_policy_sees_calls_and_results_once():
    seen = []

    def policy(context, op, *args, **kwargs):
        seen.append((op, context.is_recompute, tuple(context.op_output.shape), len(args)))
        return op is fa.mm

    x = rng(3, 3).requires_grad_()
    y = ck.checkpoint(
        lambda t: fa.mm(t, t).sin() + t.T, x, use_reentrant=False, context_fn=keeping(policy)
    )
    y.sum().backward()
    assert [s[0] for s in seen[:2]] == [fa.mm, fa.sin]
    assert seen[0][1:] == (False, (3, 3), 2)
    assert len(seen) == 4


def test_draws_after_a_kept_one_are_the_same():
    def f(x):
        return fa.dropout(fa.dropout(x, 0.5).exp(), 0.5).sin()

    x = rng(50)
    fa.manual_seed(3)
    _, (wanted,) = gradients(f, x)
    for kept in ([fa.dropout], lambda ctx, op, *a, **k: op is fa.dropout and a[0].max() < 5):
        fa.manual_seed(3)
        run = functools.partial(
            ck.checkpoint, f, use_reentrant=False, context_fn=keeping(kept), early_stop=False
        )
        _, (got,) = gradients(run, x)
        np.testing.assert_array_equal(got.numpy(), wanted.numpy())


def test_what_is_written_in_place_is_written_again():
    def f(x):
        y = x * 2
        y.mul_(3)
        y[0] = 1.0
        return y.exp().sin()

    _, (wanted,) = gradients(f, rng(4))
    kept = keeping([fa.exp, fa.sin, fa.Tensor.mul_, fa.Tensor.__setitem__])
    run = functools.partial(ck.checkpoint, f, use_reentrant=False, context_fn=kept)
    _, (got,) = gradients(run, rng(4))
    np.testing.assert_array_equal(got.numpy(), wanted.numpy())


def test_a_kept_result_that_changes_is_told():
    def f(x, change):
        y = x.exp()
        z = y.sin()
        if change:
            y.detach().mul_(2)
        return z * 2

    x = rng(3).requires_grad_()
    kept = keeping([fa.exp])
    y = ck.checkpoint(f, x, True, use_reentrant=False, context_fn=kept, early_stop=False)
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()
    allowed = functools.partial(kept, allow_cache_entry_mutation=True)
    ck.checkpoint(f, x, True, use_reentrant=False, context_fn=allowed).sum().backward()


def test_a_kept_function_that_does_something_else_is_told():
    calls = []

    def f(x):
        calls.append(1)
        return x.exp().sin() if len(calls) == 1 else x.cos().tan()

    x = rng(3).requires_grad_()
    y = ck.checkpoint(f, x, use_reentrant=False, context_fn=keeping([fa.exp]))
    with pytest.raises(RuntimeError, match=r"cos is called in backward, number 1"):
        y.sum().backward()


def test_modules_and_second_derivatives():
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4), nn.GELU()).double()
    x = rng(5, 4).requires_grad_()

    def second(run):
        (g,) = fa.autograd.grad(run(x).square().sum(), x, create_graph=True)
        return fa.autograd.grad(g.square().sum(), [x, *net.parameters()], allow_unused=True)

    kept = keeping([nn.functional.linear])
    got = second(lambda t: ck.checkpoint(net, t, use_reentrant=False, context_fn=kept))
    for a, b in zip(got, second(net), strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, atol=1e-14)


def test_what_a_policy_may_be():
    with pytest.raises(TypeError, match="list of functions"):
        ck.create_selective_checkpoint_contexts(3)
    with pytest.raises(ValueError, match="must hold functions"):
        ck.create_selective_checkpoint_contexts(["mm"])


# ---- what ran ----


def test_debug_tells_the_operators_of_both_runs():
    calls = []

    def f(x):
        calls.append(1)
        return x.exp().sin() if len(calls) == 1 else x[:2].cos().sin()

    x = rng(3).requires_grad_()
    y = ck.checkpoint(f, x, use_reentrant=False, debug=True).sum()
    with pytest.raises(ck.CheckpointError) as caught:
        y.backward()
    text = str(caught.value)
    assert "float64[3] = exp(float64[3])" in text
    assert "cos(float64[2])" in text
    assert "test_checkpoint_policies.py:" in text
    assert "The first that differ are number 1" in text


def test_debug_of_all_within_a_block():
    def f(x):
        return x.exp().sin()

    x = rng(3).requires_grad_()
    with ck.set_checkpoint_debug_enabled(True):
        ck.checkpoint(f, x, use_reentrant=False).sum().backward()
        with ck.set_checkpoint_debug_enabled(False):
            ck.checkpoint(f, x, use_reentrant=False, debug=True, context_fn=keeping([fa.exp]))
        with pytest.raises(ValueError, match="context_fn"):
            ck.checkpoint(f, x, use_reentrant=False, context_fn=keeping([fa.exp]))
    with pytest.raises(ValueError, match="context_fn"):
        ck.checkpoint(f, x, use_reentrant=False, debug=True, context_fn=keeping([fa.exp]))
    np.testing.assert_allclose(x.grad.numpy(), (x.exp().cos() * x.exp()).detach().numpy())


# ---- several backward passes ----


def test_a_group_of_backward_passes_computes_once():
    calls = []

    def f(x, y):
        calls.append(1)
        return x.exp().sin(), y.exp().sin()

    for group in (ck.GraphExecGroup, None):
        x, y = rng(3).requires_grad_(), rng(3, seed=1).requires_grad_()
        a, b = ck.checkpoint(f, x, y, use_reentrant=False)
        calls.clear()
        if group is None:
            a.sum().backward()
            b.sum().backward()
        else:
            with group():
                a.sum().backward()
                b.sum().backward()
                with pytest.raises(RuntimeError, match="nested"), group():
                    pass
        assert len(calls) == 1
        np.testing.assert_allclose(y.grad.numpy(), (y.exp().cos() * y.exp()).detach().numpy())


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("outer", [True, False])
@pytest.mark.parametrize("inner", [True, False])
def test_one_kind_within_the_other(inner, outer, early):
    def f(x):
        return x.exp().sin()

    def g(x):
        return ck.checkpoint(f, x * 2, use_reentrant=inner).cos()

    stops = {} if outer else {"early_stop": early}
    x = rng(4).requires_grad_()
    ck.checkpoint(g, x, use_reentrant=outer, **stops).sum().backward()
    np.testing.assert_allclose(
        x.grad.numpy(), fa.func.grad(lambda t: f(t * 2).cos().sum())(x.detach()).numpy()
    )
