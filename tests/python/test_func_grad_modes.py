"""no_grad, enable_grad and inference_mode in and around nested transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import facula as fa
import pytest
from facula.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap


def held(x: Any) -> Any:
    """x^2 as a constant: no level, and nothing outside, sees that it depends on x."""
    with fa.no_grad():
        return x**2


def f(x: Any) -> Any:
    return x**3 - x * held(x)


def off(function: Callable[..., Any]) -> Callable[..., Any]:
    def called(*args: Any) -> Any:
        with fa.no_grad():
            return function(*args)

    return called


def cube(x: Any) -> Any:
    return x**3


X = 2.0
# With c for what is held, the derivatives of x^3 - x c by x are 3 x^2 - c, 6 x, 6.
NESTINGS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "within": (grad(off(cube)), 0),
    "around": (off(grad(cube)), 3 * X**2),
    "around, a function that it gives": (lambda x: off(vjp(cube, x)[1])(x * 0 + 1)[0], 3 * X**2),
    "a part": (grad(f), 3 * X**2 - X**2),
    "a part, twice": (grad(grad(f)), 6 * X),
    "a part, three times": (grad(grad(grad(f))), 6),
    "between": (grad(off(grad(cube))), 0),
    "between, a part": (grad(lambda x: x * off(grad(f))(x)), 3 * X**2 - X**2),
    "innermost": (grad(grad(off(cube))), 0),
    "rows": (grad(lambda x: vmap(off(lambda r: r * x))(fa.ones(3)).sum()), 0),
    "rows, around": (grad(lambda x: off(vmap(lambda r: r * x))(fa.ones(3)).sum()), 0),
    "tangents go on": (lambda x: jvp(off(cube), (x,), (x * 0 + 1,))[1], 3 * X**2),
    "tangents of a part": (lambda x: jvp(f, (x,), (x * 0 + 1,))[1], 0),
    "tangents of gradients": (
        # of 3 x^2 - c, with the tangent of c, 2 x
        lambda x: jvp(grad(f), (x,), (x * 0 + 1,))[1],
        6 * X - 2 * X,
    ),
    "Hessian": (hessian(f), 6 * X - 2 * X),
    "rows of rows": (jacrev(jacrev(f)), 6 * X),
    # 3 x^2 - c - x (tangent of c), the latter both constants: 6 x - 2 x
    "rows of columns": (jacrev(jacfwd(f)), 6 * X - 2 * X),
    "on again": (grad(lambda x: off(lambda: fa.enable_grad()(cube)(x))()), 3 * X**2),
    "inference": (grad(lambda x: x + fa.inference_mode()(lambda: x**2)()), 1),
}


@pytest.mark.parametrize("name", NESTINGS)
def test_nestings(name: str) -> None:
    transform, wanted = NESTINGS[name]
    got = transform(fa.tensor(X, dtype=fa.float64))
    assert fa._C._level_of(got) is None
    assert got.item() == pytest.approx(wanted, abs=1e-12)
    assert fa.is_grad_enabled()


def test_histories_outside() -> None:
    z = fa.tensor(X, dtype=fa.float64, requires_grad=True)
    x = fa.tensor(3.0, dtype=fa.float64)
    assert not off(grad(cube))(z).requires_grad
    assert fa.autograd.grad(grad(f)(z), z)[0].item() == 6 * X
    assert fa.autograd.grad(grad(lambda x: x * held(z) + x * z)(x), z)[0].item() == 1
    assert not grad(lambda x: x * held(z))(x).requires_grad
    assert fa.autograd.grad(off(lambda: fa.enable_grad()(grad(cube))(z))(), z)[0].item() == 6 * X


def test_a_backward_pass_halts_no_level_outside() -> None:
    """Recording is off in a pass that is not recorded itself, for its own level alone."""

    class Square(fa.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0])

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            assert not fa.is_grad_enabled()
            with fa.no_grad():
                (ctx.saved_tensors[0] * 2).sum()  # and what it halts ends with the block
            return 2 * ctx.saved_tensors[0] * g

    x = fa.tensor(X, dtype=fa.float64)
    assert grad(grad(Square.apply))(x).item() == 2
    assert vmap(grad(grad(Square.apply)))(x[None]).item() == 2


def test_modes_come_back_after_errors() -> None:
    def fails(x: Any) -> Any:
        with fa.no_grad():
            raise KeyError("mine")

    for transform in (grad(fails), grad(grad(fails)), vmap(grad(fails))):
        with pytest.raises(KeyError, match="mine"):
            transform(fa.ones(2))
        assert fa.is_grad_enabled()
        assert grad(grad(cube))(fa.tensor(X)).item() == 6 * X
