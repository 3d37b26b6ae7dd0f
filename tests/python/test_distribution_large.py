"""Log densities of large shapes and counts, where log gammas would cancel, against mpmath."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import facula as fa
import facula.distributions as D
import mpmath as mp
import pytest

M, lg, log = mp.mpf, mp.loggamma, mp.log


def f64(value: Any) -> Any:
    return fa.tensor(value, dtype=fa.float64)


def binomial(n: Any, k: Any, p: Any) -> Any:
    choices = lg(M(n) + 1) - lg(M(k) + 1) - lg(M(n - k) + 1)
    return choices + M(k) * log(M(p)) + M(n - k) * log(1 - M(p))


def gamma(a: Any, rate: Any, x: Any) -> Any:
    return M(a) * log(M(rate)) + (M(a) - 1) * log(M(x)) - M(rate) * M(x) - lg(M(a))


def dirichlet(a: Any, x: Any) -> Any:
    powers = sum((M(v) - 1) * log(M(q)) for v, q in zip(a, x, strict=True))
    return powers + lg(sum(map(M, a))) - sum(lg(M(v)) for v in a)


def multinomial(counts: Any, p: Any) -> Any:
    whole = sum(map(M, p))
    powers = sum(M(k) * log(M(q) / whole) for k, q in zip(counts, p, strict=True))
    return lg(M(sum(counts)) + 1) - sum(lg(M(k) + 1) for k in counts) + powers


def failures(r: Any, k: Any, p: Any) -> Any:
    own = lg(M(r) + M(k)) - lg(M(r)) - lg(M(k) + 1)
    return own + M(k) * log(M(p)) + M(r) * log(1 - M(p))


def fisher(d1: Any, d2: Any, x: Any) -> Any:
    a, b, x = M(d1) / 2, M(d2) / 2, M(x)
    return (
        a * log(a / b) + (a - 1) * log(x) - (a + b) * log(1 + a * x / b) - lg(a) - lg(b) + lg(a + b)
    )


def cases(size: float, rng: random.Random) -> Iterator[tuple[str, Any, Any]]:
    z, p = rng.gauss(0, 2), rng.uniform(0.05, 0.95)
    k = float(max(0, round(size + z * size**0.5)))
    n = float(round(size))
    few = float(min(n, max(0, round(n * p + z * (n * p * (1 - p)) ** 0.5))))
    x = max(size + z * size**0.5, 1.0) / 3.5
    yield "Poisson", D.Poisson(f64(size)).log_prob(f64(k)), gamma(k + 1, size, 1) - log(M(size))
    yield "Gamma", D.Gamma(f64(size), f64(3.5)).log_prob(f64(x)), gamma(size, 3.5, x)
    b = size * (1 - p) / p
    y = min(max(p + z * (p * (1 - p) / (size + b)) ** 0.5, 0.01), 0.99)
    beta = D.Beta(f64(size), f64(b)).log_prob(f64(y))
    direct = (M(size) - 1) * log(M(y)) + (M(b) - 1) * log(1 - M(y))
    yield "Beta", beta, direct + lg(M(size) + M(b)) - lg(M(size)) - lg(M(b))
    a = [size, b, 0.5]
    shares = [v / sum(a) for v in a]
    yield "Dirichlet", D.Dirichlet(f64(a)).log_prob(f64(shares)), dirichlet(a, shares)
    yield "Binomial", D.Binomial(f64(n), f64(p)).log_prob(f64(few)), binomial(n, few, p)
    chance = fa.logit(f64(p)).item()
    exact = 1 / (1 + mp.exp(-M(chance)))
    logits = D.Binomial(f64(n), logits=f64(chance)).log_prob(f64(few))
    yield "Binomial of logits", logits, binomial(n, few, exact)
    rare = D.Binomial(f64(n), f64(2 / n)).log_prob(f64(1.0))
    yield "rare Binomial", rare, binomial(n, 1.0, 2 / n)
    for r in (0.5, size):
        fails = float(max(1, round(r * p / (1 - p))))
        negative = D.NegativeBinomial(f64(r), f64(p)).log_prob(f64(fails))
        yield "NegativeBinomial", negative, failures(r, fails, p)
    chances = [p, 0.3, 0.0625, 0.0]
    counts = [float(round(n * v / sum(chances))) for v in chances]
    many = D.Multinomial(int(sum(counts)), f64(chances)).log_prob(f64(counts))
    yield "Multinomial", many, multinomial(counts[:3], chances[:3])
    ratio = abs(1 + z * (2 / size + 2 / b) ** 0.5 / 4)
    snedecor = D.FisherSnedecor(f64(size), f64(b)).log_prob(f64(ratio))
    yield "FisherSnedecor", snedecor, fisher(size, b, ratio)


@pytest.mark.parametrize("size", [3.0, 63.5, 64.0, 1e3, 1e8, 1e12, 1e15])
def test_log_densities(size: float) -> None:
    rng = random.Random(0)
    with mp.workdps(50):
        for _ in range(5):
            for name, got, want in cases(size, rng):
                # An ulp of an argument counts as often as there are deviations in the mean.
                near = 1e-13 + 30 * size**0.5 * 2.0**-53
                assert got.item() == pytest.approx(float(want), rel=near, abs=near), (name, size)


def test_ends_of_the_domains() -> None:
    """Where a power is 0 to the 0, or a category of chance 0 was not drawn."""
    n = 1e10
    assert D.Beta(f64(1.0), f64(n)).log_prob(f64(0.0)).item() == pytest.approx(float(log(M(n))))
    assert D.Beta(f64(n), f64(1.0)).log_prob(f64(1.0)).item() == pytest.approx(float(log(M(n))))
    assert D.Beta(f64(2.0), f64(n)).log_prob(f64(0.0)).item() == -fa.inf
    assert D.Beta(f64(0.5), f64(n)).log_prob(f64(0.0)).item() == fa.inf
    assert D.Gamma(f64(n), f64(1.0)).log_prob(f64(0.0)).item() == -fa.inf
    corner = D.Dirichlet(f64([1.0, n, 1.0])).log_prob(f64([0.0, 1.0, 0.0])).item()
    assert corner == pytest.approx(float(log(M(n)) + log(M(n) + 1)))
    assert D.Poisson(f64(0.0)).log_prob(f64([0.0, 100.0])).tolist() == [0, -fa.inf]
    assert D.Binomial(f64(n), f64([0.0, 1.0])).log_prob(f64([0.0, n])).tolist() == [0, 0]
    assert D.Binomial(f64(n), f64([0.0, 1.0])).log_prob(f64([5.0, 5.0])).tolist() == [-fa.inf] * 2


def test_gradients_of_large_counts() -> None:
    rate, value = 1e10, 1e10 + 3e5
    x = f64(rate).requires_grad_()
    D.Poisson(x).log_prob(f64(value)).backward()
    assert x.grad.item() == pytest.approx(value / rate - 1, rel=1e-9)
    p = f64(0.25).requires_grad_()
    D.Binomial(f64(4e9), p).log_prob(f64(1e9 + 5e4)).backward()
    assert p.grad.item() == pytest.approx((1e9 + 5e4) / 0.25 - (3e9 - 5e4) / 0.75, rel=1e-9)
    probs = f64([0.25, 0.75]).requires_grad_()
    D.Multinomial(int(4e9), probs).log_prob(f64([1e9 + 5e4, 3e9 - 5e4])).backward()
    want = (1e9 + 5e4) / 0.25 - 4e9
    assert probs.grad[0].item() == pytest.approx(want, rel=1e-9)
