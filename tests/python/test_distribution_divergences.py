"""Divergences: against quadrature and sums, and the dispatch of register_kl."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import facula as fa
import facula.distributions as dist
import numpy as np
import pytest
from facula.distributions import kl


def wide(x: Any) -> Any:
    return fa.tensor(x, dtype=fa.float64)


def batch(make: Any, *columns: Any) -> Any:
    return make(*(wide(c) for c in columns))


# Two or three of each, as a batch.
CONTINUOUS = {
    "Beta": batch(dist.Beta, [1.5, 3.0], [2.5, 1.2]),
    "Cauchy": batch(dist.Cauchy, [0.0, 1.0], [1.0, 2.5]),
    "Chi2": batch(dist.Chi2, [3.0, 5.0]),
    "ContinuousBernoulli": batch(dist.ContinuousBernoulli, [0.2, 0.5]),
    "Exponential": batch(dist.Exponential, [0.5, 2.0]),
    "Gamma": batch(dist.Gamma, [2.0, 3.5], [1.0, 0.7]),
    "Gumbel": batch(dist.Gumbel, [0.0, 1.0], [1.0, 1.6]),
    "HalfNormal": batch(dist.HalfNormal, [1.0, 2.0]),
    "Laplace": batch(dist.Laplace, [0.0, 1.0], [1.0, 1.8]),
    "LogNormal": batch(dist.LogNormal, [0.0, 0.5], [1.0, 0.7]),
    "Normal": batch(dist.Normal, [0.0, 1.0], [1.0, 1.7]),
    "Pareto": batch(dist.Pareto, [1.0, 0.5], [4.0, 3.5]),
    "Uniform": batch(dist.Uniform, [0.1, 0.2, 2.0], [0.9, 0.7, 3.0]),
}
DISCRETE = {
    "Bernoulli": batch(dist.Bernoulli, [0.3, 0.8]),
    "Binomial": dist.Binomial(7, wide([0.3, 0.8])),
    "Categorical": dist.Categorical(wide([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])),
    "Geometric": batch(dist.Geometric, [0.3, 0.6]),
    "Poisson": batch(dist.Poisson, [0.7, 3.0]),
}


def registered(p: Any, q: Any) -> bool:
    return kl._dispatch_kl(type(p), type(q)) is not NotImplemented


PAIRS = [
    (a, b)
    for a, b in itertools.product(CONTINUOUS, CONTINUOUS)
    if registered(CONTINUOUS[a], CONTINUOUS[b])
]


def supports(p: Any) -> tuple[float, float]:
    low = {"Uniform": lambda: p.low.item(), "Pareto": lambda: p.scale.item()}
    name = type(p).__name__
    if name in low:
        return low[name](), p.high.item() if name == "Uniform" else math.inf
    if name in ("Beta", "ContinuousBernoulli"):
        return 0.0, 1.0
    if name in ("Exponential", "Gamma", "Chi2", "LogNormal", "HalfNormal"):
        return 0.0, math.inf
    return -math.inf, math.inf


def quadrature(p: Any, q: Any) -> float:
    """The integral of p (log p - log q), by tanh-sinh and its kin for infinite ranges."""
    low, high = supports(p)
    below, above = supports(q)
    if low < below or high > above:
        return math.inf
    t = np.linspace(-4.5, 4.5, 4001)
    step = t[1] - t[0]
    inner = np.pi / 2 * np.sinh(t)
    if math.isinf(low):
        x, dx = np.sinh(inner), np.cosh(inner) * np.pi / 2 * np.cosh(t)
    elif math.isinf(high):
        x, dx = low + np.exp(inner), np.exp(inner) * np.pi / 2 * np.cosh(t)
    else:
        x = low + (high - low) / (1 + np.exp(-2 * inner))
        dx = (high - low) * np.pi / 2 * np.cosh(t) / (2 * np.cosh(inner) ** 2)
    inside = (x > low) & (x < high) & (np.abs(x) < 1e200)
    at = wide(x[inside])
    log_p = np.array(p.log_prob(at).tolist())
    log_q = np.array(q.log_prob(at).tolist())
    with np.errstate(all="ignore"):
        value = np.exp(log_p) * (log_p - log_q) * dx[inside] * step
    return float(np.where(np.exp(log_p) > 0, value, 0).sum())


def single(d: Any, i: int) -> Any:
    """Element i of a batch."""
    names = {"Chi2": ["df"], "HalfNormal": ["scale"]}.get(type(d).__name__, list(d.arg_constraints))
    if type(d).__name__ == "ContinuousBernoulli":
        names = ["probs"]
    return type(d)(**{n: getattr(d, n)[i] for n in names}, validate_args=False)


@pytest.mark.parametrize("a, b", PAIRS)
def test_continuous(a: str, b: str) -> None:
    p, q = CONTINUOUS[a], CONTINUOUS[b]
    limit = 2e-5 if "Laplace" in (a, b) else 1e-6  # a kink
    for i in range(p.batch_shape[0]):
        for j in range(q.batch_shape[0]):
            one, other = single(p, i), single(q, j)
            try:
                value = dist.kl_divergence(one, other)
            except NotImplementedError:  # of the general entries, which ask for more than classes
                assert type(p) is not type(q)
                return
            assert value.shape == ()
            assert value.item() == pytest.approx(quadrature(one, other), rel=limit, abs=1e-8), (
                i,
                j,
            )


def test_all_pairs_are_there() -> None:
    """As many as torch 2.13 has."""
    assert len(kl._KL_REGISTRY) == 87
    assert len(PAIRS) >= 75


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    p = DISCRETE[name]
    given = {k: v for k, v in p.__dict__.items() if k in ("probs", "rate", "total_count")}
    q = type(p)(**{k: v.flip(0) for k, v in given.items()})
    count = {"Binomial": 8, "Bernoulli": 2, "Categorical": 3}.get(name, 200)
    x = wide(np.arange(count)).unsqueeze(-1)
    log_p, log_q = p.log_prob(x), q.log_prob(x)
    want = (log_p.exp() * (log_p - log_q)).sum(0)
    fa.testing.assert_close(dist.kl_divergence(p, q), want, rtol=1e-9, atol=1e-12)
    fa.testing.assert_close(dist.kl_divergence(p, p), fa.zeros_like(want), rtol=0, atol=1e-12)


def test_impossible_values() -> None:
    inf = math.inf
    p, q = dist.Bernoulli(wide([0.0, 0.5, 1.0])), dist.Bernoulli(wide([0.0, 0.0, 1.0]))
    got = dist.kl_divergence(p, q).tolist()
    assert got[1] == inf and abs(got[0]) < 1e-12 and abs(got[2]) < 1e-12
    some, none = dist.Categorical(wide([0.5, 0.5])), dist.Categorical(wide([1.0, 0.0]))
    assert dist.kl_divergence(some, none).item() == inf
    assert dist.kl_divergence(none, some).item() == pytest.approx(math.log(2))
    assert dist.kl_divergence(dist.Poisson(wide(1.0)), dist.Bernoulli(wide(0.5))).item() == inf
    more, less = dist.Binomial(5, wide(0.5)), dist.Binomial(3, wide(0.5))
    assert dist.kl_divergence(more, less).item() == inf
    with pytest.raises(NotImplementedError, match="total_count"):
        dist.kl_divergence(less, more)
    value = dist.kl_divergence(dist.Bernoulli(wide(0.3)), dist.Poisson(wide(0.8))).item()
    want = 0.7 * math.log(0.7) + 0.3 * math.log(0.3) + 0.8 - 0.3 * math.log(0.8)
    assert value == pytest.approx(want)


def monte_carlo(p: Any, q: Any, n: int = 100_000) -> tuple[float, float]:
    fa.manual_seed(1)
    x = p.sample((n,))
    terms = np.array((p.log_prob(x) - q.log_prob(x)).tolist())
    return float(terms.mean()), float(5 * terms.std() / math.sqrt(n))


A = [[2.0, 0.5], [0.5, 1.0]]
B = [[1.0, -0.2], [-0.2, 3.0]]
VECTORS = {
    "full": (
        dist.MultivariateNormal(wide([0.0, 1.0]), wide(A)),
        dist.MultivariateNormal(wide([1.0, 1.0]), wide(B)),
    ),
    "low": (
        dist.LowRankMultivariateNormal(wide([0.0, 1.0]), wide([[1.0], [0.5]]), wide([1.0, 2.0])),
        dist.LowRankMultivariateNormal(wide([1.0, 0.5]), wide([[0.3], [-0.5]]), wide([1.5, 1.0])),
    ),
}


@pytest.mark.parametrize("a, b", list(itertools.product(VECTORS, VECTORS)))
def test_normal_vectors(a: str, b: str) -> None:
    p, q = VECTORS[a][0], VECTORS[b][1]
    s, t = (np.array(d.covariance_matrix.tolist()) for d in (p, q))
    shift = np.array((q.loc - p.loc).tolist())
    inverse = np.linalg.inv(t)
    want = 0.5 * (
        np.trace(inverse @ s)
        + shift @ inverse @ shift
        - 2
        + np.log(np.linalg.det(t) / np.linalg.det(s))
    )
    assert dist.kl_divergence(p, q).item() == pytest.approx(want, rel=1e-10)
    with pytest.raises(ValueError, match="different event shapes"):
        dist.kl_divergence(p, dist.MultivariateNormal(wide([0.0, 0, 0]), fa.eye(3).double()))


def test_others_by_draws() -> None:
    pairs = [
        (dist.Dirichlet(wide([0.7, 2.0, 3.0])), dist.Dirichlet(wide([1.0, 1.0, 2.0]))),
        (dist.Wishart(wide(4.0), wide(A)), dist.Wishart(wide(5.0), wide(B))),
        (dist.OneHotCategorical(wide([0.2, 0.8])), dist.OneHotCategorical(wide([0.6, 0.4]))),
        (dist.InverseGamma(wide(2.0), wide(1.0)), dist.InverseGamma(wide(3.0), wide(2.0))),
    ]
    for p, q in pairs:
        mean, error = monte_carlo(p, q, 20_000)
        assert abs(dist.kl_divergence(p, q).item() - mean) < error + 1e-9


def test_a_batch_is_each_of_its_own() -> None:
    """Also of families whose parameters have other dimensions than their events."""
    p, q = (
        dist.Wishart(wide(df), fa.stack([wide(x), wide(y)]))
        for df, x, y in (([4.0, 5.0], A, B), ([5.0, 6.0], B, A))
    )
    got = dist.kl_divergence(p, q).tolist()
    for i in range(2):
        one, other = (dist.Wishart(d.df[i], d.covariance_matrix[i]) for d in (p, q))
        assert got[i] == pytest.approx(dist.kl_divergence(one, other).item(), rel=1e-12)
        mean, error = monte_carlo(one, other, 20_000)
        assert abs(got[i] - mean) < error


def test_independent_and_transformed() -> None:
    p, q = batch(dist.Normal, [0.0, 1.0], [1.0, 2.0]), batch(dist.Normal, [1.0, 1.0], [2.0, 1.0])
    whole = dist.kl_divergence(dist.Independent(p, 1), dist.Independent(q, 1))
    fa.testing.assert_close(whole, dist.kl_divergence(p, q).sum())
    move = dist.AffineTransform(1.0, 2.0)
    moved = [dist.TransformedDistribution(d, [move, dist.ExpTransform()]) for d in (p, q)]
    fa.testing.assert_close(dist.kl_divergence(*moved), dist.kl_divergence(p, q))
    with pytest.raises(NotImplementedError, match="the transforms differ"):
        dist.kl_divergence(moved[0], dist.LogNormal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="reinterpreted_batch_ndims"):
        dist.kl_divergence(dist.Independent(p, 1), dist.Independent(q, 0))


def test_dispatch() -> None:
    class Mine(dist.Normal):
        pass

    class Yours(Mine):
        pass

    saved = dict(kl._KL_REGISTRY)
    try:
        p, q = Mine(0.0, 1.0), Yours(1.0, 1.0)
        assert dist.kl_divergence(p, q).item() == 0.5  # as that of Normal

        @dist.register_kl(Mine, dist.Normal)
        def left(p: Any, q: Any) -> str:
            return "left"

        assert dist.kl_divergence(q, q) == "left"

        @dist.register_kl(dist.Normal, Yours)
        def right(p: Any, q: Any) -> str:
            return "right"

        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Yours, Yours\)"):
            assert dist.kl_divergence(q, q) == "left"
        dist.register_kl(Yours, Yours)(lambda p, q: "exact")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert dist.kl_divergence(q, q) == "exact"
    finally:
        kl._KL_REGISTRY.clear()
        kl._KL_REGISTRY.update(saved)
        kl._KL_MEMOIZE.clear()
    for bad in (5, "Normal"):
        with pytest.raises(TypeError, match="subclass of Distribution"):
            dist.register_kl(bad, dist.Normal)
    with pytest.raises(NotImplementedError, match="p type StudentT and q type Normal"):
        dist.kl_divergence(dist.StudentT(3.0), dist.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="different exponential families"):
        dist.kl_divergence(dist.Poisson(3.0), dist.Normal(0.0, 1.0))


def test_gradients() -> None:
    loc = wide(0.5).requires_grad_()
    dist.kl_divergence(dist.Normal(loc, 1.0), dist.Normal(0.0, 2.0)).backward()
    assert loc.grad.item() == pytest.approx(0.125)
