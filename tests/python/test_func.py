"""grad, vjp, jvp, Jacobians and Hessians: closed forms, finite differences, every nesting."""

from __future__ import annotations

import math
from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.func import (
    functional_call,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    stack_module_state,
    vjp,
    vmap,
)


def rng(*shape: int, seed: int = 0) -> fa.Tensor:
    return fa.tensor(np.random.default_rng(seed).standard_normal(shape))


def same(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    a, b = (v.detach().numpy() if fa.is_tensor(v) else np.asarray(v) for v in (a, b))
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def numeric(f: Any, x: fa.Tensor, h: float = 1e-6) -> np.ndarray:
    """The Jacobian by central differences."""
    base = x.numpy().copy()
    columns = []
    for i in range(base.size):
        step = np.zeros(base.size)
        step[i] = h
        step = step.reshape(base.shape)
        up, down = f(fa.tensor(base + step)), f(fa.tensor(base - step))
        columns.append((up - down).detach().numpy() / (2 * h))
    out = np.stack(columns, -1)
    return out.reshape(*columns[0].shape, *base.shape)


# ---- grad ----


def test_grad_of_sine_to_any_order() -> None:
    f: Any = fa.sin
    x = fa.tensor(0.7, dtype=fa.float64)
    for want in (math.cos(0.7), -math.sin(0.7), -math.cos(0.7), math.sin(0.7)):
        f = grad(f)
        same(f(x), want)
    assert not f(x).requires_grad


def test_argnums_aux_and_trees() -> None:
    def f(p: Any, x: Any) -> Any:
        y = p["w"] * x + p["b"][0]
        return (y**2).sum(), {"y": y, "all": [x]}

    p = {"w": rng(3), "b": (rng(3, seed=1), rng(2))}
    x = rng(3, seed=2)
    (dp, dx), ((value, aux)) = grad_and_value(f, argnums=(0, 1), has_aux=True)(p, x)
    y = p["w"] * x + p["b"][0]
    same(dp["w"], 2 * y * x)
    same(dp["b"][0], 2 * y)
    same(dp["b"][1], np.zeros(2))
    same(dx, 2 * y * p["w"])
    same(value, (y**2).sum())
    same(aux["y"], y)
    assert not aux["y"].requires_grad
    only, more = grad(f, argnums=-1, has_aux=True)(p, x)
    same(only, dx)
    same(more["all"][0], x)


def test_gradients_of_closures_are_not_stopped() -> None:
    w = rng(3).requires_grad_()
    x = rng(3, seed=1)
    g = grad(lambda x: (w * x**2).sum())(x)
    same(g, 2 * w * x)
    g.sum().backward()
    same(w.grad, 2 * x)


def test_no_grad_within_and_outside() -> None:
    x = fa.tensor(3.0, dtype=fa.float64)

    def f(x: Any) -> Any:
        with fa.no_grad():
            c = x**2
        return x * c

    same(grad(f)(x), 9.0)
    with fa.no_grad():
        same(grad(lambda x: x**3)(x), 27.0)
        assert not fa.is_grad_enabled()
    # What is made in it is a constant for all gradients that are being taken: of x * c, then of c.
    same(grad(lambda x: grad(lambda y: f(y))(x))(x), 0.0)


def test_perturbations_are_not_confused() -> None:
    one = fa.tensor(1.0, dtype=fa.float64)
    same(grad(lambda x: x * grad(lambda y: x + y)(one))(one), 1.0)
    same(grad(lambda x: x * grad(lambda y: x * y)(x * 2))(fa.tensor(3.0, dtype=fa.float64)), 6.0)

    def inner(x: Any) -> Any:
        return jvp(lambda y: x + y, (one,), (one,))[1]

    same(jvp(lambda x: x * inner(x), (one,), (one,))[1], 1.0)
    same(jvp(lambda x: x * grad(lambda y: x * y)(one), (one,), (one,))[1], 2.0)
    same(grad(lambda x: x * jvp(lambda y: x * y, (one,), (one,))[1])(one), 2.0)


def test_captured_tensors_are_not_written_while_differentiated() -> None:
    kept = fa.zeros(2)
    with pytest.raises(RuntimeError, match="outside of the transformed function"):
        grad(lambda x: kept.copy_(x).sum())(fa.ones(2))
    assert kept.tolist() == [0, 0]
    grad(lambda x: (kept.add_(1), x.sum())[1])(fa.ones(2))
    assert kept.tolist() == [1, 1]


def test_in_place_within_grad() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y[0] = x[1] ** 2
        y[1:].mul_(x[0])
        y.t_() if y.dim() == 2 else None
        return (y**2).sum()

    x = rng(3)
    same(grad(f)(x), numeric(f, x), 1e-5)
    same(vmap(grad(f))(rng(4, 3)), fa.stack([grad(f)(r) for r in rng(4, 3)]))
    same(jacrev(grad(f))(x), numeric(grad(f), x), 1e-4)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: grad(lambda x: x)(fa.ones(2)), "0-d tensor"),
        (lambda: grad(lambda x: 3.0)(fa.ones(2)), "must return a Tensor"),
        (lambda: grad(fa.sum)(fa.arange(3)), "floating-point"),
        (lambda: grad(fa.sum, argnums=2)(fa.ones(2)), "out of range"),
        (lambda: grad(fa.sum, argnums=(0, 0))(fa.ones(2)), "different"),
        (lambda: grad(fa.sum, argnums="x")(fa.ones(2)), "argnums"),
        (lambda: grad(fa.sum, has_aux=True)(fa.ones(2)), "has_aux"),
        (lambda: grad(fa.sum)(3.0), "must be a Tensor"),
        (lambda: vjp(fa.sin, fa.ones(2))[1](fa.ones(3)), "shape"),
        (lambda: vjp(fa.sin, fa.ones(2))[1]((fa.ones(2),)), "structure"),
        (lambda: jvp(fa.sin, fa.ones(2), fa.ones(2)), "tuples"),
        (lambda: jvp(fa.sin, (fa.ones(2),), (fa.ones(3),)), "shape"),
        (lambda: jvp(fa.sin, (fa.ones(2),), ()), "no tensors"),
        (lambda: jvp(lambda x: fa.ones(2), (fa.ones(2),), (fa.ones(2),), strict=True), "strict"),
        (lambda: functionalize(fa.sin, remove="views"), "mutations_and_views"),
        (lambda: grad(lambda x: x.sum().backward() or x.sum())(fa.ones(2)), "transform"),
    ],
)
def test_what_does_not_fit_is_said(call: Any, match: str) -> None:
    with pytest.raises((RuntimeError, TypeError, ValueError, NotImplementedError), match=match):
        call()
    assert fa._C._level_depth() == 0


# ---- products with Jacobians ----


def test_vjp_many_times_and_after_it_ended() -> None:
    x, y = rng(3), rng(3, seed=1)
    out, back = vjp(lambda a, b: (a * b, {"s": (a + b).sum()}), x, y)
    same(out[0], x * y)
    for k in (1.0, 2.0):
        da, db = back((fa.ones(3, dtype=fa.float64) * k, {"s": fa.tensor(1.0, dtype=fa.float64)}))
        same(da, k * y + 1)
        same(db, k * x + 1)
    assert not da.requires_grad
    rows = vmap(back, in_dims=((0, None),))((fa.eye(3, dtype=fa.float64), {"s": out[1]["s"] * 0}))
    same(rows[0], fa.diag(y))


def test_vjp_is_differentiable_by_what_surrounds_it() -> None:
    x = rng(3)

    def f(x: Any) -> Any:
        _, back = vjp(fa.sin, x)
        return (back(x)[0] ** 2).sum()

    want = numeric(lambda x: ((x.cos() * x) ** 2).sum(), x)
    same(grad(f)(x), want, 1e-6)


def test_jvp_and_linearize() -> None:
    x, v = rng(3), rng(3, seed=1)
    f = lambda x: {"a": x.sin() * x.sum(), "b": fa.ones(2)}  # noqa: E731
    out, product = jvp(f, (x,), (v,))
    want = x.cos() * v * x.sum() + x.sin() * v.sum()
    same(out["a"], x.sin() * x.sum())
    same(product["a"], want)
    same(product["b"], np.zeros(2))
    value, push = linearize(f, x)
    same(value["a"], out["a"])
    same(push(v)["a"], want)
    same(push(2 * v)["a"], 2 * want)
    same(vmap(push)(fa.eye(3, dtype=fa.float64))["a"].t(), jacfwd(lambda x: f(x)["a"])(x))
    value, product, aux = jvp(lambda x: (x**2, x + 1), (x,), (v,), has_aux=True)
    same(aux, x + 1)


# ---- Jacobians ----


def net(x: Any) -> Any:
    w = fa.tensor([[0.3, -1.0, 0.5], [1.2, 0.1, -0.7]], dtype=fa.float64)
    return fa.tanh(w @ x).softmax(0)


@pytest.mark.parametrize("jacobian", [jacrev, jacfwd, lambda f: jacrev(f, chunk_size=1)])
def test_jacobians(jacobian: Any) -> None:
    x = rng(3)
    same(jacobian(net)(x), numeric(net, x), 1e-7)
    m = rng(2, 3)
    same(jacobian(lambda m: m.t() @ m)(m), numeric(lambda m: m.t() @ m, m), 1e-6)


def test_jacobians_of_trees() -> None:
    def f(p: Any, x: Any) -> Any:
        return {"y": p["a"] * x, "z": (p["a"].sum(), x.sum())}

    p, x = {"a": rng(2)}, rng(2, seed=1)
    for jacobian in (jacrev, jacfwd):
        j = jacobian(f)(p, x)
        same(j["y"]["a"], fa.diag(x))
        same(j["z"][0]["a"], np.ones(2))
        same(j["z"][1]["a"], np.zeros(2))
        both = jacobian(f, argnums=(0, 1))(p, x)
        same(both["y"][1], fa.diag(p["a"]))
        value, aux = jacobian(lambda x: (x**2, x * 3), has_aux=True)(x)
        same(value, fa.diag(2 * x))
        same(aux, 3 * x)


@pytest.mark.parametrize("outer", [jacfwd, jacrev])
@pytest.mark.parametrize("inner", [jacfwd, jacrev])
def test_jacobians_of_jacobians(outer: Any, inner: Any) -> None:
    x = rng(3)
    same(outer(inner(net))(x), numeric(lambda x: inner(net)(x), x), 1e-5)
    third = outer(inner(outer(lambda x: (x**4).sum())))(x)
    want = np.zeros((3, 3, 3))
    for i in range(3):
        want[i, i, i] = 24 * float(x[i])
    same(third, want, 1e-8)


def test_hessian_of_a_quadratic_form() -> None:
    a = rng(4, 4)
    same(hessian(lambda x: x @ a @ x)(rng(4, seed=1)), a + a.t())
    blocks = hessian(lambda x, y: (x * y).sum(), argnums=(0, 1))(rng(2), rng(2, seed=1))
    same(blocks[0][1], np.eye(2))
    same(blocks[0][0], np.zeros((2, 2)))


def test_hessian_vector_products() -> None:
    x, v = rng(3), rng(3, seed=1)
    f = lambda x: (x.sin() * x.exp()).sum()  # noqa: E731
    h = hessian(f)(x)
    same(jvp(grad(f), (x,), (v,))[1], h @ v)
    same(vjp(grad(f), x)[1](v)[0], h @ v)
    same(grad(lambda x: (grad(f)(x) * v).sum())(x), h @ v)


# ---- batches of derivatives, derivatives of batches ----

FUNCTIONS = {
    "sin": lambda x: x.sin().sum(),
    "norm": lambda x: x.norm() ** 3,
    "softmax": lambda x: (x.softmax(-1) * x).sum(),
    "sort": lambda x: (x.sort()[0] * fa.arange(3)).sum(),
    "max": lambda x: x.max() * x.sum(),
    "index": lambda x: (x[fa.tensor([2, 0])] ** 2).sum() + x[1:].prod(),
    "matmul": lambda x: (x[:, None] @ x[None]).tanh().sum(),
    "cumsum": lambda x: (x.cumsum(0) ** 2).sum(),
    "where": lambda x: fa.where(x > 0, x**2, x.exp()).sum(),
    "cat": lambda x: fa.cat([x, x * 2])[1:].prod(),
    "logsumexp": lambda x: x.logsumexp(0) * x.mean(),
    "var": lambda x: x.var() + x.std(),
    "gather": lambda x: (x.gather(0, fa.tensor([1, 1, 0])) * x).sum(),
    "layer_norm": lambda x: (fa.nn.functional.layer_norm(x, (3,)) * x.exp()).sum(),
    "linear": lambda x: fa.nn.functional.linear(x, x.reshape(1, 3) * 2).sum(),
    "solve": lambda x: fa.linalg.solve(fa.diag(x.exp()) + x.outer(x) * 0.1, x).sum(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_nesting_of_two(name: str) -> None:
    f = FUNCTIONS[name]
    xs, x, v = rng(4, 3, seed=3), rng(3, seed=4), rng(3, seed=5)
    g = grad(f)
    want = fa.stack([fa.tensor(numeric(f, r)) for r in xs])
    same(vmap(g)(xs), want, 1e-6)
    same(grad(lambda xs: vmap(f)(xs).sum())(xs), want, 1e-6)
    same(vmap(lambda r: jvp(f, (r,), (v,))[1])(xs), want @ v, 1e-6)
    same(jvp(lambda xs: vmap(f)(xs), (xs,), (v.expand(4, 3),))[1], want @ v, 1e-6)
    h = fa.tensor(numeric(g, x))
    same(grad(lambda x: (g(x) * v).sum())(x), h @ v, 1e-5)
    same(jvp(g, (x,), (v,))[1], h @ v, 1e-5)
    same(hessian(f)(x), h, 1e-5)
    same(vmap(hessian(f))(xs), fa.stack([hessian(f)(r) for r in xs]), 1e-8)


def test_per_sample_gradients_of_a_network() -> None:
    fa.manual_seed(0)
    net = fa.nn.Sequential(
        fa.nn.Conv2d(1, 3, 3),
        fa.nn.BatchNorm2d(3, track_running_stats=False).eval(),
        fa.nn.ReLU(),
        fa.nn.MaxPool2d(2),
        fa.nn.Flatten(),
        fa.nn.Linear(27, 5),
    ).double()
    net[1].training = False
    params = {k: p.detach() for k, p in net.named_parameters()}
    x = rng(6, 1, 8, 8)
    y = fa.tensor([0, 1, 2, 3, 4, 0])

    def loss(params: Any, x: Any, y: Any) -> Any:
        logits = functional_call(net, params, (x[None],))
        return fa.nn.functional.cross_entropy(logits, y[None])

    got = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
    for i in range(6):
        net.zero_grad()
        fa.nn.functional.cross_entropy(net(x[i][None]), y[i][None]).backward()
        for name, p in net.named_parameters():
            same(got[name][i], p.grad, 1e-8)


def test_ensembles() -> None:
    models = [fa.nn.Linear(3, 2).double() for _ in range(4)]
    params, buffers = stack_module_state(models)
    assert params["weight"].requires_grad
    x = rng(5, 3)
    call = lambda p, b, x: functional_call(models[0], (p, b), (x,))  # noqa: E731
    got = vmap(call, in_dims=(0, 0, None))(params, buffers, x)
    same(got, fa.stack([m(x) for m in models]))
    got.sum().backward()
    assert params["weight"].grad.shape == (4, 2, 3)
    with pytest.raises(RuntimeError, match="at least one"):
        stack_module_state([])
    with pytest.raises(RuntimeError, match="one class"):
        stack_module_state([fa.nn.Linear(1, 1), fa.nn.ReLU()])
    with pytest.raises(RuntimeError, match="mode"):
        stack_module_state([fa.nn.Linear(1, 1), fa.nn.Linear(1, 1).eval()])


def test_jacobians_are_of_real_numbers() -> None:
    z, x = fa.tensor([1 + 2j, 3 - 1j]), fa.tensor([1.0, 2.0])
    for transform in (jacrev, jacfwd, hessian):
        with pytest.raises(RuntimeError, match=r"inputs must be real, not facula.complex64.*vjp"):
            transform(lambda z: z * z)(z)
    for transform in (jacrev, jacfwd):
        with pytest.raises(RuntimeError, match="outputs must be real"):
            transform(lambda x: x * (1 + 2j))(x)
    # With the parts apart they agree, and are the derivatives of both parts of z * z.
    parts = fa.view_as_real(z)[0]

    def square(p: Any) -> Any:
        return fa.view_as_real(fa.view_as_complex(p) ** 2)

    want = fa.tensor([[2.0, -4.0], [4.0, 2.0]])
    for transform in (jacrev, jacfwd):
        same(transform(square)(parts), want)


def test_functionalize_changes_nothing_to_be_seen() -> None:
    def f(x: Any, y: Any) -> Any:
        z = x.clone()
        z[0] = 5
        y.add_(z)
        return z.view(-1)

    x, y = fa.ones(2, 2), fa.zeros(2, 2)
    for remove in ("mutations", "mutations_and_views"):
        y.zero_()
        got = functionalize(f, remove=remove)(x, y)
        assert got.tolist() == [5, 5, 1, 1]
        assert y.tolist() == [[5, 5], [1, 1]]
    assert grad(lambda x: functionalize(f)(x, x * 0).sum())(x).tolist() == [[0, 0], [1, 1]]


def test_complex_gradients() -> None:
    z = fa.tensor(np.array([1 + 2j, -0.5j]))
    want = grad(lambda z: (z * z.conj()).real.sum())(z)
    np.testing.assert_allclose(want.numpy(), 2 * z.numpy())


def test_backward_after_a_transform() -> None:
    w = rng(3).requires_grad_()
    x = rng(5, 3, seed=1)
    vmap(lambda r: (r * w).sum().sin())(x).sum().backward()
    want = (x * (x @ w.detach()).cos()[:, None]).sum(0)
    same(w.grad, want)


def test_the_example_learns(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("sklearn")
    from facula.examples import per_sample_gradients

    accuracy = per_sample_gradients.run(epochs=2, seed=0)
    said = capsys.readouterr().out
    assert accuracy > 0.5
    assert float(said.rsplit("at most ", 1)[1].split()[0]) < 1e-4
