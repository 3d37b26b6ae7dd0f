"""Draws of counts at rates and of trials where terms of their probabilities cancel."""

import facula as fa
import numpy as np
import pytest
import scipy.special
import scipy.stats
from facula import _C, distributions

N = 100_000
dirichlet = _C._ops._sample_dirichlet


def check_normal(x: np.ndarray, mean: float, deviation: float) -> None:
    """Counts of such means are normal to some 1 / deviation."""
    z = (x - mean) / deviation
    assert abs(z.mean()) < 4 / np.sqrt(x.size) and abs(z.var() - 1) < 5 * np.sqrt(2 / x.size)
    assert abs(scipy.stats.kurtosis(z)) < 5 * np.sqrt(24 / x.size)
    assert scipy.stats.kstest(z, "norm").pvalue > 1e-3


@pytest.mark.parametrize("rate", [1e9, 1e13, 1e16, 1e18, 1e22, 1e26])
def test_poisson(rate):
    fa.manual_seed(3)
    x = fa.poisson(fa.full((N,), rate, dtype=fa.float64)).numpy()
    check_normal(x, rate, np.sqrt(rate))


@pytest.mark.parametrize(
    ("trials", "p"),
    [(1e9, 0.3), (1e15, 0.5), (1e17, 0.3), (1e18, 0.5), (1e20, 0.7), (1e25, 0.3), (1e25, 1e-10)],
)
def test_binomial(trials, p):
    fa.manual_seed(4)
    x = fa.binomial(
        fa.full((N,), trials, dtype=fa.float64), fa.full((N,), p, dtype=fa.float64)
    ).numpy()
    check_normal(x, trials * p, np.sqrt(trials * p * (1 - p)))


@pytest.mark.parametrize("rate", [10.0, 11.5, 30.0])
def test_poisson_of_small_rates(rate):
    fa.manual_seed(5)
    x = fa.poisson(fa.full((10 * N,), rate)).numpy().astype(int)
    seen = np.bincount(x, minlength=200)
    want = x.size * scipy.stats.poisson.pmf(np.arange(seen.size), rate)
    often = want > 20
    chi = ((seen - want)[often] ** 2 / want[often]).sum()
    assert scipy.stats.chi2.sf(chi, often.sum() - 1) > 1e-4


def test_binomial_of_few_trials():
    fa.manual_seed(6)
    for trials, p in ((20, 0.5), (40, 0.3), (1000, 0.02)):
        x = fa.binomial(fa.full((10 * N,), float(trials)), fa.full((10 * N,), p)).numpy()
        seen = np.bincount(x.astype(int), minlength=trials + 1)
        want = x.size * scipy.stats.binom.pmf(np.arange(trials + 1), trials, p)
        often = want > 20
        chi = ((seen - want)[often] ** 2 / want[often]).sum()
        assert scipy.stats.chi2.sf(chi, often.sum() - 1) > 1e-4


@pytest.mark.parametrize("bad", [np.inf, np.nan, -1.0])
def test_poisson_refuses_rates(bad):
    with pytest.raises(
        RuntimeError, match=r"poisson\(\): rates must not be negative and must be finite, got"
    ):
        fa.poisson(fa.tensor([1.0, bad]))


@pytest.mark.parametrize(
    ("dtype", "a"),
    [(fa.float16, 6e-8), (fa.bfloat16, 1e-40), (fa.float32, 1e-40), (fa.float32, 1e-44),
     (fa.float64, 1e-310), (fa.float64, 5e-324)],
)  # fmt: skip
def test_dirichlet_of_concentrations_near_zero(dtype, a):
    """All but one share is 0; which one is not is drawn with the concentrations as weights."""
    fa.manual_seed(7)
    x = dirichlet(fa.full((N, 3), a, dtype=dtype) * fa.tensor([1.0, 1.0, 2.0], dtype=dtype))
    assert x.dtype == dtype
    x = x.double().numpy()
    assert (np.sort(x) == [0, 0, 1]).all()
    weights = fa.tensor([a, a, 2 * a], dtype=dtype).double().numpy()  # as they are rounded
    assert scipy.stats.chisquare(x.sum(0), N * weights / weights.sum()).pvalue > 1e-3
    beta = distributions.Beta(
        fa.full((10,), a, dtype=dtype), fa.full((10,), a, dtype=dtype)
    ).sample()
    assert ((beta == 0) | (beta == 1)).all()


def test_dirichlet_rows_keep_their_scales():
    fa.manual_seed(8)
    a = fa.tensor([[1e-40, 1e-40], [2.0, 3.0]]).expand(N, 2, 2)
    x = dirichlet(a)[:, 1, 0].double().numpy()
    assert scipy.stats.kstest(x, scipy.stats.beta(2, 3).cdf).pvalue > 1e-3
    assert dirichlet(fa.zeros(0, 3)).shape == (0, 3) and dirichlet(fa.ones(3, 0)).shape == (3, 0)


@pytest.mark.parametrize("trials", [1, 50, 1000, 2000, 30_000])
def test_binomial_entropy_is_that_of_its_probabilities(trials):
    k = np.arange(trials + 1)
    for p in (0.5, 0.03, 0.999, 1e-9):
        want = scipy.special.entr(scipy.stats.binom.pmf(k, trials, p)).sum()
        found = float(distributions.Binomial(trials, fa.tensor(p, dtype=fa.float64)).entropy())
        assert np.isclose(found, want, rtol=1e-9, atol=1e-12)


def test_entropy_of_many_trials():
    for trials in (10**9, 10**12, 10**15):
        p = fa.tensor(0.3, dtype=fa.float64)
        want = 0.5 * np.log(2 * np.pi * np.e * trials * 0.21)  # to 1 / trials
        assert np.isclose(float(distributions.Binomial(trials, p).entropy()), want, rtol=1e-9)
        shares = fa.tensor([0.2, 0.3, 0.5], dtype=fa.float64)
        found = float(distributions.Multinomial(trials, shares).entropy())
        want = np.log(2 * np.pi * np.e * trials) + 0.5 * np.log(0.2 * 0.3 * 0.5)
        assert np.isclose(found, want, rtol=1e-9)
