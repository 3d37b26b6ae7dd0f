"""Distributions: densities, distribution functions, entropies and moments against SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula as fa
import facula.distributions as dist
import numpy as np
import pytest
import scipy.special
import scipy.stats as st

Made = tuple[Any, Any]


def wide(x: Any) -> Any:
    return fa.tensor(x, dtype=fa.float64)


def numbers(t: Any) -> np.ndarray:
    return np.array(t.detach().to(fa.float64).tolist())


# name -> (constructor of ours, frozen distribution of SciPy's, parameters of a grid)
CONTINUOUS: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[tuple[float, ...]]]] = {
    "Beta": (dist.Beta, st.beta, [(0.5, 0.5), (2, 3), (30, 0.7), (1, 1)]),
    "Cauchy": (dist.Cauchy, st.cauchy, [(0, 1), (-3, 0.2)]),
    "Chi2": (dist.Chi2, st.chi2, [(1,), (2.5,), (40,)]),
    "Exponential": (dist.Exponential, lambda r: st.expon(scale=1 / r), [(0.3,), (7,)]),
    "FisherSnedecor": (dist.FisherSnedecor, st.f, [(1, 5), (3, 9), (12, 30)]),
    "Gamma": (
        dist.Gamma,
        lambda a, r: st.gamma(a, scale=1 / r),
        [(0.3, 1), (1, 2), (5.5, 0.1), (300, 20)],
    ),
    "GeneralizedPareto": (
        dist.GeneralizedPareto,
        lambda loc, s, c: st.genpareto(c, loc, s),
        [(0, 1, 0.2), (1, 2, 0), (-1, 0.5, -0.4)],
    ),
    "Gumbel": (dist.Gumbel, st.gumbel_r, [(0, 1), (-2, 3)]),
    "HalfCauchy": (dist.HalfCauchy, lambda s: st.halfcauchy(scale=s), [(1,), (4,)]),
    "HalfNormal": (dist.HalfNormal, lambda s: st.halfnorm(scale=s), [(1,), (0.3,)]),
    "InverseGamma": (
        dist.InverseGamma,
        lambda a, r: st.invgamma(a, scale=r),
        [(2.5, 1), (4, 3), (9, 0.2)],
    ),
    "Laplace": (dist.Laplace, st.laplace, [(0, 1), (3, 0.2)]),
    "LogNormal": (
        dist.LogNormal,
        lambda m, s: st.lognorm(s, scale=math.exp(m)),
        [(0, 1), (1, 0.3)],
    ),
    "Normal": (dist.Normal, st.norm, [(0, 1), (-3, 20)]),
    "Pareto": (dist.Pareto, lambda s, a: st.pareto(a, scale=s), [(1, 3), (0.5, 5)]),
    "StudentT": (dist.StudentT, st.t, [(2.5, 0, 1), (7, -1, 3), (100, 2, 0.1)]),
    "Uniform": (dist.Uniform, lambda a, b: st.uniform(a, b - a), [(0, 1), (-3, 5)]),
    "Weibull": (dist.Weibull, lambda s, c: st.weibull_min(c, scale=s), [(1, 1.5), (3, 0.8)]),
}
DISCRETE: dict[str, tuple[Callable[..., Any], Callable[..., Any], list[tuple[float, ...]]]] = {
    "Bernoulli": (dist.Bernoulli, st.bernoulli, [(0.2,), (0.7,)]),
    "Binomial": (dist.Binomial, st.binom, [(5, 0.3), (40, 0.9)]),
    "Geometric": (dist.Geometric, lambda p: st.geom(p, loc=-1), [(0.2,), (0.9,)]),
    "NegativeBinomial": (
        dist.NegativeBinomial,
        lambda n, p: st.nbinom(n, 1 - p),
        [(3, 0.4), (2.5, 0.8)],
    ),
    "Poisson": (dist.Poisson, st.poisson, [(0.5,), (30,)]),
}
ALL = {**CONTINUOUS, **DISCRETE}
CASES = [(name, at) for name, (_, _, grid) in ALL.items() for at in grid]


def pair(name: str, at: tuple[float, ...], dtype: Any = fa.float64) -> Made:
    ours, theirs, _ = ALL[name]
    return ours(*(fa.tensor(float(v), dtype=dtype) for v in at)), theirs(*at)


@pytest.mark.parametrize("name, at", CASES)
def test_log_prob(name: str, at: tuple[float, ...]) -> None:
    ours, theirs = pair(name, at)
    if name in DISCRETE:
        x = np.unique(theirs.ppf([0.001, 0.1, 0.5, 0.9, 0.999]))
        want = theirs.logpmf(x)
    else:
        x = theirs.ppf([0.001, 0.1, 0.5, 0.9, 0.999])
        want = theirs.logpdf(x)
    np.testing.assert_allclose(numbers(ours.log_prob(wide(x))), want, rtol=1e-9, atol=1e-9)
    single, _ = pair(name, at, fa.float32)
    # not at the ends, where x itself is rounded
    got = single.log_prob(fa.tensor(x[1:-1], dtype=fa.float32))
    assert got.dtype == fa.float32
    np.testing.assert_allclose(numbers(got), want[1:-1], rtol=2e-4, atol=2e-4)


@pytest.mark.parametrize("name, at", CASES)
def test_moments(name: str, at: tuple[float, ...]) -> None:
    ours, theirs = pair(name, at)
    mean, variance = theirs.stats("mv")
    if name == "HalfCauchy":
        mean = math.inf
    if name in ("Cauchy", "HalfCauchy"):
        variance = math.inf
    np.testing.assert_allclose(ours.mean.item(), mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ours.variance.item(), variance, rtol=1e-9)
    np.testing.assert_allclose(ours.stddev.item(), np.sqrt(variance), rtol=1e-9)


NO_ENTROPY = {"NegativeBinomial", "Poisson", "FisherSnedecor"}


@pytest.mark.parametrize("name, at", [c for c in CASES if c[0] not in NO_ENTROPY])
def test_entropy(name: str, at: tuple[float, ...]) -> None:
    ours, theirs = pair(name, at)
    np.testing.assert_allclose(ours.entropy().item(), theirs.entropy(), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(ours.perplexity().item(), np.exp(theirs.entropy()), rtol=1e-6)


@pytest.mark.parametrize("name", sorted(NO_ENTROPY))
def test_no_entropy(name: str) -> None:
    ours, _ = pair(name, ALL[name][2][0])
    with pytest.raises(NotImplementedError, match=name):
        ours.entropy()


NO_CDF = {"Beta", "FisherSnedecor", "StudentT"}


@pytest.mark.parametrize("name, at", [c for c in CASES if c[0] in CONTINUOUS])
def test_cdf_and_icdf(name: str, at: tuple[float, ...]) -> None:
    ours, theirs = pair(name, at)
    q = np.array([0.01, 0.3, 0.5, 0.8, 0.99])
    x = theirs.ppf(q)
    if name in NO_CDF:
        with pytest.raises(NotImplementedError, match=f"{name} has no cdf"):
            ours.cdf(wide(x))
        return
    np.testing.assert_allclose(numbers(ours.cdf(wide(x))), q, rtol=1e-9)
    if name in ("Gamma", "Chi2", "InverseGamma"):
        with pytest.raises(NotImplementedError, match="has no icdf"):
            ours.icdf(wide(q))
        return
    np.testing.assert_allclose(numbers(ours.icdf(wide(q))), x, rtol=1e-9, atol=1e-12)


MODES = {
    "Beta": [(2, 3), (30, 7)],
    "Chi2": [(4,)],
    "FisherSnedecor": [(5, 7)],
    "Gamma": [(3, 2), (0.5, 1)],
    "Gumbel": [(1, 2)],
    "InverseGamma": [(2, 3)],
    "LogNormal": [(0.3, 0.5)],
    "Weibull": [(2, 1.5), (2, 0.7)],
    "Binomial": [(9, 0.4), (9, 1.0)],
    "NegativeBinomial": [(5, 0.6), (0.5, 0.3)],
    "Poisson": [(3.5,)],
}


@pytest.mark.parametrize("name, at", [(n, at) for n, grid in MODES.items() for at in grid])
def test_the_mode_is_the_most_likely(name: str, at: tuple[float, ...]) -> None:
    ours, _ = pair(name, at)
    mode = ours.mode
    if mode.item() == 0:
        mode = mode + (1e-9 if name in CONTINUOUS else 0)
    top = ours.log_prob(mode).item()
    for step in (0.05, 0.3) if name in CONTINUOUS else (1.0, 2.0):
        for beside in (mode + step, mode - step):
            if ours.support.check(beside):
                assert ours.log_prob(beside).item() <= top


def test_kumaraswamy() -> None:
    a, b = 2.0, 3.5
    d = dist.Kumaraswamy(wide(a), wide(b))
    x = np.array([0.1, 0.5, 0.9])
    pdf = a * b * x ** (a - 1) * (1 - x**a) ** (b - 1)
    np.testing.assert_allclose(numbers(d.log_prob(wide(x))), np.log(pdf), rtol=1e-12)
    np.testing.assert_allclose(numbers(d.cdf(wide(x))), 1 - (1 - x**a) ** b, rtol=1e-12)
    np.testing.assert_allclose(numbers(d.icdf(d.cdf(wide(x)))), x, rtol=1e-10)
    t = (np.arange(200_000) + 0.5) / 200_000
    p = a * b * t ** (a - 1) * (1 - t**a) ** (b - 1)
    np.testing.assert_allclose(d.mean.item(), (t * p).mean(), rtol=1e-8)
    np.testing.assert_allclose(
        d.variance.item(), (t * t * p).mean() - (t * p).mean() ** 2, rtol=1e-7
    )
    np.testing.assert_allclose(d.entropy().item(), -(p * np.log(p)).mean(), rtol=1e-6)
    assert abs(t[p.argmax()] - d.mode.item()) < 1e-5


@pytest.mark.parametrize("p", [0.02, 0.3, 0.4989, 0.4999, 0.5, 0.503, 0.97])
def test_continuous_bernoulli(p: float) -> None:
    """Against sums over a grid; the density is C p^x (1 - p)^(1 - x)."""
    d = dist.ContinuousBernoulli(wide(p))
    t = (np.arange(100_000) + 0.5) / 100_000
    raw = p**t * (1 - p) ** (1 - t)
    pdf = raw / raw.mean()
    np.testing.assert_allclose(numbers(d.log_prob(wide(t[::9999]))), np.log(pdf[::9999]), atol=2e-7)
    np.testing.assert_allclose(d.mean.item(), (t * pdf).mean(), rtol=1e-6)
    np.testing.assert_allclose(
        d.variance.item(), ((t - d.mean.item()) ** 2 * pdf).mean(), rtol=1e-6
    )
    np.testing.assert_allclose(d.entropy().item(), -(pdf * np.log(pdf)).mean(), atol=1e-6)
    x = wide([0.1, 0.4, 0.95])
    np.testing.assert_allclose(
        numbers(d.cdf(x)), [pdf[t < v].sum() / 1e5 for v in (0.1, 0.4, 0.95)], atol=3e-4
    )
    np.testing.assert_allclose(numbers(d.icdf(d.cdf(x))), numbers(x), rtol=1e-9)
    also = dist.ContinuousBernoulli(logits=wide(math.log(p / (1 - p))))
    np.testing.assert_allclose(
        also._log_normalizer(also.logits).item(),
        np.log(np.exp(t * also.logits.item()).mean()),
        atol=1e-6,
    )


@pytest.mark.parametrize("k", [0.1, 1.0, 30.0, 5000.0])
def test_von_mises(k: float) -> None:
    d, theirs = dist.VonMises(wide(0.5), wide(k)), st.vonmises(k, loc=0.5)
    x = np.linspace(-3, 3, 7)
    np.testing.assert_allclose(
        numbers(d.log_prob(wide(x))), theirs.logpdf(x), rtol=1e-9, atol=1e-10
    )
    assert d.mean.item() == d.mode.item() == 0.5
    want = 1 - scipy.special.i1e(k) / scipy.special.i0e(k)
    np.testing.assert_allclose(d.variance.item(), want, rtol=1e-6)


SIGMA = np.array([[2.0, 0.5, 0.2], [0.5, 1.5, 0.1], [0.2, 0.1, 1.0]])


@pytest.mark.parametrize("form", ["covariance_matrix", "precision_matrix", "scale_tril"])
def test_multivariate_normal(form: str) -> None:
    given = {
        "covariance_matrix": SIGMA,
        "precision_matrix": np.linalg.inv(SIGMA),
        "scale_tril": np.linalg.cholesky(SIGMA),
    }
    loc = np.array([0.0, 1.0, -1.0])
    d, theirs = (
        dist.MultivariateNormal(wide(loc), **{form: wide(given[form])}),
        st.multivariate_normal(loc, SIGMA),
    )
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(numbers(d.log_prob(wide(x))), theirs.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(d.entropy().item(), theirs.entropy(), rtol=1e-12)
    np.testing.assert_allclose(numbers(d.variance), np.diag(SIGMA), rtol=1e-12)
    for name, value in given.items():
        np.testing.assert_allclose(numbers(getattr(d, name)), value, rtol=1e-10, atol=1e-14)


def test_low_rank_multivariate_normal() -> None:
    w, diag, loc = (
        np.array([[1.0, 0.2], [0.5, -1], [-0.3, 2]]),
        np.array([1, 2, 0.5]),
        np.arange(3.0),
    )
    sigma = w @ w.T + np.diag(diag)
    d, theirs = (
        dist.LowRankMultivariateNormal(wide(loc), wide(w), wide(diag)),
        st.multivariate_normal(loc, sigma),
    )
    x = np.random.default_rng(0).normal(size=(4, 3))
    np.testing.assert_allclose(numbers(d.log_prob(wide(x))), theirs.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(d.entropy().item(), theirs.entropy(), rtol=1e-12)
    np.testing.assert_allclose(numbers(d.covariance_matrix), sigma, rtol=1e-12)
    np.testing.assert_allclose(numbers(d.precision_matrix), np.linalg.inv(sigma), rtol=1e-10)
    np.testing.assert_allclose(
        numbers(d.scale_tril), np.linalg.cholesky(sigma), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(numbers(d.variance), np.diag(sigma), rtol=1e-12)


def test_wishart() -> None:
    d, theirs = dist.Wishart(wide(5.5), wide(SIGMA)), st.wishart(5.5, SIGMA)
    x = theirs.rvs(3, random_state=1)
    want = [theirs.logpdf(m) for m in x]
    np.testing.assert_allclose(numbers(d.log_prob(wide(x))), want, rtol=1e-12)
    np.testing.assert_allclose(d.entropy().item(), theirs.entropy(), rtol=1e-12)
    np.testing.assert_allclose(numbers(d.mean), theirs.mean(), rtol=1e-12)
    np.testing.assert_allclose(numbers(d.mode), theirs.mode(), rtol=1e-12)
    np.testing.assert_allclose(numbers(d.variance), theirs.var(), rtol=1e-12)


def test_dirichlet() -> None:
    a = np.array([0.5, 2.0, 3.5])
    d, theirs = dist.Dirichlet(wide(a)), st.dirichlet(a)
    x = np.array([[0.2, 0.3, 0.5], [0.9, 0.05, 0.05]])
    np.testing.assert_allclose(numbers(d.log_prob(wide(x))), theirs.logpdf(x.T), rtol=1e-12)
    np.testing.assert_allclose(d.entropy().item(), theirs.entropy(), rtol=1e-12)
    np.testing.assert_allclose(numbers(d.mean), theirs.mean(), rtol=1e-12)
    np.testing.assert_allclose(numbers(d.variance), theirs.var(), rtol=1e-12)
    mode = dist.Dirichlet(wide([2.0, 3.0, 4.0])).mode
    np.testing.assert_allclose(numbers(mode), np.array([1, 2, 3]) / 6, rtol=1e-12)


def test_multinomial() -> None:
    p = np.array([0.2, 0.3, 0.5])
    d, theirs = dist.Multinomial(6, wide(p)), st.multinomial(6, p)
    x = np.array([[1, 2, 3], [0, 0, 6]])
    np.testing.assert_allclose(
        numbers(d.log_prob(wide(x.astype(float)))), theirs.logpmf(x), rtol=1e-12
    )
    np.testing.assert_allclose(d.entropy().item(), theirs.entropy(), rtol=1e-10)
    np.testing.assert_allclose(numbers(d.mean), 6 * p)
    np.testing.assert_allclose(numbers(d.variance), np.diag(theirs.cov()))


def test_categorical() -> None:
    p = np.array([[0.2, 0.3, 0.5], [0.0, 0.4, 0.6]])
    for d in (dist.Categorical(wide(7 * p)), dist.Categorical(logits=wide(p).log() + 3)):
        np.testing.assert_allclose(numbers(d.probs), p, rtol=1e-12)
        got = numbers(d.log_prob(fa.tensor([[0, 1], [2, 2]])))
        np.testing.assert_allclose(got, np.log([[0.2, 0.4], [0.5, 0.6]]), rtol=1e-12)
        np.testing.assert_allclose(numbers(d.entropy()), st.entropy(p, axis=-1), rtol=1e-10)
        assert d.mode.tolist() == [2, 2] and d.mean.isnan().all()
        assert d.enumerate_support().tolist() == [[0, 0], [1, 1], [2, 2]]
    hot = dist.OneHotCategorical(wide(p[0]))
    assert hot.log_prob(wide([0.0, 1.0, 0.0])).item() == pytest.approx(math.log(0.3))
    assert hot.enumerate_support().tolist() == np.eye(3).tolist()
    assert hot.mode.tolist() == [0, 0, 1]


def test_lkj_cholesky() -> None:
    """The density over correlation matrices of 2 rows is a beta density of (r + 1) / 2."""
    eta, r = 1.7, np.array([-0.8, 0.0, 0.5])
    d = dist.LKJCholesky(2, wide(eta))
    tril = np.array([[[1, 0], [v, math.sqrt(1 - v * v)]] for v in r])
    # dr = d(L_21): the map to the factor's free element is the identity
    want = st.beta(eta, eta).logpdf((r + 1) / 2) - math.log(2)
    np.testing.assert_allclose(numbers(d.log_prob(wide(tril))), want, rtol=1e-12)


def test_mixture() -> None:
    w, m, s = np.array([0.3, 0.7]), np.array([-1.0, 2.0]), np.array([0.5, 1.5])
    d = dist.MixtureSameFamily(dist.Categorical(wide(w)), dist.Normal(wide(m), wide(s)))
    x = np.array([-2.0, 0.0, 3.0])
    pdf = (w * st.norm(m, s).pdf(x[:, None])).sum(-1)
    cdf = (w * st.norm(m, s).cdf(x[:, None])).sum(-1)
    np.testing.assert_allclose(numbers(d.log_prob(wide(x))), np.log(pdf), rtol=1e-12)
    np.testing.assert_allclose(numbers(d.cdf(wide(x))), cdf, rtol=1e-12)
    mean = (w * m).sum()
    np.testing.assert_allclose(d.mean.item(), mean)
    np.testing.assert_allclose(d.variance.item(), (w * (s**2 + m**2)).sum() - mean**2)


def test_relaxed() -> None:
    """The densities of Maddison et al. 2017: of their definitions 1 and, for two categories, 2."""
    t, alpha = 0.7, np.array([0.5, 1.0, 2.0])
    x = np.array([0.2, 0.3, 0.5])
    d = dist.RelaxedOneHotCategorical(wide(t), logits=wide(alpha).log())
    terms = alpha * x ** (-t - 1)
    pdf = math.gamma(3) * t**2 * np.prod(terms / (alpha * x**-t).sum())
    np.testing.assert_allclose(d.log_prob(wide(x)).item(), math.log(pdf), rtol=1e-10)
    a, y = 1.7, np.array([0.1, 0.6])
    one = dist.RelaxedBernoulli(wide(t), logits=wide(math.log(a)))
    pdf = t * a * y ** (-t - 1) * (1 - y) ** (-t - 1) / (a * y**-t + (1 - y) ** -t) ** 2
    np.testing.assert_allclose(numbers(one.log_prob(wide(y))), np.log(pdf), rtol=1e-10)


@pytest.mark.parametrize("name", ["Normal", "Gamma", "Beta", "Bernoulli", "Exponential", "Poisson"])
def test_exponential_families_normalize(name: str) -> None:
    """The gradient of the log-normalizer is the mean of the sufficient statistic."""
    ours, theirs = pair(name, ALL[name][2][1])
    params = [p.detach().clone().requires_grad_() for p in ours._natural_params]
    means = fa.autograd.grad(ours._log_normalizer(*params).sum(), params)
    wanted = {
        "Normal": lambda: (theirs.mean(), theirs.var() + theirs.mean() ** 2),
        "Gamma": lambda: (theirs.expect(np.log), theirs.mean()),
        "Beta": lambda: (theirs.expect(np.log), theirs.expect(lambda x: np.log1p(-x))),
        "Bernoulli": lambda: (theirs.mean(),),
        "Exponential": lambda: (theirs.mean(),),
        "Poisson": lambda: (theirs.mean(),),
    }[name]()
    np.testing.assert_allclose([m.item() for m in means], wanted, rtol=1e-6)


def test_entropy_of_a_family_has_gradients() -> None:
    class Family(dist.Exponential):
        entropy = dist.ExponentialFamily.entropy

    rate = wide(2.0).requires_grad_()
    entropy = Family(rate).entropy()
    assert entropy.item() == pytest.approx(1 - math.log(2))
    (slope,) = fa.autograd.grad(entropy, rate)
    assert slope.item() == pytest.approx(-0.5)
