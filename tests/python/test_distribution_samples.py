"""Draws of distributions: Kolmogorov and Smirnov's or chi-squared tests, gradients of draws."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import facula as fa
import facula.distributions as dist
import numpy as np
import pytest
import scipy.stats as st

N = 20_000


def wide(x: Any) -> Any:
    return fa.tensor(x, dtype=fa.float64)


def numbers(t: Any) -> np.ndarray:
    return np.array(t.detach().to(fa.float64).tolist())


CONTINUOUS: dict[str, tuple[Callable[[], Any], Any]] = {
    "Beta": (lambda: dist.Beta(wide(0.5), wide(2.0)), st.beta(0.5, 2)),
    "Cauchy": (lambda: dist.Cauchy(wide(1.0), wide(2.0)), st.cauchy(1, 2)),
    "Chi2": (lambda: dist.Chi2(wide(3.0)), st.chi2(3)),
    "ContinuousBernoulli": (
        lambda: dist.ContinuousBernoulli(wide(0.8)),
        st.truncexpon(math.log(4.0), loc=0, scale=1 / math.log(4.0)),
    ),
    "Exponential": (lambda: dist.Exponential(wide(0.3)), st.expon(scale=1 / 0.3)),
    "FisherSnedecor": (lambda: dist.FisherSnedecor(wide(3.0), wide(7.0)), st.f(3, 7)),
    "Gamma": (lambda: dist.Gamma(wide(0.6), wide(2.0)), st.gamma(0.6, scale=0.5)),
    "GeneralizedPareto": (
        lambda: dist.GeneralizedPareto(wide(1.0), wide(2.0), wide(0.3)),
        st.genpareto(0.3, 1, 2),
    ),
    "Gumbel": (lambda: dist.Gumbel(wide(1.0), wide(2.0)), st.gumbel_r(1, 2)),
    "HalfCauchy": (lambda: dist.HalfCauchy(wide(2.0)), st.halfcauchy(scale=2)),
    "HalfNormal": (lambda: dist.HalfNormal(wide(2.0)), st.halfnorm(scale=2)),
    "InverseGamma": (lambda: dist.InverseGamma(wide(2.0), wide(3.0)), st.invgamma(2, scale=3)),
    "Kumaraswamy": (lambda: dist.Kumaraswamy(wide(1.0), wide(3.0)), st.beta(1, 3)),
    "Laplace": (lambda: dist.Laplace(wide(1.0), wide(2.0)), st.laplace(1, 2)),
    "LogNormal": (
        lambda: dist.LogNormal(wide(0.5), wide(0.7)),
        st.lognorm(0.7, scale=math.exp(0.5)),
    ),
    "Normal": (lambda: dist.Normal(wide(1.0), wide(2.0)), st.norm(1, 2)),
    "Pareto": (lambda: dist.Pareto(wide(1.0), wide(2.5)), st.pareto(2.5)),
    "RelaxedBernoulli": (  # of temperature 1 and logits 0 uniform
        lambda: dist.RelaxedBernoulli(wide(1.0), logits=wide(0.0)),
        st.uniform(0, 1),
    ),
    "StudentT": (lambda: dist.StudentT(wide(3.0), wide(1.0), wide(2.0)), st.t(3, 1, 2)),
    "Uniform": (lambda: dist.Uniform(wide(-1.0), wide(3.0)), st.uniform(-1, 4)),
    "VonMises": (lambda: dist.VonMises(wide(0.5), wide(2.0)), st.vonmises(2, loc=0.5)),
    "Weibull": (lambda: dist.Weibull(wide(2.0), wide(0.8)), st.weibull_min(0.8, scale=2)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    make, theirs = CONTINUOUS[name]
    d = make()
    if name == "ContinuousBernoulli":  # rising: the falling one mirrored
        theirs_cdf = lambda x: (4.0**x - 1) / 3  # noqa: E731
    elif name == "VonMises":
        theirs_cdf = lambda x: theirs.cdf(x) - theirs.cdf(-np.pi)  # noqa: E731
    else:
        theirs_cdf = theirs.cdf
    fa.manual_seed(1)
    for draw in (d.sample, d.rsample) if d.has_rsample else (d.sample,):
        x = numbers(draw((N,)))
        assert st.kstest(x, theirs_cdf).pvalue > 1e-3
        assert d.support.check(wide(x)).all()


@pytest.mark.parametrize("df", [0.01, 0.1, 1e8])
def test_student_of_few_and_many_degrees(df: float) -> None:
    """Also of so few that the chi-squared number within is no float32."""
    fa.manual_seed(7)
    x = numbers(dist.StudentT(fa.tensor(df)).sample((N,)))
    assert np.isfinite(x).all()
    bounds = [0.5, 2.0, 1e3, 1e20, 1e30]
    for bound, far in zip(bounds, 2 * st.t(df).sf(bounds), strict=True):
        assert abs((np.abs(x) > bound).mean() - far) <= 5 * math.sqrt(far * (1 - far) / N) + 1e-12


@pytest.mark.parametrize("k", [1e-7, 0.3, 1e4])
def test_von_mises(k: float) -> None:
    fa.manual_seed(2)
    x = numbers(dist.VonMises(wide(3.0), wide(k)).sample((N,)))
    assert (x >= -np.pi).all() and (x < np.pi).all()
    turned = (x - 3.0 + np.pi) % (2 * np.pi) - np.pi
    theirs = st.vonmises(k) if k > 1e-3 else st.uniform(-np.pi, 2 * np.pi)
    assert st.kstest(turned, theirs.cdf).pvalue > 1e-3


DISCRETE: dict[str, tuple[Callable[[], Any], Any]] = {
    "Bernoulli": (lambda: dist.Bernoulli(wide(0.3)), st.bernoulli(0.3)),
    "Binomial": (lambda: dist.Binomial(30, wide(0.4)), st.binom(30, 0.4)),
    "Categorical": (
        lambda: dist.Categorical(wide([0.2, 0.3, 0.5])),
        st.rv_discrete(values=([0, 1, 2], [0.2, 0.3, 0.5])),
    ),
    "Geometric": (lambda: dist.Geometric(wide(0.3)), st.geom(0.3, loc=-1)),
    "NegativeBinomial": (lambda: dist.NegativeBinomial(wide(2.5), wide(0.4)), st.nbinom(2.5, 0.6)),
    "Poisson": (lambda: dist.Poisson(wide(3.0)), st.poisson(3)),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    make, theirs = DISCRETE[name]
    fa.manual_seed(3)
    x = numbers(make().sample((N,))).astype(int)
    last = int(theirs.ppf(1 - 100 / N)) + 1  # with what is beyond, some 100 expected
    seen = np.bincount(np.minimum(x, last), minlength=last + 1)
    chance = np.array([*theirs.pmf(np.arange(last)), theirs.sf(last - 1)])
    kept = chance * N > 5
    expected = chance[kept] * N
    assert seen[~kept].sum() < 50
    assert st.chi2.sf(((seen[kept] - expected) ** 2 / expected).sum(), kept.sum() - 1) > 1e-3


def moments(d: Any, mean: Any, covariance: Any) -> None:
    fa.manual_seed(4)
    x = numbers(d.sample((N,))).reshape(N, -1)
    error = np.sqrt(np.diag(covariance) / N)
    assert (np.abs(x.mean(0) - np.ravel(mean)) <= 5 * error + 1e-12).all()
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert (np.abs(np.cov(x.T) - covariance) <= 0.06 * scale + 1e-12).all()


SIGMA = np.array([[2.0, 0.5, 0.2], [0.5, 1.5, 0.1], [0.2, 0.1, 1.0]])


def test_vectors() -> None:
    loc = np.array([0.0, 1.0, -1.0])
    moments(dist.MultivariateNormal(wide(loc), wide(SIGMA)), loc, SIGMA)
    w, diag = np.array([[1.0], [0.5], [-0.3]]), np.array([1.0, 2.0, 0.5])
    low = dist.LowRankMultivariateNormal(wide(loc), wide(w), wide(diag))
    moments(low, loc, w @ w.T + np.diag(diag))
    a = np.array([0.5, 2.0, 3.5])
    moments(dist.Dirichlet(wide(a)), st.dirichlet(a).mean(), st.dirichlet(a).cov())
    p = np.array([0.2, 0.3, 0.5])
    moments(dist.Multinomial(7, wide(p)), 7 * p, st.multinomial(7, p).cov())
    moments(dist.OneHotCategorical(wide(p)), p, st.multinomial(1, p).cov())


def test_wishart() -> None:
    d = dist.Wishart(wide(4.5), wide(SIGMA))
    fa.manual_seed(5)
    x = numbers(d.sample((N,)))
    error = np.sqrt(numbers(d.variance) / N)
    assert (np.abs(x.mean(0) - numbers(d.mean)) < 5 * error).all()
    assert (np.abs(x.var(0) / numbers(d.variance) - 1) < 0.15).all()
    assert (np.linalg.eigvalsh(x) > 0).all()


@pytest.mark.parametrize("dim", [2, 3, 5])
def test_lkj(dim: int) -> None:
    """Of a correlation matrix of LKJ each (r + 1) / 2 is beta(eta - 1 + dim / 2)."""
    eta = 1.3
    fa.manual_seed(6)
    tril = dist.LKJCholesky(dim, wide(eta)).sample((N // 2,))
    assert dist.constraints.corr_cholesky.check(tril).all()
    r = numbers(tril @ tril.mT)
    shape = eta - 1 + dim / 2
    for i, j in ((1, 0), (dim - 1, 0), (dim - 1, dim - 2)):
        assert st.kstest((r[:, i, j] + 1) / 2, st.beta(shape, shape).cdf).pvalue > 1e-3


def test_mixture() -> None:
    w, m, s = np.array([0.3, 0.7]), np.array([-1.0, 2.0]), np.array([0.5, 1.5])
    d = dist.MixtureSameFamily(dist.Categorical(wide(w)), dist.Normal(wide(m), wide(s)))
    fa.manual_seed(7)
    cdf = lambda x: (w * st.norm(m, s).cdf(x[:, None])).sum(-1)  # noqa: E731
    assert st.kstest(numbers(d.sample((N,))), cdf).pvalue > 1e-3


def test_logistic_normal() -> None:
    fa.manual_seed(8)
    d = dist.LogisticNormal(wide([0.3, -0.5]), wide([1.0, 0.5]))
    x = d.sample((N,))
    assert dist.constraints.simplex.check(x).all()
    back = numbers(dist.StickBreakingTransform().inv(x))
    assert st.kstest(back[:, 0], st.norm(0.3, 1).cdf).pvalue > 1e-3
    assert st.kstest(back[:, 1], st.norm(-0.5, 0.5).cdf).pvalue > 1e-3


def test_relaxed_one_hot_favours_as_the_categories() -> None:
    """The largest element is category i with its probability, at any temperature."""
    p = np.array([0.2, 0.3, 0.5])
    fa.manual_seed(9)
    x = dist.RelaxedOneHotCategorical(wide(0.7), wide(p)).sample((N,))
    shares = np.bincount(np.array(x.argmax(-1).tolist()), minlength=3) / N
    assert (np.abs(shares - p) < 5 * np.sqrt(p * (1 - p) / N)).all()


QUANTILES: dict[str, tuple[Callable[..., Any], Callable[..., Any], tuple[float, ...]]] = {
    "Beta": (dist.Beta, st.beta, (1.5, 2.5)),
    "Chi2": (dist.Chi2, st.chi2, (3.0,)),
    "Exponential": (dist.Exponential, lambda r: st.expon(scale=1 / r), (0.7,)),
    "FisherSnedecor": (dist.FisherSnedecor, st.f, (3.0, 7.0)),
    "Gamma": (dist.Gamma, lambda a, r: st.gamma(a, scale=1 / r), (0.7, 2.0)),
    "Gumbel": (dist.Gumbel, st.gumbel_r, (1.0, 2.0)),
    "HalfNormal": (dist.HalfNormal, lambda s: st.halfnorm(scale=s), (2.0,)),
    "InverseGamma": (dist.InverseGamma, lambda a, r: st.invgamma(a, scale=r), (2.0, 3.0)),
    "Laplace": (dist.Laplace, st.laplace, (1.0, 2.0)),
    "Normal": (dist.Normal, st.norm, (1.0, 2.0)),
    "Pareto": (dist.Pareto, lambda s, a: st.pareto(a, scale=s), (1.0, 2.5)),
    "StudentT": (dist.StudentT, st.t, (3.0, 1.0, 2.0)),
    "Uniform": (dist.Uniform, lambda a, b: st.uniform(a, b - a), (1.0, 3.0)),
    "Weibull": (dist.Weibull, lambda s, c: st.weibull_min(c, scale=s), (2.0, 1.5)),
}
# One gradient of the draw for one number behind it: draws of two gamma numbers have another.
ONE_NUMBER = sorted(set(QUANTILES) - {"Beta", "FisherSnedecor", "StudentT"})


@pytest.mark.parametrize("name", ONE_NUMBER)
def test_gradients_are_those_of_the_quantile(name: str) -> None:
    ours, theirs, at = QUANTILES[name]
    fa.manual_seed(10)
    params = [wide(v).requires_grad_() for v in at]
    x = ours(*params).rsample((5,))
    for value in x:
        got = fa.autograd.grad(value, params, retain_graph=True)
        q = theirs(*at).cdf(value.item())
        for i, slope in enumerate(got):
            h = 1e-5 * at[i]
            ends = [
                theirs(*(v + s * h * (j == i) for j, v in enumerate(at))).ppf(q) for s in (1, -1)
            ]
            assert slope.item() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", QUANTILES)
def test_gradients_of_means(name: str) -> None:
    """The mean slope of sin(x) is the slope of the mean of sin(x), by quadrature."""
    ours, theirs, at = QUANTILES[name]
    fa.manual_seed(11)
    n = 50_000
    params = [wide(v).expand(n).clone().requires_grad_() for v in at]
    ours(*params).rsample().sin().sum().backward()
    u = (np.arange(200_000) + 0.5) / 200_000
    for i, p in enumerate(params):
        h = 1e-4 * at[i]
        means = [
            np.sin(theirs(*(v + s * h * (j == i) for j, v in enumerate(at))).ppf(u)).mean()
            for s in (1, -1)
        ]
        slopes = numbers(p.grad)
        want = (means[0] - means[1]) / (2 * h)
        assert abs(slopes.mean() - want) < 5 * slopes.std() / math.sqrt(n) + 1e-4


def test_gradients_of_matrices() -> None:
    """Draws of MultivariateNormal and Wishart are smooth functions of a factor."""
    tril = wide(np.linalg.cholesky(SIGMA)).requires_grad_()
    fa.manual_seed(12)
    x = dist.Wishart(wide(5.0), scale_tril=tril).rsample()
    (slope,) = fa.autograd.grad(x.diagonal().sum(), tril)
    assert slope.isfinite().all() and slope[2, 0] != 0
    y = dist.MultivariateNormal(wide([0.0, 0.0, 0.0]), scale_tril=tril).rsample((50,))
    (slope,) = fa.autograd.grad(y.sum(), tril)
    z = fa.linalg.solve_triangular(tril.detach(), y.detach().mT, upper=False)
    fa.testing.assert_close(slope, z.sum(-1).expand(3, 3), rtol=1e-9, atol=1e-9)


def test_straight_through() -> None:
    p = wide([0.2, 0.3, 0.5]).requires_grad_()
    d = dist.OneHotCategoricalStraightThrough(p)
    fa.manual_seed(13)
    x = d.rsample((4,))
    assert (x.detach().round() == x.detach().round().clamp(0, 1)).all()
    (slope,) = fa.autograd.grad((x * wide([1.0, 2.0, 3.0])).sum(), p, retain_graph=True)
    (want,) = fa.autograd.grad((4 * d.probs * wide([1.0, 2.0, 3.0])).sum(), p)
    fa.testing.assert_close(slope, want)


def test_samples_have_no_gradients_and_seeds_fix_them() -> None:
    loc = fa.zeros(3, requires_grad=True)
    for d in (dist.Normal(loc, 1.0), dist.Gamma(loc.exp(), 1.0), dist.Dirichlet(loc.exp())):
        assert not d.sample().requires_grad and d.rsample().requires_grad
        fa.manual_seed(14)
        first = d.sample((5,))
        fa.manual_seed(14)
        assert fa.equal(first, d.sample((5,)))


@pytest.mark.parametrize("dtype", [fa.float32, fa.float64])
def test_dtypes_of_draws(dtype: Any) -> None:
    one = fa.ones(2, dtype=dtype)
    half = one / 2
    made = [
        dist.Normal(one, one), dist.Gamma(one, one), dist.Beta(one, one), dist.Cauchy(one, one),
        dist.StudentT(one), dist.Poisson(one), dist.Binomial(3, half), dist.VonMises(one, one),
        dist.Bernoulli(half), dist.Gumbel(one, one), dist.NegativeBinomial(3, half),
        dist.Dirichlet(one), dist.OneHotCategorical(half), dist.LKJCholesky(3, one),
        dist.Multinomial(3, half), dist.Kumaraswamy(one, one), dist.LogisticNormal(one, one),
    ]  # fmt: skip
    for d in made:
        x = d.sample((3,))
        assert x.dtype == dtype and d.log_prob(x).dtype == dtype, d


def test_tiny_concentrations_stay_within() -> None:
    fa.manual_seed(15)
    small = fa.full((1000,), 1e-3)
    for d in (dist.Gamma(small, 1.0), dist.Beta(small, small), dist.FisherSnedecor(small, small)):
        x = d.rsample()
        assert d.support.check(x).all() and x.isfinite().all()
