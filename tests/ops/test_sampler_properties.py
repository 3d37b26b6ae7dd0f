"""Samplers by rejection: distributions, gradients, numbers that do not depend on threads."""

from __future__ import annotations

import facula as fa
import gamma_reference
import numpy as np
import pytest
import scipy.special
import scipy.stats
from facula import _C

N = 20_000
standard_gamma = _C._ops._standard_gamma
log_gamma = _C._ops._standard_log_gamma
dirichlet = _C._ops._sample_dirichlet


def full(value: float, dtype: fa.dtype = fa.float64, n: int = N) -> fa.Tensor:
    return fa.full((n,), value, dtype=dtype)


def numbers(t: fa.Tensor) -> np.ndarray:
    return np.array(t.to(fa.float64).tolist())


def check_counts(x: np.ndarray, pmf: np.ndarray) -> None:
    """Chi-squared over bins of at least 20 expected."""
    seen = np.bincount(x.astype(np.int64), minlength=len(pmf))
    assert seen.sum() == seen[: len(pmf)].sum()
    order, expected, found = np.argsort(-pmf), [], []
    for i in order:
        if expected and expected[-1] < 20:
            expected[-1] += pmf[i] * x.size
            found[-1] += seen[i]
        else:
            expected.append(pmf[i] * x.size)
            found.append(seen[i])
    if expected[-1] < 20 and len(expected) > 1:
        expected[-2] += expected.pop()
        found[-2] += found.pop()
    e, f = np.array(expected), np.array(found)
    assert scipy.stats.chi2.sf(((f - e) ** 2 / e).sum(), max(len(e) - 1, 1)) > 1e-4


@pytest.mark.parametrize("concentration", [0.05, 0.5, 0.999, 1.0, 1.7, 10.0, 1e3, 1e8])
def test_standard_gamma(concentration: float) -> None:
    fa.manual_seed(1)
    want = scipy.stats.gamma(concentration)
    x = numbers(standard_gamma(full(concentration)))
    assert (x > 0).all() and scipy.stats.kstest(x, want.cdf).pvalue > 1e-3
    y = numbers(log_gamma(full(concentration)))
    assert scipy.stats.kstest(np.exp(y), want.cdf).pvalue > 1e-3


def test_small_concentrations() -> None:
    fa.manual_seed(2)
    for dtype in (fa.float32, fa.float16):
        x = standard_gamma(full(1e-3, dtype))
        assert (x > 0).all() and x.isfinite().all()
    # log x is next to -exponential / a
    y = -1e-4 * numbers(log_gamma(full(1e-4)))
    assert scipy.stats.kstest(y, scipy.stats.expon.cdf).pvalue > 1e-3
    assert (standard_gamma(fa.zeros(3)) < 1e-30).all()


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_bad_concentrations(bad: float) -> None:
    for draw in (standard_gamma, log_gamma):
        with pytest.raises(RuntimeError, match="must not be negative and must be finite, got"):
            draw(fa.tensor([1.0, bad]))
    with pytest.raises(RuntimeError, match="floating-point"):
        standard_gamma(fa.tensor([1]))


@pytest.mark.parametrize("concentration", [0.01, 0.5, 1.0, 3.0, 99.0, 101.0, 1e4])
def test_gradients_are_those_of_the_quantile(concentration: float) -> None:
    fa.manual_seed(3)
    for draw, slope in ((standard_gamma, "gamma_slope"), (log_gamma, "gamma_log_slope")):
        a = full(concentration, n=12).requires_grad_()
        x = draw(a)
        (got,) = fa.autograd.grad(x.sum(), a)
        want = getattr(gamma_reference, slope)(numbers(a.detach()), numbers(x.detach()))
        np.testing.assert_allclose(numbers(got), want, rtol=1e-12)


def test_gradient_of_a_mean() -> None:
    """The mean of x^2 is a + a^2: its slope is 1 + 2 a."""
    fa.manual_seed(4)
    a = full(2.5, n=200_000).requires_grad_()
    (standard_gamma(a) ** 2).sum().backward()
    slopes = numbers(a.grad)
    assert abs(slopes.mean() - 6.0) < 5 * slopes.std() / np.sqrt(slopes.size)


def test_second_derivatives_are_refused() -> None:
    a = fa.ones(3).requires_grad_()
    (first,) = fa.autograd.grad(standard_gamma(a).sum(), a, create_graph=True)
    with pytest.raises(ValueError, match="second derivative by the concentration"):
        first.sum().backward()


def test_sample_dirichlet() -> None:
    fa.manual_seed(5)
    a = np.array([0.2, 1.0, 3.5])
    alpha = fa.tensor(a, dtype=fa.float64).expand(N, 3)
    x = numbers(dirichlet(alpha))
    np.testing.assert_allclose(x.sum(-1), 1, rtol=1e-12)
    for i in range(3):
        want = scipy.stats.beta(a[i], a.sum() - a[i])
        assert scipy.stats.kstest(x[:, i], want.cdf).pvalue > 1e-3
    tiny = dirichlet(fa.full((1000, 4), 1e-3))
    assert (tiny.sum(-1) - 1).abs().max() < 1e-5 and (tiny.amax(-1) > 0.5).all()


def test_gradient_of_a_dirichlet_mean() -> None:
    """The mean of x_0 is a_0 / sum a."""
    fa.manual_seed(6)
    a = fa.tensor([0.7, 1.5, 2.0], dtype=fa.float64).expand(100_000, 3).clone().requires_grad_()
    dirichlet(a)[:, 0].sum().backward()
    total = 4.2
    want = np.array([(total - 0.7) / total**2, -0.7 / total**2, -0.7 / total**2])
    slopes = numbers(a.grad)
    assert (np.abs(slopes.mean(0) - want) < 5 * slopes.std(0) / np.sqrt(len(slopes))).all()


@pytest.mark.parametrize(
    "count, prob",
    [(1, 0.3), (5, 0.5), (19, 0.4), (40, 0.25), (40, 0.9), (1000, 0.3), (2000, 0.002), (30, 0.999)],
)
def test_binomial(count: int, prob: float) -> None:
    fa.manual_seed(7)
    for dtype in (fa.float64, fa.float32):
        x = numbers(fa.binomial(full(count, dtype), full(prob, dtype)))
        check_counts(x, scipy.stats.binom(count, prob).pmf(np.arange(count + 1)))


def test_binomial_of_many_trials() -> None:
    fa.manual_seed(8)
    n, p = 1e12, 0.3
    x = numbers(fa.binomial(full(n), full(p)))
    z = (x + np.random.default_rng(0).random(x.size) - 0.5 - n * p) / np.sqrt(n * p * (1 - p))
    assert scipy.stats.kstest(z, scipy.stats.norm.cdf).pvalue > 1e-3
    rare = numbers(fa.binomial(full(1e9), full(3e-9)))
    check_counts(rare, scipy.stats.poisson(3.0).pmf(np.arange(60)))


def test_binomial_ends_and_shapes() -> None:
    count = fa.tensor([[0.0], [7.0]])
    x = fa.binomial(count, fa.tensor([0.0, 1.0, 0.5]))
    assert x.shape == (2, 3) and x[0].tolist() == [0, 0, 0] and x[1, :2].tolist() == [0, 7]
    for n, p, text in (
        (-1.0, 0.5, "counts must not be negative"),
        (1.5, 0.5, "whole numbers, got 1.5"),
        (2.0, 1.5, r"must be in \[0, 1\], not 1.5"),
        (2.0, float("nan"), r"must be in \[0, 1\]"),
    ):
        with pytest.raises(RuntimeError, match=text):
            fa.binomial(fa.tensor([n]), fa.tensor([p]))
    with pytest.raises(RuntimeError, match="one dtype"):
        fa.binomial(fa.ones(2), fa.ones(2, dtype=fa.float64))


DRAWS = {
    "gamma": lambda g: standard_gamma(full(0.7, fa.float32, 30_001), g),
    "log_gamma": lambda g: log_gamma(full(0.7, fa.float64, 30_001), g),
    "dirichlet": lambda g: dirichlet(fa.full((10_001, 3), 0.7), g),
    "binomial": lambda g: fa.binomial(full(50.0, n=30_001), full(0.4, n=30_001), g),
}


@pytest.mark.parametrize("name", DRAWS)
def test_same_numbers_at_any_number_of_threads(name: str) -> None:
    threads, results = fa.get_num_threads(), []
    try:
        for n in (1, 2, 3):
            fa.set_num_threads(n)
            results.append(DRAWS[name](fa.Generator().manual_seed(17)))
    finally:
        fa.set_num_threads(threads)
    assert all(fa.equal(results[0], r) for r in results)
    g = fa.Generator().manual_seed(17)
    assert fa.equal(DRAWS[name](g), results[0]) and not fa.equal(DRAWS[name](g), results[0])


def test_element_depends_on_its_place_alone() -> None:
    """Other concentrations beside it change nothing."""
    a = fa.rand(1000) * 5 + 0.1
    whole = standard_gamma(a, fa.Generator().manual_seed(3))
    other = a.clone()
    other[::2] = 9.0
    part = standard_gamma(other, fa.Generator().manual_seed(3))
    assert fa.equal(whole[1::2], part[1::2])


GRID = [1e-8, 1e-3, 0.3, 1.0, 1.5, 7.0, 9.9, 10.1, 40.0, 99.0, 101.0, 500.0, 2e4]


@pytest.mark.parametrize("a", GRID)
def test_incomplete_gamma_functions(a: float) -> None:
    """Against 60 digits, relatively, where neither value is subnormal."""
    import mpmath as mp

    rng = np.random.default_rng(int(a))
    spread = np.sqrt(max(a, 0.5))
    x = np.abs(a + spread * rng.uniform(-6, 8, 12))
    x = np.concatenate([x, 10.0 ** rng.uniform(-6, 1, 4)])
    with mp.workdps(60):
        low = [gamma_reference.lower(mp.mpf(a), mp.mpf(v)) for v in x.tolist()]
        want = {"gammainc": [float(p) for p in low], "gammaincc": [float(1 - p) for p in low]}
    for name, values in want.items():
        got = getattr(fa.special, name)(full(a, n=len(x)), fa.tensor(x, dtype=fa.float64))
        # a relative error of the logarithm far out
        limit = 3e-14 * (1 + np.abs(np.log(np.maximum(values, 1e-300))) / 100)
        assert (np.abs(numbers(got) - values) <= limit * np.abs(values) + 1e-300).all()


def test_incomplete_gamma_ends() -> None:
    inf, nan = float("inf"), float("nan")
    a = [0.0, 0.0, 2.0, 2.0, inf, inf, -1.0, 1.0, nan, 1.0]
    x = [0.0, 1.0, 0.0, inf, 1.0, inf, 1.0, -1.0, 1.0, nan]
    lower = fa.special.gammainc(fa.tensor(a), fa.tensor(x)).tolist()
    upper = fa.special.gammaincc(fa.tensor(a), fa.tensor(x)).tolist()
    np.testing.assert_array_equal(lower, scipy.special.gammainc(a, x))
    np.testing.assert_array_equal(upper, scipy.special.gammaincc(a, x))


def test_incomplete_gamma_gradients() -> None:
    a = fa.tensor([0.3, 1.0, 4.0, 150.0], dtype=fa.float64, requires_grad=True)
    x = fa.tensor([0.2, 2.0, 3.0, 140.0], dtype=fa.float64, requires_grad=True)
    for f in (fa.special.gammainc, fa.special.gammaincc):
        assert fa.autograd.gradcheck(f, (a, x))
