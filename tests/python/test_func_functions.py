"""autograd.Function within transforms and forward mode; batches in autograd.grad and functional."""

from __future__ import annotations

from typing import Any

import facula as fa
import numpy as np
import pytest
from facula.autograd import Function, forward_ad, functional
from facula.autograd.function import once_differentiable
from facula.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap


def rng(*shape: int, seed: int = 0) -> fa.Tensor:
    return fa.tensor(np.random.default_rng(seed).standard_normal(shape))


def same(a: Any, b: Any, tolerance: float = 1e-9) -> None:
    a, b = (v.detach().numpy() if fa.is_tensor(v) else np.asarray(v) for v in (a, b))
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


class Cube(Function):
    """x ** 3 * y, with a rule made of its methods."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, y: Any) -> Any:
        return x**3 * y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        x, y = ctx.saved_tensors
        return g * 3 * x**2 * y, g * x**3

    @staticmethod
    def jvp(ctx: Any, tx: Any, ty: Any) -> Any:
        x, y = ctx.saved_tensors
        total = 0
        if tx is not None:
            total = total + 3 * x**2 * y * tx
        if ty is not None:
            total = total + x**3 * ty
        return total


class ByHand(Function):
    """sin by NumPy, which no operator sees, with a vmap of its own."""

    @staticmethod
    def forward(x: Any) -> Any:
        return fa.tensor(np.sin(x.numpy()))

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ctx.saved_tensors[0].cos()

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        assert info.batch_size == x.shape[in_dims[0]]
        assert info.randomness == "error"
        return ByHand.apply(x), in_dims[0]


def plain(x: Any, y: Any) -> Any:
    return x**3 * y


def test_function_under_every_transform() -> None:
    x, y = rng(4), rng(4, seed=1)
    f, g = (lambda a, b: Cube.apply(a, b)), plain
    for args in ((0,), (1,), (0, 1)):
        for h in (grad, jacrev, jacfwd, hessian):

            def total(q):
                return lambda a, b: q(a, b).sum()

            got = h(total(f), argnums=args)(x, y)
            want = h(total(g), argnums=args)(x, y)
            for p, q in zip(_flat(got), _flat(want), strict=True):
                same(p, q)
    xs = rng(5, 4, seed=2)
    same(vmap(f, in_dims=(0, None))(xs, y), plain(xs, y))
    same(vmap(f, in_dims=(None, 1), out_dims=1)(y, xs.t()), plain(y, xs).t())
    same(vmap(grad(lambda a, b: f(a, b).sum()), in_dims=(0, None))(xs, y), 3 * xs**2 * y)
    same(grad(lambda b: vmap(f, in_dims=(0, None))(xs, b).sum())(y), (xs**3).sum(0))
    same(vmap(lambda a: jvp(lambda a: f(a, y), (a,), (y,))[1])(xs), 3 * xs**2 * y * y)
    same(jvp(lambda a: vmap(f, in_dims=(0, None))(a, y), (xs,), (xs,))[1], 3 * xs**3 * y)
    same(vmap(vmap(f, in_dims=(0, None)), in_dims=(None, 0))(xs, xs)[2, 1], plain(xs[1], xs[2]))
    same(vmap(hessian(lambda a: f(a, y).sum()))(xs)[0], fa.diag(6 * xs[0] * y))


def _flat(value: Any) -> list[Any]:
    return [v for t in value for v in _flat(t)] if isinstance(value, tuple) else [value]


def test_a_rule_of_its_own() -> None:
    x = rng(3, 4)
    same(vmap(ByHand.apply)(x), x.sin())
    same(vmap(ByHand.apply, in_dims=1)(x), x.sin().t())
    same(grad(lambda x: ByHand.apply(x).sum())(x), x.cos())
    same(vmap(grad(lambda r: ByHand.apply(r).sum()))(x), x.cos())
    same(grad(lambda x: vmap(ByHand.apply)(x).sum())(x), x.cos())
    same(vmap(vmap(ByHand.apply))(x[None])[0], x.sin())
    same(jacrev(lambda x: ByHand.apply(x))(x[0]), fa.diag(x[0].cos()))
    same(vjp(lambda x: ByHand.apply(x), x)[1](x)[0], x * x.cos())


def test_what_a_function_lacks_is_said() -> None:
    class Old(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    class NoRule(Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * 2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None: ...

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    class Both(NoRule):
        generate_vmap_rule = True

        @staticmethod
        def vmap(info: Any, in_dims: Any, x: Any) -> Any:
            return x, 0

    x = fa.ones(2, 3)
    with pytest.raises(RuntimeError, match="setup_context"):
        grad(lambda x: Old.apply(x).sum())(x)
    with pytest.raises(RuntimeError, match="has no rule for vmap"):
        vmap(NoRule.apply)(x)
    with pytest.raises(RuntimeError, match="exclude"):
        vmap(Both.apply)(x)
    with pytest.raises(NotImplementedError, match="jvp"):
        jvp(lambda x: NoRule.apply(x), (x,), (x,))
    same(grad(lambda x: NoRule.apply(x).sum())(x), 2 * x)


def test_forward_mode_uses_jvp() -> None:
    x, y = rng(3), rng(3, seed=1)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, fa.ones(3, dtype=fa.float64))
        out = Cube.apply(dual, y)
        same(forward_ad.unpack_dual(out).tangent, 3 * x**2 * y)
        with pytest.raises(NotImplementedError, match="jvp"):
            ByHand.apply(dual)


# ---- forward mode where no formula is stated, and in place ----


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.clone().mul_(x).add_(1),
        lambda x: x.clone().copy_(x * 2).sin_(),
        lambda x: x.sort()[0] ** 2,
        lambda x: x.cumprod(0),
        lambda x: x.as_strided((2, 2), (1, 1)) ** 2,
        lambda x: x.new_zeros(3).scatter_add_(0, fa.tensor([0, 0, 2]), x**2),
        lambda x: x.topk(2)[0] ** 2,
        lambda x: x.logcumsumexp(0),
        lambda x: fa.linalg.solve(fa.diag(x.exp()) + 0.1, x),
        lambda x: fa.linalg.det(fa.diag(x) + 0.3),
    ],
)
def test_forward_mode_everywhere(f: Any) -> None:
    x = fa.tensor([0.3, -1.2, 0.8], dtype=fa.float64)
    same(jacfwd(f)(x), jacrev(f)(x))
    same(jacfwd(jacrev(f))(x), jacrev(jacrev(f))(x), 1e-7)
    same(jacfwd(jacfwd(f))(x), jacrev(jacrev(f))(x), 1e-7)


class Tripled(Function):
    """In place: x, which it returns, becomes 3 x; beside it x * w of before."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        product = x * w
        x.mul_(3)
        return product, x

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_dirty(inputs[0])
        ctx.save_for_backward(inputs[1], output[1])
        ctx.save_for_forward(inputs[1], output[1])

    @staticmethod
    def backward(ctx: Any, of_product: Any, of_x: Any) -> Any:
        w, three_x = ctx.saved_tensors
        return of_product * w + of_x * 3, of_product * three_x / 3

    @staticmethod
    def jvp(ctx: Any, tx: Any, tw: Any) -> Any:
        w, three_x = ctx.saved_tensors
        product = tx * w
        if tw is not None:
            product = product + tw * three_x / 3
        return product, tx.mul_(3)


class OwnRule(Tripled):
    generate_vmap_rule = False

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any, w: Any) -> Any:
        x, w = (
            t.expand(info.batch_size, *t.shape) if d is None else t if d == 0 else t.movedim(d, 0)
            for t, d in zip((x, w), in_dims, strict=True)
        )
        return Tripled.apply(x, w), (0, 0)


@pytest.mark.parametrize("function", [Tripled, OwnRule])
def test_inputs_that_a_function_writes_to(function: Any) -> None:
    def f(x: Any) -> Any:
        y, w = x * 1, x.cos()
        product, z = function.apply(y, w)
        assert z is y
        return (product * y).sum() + (z**2).sum()

    def plain(x: Any) -> Any:
        return (x * x.cos() * 3 * x).sum() + (9 * x**2).sum()

    x = rng(3)
    same(grad(f)(x), grad(plain)(x))
    same(vmap(f)(fa.stack([x, 2 * x])), vmap(plain)(fa.stack([x, 2 * x])))
    same(vmap(grad(f))(fa.stack([x, 2 * x])), vmap(grad(plain))(fa.stack([x, 2 * x])))
    rows = fa.stack([x, 2 * x])
    for of in (lambda f: lambda r: vmap(f)(r).sum(), lambda f: lambda r: vmap(grad(f))(r).sum()):
        if function is Tripled:
            same(grad(of(f))(rows), grad(of(plain))(rows))
    same(jvp(f, (x,), (x,))[1], jvp(plain, (x,), (x,))[1])
    same(jacrev(f)(x), jacrev(plain)(x))
    same(jacfwd(f)(x), jacfwd(plain)(x))


def test_what_is_shared_is_not_written_with_rows() -> None:
    shared = fa.ones(3)
    with pytest.raises(RuntimeError, match="share"):
        vmap(lambda w: Cell.apply(shared, w))(fa.ones(2, 3))


class Cell(Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any, w: Any) -> Any:
        return x.mul_(w)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_dirty(inputs[0])


class Once(Function):
    """x ** 3, whose derivative NumPy computes."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


def test_once_differentiable_at_every_level() -> None:
    def f(x: Any) -> Any:
        return Once.apply(x).sum()

    x = rng(3)
    rows = fa.stack([x, 2 * x])
    same(grad(f)(x), 3 * x**2)
    same(vmap(grad(f))(rows), 3 * rows**2)
    same(grad(lambda r: vmap(f)(r).sum())(rows), 3 * rows**2)
    same(jacrev(Once.apply)(x), fa.diag(3 * x**2))
    xr = x.clone().requires_grad_()
    for again in (
        lambda: grad(lambda x: grad(f)(x).sum())(x),
        lambda: jacrev(jacrev(f))(x),
        lambda: vmap(grad(lambda x: grad(f)(x).sum()))(rows),
        lambda: grad(lambda r: vmap(grad(f))(r).sum())(rows),
        lambda: fa.autograd.grad(grad(f)(xr).sum(), xr),
        lambda: fa.autograd.grad(vmap(grad(f))(xr[None]).sum(), xr),
    ):
        with pytest.raises(RuntimeError, match="marked once_differentiable"):
            again()
        assert fa._C._level_depth() == 0
    with pytest.raises(NotImplementedError, match="jvp"):
        jvp(grad(f), (x,), (x,))


def test_forward_mode_in_place_on_views() -> None:
    def f(x: Any) -> Any:
        y = x * 2
        y[1:].mul_(x[:-1])
        y[0] = x[2] ** 2
        z = y.new_zeros(2, 3)
        z[0] = y
        z[:, 1].add_(x[0])
        return z

    x = rng(3)
    same(jacfwd(f)(x), jacrev(f)(x))
    same(vmap(jacfwd(f))(rng(2, 3)), vmap(jacrev(f))(rng(2, 3)))


# ---- autograd ----


def test_batches_of_gradients() -> None:
    x = rng(3).requires_grad_()
    y = x.sin() * x.sum()
    unused = rng(2).requires_grad_()
    basis = fa.eye(3, dtype=fa.float64)
    (rows,) = fa.autograd.grad(y, x, basis, retain_graph=True, is_grads_batched=True)
    same(rows, jacrev(lambda x: x.sin() * x.sum())(x.detach()))
    _, none = fa.autograd.grad(
        y, (x, unused), basis, retain_graph=True, allow_unused=True, is_grads_batched=True
    )
    assert none is None
    _, zeros = fa.autograd.grad(
        y, (x, unused), basis, retain_graph=True, materialize_grads=True, is_grads_batched=True
    )
    same(zeros, np.zeros((3, 2)))
    (rows,) = fa.autograd.grad(y, x, basis, create_graph=True, is_grads_batched=True)
    (second,) = fa.autograd.grad(rows.sum(), x)
    f = lambda x: jacrev(lambda x: x.sin() * x.sum())(x).sum()  # noqa: E731
    same(second, grad(f)(x.detach()))
    with pytest.raises(RuntimeError, match="is_grads_batched"):
        fa.autograd.grad(y, x, fa.tensor(1.0), is_grads_batched=True)


@pytest.mark.parametrize("strategy", ["reverse-mode", "forward-mode"])
def test_vectorized_jacobians(strategy: str) -> None:
    def f(x: Any, y: Any) -> Any:
        return x.outer(y).tanh(), (x * 2).sum()

    x, y = rng(3), rng(2, seed=1)
    got = functional.jacobian(f, (x, y), vectorize=True, strategy=strategy)
    want = functional.jacobian(f, (x, y))
    for p, q in zip(_flat(got), _flat(want), strict=True):
        same(p, q)
    g = lambda x: (x.sin() ** 2 * x.prod()).sum()  # noqa: E731
    got = functional.hessian(g, x, vectorize=True, outer_jacobian_strategy=strategy)
    same(got, functional.hessian(g, x))


def test_strategies_are_checked() -> None:
    x = rng(2)
    with pytest.raises(ValueError, match="strategy"):
        functional.jacobian(fa.sin, x, strategy="sideways")
    with pytest.raises(NotImplementedError, match="vectorize=True"):
        functional.jacobian(fa.sin, x, strategy="forward-mode")


def test_batches_of_nothing_and_sizes() -> None:
    from facula import vmap

    assert vmap(fa.bmm)(fa.zeros(0, 2, 3, 4), fa.zeros(0, 2, 4, 5)).shape == (0, 2, 3, 5)
    with pytest.raises((RuntimeError, ValueError), match="-1"):
        vmap(lambda x: x.view(-1, -1))(fa.zeros(2, 6))
    x, a, b = fa.ones(3, 2, dtype=fa.float16), fa.full((2,), 2.0), fa.full((3,), 3.0).double()
    x32 = x.float()
    vmap(lambda x, b: x.addcmul_(a, b), (0, 0))(x32, b)
    assert x32.tolist() == [[7.0, 7.0]] * 3
    rows = vmap(lambda x: x + fa.rand(2), randomness="same", chunk_size=1)(fa.zeros(4, 2))
    assert (rows == rows[0]).all()


def test_gradients_of_per_sample_gradients_of_a_convolution() -> None:
    x, w = rng(5, 2, 4), rng(3, 2, 2, seed=1)

    def loss(x: fa.Tensor, w: fa.Tensor) -> fa.Tensor:
        return (fa.nn.functional.conv1d(x.unsqueeze(0), w) ** 3).sum()

    def whole(x: fa.Tensor, w: fa.Tensor, by: int) -> fa.Tensor:
        return (vmap(grad(loss, argnums=by), (0, None))(x, w) ** 2).sum()

    def rows(x: fa.Tensor, w: fa.Tensor, by: int) -> fa.Tensor:
        return sum((grad(loss, argnums=by)(row, w) ** 2).sum() for row in x.unbind())

    for by in (0, 1):
        for of in (0, 1):
            same(grad(whole, argnums=of)(x, w, by), grad(rows, argnums=of)(x, w, by))
