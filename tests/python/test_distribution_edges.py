"""Entropies, moments and divergences at parameters where their terms cancel: against mpmath."""

from __future__ import annotations

import math
from typing import Any

import facula as fa
import facula.distributions as dist
import mpmath as mp
import pytest

EPS = {fa.float32: 2.0**-23, fa.float64: 2.0**-52}
DTYPES = pytest.mark.parametrize("dtype", [fa.float32, fa.float64])


@pytest.fixture(autouse=True)
def digits() -> Any:
    with mp.workdps(80):
        yield


def near(got: Any, want: Any, dtype: Any, ulps: float, scale: Any = 0) -> None:
    """Within some units in the last place of the value, or of a scale."""
    assert got.dtype == dtype
    limit = ulps * EPS[dtype] * max(abs(want), scale)
    assert abs(mp.mpf(got.item()) - want) <= limit, (got.item(), mp.nstr(want, 17))


def tensors(values: Any, dtype: Any) -> list[Any]:
    return [fa.tensor(v, dtype=dtype) for v in values]


def exact(values: Any, dtype: Any) -> list[Any]:
    return [mp.mpf(t.item()) for t in tensors(values, dtype)]


def log_beta(a: Any) -> Any:
    return sum(mp.loggamma(v) for v in a) - mp.loggamma(sum(a))


@DTYPES
@pytest.mark.parametrize("shape", [1e-10, 0.3, 15.9, 16.1, 1e4, 1e10])
def test_entropy_of_gamma(shape: float, dtype: Any) -> None:
    a, rate = exact((shape, 3.0), dtype)
    both = mp.loggamma(a) + (1 - a) * mp.digamma(a)
    own = tensors((shape, 3.0), dtype)
    near(dist.Gamma(*own).entropy(), a - mp.log(rate) + both, dtype, 60, 10)
    twice = a + mp.log(rate) + mp.loggamma(a) - (1 + a) * mp.digamma(a)
    near(dist.InverseGamma(*own).entropy(), twice, dtype, 60, 10)


@DTYPES
@pytest.mark.parametrize("shapes", [(1e-3, 0.5), (2.0, 3.0), (1e4, 2e4), (1e10, 3.0), (1e10, 1e10)])
def test_entropy_and_variance_of_beta(shapes: Any, dtype: Any) -> None:
    a, b = exact(shapes, dtype)
    d = dist.Beta(*tensors(shapes, dtype))
    psi = (a + b - 2) * mp.digamma(a + b) - (a - 1) * mp.digamma(a) - (b - 1) * mp.digamma(b)
    near(d.entropy(), log_beta((a, b)) + psi, dtype, 60, 30)
    near(d.variance, a * b / (a + b) ** 2 / (a + b + 1), dtype, 16)
    three = dist.Dirichlet(fa.tensor([*shapes, 7.0], dtype=dtype))
    c = [a, b, mp.mpf(7)]
    psi = (sum(c) - 3) * mp.digamma(sum(c)) - sum((v - 1) * mp.digamma(v) for v in c)
    near(three.entropy(), log_beta(c) + psi, dtype, 60, 60)


def kl_gamma(a: Any, r: Any, b: Any, s: Any) -> Any:
    own = b * mp.log(r / s) + mp.loggamma(b) - mp.loggamma(a) + (a - b) * mp.digamma(a)
    return own + a * (s / r - 1)


@DTYPES
@pytest.mark.parametrize(
    "p, q",
    [
        ((1e10, 1.0), (1e10, 1.0)),
        ((1e10, 1.0), (1.25e10, 1.25)),
        ((1e4, 2.0), (1.1e4, 2.0)),
        ((1e-10, 1.0), (20.0, 3.0)),
        ((20.0, 3.0), (1e-10, 1.0)),
        ((1e-20, 1e-30), (2.0, 1e10)),  # where the quotient of the rates is no float32
        ((1e20, 1e-10), (2.0, 1e-30)),
    ],
)
def test_divergence_of_gamma(p: Any, q: Any, dtype: Any) -> None:
    want = kl_gamma(*exact(p, dtype), *exact(q, dtype))
    got = dist.kl_divergence(*(dist.Gamma(*tensors(v, dtype)) for v in (p, q)))
    # moved by what the last digit of a concentration is worth
    scale = (exact(q, dtype)[0] * want) ** 0.5
    near(got, want, dtype, 60, max(scale, 100))
    assert got.item() >= 0


@DTYPES
@pytest.mark.parametrize(
    "p, q",
    [
        ((1e10, 1e10), (1e10, 1e10)),
        ((1e4, 2e4), (1.1e4, 2e4)),
        ((0.5, 0.25), (3.0, 1e3)),
        ((1e-10, 0.5), (20.0, 3.0)),
    ],
)
def test_divergence_of_beta(p: Any, q: Any, dtype: Any) -> None:
    a, b = exact(p, dtype), exact(q, dtype)
    want = log_beta(b) - log_beta(a)
    want += sum((x - y) * (mp.digamma(x) - mp.digamma(sum(a))) for x, y in zip(a, b, strict=True))
    got = dist.kl_divergence(*(dist.Beta(*tensors(v, dtype)) for v in (p, q)))
    near(got, want, dtype, 60, max((sum(b) * want) ** 0.5, 100))
    assert got.item() > -1e-4


INF = [  # where one term is infinite and another too, or 0
    (dist.Normal(1.0, 1e-30), dist.Gumbel(1.0, 1e-30)),
    (dist.Normal(0.0, 1.0), dist.Gumbel(-1e20, 1e-30)),
    (dist.Gumbel(-1e20, 1e-30), dist.Gumbel(0.0, 1e-30)),
    (dist.Uniform(-1e20, 1.0), dist.Gumbel(0.0, 1e-30)),
    (dist.Gamma(1e10, 1.0), dist.Gumbel(1.0, 1e-30)),
    (dist.Laplace(0.0, 1e10), dist.Laplace(-1e20, 1e-30)),
    (dist.Exponential(1.0), dist.Normal(0.0, 1e-25)),
    (dist.Pareto(1e10, 1e30), dist.Normal(0.0, 1e-30)),
]


@pytest.mark.parametrize("p, q", INF[1:])
def test_divergences_beyond_the_range(p: Any, q: Any) -> None:
    assert dist.kl_divergence(p, q).item() == math.inf


def test_divergence_of_narrow_ones() -> None:
    """Of standardized ones, whose scale cancels: -H + 1 + exp(1/2) less log scale."""
    want = math.sqrt(math.e) - 0.5 * math.log(2 * math.pi * math.e)
    assert dist.kl_divergence(*INF[0]).item() == pytest.approx(want, abs=1e-5)
    got = dist.kl_divergence(dist.Normal(1e20, 1e-30), dist.Laplace(0.0, 1.0))
    assert got.item() == pytest.approx(1e20)


def continuous_bernoulli(t: Any) -> dict[str, Any]:
    """By the slope t of the log-density."""
    mean = 1 / (1 - mp.exp(-t)) - 1 / t
    norm = mp.log(t / mp.tanh(t / 2))
    return {
        "mean": mean,
        "variance": 1 / t**2 - 1 / (4 * mp.sinh(t / 2) ** 2),
        "entropy": mp.log1p(mp.exp(t)) - mean * t - norm,
        "log_prob": mp.mpf(0.25) * t - mp.log1p(mp.exp(t)) + norm,
        "cdf": mp.expm1(t / 4) / mp.expm1(t),
        "icdf": mp.log1p(mp.expm1(t) / 4) / t,
    }


@DTYPES
@pytest.mark.parametrize(
    "p", [0.5 + 2.0**-20, 0.499, 0.5 - 2.0**-12, 0.49, 0.4, 0.3, 0.62, 0.63, 0.2, 0.9, 2.0**-40]
)
def test_continuous_bernoulli_next_to_a_half(p: float, dtype: Any) -> None:
    (at,) = exact((p,), dtype)
    d, quarter = dist.ContinuousBernoulli(*tensors((p,), dtype)), fa.tensor(0.25, dtype=dtype)
    for name, want in continuous_bernoulli(mp.log(at / (1 - at))).items():
        if name in ("cdf", "icdf", "log_prob"):
            near(getattr(d, name)(quarter), want, dtype, 60, 1 if name == "log_prob" else 0)
        elif name == "entropy":
            near(d.entropy(), want, dtype, 8, 1)
        else:
            near(getattr(d, name), want, dtype, 100)


@DTYPES
@pytest.mark.parametrize(
    "t", [-600.0, -60.0, -0.5, 1e-6, 0.09, 0.11, 0.49, 0.51, 39.0, 41.0, 600.0]
)
def test_continuous_bernoulli_of_logits(t: float, dtype: Any) -> None:
    (at,) = exact((t,), dtype)
    d, quarter = (
        dist.ContinuousBernoulli(logits=fa.tensor(t, dtype=dtype)),
        fa.tensor(0.25).to(dtype),
    )
    want = continuous_bernoulli(at)
    near(d.log_prob(quarter), want["log_prob"], dtype, 60, 1)
    near(d.icdf(quarter), want["icdf"], dtype, 60)
    if want["cdf"] > 1e-37:
        near(d.cdf(quarter), want["cdf"], dtype, 60 + abs(t))
    near(d.mean, want["mean"], dtype, 60)


def test_a_chance_of_a_half_is_uniform() -> None:
    p = fa.tensor(0.5, dtype=fa.float64, requires_grad=True)
    d, x = dist.ContinuousBernoulli(p), fa.tensor(0.25, dtype=fa.float64)
    assert d.mean.item() == 0.5 and d.variance.item() == pytest.approx(1 / 12, rel=1e-15)
    assert d.cdf(x).item() == d.icdf(x).item() == 0.25
    assert d.log_prob(x).item() == d.entropy().item() == pytest.approx(0, abs=1e-15)
    # slopes by p: four times those by the slope of the log-density
    for value, want in ((d.mean, 1 / 3), (d.cdf(x), -3 / 8), (d.icdf(x), 3 / 8)):
        (slope,) = fa.autograd.grad(value, p, retain_graph=True)
        assert slope.item() == pytest.approx(want, rel=1e-12)
