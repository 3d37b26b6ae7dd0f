"""Transforms, constraints and the registries between them."""

from __future__ import annotations

import copy
import math
import pickle
from typing import Any

import facula as fa
import facula.distributions as dist
import pytest
from facula.distributions import constraints, transforms


def wide(x: Any) -> Any:
    return fa.tensor(x, dtype=fa.float64)


def normal(*shape: int, seed: int = 0) -> Any:
    return fa.randn(shape, generator=fa.Generator().manual_seed(seed), dtype=fa.float64)


T = transforms
# transform, shape of the argument, whether it is positive
CASES: dict[str, tuple[Any, tuple[int, ...], bool]] = {
    "abs": (T.AbsTransform(), (3,), True),
    "affine": (T.AffineTransform(1.5, -2.0), (3,), False),
    "affine of tensors": (
        T.AffineTransform(wide([1.0, 2, 3]), wide([1.0, -2, 0.5])),
        (2, 3),
        False,
    ),
    "affine of events": (T.AffineTransform(0.5, wide([1.0, -2, 0.5]), event_dim=1), (2, 3), False),
    "cat": (T.CatTransform([T.ExpTransform(), T.identity_transform], 0, [2, 1]), (3,), False),
    "compose": (T.ComposeTransform([T.ExpTransform(), T.AffineTransform(1.0, 3.0)]), (3,), False),
    "compose of shapes": (
        T.ComposeTransform([T.TanhTransform(), T.StickBreakingTransform()]),
        (2, 3),
        False,
    ),
    "correlations": (T.CorrCholeskyTransform(), (2, 6), False),
    "cdf": (T.CumulativeDistributionTransform(dist.Normal(wide(0.5), wide(2.0))), (3,), False),
    "exp": (T.ExpTransform(), (3,), False),
    "independent": (T.IndependentTransform(T.ExpTransform(), 1), (2, 3), False),
    "inverse": (T.SigmoidTransform().inv.inv, (3,), False),
    "power": (T.PowerTransform(wide([0.5, -2.0, 3.0])), (3,), True),
    "reshape": (T.ReshapeTransform((2, 3), (3, 2)), (4, 2, 3), False),
    "sigmoid": (T.SigmoidTransform(), (3,), False),
    "softplus": (T.SoftplusTransform(), (3,), False),
    "stack": (T.StackTransform([T.ExpTransform(), T.TanhTransform()], dim=-1), (3, 2), False),
    "sticks": (T.StickBreakingTransform(), (2, 3), False),
    "tanh": (T.TanhTransform(), (3,), False),
}
ONE_WAY = {
    "lower": (T.LowerCholeskyTransform(), (2, 3, 3), False),
    "positive definite": (T.PositiveDefiniteTransform(), (2, 3, 3), False),
    "softmax": (T.SoftmaxTransform(), (2, 3), False),
}


def argument(name: str) -> Any:
    _, shape, positive = {**CASES, **ONE_WAY}[name]
    x = normal(*shape)
    return x.abs() + 0.1 if positive else x


@pytest.mark.parametrize("name", CASES)
def test_inverse(name: str) -> None:
    t, x = CASES[name][0], argument(name)
    y = t(x)
    fa.testing.assert_close(t.inv(y), x, rtol=1e-8, atol=1e-8)
    assert t.inv.inv is t or t.inv.inv == t
    assert tuple(t.forward_shape(x.shape)) == tuple(y.shape)
    assert tuple(t.inverse_shape(y.shape)) == tuple(x.shape)
    assert t.codomain.check(y).all()
    assert t.inv.domain.event_dim == t.codomain.event_dim
    assert t.inv.bijective == t.bijective


@pytest.mark.parametrize("name", ONE_WAY)
def test_one_way(name: str) -> None:
    """t(t.inv(y)) is y, though the argument may be another."""
    t, x = ONE_WAY[name][0], argument(name)
    y = t(x)
    fa.testing.assert_close(t(t.inv(y)), y, rtol=1e-9, atol=1e-9)
    assert t.codomain.check(y).all() and not t.bijective


def jacobian(f: Any, x: Any) -> Any:
    x = x.detach().requires_grad_()
    y = f(x).reshape(-1)
    rows = [fa.autograd.grad(v, x, retain_graph=True)[0].reshape(-1) for v in y]
    return fa.stack(rows)


def log_abs_det(matrix: Any) -> float:
    import numpy as np

    return float(np.linalg.slogdet(np.array(matrix.tolist()))[1])


@pytest.mark.parametrize("name", [n for n in CASES if n != "abs"])
def test_log_abs_det_jacobian(name: str) -> None:
    """Against autograd's Jacobian, of dependent elements without the dependent ones."""
    t, x = CASES[name][0], argument(name)
    y = t(x)
    got = t.log_abs_det_jacobian(x, y)
    event = len(x.shape) - got.dim() if name != "stack" and name != "cat" else 0
    assert event == t.domain.event_dim or name in ("stack", "cat")
    whole = jacobian(t, x)
    if name == "correlations":
        rows = jacobian(lambda v: dist.utils.tril_matrix_to_vec(t(v), -1), x)
        assert got.sum().item() == pytest.approx(log_abs_det(rows), rel=1e-9)
    elif name in ("sticks", "compose of shapes"):
        rows = jacobian(lambda v: t(v)[..., :-1], x)
        assert got.sum().item() == pytest.approx(log_abs_det(rows), rel=1e-9)
    else:
        assert got.sum().item() == pytest.approx(log_abs_det(whole), rel=1e-9, abs=1e-9)
    fa.testing.assert_close(t.inv.log_abs_det_jacobian(y, x), -got)


@pytest.mark.parametrize("name", [*CASES, *ONE_WAY])
def test_cache_and_copies(name: str) -> None:
    t, x = {**CASES, **ONE_WAY}[name][0], argument(name)
    kept = t.with_cache()
    y = kept(x)
    assert kept(x) is y or isinstance(kept, T.ComposeTransform) or name == "inverse"
    if not isinstance(kept, T.ComposeTransform):
        assert kept.inv(y) is x
    assert kept.with_cache(1) is kept and kept.with_cache(0)._cache_size == 0
    for again in (pickle.loads(pickle.dumps(kept)), copy.deepcopy(kept)):
        fa.testing.assert_close(again(x), y)
        fa.testing.assert_close(again.inv(again(x)), kept.inv(y))
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        T.ExpTransform(cache_size=2)


def test_a_cache_keeps_what_rounding_loses() -> None:
    t = T.TanhTransform(cache_size=1)
    x = fa.tensor([20.0])
    assert t.inv(t(x)) is x
    assert T.TanhTransform().inv(t(x)).isinf().all()


def test_equality() -> None:
    assert T.ExpTransform() == T.ExpTransform() != T.TanhTransform()
    assert T.AffineTransform(1.0, 2.0) == T.AffineTransform(1.0, 2.0) != T.AffineTransform(1.0, 3.0)
    assert T.PowerTransform(2.0) == T.PowerTransform(2.0) != T.PowerTransform(3.0)
    assert T.ExpTransform().inv == T.ExpTransform().inv != T.ExpTransform()
    both = T.ComposeTransform([T.ExpTransform(), T.AffineTransform(0.0, 1.0)])
    assert both == T.ComposeTransform(list(both.parts)) != T.ComposeTransform(both.parts[:1])
    assert len({T.ExpTransform(), T.ExpTransform()}) == 1


def test_signs() -> None:
    assert T.ExpTransform().sign == 1 and T.AffineTransform(0.0, -2.0).sign == -1
    assert T.ComposeTransform([T.ExpTransform(), T.AffineTransform(0.0, -2.0)]).sign == -1
    assert T.AffineTransform(0.0, fa.tensor([1.0, -1.0])).sign.tolist() == [1, -1]
    with pytest.raises(NotImplementedError, match="AbsTransform has no sign"):
        _ = T.AbsTransform().sign


def test_errors() -> None:
    with pytest.raises(ValueError, match="different numbers of elements"):
        T.ReshapeTransform((2,), (3,))
    with pytest.raises(ValueError, match=r"shape \(3, 2\) must end in \(2, 3\)"):
        T.ReshapeTransform((2, 3), (6,))(fa.zeros(3, 2))
    with pytest.raises(ValueError, match="4 is not d"):
        T.CorrCholeskyTransform().forward_shape((4,))
    with pytest.raises(ValueError, match="must have 3 elements"):
        T.CatTransform([T.ExpTransform()] * 2, 0, [2, 1])(fa.zeros(4))
    with pytest.raises(ValueError, match=r"\.domain\.event_dim or \.codomain\.event_dim"):
        _ = T.CorrCholeskyTransform().event_dim
    with pytest.raises(ValueError, match="at least 1 dimensions, not 0"):
        T.IndependentTransform(T.ExpTransform(), 1)(fa.tensor(1.0))


def test_event_dims_of_compositions() -> None:
    t = T.ComposeTransform([T.ExpTransform(), T.StickBreakingTransform().inv.inv])
    assert (t.domain.event_dim, t.codomain.event_dim) == (1, 1)
    t = T.ComposeTransform([T.CorrCholeskyTransform(), T.ExpTransform()])
    assert (t.domain.event_dim, t.codomain.event_dim) == (1, 2)
    t = T.ComposeTransform([T.ExpTransform(), T.ReshapeTransform((6,), (2, 3))])
    assert (t.domain.event_dim, t.codomain.event_dim) == (1, 2)
    assert repr(T.identity_transform).startswith("ComposeTransform(")


# ---- constraints ----

C = constraints
CHECKS: list[tuple[Any, Any, Any]] = [
    (C.boolean, [0.0, 1.0, 0.5], [True, True, False]),
    (C.real, [0.0, math.nan, math.inf], [True, False, True]),
    (C.positive, [0.0, 1e-30, -1.0], [False, True, False]),
    (C.nonnegative, [0.0, -1e-30], [True, False]),
    (C.greater_than(2), [2.0, 2.1], [False, True]),
    (C.greater_than_eq(2), [2.0, 1.9], [True, False]),
    (C.less_than(2), [2.0, 1.9], [False, True]),
    (C.unit_interval, [0.0, 1.0, 1.1, math.nan], [True, True, False, False]),
    (C.half_open_interval(0, 1), [0.0, 1.0], [True, False]),
    (C.integer_interval(1, 3), [1.0, 2.5, 4.0], [True, False, False]),
    (C.nonnegative_integer, [0.0, -1.0, 1.5], [True, False, False]),
    (C.positive_integer, [0.0, 1.0], [False, True]),
    (C.simplex, [[0.2, 0.8], [0.2, 0.7], [-0.1, 1.1]], [True, False, False]),
    (C.one_hot, [[0.0, 1.0], [1.0, 1.0]], [True, False]),
    (C.multinomial(3), [[1.0, 2.0], [2.0, 2.0]], [True, False]),
    (C.real_vector, [[0.0, 1.0], [0.0, math.nan]], [True, False]),
    (C.lower_triangular, [[[1.0, 0], [1, 1]], [[1, 1], [0, 1]]], [True, False]),
    (C.lower_cholesky, [[[1.0, 0], [1, 1]], [[1, 0], [1, -1]]], [True, False]),
    (C.corr_cholesky, [[[1.0, 0], [0.6, 0.8]], [[1, 0], [1, 1]]], [True, False]),
    (C.symmetric, [[[1.0, 2], [2, 1]], [[1, 2], [3, 1]]], [True, False]),
    (C.square, [[[1.0, 2], [2, 1]]], [True]),
    (C.square, [[[1.0, 2, 3], [2, 1, 3]]], [False]),
    (C.positive_definite, [[[2.0, 1], [1, 2]], [[1, 2], [2, 1]]], [True, False]),
    (C.cat([C.positive, C.real], 0, [1, 2]), [-1.0, -1.0, -1.0], [False, True, True]),
    (C.stack([C.positive, C.real], 0), [-1.0, -1.0], [False, True]),
    (C.independent(C.positive, 1), [[1.0, 2.0], [1.0, -2.0]], [True, False]),
]


@pytest.mark.parametrize("constraint, value, want", CHECKS, ids=lambda v: repr(v)[:30])
def test_checks(constraint: Any, value: Any, want: Any) -> None:
    assert constraint.check(wide(value)).tolist() == want


def test_positive_semidefinite() -> None:
    if not hasattr(fa.linalg, "eigvalsh"):
        pytest.skip("no eigenvalues yet")
    value = wide([[[1.0, 1], [1, 1]], [[1, 2], [2, 1]]])
    assert C.positive_semidefinite.check(value + 1e-12 * fa.eye(2)).tolist() == [True, False]


def test_constraints_say_what_they_are() -> None:
    assert repr(C.interval(0, 2)) == "Interval(lower_bound=0, upper_bound=2)"
    assert repr(C.positive) == "GreaterThan(lower_bound=0.0)"
    assert repr(C.real_vector) == "IndependentConstraint(Real(), 1)"
    assert C.is_dependent(C.dependent) and not C.is_dependent(C.real)
    assert C.is_dependent(dist.Uniform.support) and dist.Uniform.support.event_dim == 0
    assert not dist.Uniform.support.is_discrete and dist.Binomial.support.is_discrete
    with pytest.raises(NotImplementedError, match="cannot be determined statically"):
        _ = C.dependent.event_dim
    with pytest.raises(ValueError, match="dependent constraint cannot check"):
        C.dependent.check(fa.zeros(1))
    with pytest.raises(ValueError, match="at least 1 dimensions, not 0"):
        C.real_vector.check(fa.tensor(1.0))


REGISTERED: list[tuple[Any, tuple[int, ...]]] = [
    (C.real, (3,)),
    (C.positive, (3,)),
    (C.nonnegative, (3,)),
    (C.greater_than(2.0), (3,)),
    (C.greater_than_eq(-1.0), (3,)),
    (C.less_than(5.0), (3,)),
    (C.interval(-1.0, 5.0), (3,)),
    (C.unit_interval, (3,)),
    (C.half_open_interval(0.0, 2.0), (3,)),
    (C.simplex, (2, 3)),
    (C.corr_cholesky, (2, 6)),
    (C.real_vector, (2, 3)),
    (C.independent(C.positive, 2), (2, 3)),
    (C.cat([C.positive, C.unit_interval], 0, [1, 2]), (3,)),
    (C.stack([C.positive, C.less_than(0.0)], -1), (3, 2)),
]
OPTIMIZED = [(C.lower_cholesky, (3, 3)), (C.positive_definite, (3, 3))]


@pytest.mark.parametrize("constraint, shape", REGISTERED, ids=lambda v: repr(v)[:40])
def test_biject_to(constraint: Any, shape: Any) -> None:
    t, x = dist.biject_to(constraint), normal(*shape)
    y = t(x)
    assert t.bijective and constraint.check(y).all()
    fa.testing.assert_close(t.inv(y), x, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("constraint, shape", REGISTERED + OPTIMIZED, ids=lambda v: repr(v)[:40])
def test_transform_to(constraint: Any, shape: Any) -> None:
    y = dist.transform_to(constraint)(normal(*shape))
    assert constraint.check(y).all()
    fa.testing.assert_close(dist.transform_to(constraint)(dist.transform_to(constraint).inv(y)), y)


def test_registries_can_be_added_to() -> None:
    class Even(C.Constraint):
        pass

    with pytest.raises(NotImplementedError, match="Cannot transform Even constraints"):
        dist.biject_to(Even())
    registry = dist.constraint_registry.ConstraintRegistry()

    @registry.register(Even)
    def to_even(constraint: Any) -> Any:
        return T.AffineTransform(0.0, 2.0)

    assert registry(Even()) == T.AffineTransform(0.0, 2.0)
    with pytest.raises(TypeError, match="subclass of Constraint"):
        registry.register(int, to_even)
    assert dist.biject_to(C.unit_interval) == T.SigmoidTransform()


def test_transformed_distribution() -> None:
    """A log-normal by hand is LogNormal; a falling transform turns the cdf round."""
    base = dist.Normal(wide(0.3), wide(0.7))
    d = dist.TransformedDistribution(base, T.ExpTransform())
    x = wide([0.5, 1.5])
    fa.testing.assert_close(d.log_prob(x), dist.LogNormal(wide(0.3), wide(0.7)).log_prob(x))
    down = dist.TransformedDistribution(base, [T.AffineTransform(1.0, -2.0)])
    same = dist.Normal(wide(0.4), wide(1.4))
    for name in ("log_prob", "cdf"):
        fa.testing.assert_close(getattr(down, name)(x), getattr(same, name)(x))
    fa.testing.assert_close(down.icdf(wide([0.2, 0.9])), same.icdf(wide([0.2, 0.9])))
    both = dist.TransformedDistribution(base, [T.AffineTransform(0.0, wide([1.0, -1.0]))])
    fa.testing.assert_close(both.cdf(x)[1], 1 - base.cdf(-x[1]))
    with pytest.raises(ValueError, match="must be a Transform or a list of them"):
        dist.TransformedDistribution(base, 3)
    with pytest.raises(ValueError, match="size at least 1"):
        dist.TransformedDistribution(base, T.StickBreakingTransform())


def test_shapes_of_transformed_distributions() -> None:
    base = dist.Normal(fa.zeros(4, 3), 1.0)
    d = dist.TransformedDistribution(base, T.StickBreakingTransform())
    assert (tuple(d.batch_shape), tuple(d.event_shape)) == ((4,), (4,))
    assert d.sample((2,)).shape == (2, 4, 4) and d.log_prob(d.sample()).shape == (4,)
    wide_one = dist.TransformedDistribution(
        dist.Normal(0.0, 1.0), T.AffineTransform(fa.zeros(3), 1.0)
    )
    assert tuple(wide_one.batch_shape) == (3,) and wide_one.sample((2,)).shape == (2, 3)
    more = d.expand((5, 4))
    assert more.sample().shape == (5, 4, 4) and more.base_dist.batch_shape == (5, 4)
    flat = dist.TransformedDistribution(base, T.ReshapeTransform((4, 3), (12,)))
    assert (tuple(flat.batch_shape), tuple(flat.event_shape)) == ((), (12,))


def test_a_stack_of_constraints_says_what_does_not_fit() -> None:
    stack = dist.constraints.stack([dist.constraints.positive, dist.constraints.real], 0)
    assert stack.check(fa.tensor([[1.0, -1.0], [-2.0, 3.0]])).tolist() == [
        [True, False],
        [True, True],
    ]
    with pytest.raises(ValueError, match="3 slices along dim 0 for 2 constraints"):
        stack.check(fa.ones(3))
