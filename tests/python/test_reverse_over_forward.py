"""Gradients of tangents: reverse mode over forward mode, beside finite differences."""

from collections.abc import Callable
from typing import Any

import facula as fa
import pytest
from facula.autograd import forward_ad, grad

F = fa.nn.functional
SHAPE = (3, 3)


def tangent(f: Callable[[Any], Any], x: Any, v: Any) -> Any:
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(f(forward_ad.make_dual(x, v))).tangent


def in_place(x: Any) -> Any:
    y = x * 1
    y.mul_(x).sin_()
    y[0] = x[1] * x[2]
    return y


def written_view(x: Any) -> Any:
    y = x.clone()
    y[:, 1].mul_(x[:, 0])
    return y * x


WEIGHT = fa.arange(9.0, dtype=fa.float64).reshape(3, 3) / 10 + fa.eye(3, dtype=fa.float64)
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "mul": lambda x: x * x * x,
    "exp": lambda x: x.exp(),
    "sin": lambda x: x.sin(),
    "sigmoid": lambda x: x.sigmoid(),
    "tanh": lambda x: x.tanh(),
    "div": lambda x: 1 / (2 + x),
    "pow": lambda x: (x * x + 2) ** 2.5,
    "matmul": lambda x: x @ WEIGHT @ x,
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: F.log_softmax(x * x, 1),
    "sum": lambda x: (x * x).sum(0),
    "prod": lambda x: x.prod(1),
    "norm": lambda x: x.norm(),
    "std": lambda x: x.std(0),
    "layer_norm": lambda x: F.layer_norm(x, (3,)),
    "conv": lambda x: F.conv1d(x.unsqueeze(0), x.unsqueeze(0)),
    "inverse": lambda x: fa.linalg.inv(x + 3 * WEIGHT),
    "solve": lambda x: fa.linalg.solve(x + 3 * WEIGHT, x),
    "det": lambda x: fa.linalg.det(x + WEIGHT),
    "cumprod": lambda x: x.cumprod(0),
    "gather": lambda x: (x * x).gather(1, fa.tensor([[0, 2], [1, 1], [2, 0]])),
    "cat": lambda x: fa.cat([x * x, x.t() * x]),
    "views": lambda x: (x[1:] * x[:-1]).t().reshape(-1),
    "where": lambda x: fa.where(x > 0, x * x, x.exp()),
    "gelu": lambda x: F.gelu(x),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None] * 2, x[None].exp()),
    "logsumexp": lambda x: x.logsumexp(0),
    "in place": in_place,
    "written view": written_view,
}


def inputs() -> tuple[Any, Any]:
    generator = fa.Generator().manual_seed(5)
    x = fa.randn(SHAPE, generator=generator, dtype=fa.float64)
    return x, fa.randn(SHAPE, generator=generator, dtype=fa.float64)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_tangents(name: str) -> None:
    f = FUNCTIONS[name]
    x, v = inputs()
    w = fa.linspace(-1, 1, f(x).numel(), dtype=fa.float64).reshape(f(x).shape)

    def along(x: Any, v: Any) -> Any:
        return (tangent(f, x, v) * w).sum()

    leaf, direction = x.clone().requires_grad_(), v.clone().requires_grad_()
    by_x, by_v = grad(along(leaf, direction), (leaf, direction), allow_unused=True)
    step, (u, _) = 1e-5, inputs()
    u = u.flip(0)
    expected = (along(x + step * u, v) - along(x - step * u, v)) / (2 * step)
    assert fa.allclose((by_x * u).sum(), expected, rtol=1e-6, atol=1e-7), name
    # The tangent is linear in the direction.
    assert fa.allclose((by_v * v).sum(), along(x, v), rtol=1e-9, atol=1e-12)
    # The gradient itself is the same within the level.
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(leaf, v)
        inside = grad((forward_ad.unpack_dual(f(dual)).tangent * w).sum(), leaf)[0]
    assert fa.allclose(inside, by_x) and forward_ad.unpack_dual(inside).tangent is None


def test_values_of_a_hessian() -> None:
    x = fa.tensor([1.0, 2.0], dtype=fa.float64, requires_grad=True)
    v = fa.tensor([1.0, 0.0], dtype=fa.float64)
    t = tangent(lambda x: (x**3).sum(), x, v)
    assert t.item() == 3 and t.requires_grad
    assert grad(t, x)[0].tolist() == [6, 0]
    t = tangent(lambda x: x.prod() * x[0], x, v)  # x0^2 x1 along x0: 2 x0 x1
    (g,) = grad(t, x, create_graph=True)
    assert g.tolist() == [4, 2]
    assert grad(g[0], x)[0].tolist() == [0, 2]


def test_backward_fills_grad_within_the_level() -> None:
    x = fa.tensor([1.0, 2.0], requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, fa.ones(2))
        forward_ad.unpack_dual(dual * dual).tangent.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_a_tangent_that_requires_a_gradient_is_let_be() -> None:
    v = fa.ones(2, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(fa.ones(2), v)
        dual.mul_(3)
        t = forward_ad.unpack_dual(dual).tangent
        t.sum().backward()
    assert v.tolist() == [1, 1] and v.grad.tolist() == [3, 3]


def test_without_gradients_tangents_have_no_history() -> None:
    x = fa.ones(2, requires_grad=True)
    with fa.no_grad():
        assert not tangent(lambda x: x * x, x, fa.ones(2)).requires_grad
    assert not tangent(lambda x: x * x, x.detach(), fa.ones(2)).requires_grad


def test_functions_with_a_jvp() -> None:
    class Cube(fa.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.save_for_forward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 3 * ctx.saved_tensors[0] ** 2

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return t * 3 * ctx.saved_tensors[0] ** 2

    x = fa.tensor([1.0, 2.0], dtype=fa.float64, requires_grad=True)
    t = tangent(Cube.apply, x, fa.ones(2, dtype=fa.float64))
    assert grad(t.sum(), x)[0].tolist() == [6, 12]


# ---- forward mode of what had none ----


@pytest.mark.parametrize("shape", [(4, 2), (2, 4), (3, 2, 2)])
@pytest.mark.parametrize("dtype", [fa.float64, fa.complex128])
def test_full_singular_bases_turn_with_the_matrix(shape: tuple[int, ...], dtype: Any) -> None:
    generator = fa.Generator().manual_seed(2)
    a = fa.randn(shape, generator=generator, dtype=dtype)
    t = fa.randn(shape, generator=generator, dtype=dtype)
    k = min(shape[-2:])

    def beyond(a: Any) -> Any:  # what is at right angles to rows and columns, whatever its basis
        u, _, vh = fa.linalg.svd(a, full_matrices=True)
        u, vh = u[..., k:], vh[..., k:, :]
        return u @ u.mH if shape[-2] > k else vh.mH @ vh

    step = 1e-6
    expected = (beyond(a + step * t) - beyond(a - step * t)) / (2 * step)
    found = tangent(beyond, a, t)
    if shape[-2] != shape[-1]:
        assert fa.allclose(found, expected, rtol=1e-6, atol=1e-8)
    with forward_ad.dual_level():
        parts = fa.linalg.svd(forward_ad.make_dual(a, t), full_matrices=True)
        (u, du), (s, ds), (vh, dvh) = (forward_ad.unpack_dual(p) for p in parts)
    turned = du.mH @ u
    assert fa.allclose(turned, -turned.mH, atol=1e-10)  # at right angles still
    along = (du[..., :k] * s.unsqueeze(-2) + u[..., :k] * ds.unsqueeze(-2)) @ vh[..., :k, :]
    assert fa.allclose(along + (u[..., :k] * s.unsqueeze(-2)) @ dvh[..., :k, :], t, atol=1e-9)


def test_parts_written_by_strides() -> None:
    # Of a transposed tensor the strides count in its memory: elements 1 and 2 of it.
    x = fa.arange(6.0, dtype=fa.float64).view(2, 3).t().requires_grad_()
    part = fa.tensor([7.0, 8.0], dtype=fa.float64, requires_grad=True)
    w = fa.arange(1.0, 7.0, dtype=fa.float64).reshape(3, 2)
    y = x.as_strided_scatter(part, (2,), (1,), 1)
    assert y.tolist() == [[0, 3], [7, 4], [8, 5]]
    of_x, of_part = grad((y * w).sum(), (x, part))
    assert of_x.tolist() == [[1, 2], [0, 4], [0, 6]] and of_part.tolist() == [3, 5]
    v, u = fa.ones(3, 2, dtype=fa.float64), fa.tensor([10.0, 20.0], dtype=fa.float64)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, v)
        y = dual.as_strided_scatter(forward_ad.make_dual(part, u), (2,), (1,), 1)
        assert forward_ad.unpack_dual(y).tangent.tolist() == [[1, 1], [10, 1], [20, 1]]


def test_dims_of_a_view_change_in_place() -> None:
    x = fa.tensor([1.0, 2.0], requires_grad=True)
    y = (x * 1).view(1, 2)
    y.squeeze_()
    (y * y).sum().backward()
    assert x.grad.tolist() == [2, 4]
    z = (x * 1).view(1, 2)
    z.t_().mul_(3)
    (z * z).sum().backward()
    assert x.grad.tolist() == [2 + 18, 4 + 36]
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x.view(1, 2).squeeze_()


WRITES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "element": (lambda d: d[0].mul_(3), [3, 1, 1]),
    # Of 1, 2, 3 the slice becomes 1 * 2, 2 * 3 with the slopes 2 + 1 and 3 + 2.
    "slice": (lambda d: d[:2].mul_(d[1:].clone()), [3, 5, 1]),
    "view of a view": (lambda d: d[:2][1].copy_(fa.tensor(9.0)), [1, 0, 1]),
    "assignment": (lambda d: d.__setitem__(0, 5.0), [0, 1, 1]),
    "whole": (lambda d: d.mul_(3), [3, 3, 3]),
    "twice": (lambda d: (d[0].mul_(3), d.mul_(2), d[1:].neg_()), [6, -2, -2]),
}


@pytest.mark.parametrize("which", WRITES)
def test_a_leaf_that_is_a_tangent_is_left_as_it_is(which: str) -> None:
    write, want = WRITES[which]
    leaf = fa.ones(3, requires_grad=True)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(fa.tensor([1.0, 2.0, 3.0]), leaf)
        other = forward_ad.make_dual(fa.zeros(3), leaf)
        part = dual[1:]
        write(dual)
        got = forward_ad.unpack_dual(dual).tangent
        assert got.tolist() == want
        assert forward_ad.unpack_dual(part).tangent.tolist() == want[1:]
        assert forward_ad.unpack_dual(other).tangent is leaf
        got.sum().backward()
    assert leaf.tolist() == [1, 1, 1] and leaf.grad.sum().item() == sum(want)


INTEGERS: dict[str, Callable[[Any], Any]] = {
    "long": lambda d: d.long(),
    "bool": lambda d: d.bool(),
    "to": lambda d: d.to(fa.int32),
    "type_as": lambda d: d.type_as(fa.ones(1, dtype=fa.int64)),
    "copy": lambda d: fa.zeros(2, dtype=fa.int64).copy_(d),
    "fill": lambda d: fa.zeros(2, dtype=fa.int64).fill_(d[0]),
    "sum": lambda d: d.sum(dtype=fa.int64),
    "cumsum": lambda d: d.cumsum(0, dtype=fa.int64),
    "part": lambda d: fa.zeros(2, dtype=fa.int64)[:1].copy_(d[1:]),
}


@pytest.mark.parametrize("which", INTEGERS)
def test_integers_of_dual_tensors_have_no_tangent(which: str) -> None:
    x = fa.tensor([0.3, 1.6])
    with forward_ad.dual_level():
        found = INTEGERS[which](forward_ad.make_dual(x, fa.ones(2)))
        assert forward_ad.unpack_dual(found).tangent is None
    assert found.tolist() == INTEGERS[which](x).tolist()


def test_slopes_of_quantiles_by_their_places() -> None:
    # Between neighbours the quantile is linear: it rises by (n - 1) times their difference.
    x = fa.tensor([1.0, 2.0, 4.0, 8.0], dtype=fa.float64)
    q = fa.tensor([0.1, 0.5, 0.9], dtype=fa.float64)
    for f in (fa.quantile, fa.nanquantile):
        assert tangent(lambda q, f=f: f(x, q), q, fa.ones(3, dtype=fa.float64)).tolist() == [
            3.0,
            6.0,
            12.0,
        ]
