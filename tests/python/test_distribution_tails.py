"""Distributions in tails, next to 0, and where squares overflow: against mpmath, in both dtypes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula as fa
import facula.distributions as dist
import mpmath as mp
import pytest

EPS = {fa.float32: 2.0**-23, fa.float64: 2.0**-52}
DTYPES = [fa.float32, fa.float64]
Exact = Callable[[Any], Any]

# what x is given to, and the exact value there
ICDF: dict[str, tuple[Callable[[Any], Any], Exact]] = {
    "Cauchy": (lambda one: dist.Cauchy(0 * one, one), lambda p: -mp.cot(mp.pi * p)),
    "ContinuousBernoulli": (
        lambda one: dist.ContinuousBernoulli(0.75 * one),
        lambda p: mp.log1p(2 * p) / mp.log(3),
    ),
    "Exponential": (lambda one: dist.Exponential(2 * one), lambda p: -mp.log1p(-p) / 2),
    "GeneralizedPareto": (
        lambda one: dist.GeneralizedPareto(0 * one, one, 0.25 * one),
        lambda p: 4 * mp.expm1(-mp.log1p(-p) / 4),
    ),
    "Gumbel": (lambda one: dist.Gumbel(0 * one, one), lambda p: -mp.log(-mp.log(p))),
    "HalfCauchy": (lambda one: dist.HalfCauchy(one), lambda p: mp.tan(mp.pi * p / 2)),
    "HalfNormal": (lambda one: dist.HalfNormal(one), lambda p: mp.sqrt(2) * mp.erfinv(p)),
    "Kumaraswamy": (
        lambda one: dist.Kumaraswamy(2 * one, 3 * one),
        lambda p: mp.sqrt(-mp.expm1(mp.log1p(-p) / 3)),
    ),
    "Laplace": (
        lambda one: dist.Laplace(0 * one, one),
        lambda p: mp.log(2 * p) if p < 0.5 else -mp.log(2 * (1 - p)),
    ),
    "Normal": (
        lambda one: dist.Normal(0 * one, one),
        lambda p: mp.findroot(
            lambda z: mp.log(mp.ncdf(z)) - mp.log(p),
            -mp.sqrt(-2 * mp.log(p)) if p < 0.3 else 3 * (p - 0.5),
        ),
    ),
    "Weibull": (lambda one: dist.Weibull(one, 2 * one), lambda p: mp.sqrt(-mp.log1p(-p))),
}
CDF: dict[str, tuple[Callable[[Any], Any], Exact]] = {
    "Cauchy": (ICDF["Cauchy"][0], lambda x: mp.atan2(1, -x) / mp.pi),
    "ContinuousBernoulli": (
        ICDF["ContinuousBernoulli"][0],
        lambda x: mp.expm1(x * mp.log(3)) / 2,
    ),
    "GeneralizedPareto": (
        ICDF["GeneralizedPareto"][0],
        lambda x: -mp.expm1(-4 * mp.log1p(x / 4)),
    ),
    "HalfCauchy": (ICDF["HalfCauchy"][0], lambda x: 2 * mp.atan(x) / mp.pi),
    "HalfNormal": (ICDF["HalfNormal"][0], lambda x: mp.erf(x / mp.sqrt(2))),
    "InverseGamma": (
        lambda one: dist.InverseGamma(2.5 * one, one),
        lambda x: mp.gammainc(2.5, 1 / x, regularized=True),
    ),
    "Kumaraswamy": (ICDF["Kumaraswamy"][0], lambda x: -mp.expm1(3 * mp.log1p(-x * x))),
    "Laplace": (
        ICDF["Laplace"][0],
        lambda x: mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2,
    ),
    "Weibull": (ICDF["Weibull"][0], lambda x: -mp.expm1(-x * x)),
}
UNIT = [1e-12, 1e-5, 0.3, 0.999]
AT = {
    "Cauchy": [-1e20, -1e5, -1.0, 3.0, 1e20],
    "Laplace": [-60.0, -20.0, -1e-8, 2.0, 20.0],
    "InverseGamma": [0.03, 0.2, 3.0],
    "Kumaraswamy": UNIT,
    "ContinuousBernoulli": UNIT,
}


def agrees(got: Any, want: Any, dtype: Any, ulps: float) -> None:
    assert got.dtype == dtype
    assert abs(mp.mpf(got.item()) - want) <= ulps * EPS[dtype] * abs(want), (got.item(), want)


def given(x: float, dtype: Any) -> tuple[Any, Any]:
    """A number of the dtype, and exactly that one."""
    t = fa.tensor(x, dtype=dtype)
    return t, mp.mpf(t.item())


@pytest.fixture(autouse=True)
def digits() -> Any:
    with mp.workdps(60):
        yield


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ICDF)
def test_icdf(name: str, dtype: Any) -> None:
    make, exact = ICDF[name]
    d = make(fa.ones((), dtype=dtype))
    for p in [1e-30, 1e-10, 1e-4, 0.2, 0.45, 0.7, 0.98, 1 - 2.0**-20]:
        t, at = given(p, dtype)
        agrees(d.icdf(t), exact(at), dtype, 40)
    if name in ("Cauchy", "Laplace", "Normal") and dtype == fa.float64:
        agrees(d.icdf(fa.tensor(1e-300, dtype=dtype)), exact(mp.mpf(1e-300)), dtype, 40)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CDF)
def test_cdf(name: str, dtype: Any) -> None:
    make, exact = CDF[name]
    d = make(fa.ones((), dtype=dtype))
    for x in AT.get(name, [*UNIT, 3.0, 1e8]):
        t, at = given(x, dtype)
        agrees(d.cdf(t), exact(at), dtype, 500 if name == "InverseGamma" else 40)


def test_pareto_next_to_its_scale() -> None:
    for dtype in DTYPES:
        scale = fa.tensor(3.0, dtype=dtype)
        t = fa.nextafter(scale, 2 * scale)
        want = -mp.expm1(-1.5 * mp.log(mp.mpf(t.item()) / 3))
        agrees(dist.Pareto(scale, 1.5).cdf(t), want, dtype, 4)


def student(df: float) -> Exact:
    def exact(x: Any) -> Any:
        with mp.workdps(120):
            n = mp.mpf(df)
            constant = mp.loggamma((n + 1) / 2) - mp.loggamma(n / 2) - mp.log(n * mp.pi) / 2
            return constant - (n + 1) / 2 * mp.log1p(x * x / n)

    return exact


LOG_PROB: dict[str, tuple[Callable[[Any], Any], Exact, list[float]]] = {
    "Cauchy": (
        ICDF["Cauchy"][0],
        lambda x: -mp.log(mp.pi) - mp.log1p(x * x),
        [-1e25, 1e-25, 1e25, 1e200],
    ),
    "Cauchy, narrow": (
        lambda one: dist.Cauchy(0 * one, 2.0**-80 * one),
        lambda x: -mp.log(mp.pi) + 80 * mp.log(2) - mp.log1p((x * mp.mpf(2) ** 80) ** 2),
        [1e-30, 1.0, 1e25],
    ),
    "HalfCauchy": (
        ICDF["HalfCauchy"][0],
        lambda x: mp.log(2 / mp.pi) - mp.log1p(x * x),
        [1e-25, 1e25, 1e200],
    ),
    "StudentT(3)": (lambda one: dist.StudentT(3 * one), student(3), [1e-25, 1.0, 1e25, 1e200]),
    "StudentT(2^34)": (lambda one: dist.StudentT(2.0**34 * one), student(2.0**34), [1.0, 30, 1e25]),
    "StudentT(2^99)": (lambda one: dist.StudentT(2.0**99 * one), student(2.0**99), [0.0, 1.0]),
    "StudentT(200)": (lambda one: dist.StudentT(200 * one), student(200), [0.0, 1.0]),
    "Kumaraswamy": (
        ICDF["Kumaraswamy"][0],
        lambda x: mp.log(6 * x) + 2 * mp.log1p(-x * x),
        [1e-30, 1e-10, 1e-4, 0.5, 0.9999],
    ),
    "Weibull": (ICDF["Weibull"][0], lambda x: mp.log(2 * x) - x * x, [1e-30, 1e-5, 9.0]),
    "Weibull(1/2)": (
        lambda one: dist.Weibull(one, 0.5 * one),
        lambda x: -mp.log(2 * mp.sqrt(x)) - mp.sqrt(x),
        [1e-30, 1e30],
    ),
    "GeneralizedPareto": (
        ICDF["GeneralizedPareto"][0],
        lambda x: -5 * mp.log1p(x / 4),
        [1e-25, 1.0, 1e25],
    ),
    "GeneralizedPareto(2^-70)": (
        lambda one: dist.GeneralizedPareto(0 * one, one, 2.0**-70 * one),
        lambda x: -x,
        [1e-20, 1e-3, 4.0],
    ),
    "Pareto": (
        lambda one: dist.Pareto(2.0**-100 * one, 1.5 * one),
        lambda x: mp.log(1.5) - 150 * mp.log(2) - 2.5 * mp.log(x),
        [1e-25, 1e25],
    ),
    "ContinuousBernoulli": (
        lambda one: dist.ContinuousBernoulli(2.0**-70 * one),
        lambda x: (
            mp.log(mp.log(mp.mpf(2) ** 70 - 1) / (1 - mp.mpf(2) ** -69))
            - 70 * x * mp.log(2)
            + (1 - x) * mp.log1p(-(mp.mpf(2) ** -70))
        ),
        [1e-10, 0.5, 1.0],
    ),
    "RelaxedBernoulli": (  # of temperature 1 and odds 1/3
        lambda one: dist.RelaxedBernoulli(one, 0.25 * one),
        lambda x: mp.log(3) - 2 * mp.log(1 - x + 3 * x),
        [1e-10, 1e-3, 0.75],
    ),
    "VonMises": (
        lambda one: dist.VonMises(0 * one, 2.0**80 * one),
        # I0 by the first terms of DLMF 10.40.1
        lambda x: mp.mpf(2) ** 80 * (mp.cos(x) - 1) - mp.log(2 * mp.pi) / 2 + 40 * mp.log(2),
        [0.0, 2.0**-40, 1e-11],
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LOG_PROB)
def test_log_prob(name: str, dtype: Any) -> None:
    make, exact, points = LOG_PROB[name]
    d = make(fa.ones((), dtype=dtype))
    for x in points:
        if x > 1e30 and dtype == fa.float32:
            continue
        t, at = given(x, dtype)
        agrees(d.log_prob(t), exact(at), dtype, 300)
    with fa.no_grad():
        assert d.log_prob(fa.tensor(points, dtype=dtype).clamp(max=1e30)).shape == (len(points),)


@pytest.mark.parametrize("dtype", DTYPES)
def test_student_entropy(dtype: Any) -> None:
    for df in (3.0, 200.0, 2.0**34):
        n = mp.mpf(df)
        with mp.workdps(120):
            slope = (n + 1) / 2 * (mp.digamma((n + 1) / 2) - mp.digamma(n / 2))
            want = slope + mp.log(mp.sqrt(n)) + mp.log(mp.beta(n / 2, mp.mpf(1) / 2))
        agrees(dist.StudentT(fa.tensor(df, dtype=dtype)).entropy(), want, dtype, 300)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [1e-30, 1e-10, 0.3, 1 - 2.0**-20])
def test_small_chances(p: float, dtype: Any) -> None:
    """What is given as probabilities is taken at its word, not kept off 0 by an eps."""
    t, at = given(p, dtype)
    log, rest, five = mp.log(at), mp.log1p(-at), fa.tensor(5.0, dtype=dtype)
    entropy = -at * log - (1 - at) * rest
    agrees(dist.Bernoulli(t).log_prob(fa.ones_like(t)), log, dtype, 4)
    agrees(dist.Bernoulli(t).log_prob(fa.zeros_like(t)), rest, dtype, 4)
    agrees(dist.Bernoulli(t).entropy(), entropy, dtype, 8)
    agrees(dist.Bernoulli(t).logits, log - rest, dtype, 8)
    agrees(dist.Geometric(t).log_prob(five), log + 5 * rest, dtype, 8)
    agrees(dist.Geometric(t).entropy(), entropy / at, dtype, 8)
    agrees(dist.Binomial(5, t).log_prob(five), 5 * log, dtype, 300)
    agrees(dist.NegativeBinomial(5.0, t).log_prob(five), mp.log(126) + 5 * (log + rest), dtype, 300)
    both = fa.stack([t, 1 - t])
    agrees(dist.Categorical(both).log_prob(fa.tensor(0)), log, dtype, 8)
    agrees(dist.Multinomial(5, both).log_prob(fa.stack([five, 0 * five])), 5 * log, dtype, 300)
    half = dist.Bernoulli(fa.full_like(t, 0.5))
    want = -mp.log(2) - (log + rest) / 2
    agrees(dist.kl_divergence(half, dist.Bernoulli(t)), want, dtype, 2e6 * float(mp.exp(-want)) + 8)


def test_logits_far_out() -> None:
    """Of logits the small one of both probabilities keeps its digits."""
    for logit in (-80.0, 80.0):
        t = fa.tensor(logit)
        tiny = mp.exp(-80)
        d = dist.Bernoulli(logits=t)
        assert d.log_prob(fa.tensor(0.0 if logit > 0 else 1.0)).item() == -80
        agrees(d.entropy(), 81 * tiny, fa.float32, 64)
        assert dist.Geometric(logits=t).log_prob(fa.tensor(2.0)).item() == (
            -160 if logit > 0 else -80
        )
    p, q = (dist.Categorical(logits=fa.tensor(x)) for x in ([0.0, -200.0], [-300.0, 0.0]))
    assert dist.kl_divergence(p, q).item() == 300


def test_certain_events() -> None:
    """0 log 0 is 0, what cannot be is -inf, and no gradient is NaN."""
    inf = math.inf
    for make, values, want in [
        (dist.Bernoulli, [0.0, 1.0, 0.0, 1.0], [0.0, -inf, -inf, 0.0]),
        (lambda p: dist.Binomial(3, p), [0.0, 3.0, 1.0, 3.0], [0.0, -inf, -inf, 0.0]),
    ]:
        p = fa.tensor([0.0, 0.0, 1.0, 1.0], requires_grad=True)
        log = make(p).log_prob(fa.tensor(values))
        assert log.tolist() == want
        log.sum().backward()
        assert p.grad.isfinite().all()
    p = fa.tensor([0.0, 1.0], requires_grad=True)
    d = dist.Categorical(p)
    assert d.log_prob(fa.tensor([0, 1])).tolist() == [-inf, 0]
    (d.log_prob(fa.tensor([0, 1])).sum() + d.entropy()).backward()
    assert p.grad.isfinite().all()
    assert d.logits.isfinite().all()
    assert dist.Bernoulli(fa.tensor([0.0, 1.0])).logits.isfinite().all()


# ---- divergences at the edges

KL: list[tuple[Any, tuple[float, ...], tuple[float, ...], Any]] = [
    (lambda p: dist.Binomial(5, p), (1.0,), (0.5,), lambda: 5 * mp.log(2)),
    (lambda p: dist.Binomial(5, p), (0.0,), (0.0,), lambda: 0),
    (dist.Poisson, (0.0,), (0.0,), lambda: 0),
    (dist.Poisson, (0.0,), (2.0,), lambda: 2),
    (dist.Poisson, (2.0,), (0.0,), lambda: mp.inf),
    (dist.Geometric, (1.0,), (1.0,), lambda: 0),
    (dist.Geometric, (1.0,), (0.5,), lambda: mp.log(2)),
    (dist.Geometric, (0.5,), (1.0,), lambda: mp.inf),
    (dist.Normal, (0.0, 2.0**-80), (0.0, 1.0), lambda: 80 * mp.log(2) - 0.5),
    (dist.Normal, (0.0, 2.0**-80), (0.0, 2.0**-80), lambda: 0),
    (dist.Laplace, (0.0, 2.0**-100), (0.0, 2.0**100), lambda: 200 * mp.log(2) - 1),
    (
        dist.Gumbel,
        (0.0, 2.0**-100),
        (0.0, 2.0**100),
        lambda: 200 * mp.log(2) - mp.euler,
    ),
    (dist.Cauchy, (0.0, 2.0**100), (0.0, 2.0**100), lambda: 0),
    (dist.Cauchy, (0.0, 2.0**-100), (0.0, 2.0**100), lambda: 198 * mp.log(2)),
    (dist.Cauchy, (1.0, 2.0**-100), (0.0, 2.0**-100), lambda: 198 * mp.log(2)),
    (dist.Cauchy, (0.0, 1.0), (2.0**-10, 1.0), lambda: mp.log1p(mp.mpf(2) ** -22)),
    (dist.Exponential, (2.0**100,), (2.0**-100,), lambda: 200 * mp.log(2) - 1),
    (dist.Gamma, (1.0, 2.0**100), (1.0, 2.0**-100), lambda: 200 * mp.log(2) - 1),
    (dist.Pareto, (2.0**100, 1.0), (2.0**-100, 1.0), lambda: 200 * mp.log(2)),
    (dist.Uniform, (0.0, 2.0**-100), (0.0, 2.0**100), lambda: 200 * mp.log(2)),
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make, p, q, exact", KL)
def test_divergence(make: Any, p: Any, q: Any, exact: Any, dtype: Any) -> None:
    own, other = (
        [fa.tensor(v, dtype=dtype, requires_grad=True) for v in values] for values in (p, q)
    )
    value, want = dist.kl_divergence(make(*own), make(*other)), exact()
    if want == mp.inf:
        assert value.item() == math.inf
        return
    agrees(value, want, dtype, 16)
    value.backward()
    assert all(x.grad.isfinite().all() for x in (*own, *other))


def test_divergence_of_cauchy_beyond_squares() -> None:
    scale = fa.tensor(1e200, dtype=fa.float64)
    one = dist.Cauchy(0.0, scale)
    assert dist.kl_divergence(one, one).item() == 0
    far = dist.Cauchy(fa.tensor(1e300, dtype=fa.float64), scale)
    want = 200 * mp.log(10) - mp.log(4)
    agrees(dist.kl_divergence(far, one), want, fa.float64, 8)


# ---- gradients

SLOPES: list[tuple[Callable[[Any], Any], list[float], list[Any]]] = [
    (lambda x: dist.Cauchy(0.0, 1.0).log_prob(x), [1e25, 0.0], [-2e-25, 0.0]),
    (lambda x: dist.StudentT(3.0).log_prob(x), [1e25, 1.0], [-4e-25, -1.0]),
    (lambda x: dist.Kumaraswamy(2.0, 3.0).log_prob(x), [1e-20, 1e-4], [1e20, 1e4]),
    (lambda x: dist.Laplace(0.0, 1.0).cdf(x), [-20.0, 0.0], [math.exp(-20) / 2, 0.5]),
    (lambda x: dist.Laplace(0.0, 1.0).icdf(x), [1e-10, 0.75], [1e10, 4.0]),
    (lambda x: dist.Cauchy(0.0, 1.0).icdf(x), [1e-10, 0.5], [1e20 / math.pi, math.pi]),
    (lambda x: dist.Weibull(1.0, 2.0).cdf(x), [1e-5, 1e-15], [2e-5, 2e-15]),
    # 1 / density
    (lambda x: dist.Normal(0.0, 1.0).icdf(x), [0.5, 1e-10], [math.sqrt(2 * math.pi), 1.535727e9]),
]


@pytest.mark.parametrize("function, x, want", SLOPES)
def test_slopes(function: Any, x: list[float], want: list[float]) -> None:
    t = fa.tensor(x, requires_grad=True)
    function(t).sum().backward()
    assert t.grad.tolist() == pytest.approx(want, rel=1e-4)


# ---- draws


@pytest.mark.parametrize("k", [1e6, 2e6, 1e15, 1e20, 1e30])
def test_von_mises_of_large_concentrations(k: float) -> None:
    """The draws are normal numbers of deviation 1 / sqrt(k), and no two are alike."""
    fa.manual_seed(0)
    zero = fa.tensor(0.0, dtype=fa.float64)
    x = dist.VonMises(zero, fa.tensor(k, dtype=fa.float64)).sample((4000,)) * math.sqrt(k)
    assert x.unique().numel() == 4000
    assert abs(x.mean().item()) < 5 / math.sqrt(4000)
    assert abs(x.var().item() - 1) < 5 * math.sqrt(2 / 4000)


def test_von_mises_of_odd_concentrations() -> None:
    k = fa.tensor([math.nan, -1.0, math.inf, 0.0, 1e-40])
    x = dist.VonMises(fa.zeros(5), k, validate_args=False).sample((100,))
    assert x[:, :2].isnan().all() and (x[:, 2] == 0).all()
    assert (x[:, 3:].abs() <= math.pi).all() and (x[:, 3:].std(0) > 1).all()
    assert dist.VonMises(fa.tensor(0.0), fa.tensor(1e20)).sample((3,)).isfinite().all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_von_mises_variance(dtype: Any) -> None:
    for k in (0.5, 999.0, 1001.0, 2.0**20):
        with mp.workdps(40):
            u = 1 / mp.mpf(k)
            series = u / 2 + u**2 / 8 + u**3 / 8 + 25 * u**4 / 128 + 13 * u**5 / 32
            want = series if k > 1e4 else 1 - mp.besseli(1, k) / mp.besseli(0, k)
        got = dist.VonMises(fa.tensor(0.0, dtype=dtype), fa.tensor(k, dtype=dtype)).variance
        agrees(got, want, dtype, 5e3 if dtype == fa.float64 else 4)


def test_multinomial_of_many_trials() -> None:
    """Counts by halves: all trials counted, their moments, and nothing of n elements made."""
    fa.manual_seed(1)
    p = fa.tensor([0.2, 0.0, 0.3, 0.5, 0.0], dtype=fa.float64)
    n, draws = 5000, 8000
    x = dist.Multinomial(n, p).sample((draws,))
    assert (x.sum(-1) == n).all() and (x[:, [1, 4]] == 0).all()
    error = 5 * (n * p * (1 - p) / draws).sqrt()
    assert ((x.mean(0) - n * p).abs() <= error).all()
    want = n * (fa.diag(p) - fa.outer(p, p))
    assert ((fa.cov(x.mT) - want).abs() <= 0.08 * n * 0.25).all()
    many = dist.Multinomial(10**12, fa.ones(2, 3, dtype=fa.float64)).sample((2,))
    assert (many.sum(-1) == 10**12).all() and ((many / 10**12 - 1 / 3).abs() < 1e-4).all()
    assert dist.Multinomial(10**9, fa.ones(1)).sample().tolist() == [1e9]
    assert dist.Multinomial(2000, fa.ones(0, 5)).sample((3,)).shape == (3, 0, 5)


def test_entropy_of_many_trials() -> None:
    want = mp.log((2 * mp.pi * mp.e * 10**9) ** 2 / 27) / 2  # up to terms of 1 / n
    got = dist.Multinomial(10**9, fa.ones(3, dtype=fa.float64)).entropy().item()
    assert got == pytest.approx(float(want), rel=1e-8)
    p = fa.tensor([0.0, 1e-10, 0.3], dtype=fa.float64)
    got = dist.Binomial(10, p).entropy().tolist()
    terms = [mp.mpf(1e-10) ** k * mp.binomial(10, k) * (1 - mp.mpf(1e-10)) ** (10 - k) for k in
             range(11)]  # fmt: skip
    assert got[0] == 0
    assert got[1] == pytest.approx(float(-sum(t * mp.log(t) for t in terms)), rel=1e-7)
